// Package cas is how indexd changes one object without losing anybody else's change: a compare-and-swap on what object
// stores offer, and typed documents on top of it. It owns the contract Store, which the drivers of package bucket
// implement, and what an answer that got lost may be taken for; what a store really honours is found out by package probe.
//
// # Outcomes
//
// A conditional write has three outcomes, and none of them is ever folded into another one:
//
//	won       nil: the object is the one that was saved
//	lost      ErrConflict: the store refused, nothing was changed, nor will it be later
//	unknown   ErrUnknown: it may have been carried out, or may yet be
//
// # Documents
//
// A document is an object that holds one JSON value in an envelope:
//
//	{"format":"lease/1","created":{"nonce":"4Q7…","at":"2026-11-30T12:00:00Z"},"seq":3,"nonce":"RT5…",
//	 "recent":[{"seq":1,"nonce":"4Q7…"},{"seq":2,"nonce":"XWB…"}],"payload":{…}}
//
// format says what the payload is, and its version; a reader refuses any other. created is one incarnation of the document:
// seqs of different ones do not compare. seq counts the saves of it from 1, and nonce, 128 random bits in base 32, is that
// of the save. Both make every body unlike every other, which a store whose version is a hash of the content needs: else a
// document that goes from A to B and back to A would pass a condition that names the first A. recent holds the pairs of
// seq and nonce of up to 256 saves before this one, oldest first, by which a writer whose answer was lost finds its own.
//
// # A lost answer
//
// After an answer that leaves the outcome open, the document is read back, before any pause:
//
//	our seq and nonce are in it        won; a later save was built on ours, if they are in recent
//	another nonce at our seq           lost: what our condition named is gone for good
//	what our condition named           not landed yet: sent again under the same condition, so that only one can land
//	anything else                      unknown: another incarnation, 404, or ours has fallen out of recent
//
// An update that is unknown is never computed again: it could be applied twice.
package cas
