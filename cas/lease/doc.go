// Package lease lets one of several processes do a thing, such as a pass over an index, at a time. It owns who holds a lease,
// for how long that can be trusted, and what others see of it. It saves cost and nothing else: a process that was stopped
// between its last check and a request still sends that request. Safety has to rest on what the holder does (conditional
// writes, deletes of what is proven to be over) and on terms.
//
// # Document
//
// A lease is the document _indexd/lease/<name> (see package cas), format lease/1, with the payload
//
//	{"term":7,"class":"scheduler","ttl_ms":30000,"opens_ms":0,"since":"2026-11-30T12:00:00Z","reason":"pass"}
//
// term is that of the last acquisition. Each acquisition's is greater than all before it, through releases and takeovers.
// class is who holds it, "scheduler" or "operator", and "" if nobody does. ttl_ms is for how long the holder trusts each
// renewal. opens_ms is 0, but for a lease that nobody holds and whose last holder may not know that yet: so long after the
// document was saved, it may be acquired. since is when the holder acquired it, by the store's clock where there is one, else
// by its own. reason says in a word or two why it is held, or why it has to be waited for. Nothing in it tells of a process, a
// host, a path or a command.
//
// # Trust
//
// A holder saves its document again every third of its TTL. A save that is not answered within a sixth of it is cut off, and
// what became of it is found out before the next one. The holder trusts a save for the TTL from when that save was begun, by
// the larger of what its wall clock and its running clock say: a running clock stands still while a host sleeps, and a wall
// clock can be set back. Others take the lease for free when the document, by its own time and the store's clock in the same
// answer, is older than the holder's TTL and Margin. Of both sides only differences count, each on one clock, so that no
// clock has to agree with another; Margin is for clocks that run at different rates and for what is on its way. A store that
// tells no time is watched: who has seen the document unchanged for that long, on its own clocks, takes it for free.
//
// # A holder that does not know
//
// An acquisition, a renewal and a release each name the exact state of the document that they build on, so that of two only
// one succeeds, and a dispossessed holder finds out at its next renewal at the latest. Where a lease ends without its holder
// (lease break, a document that was deleted), the next acquisition waits until the holder's trust is over: for its TTL and
// Margin. That the document was deleted is known by a term that is kept elsewhere (AcquireOptions.After).
//
// # Crashes
//
// After a crash of the holder at any point the document stays as it was saved last, and the lease is taken over when that is
// old enough. A crash within an acquisition leaves it as it was or as held, with the same end.
package lease
