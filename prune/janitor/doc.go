// Package janitor deletes, over a whole index, what is proven to be over. It owns the pass (read the shared rules, list, plan,
// delete, report), that only one pass is at work at a time, and what one pass tells the next.
// What may be deleted is decided by package prune; the keys go through blobindex; whether a store's conditional writes are
// real is found out by package probe, and told by the caller.
package janitor
