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
//
// # Shared rules
//
// By which rules an index is read (grammar, TTL, late_after, skew) is saved once, in the document at _indexd/index/<prefix>
// (RulesKey), a cas.Doc of the format "rules/1" with the payload
//
//	{"current":{"grammar":"epoch","ttl_ms":7200000,"late_after_ms":180000,"skew_ms":60000},
//	 "announced":{"rules":{"grammar":"epoch","ttl_ms":21600000,"late_after_ms":180000,"skew_ms":60000},
//	              "from":"2026-11-30T12:05:00Z"}}
//
// where announced is null unless a change was made. Who reads or deletes (Options.Shared) takes the rules from there, at most
// one GET in RulesLife, L for short; registering, heartbeats and finishing ask nobody. Without compare-and-swap, and before
// the document exists, everybody goes by their own. What cannot be read is an error: nothing is shown by a guess, nothing is
// deleted, and nobody writes over it.
//
// # Changing the rules
//
// Two who go by different rules may not both act: with the shorter TTL the one deletes what the other shows; with the longer
// one it takes a silent run for live, and deletes as superseded the older run that the other shows. Any other rule can differ
// in such a way too, so every change is made in the same way, whichever way it goes. The instant F from which it counts is
// one of the store's clock, 2 L and a minute after the save: the announced from, or that much after the store time of the
// document if this is later, so that a save that was held up makes nothing count at once.
//
//	before F          everybody judges by the current rules, and who has read of the change deletes nothing
//	F to F + L + 1m   everybody judges by the announced ones, and nobody deletes anything
//	after             everybody judges by the announced ones, and deletes by them
//
// The argument. A listing is judged at the instant of its first page, by rules that were read at most L before it began, and
// takes at most L; so one that does not know of the change is judged less than 2 L after the save, before F, and by the same
// rules as those who do know. The rules are a function of the instant, and no two views of one instant differ. A batch of
// deletes is sent only under rules read at most L before, and is given up after L; so one that does not know of the change is
// over 2 L after the save, before F, and has deleted only what every view until F hides; no view after F shows that first and
// hides it then. A listing that was begun before F is over at F + L, before the first delete by the announced
// rules. Plans do not outlive the window, since they are carried out within PlanLife, and not at all once the rules are
// others than they were made by. The minute is for store times, which may be cut to the second, and for clocks of a store's
// parts that differ. As anywhere else, a request that a process was stopped in front of, or that the network held back for
// minutes, may still be carried out; then an item can be hidden until its next heartbeat.
//
// What a longer TTL would show, and was deleted before it was announced, does not come back.
//
// The first save is no change: until then everybody went by their own rules. A process that was given (Config) another value
// than is saved, or announced, reads by the saved ones and deletes nothing. An announcement that has come into force
// everywhere is made the current rules by whoever may save: a copy of the object, which has a new store time, would else
// take them out of force for a while.
package blobindex
