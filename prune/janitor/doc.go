// Package janitor deletes, over a whole index, what is proven to be over. It owns the pass (read the shared rules, list, plan,
// delete, report), that only one pass is at work at a time, and what one pass tells the next.
// What may be deleted is decided by package prune; the keys go through blobindex; whether a store's conditional writes are
// real is found out by package probe, and told by the caller.
//
// # A pass
//
//	rules        read; a process that is configured otherwise takes no lease and deletes nothing
//	checkpoint   read, for its term and its namespaces
//	lease        acquired, in a term above the checkpoint's; whoever is late changes nothing
//	stamp        the checkpoint is saved with our term in it
//	list, plan   a namespace that is left alone for a while is listed and not planned
//	delete       in batches of 1,000 keys, before each of which the lease is checked
//	checkpoint   saved, on the condition that it is still as we stamped it
//	lease        released, on every path
//
// The lease is for cost. A pass is safe beside any number of producers, readers, sweepers and other passes, which at worst
// delete the same keys: a holder that was stopped between its check and its request still sends that request, and it names
// only what was proven to be over. What two passes must not do is tell the next one different things, and so each save of the
// checkpoint is conditional: once another term has stamped it, the save of whoever held the lease before conflicts.
//
// Where no store of documents is given, its conditions are not real, or it refuses the documents for good or is full, a pass has
// no lease and no checkpoint, and its report says why.
//
// # Checkpoint
//
// What one pass tells the next is the document _indexd/janitor/<prefix> (see package cas), format janitor/1, with the payload
//
//	{"term":7,"passed_at":"2026-11-30T12:00:00Z","namespaces":{"team":{"failures":2,"retry_at":"2026-11-30T12:02:00Z",
//	 "passed_at":"2026-11-30T11:50:00Z"}}}
//
// term is that of the pass that saved it last. passed_at is the instant at which the last pass over the whole index listed
// that came to its end, by the store's clock; left out before the first. One instant does for all namespaces but those that
// are named: these are the ones where keys could not be deleted. Of each, failures counts the passes in a row in which that
// was so, before retry_at no pass deletes anything there (a minute after the first of them, twice as long after each more, an
// hour at the most), and its own passed_at is when it last went through, left out if never. A namespace that goes through
// without an error, or is not there any more, is named no longer. A retry_at further away than an hour comes of a clock that
// was wrong, and is over. At most 10,000 namespaces are named; beyond that, those that are to be tried again soonest are not.
//
// A document that cannot be read is never written over, and nothing is deleted.
//
// # Crashes
//
// After a crash before the stamp nothing has changed but the lease, which the next pass takes over when it has expired. After
// one behind it, a part of the plan is carried out, which is as safe as the whole, and the checkpoint tells of the passes
// before: what failed in this one is tried again a little sooner. A pass that its context ends, or that finds its lease lost,
// leaves the same; it does not save what it knows, since that would take time which a process that is told to stop does not
// have.
package janitor
