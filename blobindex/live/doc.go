// Package live keeps one view of a namespace for any number of viewers: one listing per interval, whoever looks, diffed into
// events. What the view means is decided by package blobindex; how it crosses the wire is left to package web.
//
// # Listings
//
// A view with open streams is listed every MinInterval while things change, doubling to MaxInterval while nothing does. A
// change that is seen, and a write through this Hub, set that back. A view that is only read is listed when somebody reads it
// and the last listing is older than the interval; who comes meanwhile waits for the same one. A listing has a context of its
// own: it is given up only when nobody waits for it any more and no stream is open. Without viewers nothing is listed.
//
// # Overlay
//
// What is registered, heartbeats or finishes through the Hub is shown at once: while the view is open, the key is added to
// what was listed until the first complete listing that was begun after its acknowledgement. A view with such keys never
// causes a delete.
//
// # Failing
//
// While listings fail, or one of them hangs, viewers keep the last good view, marked stale since the first failure. A view that
// never was complete is an error. It recovers by itself.
//
// # Events
//
// The request of a stream is its shape, and streams of one shape share its events. Each has an id <epoch>-<shape>-<seq> and
// names the one before it; the epoch is random for each start of a view, so that no id of an earlier one is taken for one of
// this. A client keeps the cards by id and applies
//
//	snapshot   these are all the cards
//	upsert     these cards are new or changed; the others stay
//	remove     the cards of these ids are gone
//	stale      the cards stay; the view has not been complete since StaleSince
//
// and with each of them takes over the counts, the instant, and whether the view is complete. The order of the cards is by
// start, newest first, ties by id, descending. Where one listing removes and adds, the removal comes first, and both tell the
// counts after both. An upsert without cards says that something besides the cards has changed: a count, or that the view is
// complete again.
//
// # Bounds
//
// A stream holds only its position. The events of a shape are kept once, encoded once, at most Buffer of them and about a
// megabyte; who falls behind the oldest of them is told ErrSlow and begins anew. Views and shapes that nobody uses are dropped
// for others when there are too many.
package live
