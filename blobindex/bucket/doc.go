// Package bucket is the contract between indexd and an object store: the interface Objects, the values that
// cross it, and the errors that it may return. It owns no storage; the drivers (dirbucket, membucket, …) do, and
// package buckettest holds every driver to what is written here.
//
// # Keys
//
// A key is a non-empty byte string, compared byte by byte. The contract passes keys through unchanged: no
// cleaning, no unescaping, no case folding. A driver that cannot hold a key (a file tree cannot hold both "a" and
// "a/b") refuses it with ErrInvalidKey before it writes anything; it never stores it under another key.
//
// # Time
//
// A store time is the store's own clock when it accepted an object. The zero time means that the store tells none.
// No host clock ever stands in for a store's clock inside a driver: a caller that wants one must know that it is one.
//
// # Errors
//
// Every driver translates its errors in one place. A refusal is never "not found", and an error is never an empty
// list: a listing is complete if, and only if, List returned nil.
//
// # Conditions
//
// Objects has none. Markers are plain idempotent writes, so that an index works on any store; what needs a
// precondition goes through cas.Store, which the same drivers implement.
package bucket
