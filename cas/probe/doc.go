// Package probe finds out what a bucket really honours. It owns the questions, how each is tried and judged, and the forms
// in which the answers are told and remembered; what follows from them is left to the features that ask.
//
// It measures, and never fails for what it finds: a finding says what was seen, what indexd does without if it is no, and
// how to mend it. It judges by what is there afterwards, not by what was answered; by writers that race through all ways to
// the bucket, since two gateways that are each sound may not be so together; and past what the drivers guard against.
// Beside the conformance suite, castest, which says what a driver must do, this says what a store does.
//
// # Report
//
// A Report is public, as the answer of "indexd doctor --json". Fields and ids may be added to it, and none is taken away or
// gets another meaning. A question that makes no sense of a store, such as quotes of an ETag on a directory, is not in it.
//
//	{"format":"indexd-doctor/1","sites":["http://127.0.0.1:7070"],"began":"2026-11-30T12:00:00Z","seconds":3.7,
//	 "complete":true,"disabled":["cas"],"findings":[
//	  {"id":"create-only","question":"Is a create refused where there is an object?","verdict":"no",
//	   "seen":"a save if absent was answered as carried out, with the version \"5f0c\"","disables":["cas"],
//	   "mend":"Use a store that honours conditional writes.","remark":"nothing that counts"},
//	  {"id":"date","question":"Does a listing tell the store's clock?","verdict":"yes","seen":"it said 2026-11-30T12:00:00Z"}],
//	 "left":[]}
//
// verdict is yes, no or unsure; unsure is what could not be tried, and seen says why. disables and mend are those of a no,
// and disables has markers, pruning or cas. A remark never counts. left are keys that could not be deleted again.
//
// # Verdict
//
// What decides on documents is remembered for a day at _indexd/probe/verdict, by Usable and by Run:
//
//	{"format":"indexd-probe/1","version":1,"at":"2026-11-30T12:00:00Z","usable":false,"unquoted":false,"broken":[
//	 {"id":"create-only","question":"Is a create refused where there is an object?","verdict":"no",
//	  "seen":"it was carried out","disables":["cas"],"mend":"Use another store."}]}
//
// It says nothing of an endpoint: it is the bucket's. One of another format or version, from the future, older than a day,
// or stored at another time than it tells (it came with a copied bucket) is as none. unquoted says that this store wants
// ETags back without their quotes.
package probe
