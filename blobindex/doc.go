// Package blobindex is the marker index: a list of what is running now, kept as one empty object an item, so that no
// producer can overwrite another's entry. It registers, heartbeats and finishes items, lists them, and turns the
// listing into cards. What a listing means is decided by packages prune and dedupe; the store is reached through
// bucket.Objects alone, and no call here needs more of it than plain puts, listings and deletes.
//
// # In the bucket
//
//	<prefix>/<namespace>/<id>            marker, empty body or labels (a JSON object, at most 1 KiB)
//	<prefix>/<namespace>/<id>~<ms>       heartbeat, exactly 13 digits
//	<prefix>/<namespace>/<id>~done       tombstone; also ~failed and ~cancelled
//
// An index configured flat has no namespace segment. The format is specified in docs/SPEC.md.
//
// # Clocks
//
// Where the store tells time, what is shown and what may be deleted is judged by the store's clock alone. The host's
// clock only names new items and heartbeats, corrected by what the store's answers have shown of it, and every such
// name is compared with the store time of its own write.
//
// # Failing
//
// A listing that is not complete is an error, or the last good view marked stale, never an empty one. Nothing is
// deleted after such a listing, nor when the store tells no time.
package blobindex
