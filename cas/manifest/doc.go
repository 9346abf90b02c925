// Package manifest keeps one ordered list of entries and the blobs that belong to them, on a store with conditional writes.
// It owns how blobs come and go, so that no manifest ever references a blob that was deleted; how one object is changed is
// package cas's.
//
// # In the bucket
//
//	_indexd/manifest/<namespace>/<name>/list          the document, of format "manifest/1"
//	_indexd/manifest/<namespace>/<name>/blobs/<blob>  one blob; 130 random bits in base 32, for one upload attempt, never reused
//
// The payload of the document:
//
//	{"grace_ms":86400000,
//	 "entries":[{"id":"run-7","dedupe_key":"train-eu","blobs":[{"key":"RT5…","name":"model.bin","size":1024,"digest":"sha256:9f86…"}],
//	   "size":1024,"digest":"sha256:2c26…","added_at":"2026-12-01T12:00:00Z","meta":{"owner":"ann"}}],
//	 "reaping":["4Q7…"]}
//
// Entries are in the order of the saves that added them. size is the sum of an entry's blobs, and digest the SHA-256 over
// their digests, one a line, in order.
//
// # Every delete goes through the journal
//
// A save that displaces blobs writes their keys into reaping, and only after it is won are they deleted. A later save first
// deletes them once more, and drops from reaping what the store acknowledged. GC does the same with orphans. A writer,
// on the state that it will save on, uploads each of its blobs again that is journaled there or does not exist; so one that
// was paused for any time either sees the journal, or what it saves on is stale. A crash anywhere leaves the old state and
// an orphan, or the new state and a journal that the next writer or GC finishes.
//
// # How much it holds
//
// A list is one document of less than 16 MiB (cas.MaxSize): some 40,000 entries of one blob each, fewer with long names or much
// meta; each change reads and writes all of it. One that would be larger is refused, with cas.ErrTooLarge and how many entries
// like that one fit, and the list stays as it is. Remove entries then, or begin another manifest, such as one a month. GC notes
// what there is room for, and goes on when that is deleted.
package manifest
