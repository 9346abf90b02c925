// Package prune is the policy of the marker index: what the keys of one namespace mean at one instant, and which of
// them may be deleted. It is pure: the clock and the knowledge of what is dead come in, decisions and plans go out.
// Listing, resolving and deleting are left to packages blobindex and janitor.
//
// # Reading
//
// A Namespace collects the keys of one complete listing (Add). Decide folds them into items and tells each one's
// State at an instant:
//
//	finished  it has a tombstone; of several the earliest counts
//	stale     else, its latest sighting is older than the TTL
//	dead      else, a resolver said so
//	live      else
//
// A sighting is the marker, by the id's time, or a heartbeat, by the earlier of its name and its store time. Only a
// live item that no newer item of its sub-key supersedes (package dedupe) is shown, so there is at most one a sub-key.
//
// An item of which a name or store time lies more than the skew ahead of the instant is in doubt, since some clock is or
// was wrong: it supersedes nothing, so that it hides no other, and nothing of its sub-key is planned.
//
// # Planning
//
// Plan names keys of the listing that may be deleted, each with its Reason. Carrying out any subset of it, in any order,
// shows nothing that was hidden and hides nothing that was shown, and brings back nothing later. What that rests on:
//
//   - A stale, dead or superseded item goes only while everything that it supersedes itself, and that could show
//     without it, is also superseded by an item that the plan keeps, and was last received no later than that one's
//     last word, so that it stays superseded when the kept item ends.
//   - A superseded item goes only if an item that supersedes it is dated more than the skew after it: nearer than that,
//     the clocks of the two producers may be wrong.
//   - A stale item goes only if its largest name and its last receipt are both past the TTL.
//   - A heartbeat goes as needless only if a later one of its id was received more than the listing limit ago, so
//     that no listing that is still running can miss both.
//   - Tombstones go last: all of an id together, when each is older than TTL + 2 × skew and no sighting is listed.
package prune
