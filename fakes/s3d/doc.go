// Package s3d is an S3 server for tests, on the wire: XML, path style, one httptest server. It is faithful to what AWS
// documents unless it is told to lie; each lie is a named switch, and most are what some real server does by itself. Real
// clients talk to it, so that what is tested is what would be sent.
//
// # What it speaks
//
// GET, HEAD, PUT and DELETE of an object, ListObjectsV2 with delimiters, DeleteObjects, HEAD and PUT of a bucket.
// Preconditions of PUT and DELETE (If-Match, If-None-Match: *), conditions and ranges of GET and HEAD are honoured, ETags
// are content hashes, pages hold at most 1,000 keys in byte order, continuation tokens are opaque, times are whole seconds
// of one clock, which the Date header of each answer tells. A versioned server keeps count of versions and writes delete
// markers; it lists none of them. Multipart uploads and access control lists are answered with 501.
//
// The access key, the region in the credential's scope and whatever Options.Refuse says are verified; signatures of
// version 4, and how old they are, where Options.Secret is set.
//
// # Faults
//
// A Fault strikes the n-th request that matches by operation and key, at the socket: before it is carried out, after it,
// when the answer is lost, or long before it, when the effect comes later than the answer. A planned fault that never
// struck is an error of the test.
package s3d
