// Package web is the HTTP server of indexd: the API of package api, and the page of package ui for people. It owns what
// crosses the wire (routes, statuses, problems, headers, limits) and leaves what a listing means to package blobindex.
//
// # Edge
//
// Before a request is routed its Host must be a loopback name or, with authentication, the public one, a mutation must not come
// from another site that is not listed, and no segment of its path may be empty or a dot segment. Ids and names are decoded
// exactly once and checked before anything is asked of the store. Bodies are at most 8 KiB and are read under the server's
// timeouts; every route but that of events has a deadline. Files of manifests stream instead: at a pace, under a limit of their
// own, and through to the store or from it, so that no body is held here.
//
// # Callers
//
// With Options.Auth every route but those for everybody asks who is calling, and what they may do, by one table (access.go),
// before its handler is called, its body is read, or anything is asked of the store or of what is kept of it. What is beyond a
// caller's grants is one and the same 403. What there is to see is answered from the grants where they name namespaces. A request
// ends with its token.
//
// # Problems
//
// What goes wrong is told as a problem (RFC 9457) with a stable code, a sentence, and what to do. The text of an error
// is logged and never sent. After a write, whatever error does not prove that nothing was written has the code
// "unknown".
//
// # Answers to reads
//
// The body of an answer that has an ETag depends on the state of the index alone; when it was judged, by whose clock and
// at which cost stands in headers (Indexd-As-Of, Indexd-Clock, Indexd-Cost), so that the ETag holds while nothing
// changes. An explanation, the pages, and health tell of their own instant: they have no ETag and are not to be kept.
//
// # Manifests
//
// The ETag of a manifest and of its entries names the state of the list, and a change wants it in If-Match; it is compared
// strongly. A streamed file can be read once. Where package manifest wants it again (it was taken for an orphan before the list
// was saved), nothing is added, and the client is told to send all of it again.
//
// # Snapshots
//
// The ETag of a snapshot names the state of what is published. A publication wants the one in If-Match that was read before its
// walk began, and no other: * would let a listing replace a newer one. A page of rows is of one generation, which its cursor
// names.
package web
