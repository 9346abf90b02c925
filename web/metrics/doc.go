// Package metrics counts what a server does, for Prometheus. It owns the names, the labels and their bounds; what is counted is
// told by those who do it, and where the answer is served is up to the command.
//
// There is no global registry: each Metrics has its own. No label has a value that a client has chosen: routes are patterns,
// results and reasons are of fixed lists, indexes, snapshots and manifests of the configuration. Namespaces are labels of the
// shared views alone, of MaxViews of them at the most, and of those only that somebody who may is watching.
//
// docs/operating.md lists each metric; a test holds the list to what is exposed.
package metrics
