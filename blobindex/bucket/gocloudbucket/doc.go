// Package gocloudbucket makes a bucket.Objects of any gocloud.dev *blob.Bucket: Azure by azureblob, memory by memblob,
// whatever has a driver. It is for markers only; it has no conditional writes. S3, Google Cloud Storage and directories
// have drivers of their own beside this package, which see more: use those where you can.
//
// The package owns what the portable API's answers may be taken for. The bucket stays the caller's: who opened it closes
// it, after the last call.
//
// # Listing
//
// ListPage, with large pages: some drivers sort or walk everything for each one. A token that comes twice, more than 10,000
// requests or more than Options.PageTimeout for one page, an entry that stands for a directory, a page on which the
// driver panics (s3blob does where an object has no time) and, with Options.Sorted, a key out of order are
// bucket.ErrIncomplete. Keys outside of the prefix are left out. Listings are not taken for sorted unless Options say so;
// then ListRequest.After is kept by leaving out, so that it costs the pages before it as well.
//
// # Time
//
// The store time of an object is its ModTime, in listings and of Head. No driver tells the store's clock: Put returns the
// zero time and pages have none. So readers judge age by the host's clock, registering never notices a wrong one, and
// nothing is pruned unless the time of an object written just then shows that the two clocks agree.
//
// # Writing
//
// An object is one Writer with the content type application/octet-stream, so that nothing is sniffed. A body that is an
// io.Seeker, or nil, is sent again after an error that may pass; any other body is sent once. A body that breaks off ends
// the Writer's context before it is closed, which drivers take for an abort. They have no batches: deletes go one by one,
// sixteen at a time. An absent key is gone, unless the whole bucket is absent, which one more listing tells.
//
// # Errors
//
// The client libraries below repeat requests by themselves, unseen. So the error of a write that was not plainly refused
// is bucket.ErrUnknown, throttling too; that of a read that was throttled is bucket.ErrThrottled. gocloud's own code is
// believed only where the store's answer does not say otherwise: gcsblob calls 403 not found, azureblob a host that has
// no address, s3blob a redirect to another region, and throttling by S3 is an unknown error. Status codes are taken from
// the error below where it has them. A refusal is never bucket.ErrNotExist.
//
// # Keys
//
// Drivers escape what their store cannot hold, as __0x2f__ for a slash, so that the object has another name than its key.
// Such keys are refused with bucket.ErrInvalidKey, for any driver: empty ones, ones of more than 1,024 bytes, ones that are
// not UTF-8 or hold a literal __0x, and unless Options.AnyKeys is set those with control characters, with one of \ " # % ?,
// with an empty segment (a slash at either end makes one), and with a segment that ends with a dot, which Azure drops. What
// one driver cannot hold beyond that (fileblob: a segment of more than 234 bytes, a key below another one) is refused when
// it says so.
//
// # What it cannot detect
//
// What the portable API hides stays hidden. In each case the driver of the store itself, or membucket, is the remedy
// where there is one.
//
//   - A page that looks like the last one and is not. Drivers take a missing token for the end, and do not look at what
//     else the store says (S3's IsTruncated). The listing succeeds and lacks keys: cards are missing until a later one, and
//     an item whose heartbeats were not listed may be taken for stale. Put no proxy in between that rewrites bodies.
//   - Directories that fileblob cannot read, or not for want of file descriptors: they are left out, without an error. A
//     root that is gone, or was replaced, is noticed before and after each page and before each write, but not if it has
//     come back. fileblob also loses keys where a directory needs more than one page (1,500 of 1,504 were seen to be lost):
//     set Options.PageSize above the number of all objects, or use dirbucket.
//   - A driver that goes round in circles and asks neither its context nor BeforeList: such a listing never ends.
//   - A panic in a goroutine that the driver started: it ends the process.
//   - A driver that is deaf to its context: a call that was given up returns only when the driver does.
//   - Names that others wrote with an escape in them: a__0x2f__b is listed as a/b. It may come beside the real a/b, and
//     whoever deletes it deletes that one. Names that others wrote with characters that the driver escapes: they are
//     listed, but cannot be read, and deleting them reports them gone while they stay. Let nobody write such names.
//   - Whether a refusal was meant: a 403 by which Google asks for fewer requests counts as denied.
//   - Whether an acknowledged object is durable. fileblob does not sync: after a power cut it may be gone.
//   - Who else wrote: without conditions nothing is known of that, and none of manifest, lease and snapshot works on it.
package gocloudbucket
