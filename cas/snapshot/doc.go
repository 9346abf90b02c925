// Package snapshot publishes whole listings, such as the files of an account, one generation after the other, on a store with
// conditional writes. It owns that a reader sees exactly one whole published listing, that what is published never goes back,
// and that nothing of the current generation is ever deleted; how one object is changed is package cas's. Any number of
// processes may publish, read and sweep at once. There is no lock: one would not reach every process, and one that expires is
// none.
//
// # In the bucket
//
//	_indexd/snapshot/<namespace>/<name>/pointer                  the document, of format "snapshot/1"
//	_indexd/snapshot/<namespace>/<name>/generations/<id>_claim   says that <id> is being made, and by which class
//	_indexd/snapshot/<namespace>/<name>/generations/<id>_index   the parts, as JSON, of format "snapshot-index/1"
//	_indexd/snapshot/<namespace>/<name>/generations/<id>_<part>  rows, as gzipped NDJSON; <part> has 6 digits, from 000000
//
// An id is <number>-<nonce>-<created>.<seq>: the number of the generation with 20 digits, 130 random bits in base 32, and the
// state of the pointer that it is to replace, by the nonce of its incarnation and its seq, "0.0" for there being none. A
// number may be claimed twice, an id is one attempt's. The pointer's payload:
//
//	{"grace_ms":60000,
//	 "current":{"id":"00000000000000000007-RT5…-4Q7….6","rows":20000,"parts":1,"bytes":731422,"index_bytes":310,
//	   "index_digest":"sha256:9f86…","digest":"sha256:2c26…","class":"scheduler","published_at":"2026-12-01T12:00:00Z"},
//	 "retired":[{"id":"00000000000000000006-XWB…-4Q7….5","since":"2026-12-01T12:00:00Z"}]}
//
// digest is the SHA-256 over the lines of all parts as they were before compression. bytes are those of the parts as stored.
// A row is a line such as
//
//	{"path":"reports/may.csv","size":1024,"mtime":"2026-11-30T12:00:00Z","digest":"sha256:9f86…"}
//
// in strictly ascending byte order of the paths, which are valid UTF-8 of at most 4,096 bytes, without a byte 0 and without
// empty parts, "." and "..". Other names cannot be published, and a walk that meets one fails: see CheckPath.
//
// # Publishing
//
//  1. Read the pointer. Only then begin to walk. A crash from here to 3 leaves nothing.
//  2. If nothing has changed since, and all parts are listed, that is all.
//  3. List what is staged; claim a number above it and the pointer's.
//  4. Stage parts and index. A crash from here to 5 leaves a generation that a sweep takes once the pointer has moved.
//  5. Save the pointer, on the condition that it is still the state of step 1. If it is not, the generation is superseded, and
//     nothing else is done: somebody has published what was walked after that state was read, as this was.
//  6. Compare with what is listed, and sweep. A crash leaves the sweep to the next one.
//
// # Sweeping
//
// A sweep lists what is staged, and only then reads the pointer. It removes each generation that can never be current again:
// it is not the current one, its id names another state of the pointer than the current one, so that its save at 5 has been or
// will be refused, and if it was current once, that was for longer than the grace ago. The other way round, a generation that
// is claimed between reading and listing would be taken for an old one.
//
// # Reading
//
// A reader takes the pointer, then the index and the parts of its generation, each of which it holds to the digest that it was
// told, and begins again if the generation was swept meanwhile, because another one is published since. What streams is a
// snapshot only when its end has been reached without an error.
package snapshot
