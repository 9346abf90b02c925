// Package gcsd is a Cloud Storage server for tests, on a loopback socket, that real clients talk to. It owns buckets in
// memory, what the service does on the wire, the ways in which other servers are known to differ from it (Lies), and
// what may go wrong between a client and a server (Fault).
//
// Without lies and faults it does what Google documents: the JSON API's list, get, download, insert (multipart, media and
// resumable), patch and delete of objects, reads by the XML API, generations that are large and have gaps,
// metagenerations, all four preconditions on every operation, 404, 412, 304 and 416, 429 to a second write of a name within
// a second, pages of up to 1000, prefixes up to a delimiter, start and end offsets, field selection, checksums, times in
// milliseconds, and the Date of its own clock. Buckets exist from the start and only then.
//
// Every request is recorded when it has reached the socket, whatever becomes of it. Not there: buckets as resources but
// for reading one, copies, composing, ACLs, batches, soft delete, customer keys, signatures.
package gcsd
