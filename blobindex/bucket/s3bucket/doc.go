// Package s3bucket is a bucket.Objects on Amazon S3 and on what speaks its protocol. It owns what is sent to such a
// store and what its answers may be taken for; finding endpoint and credentials is left to the caller.
//
// # Listing
//
// ListObjectsV2, with encoding-type=url asked for, and keys decoded only where the answer says that they are encoded: some
// servers ignore the question. A listing is complete when an answer says in so many words that it is the last one. More
// to come without a token, a token that came before, no word on whether there is more, keys outside of the prefix, keys
// out of order on a store declared sorted, or empty pages without end are bucket.ErrIncomplete. Byte order is declared
// for AWS itself, but not for its directory buckets, and elsewhere where Options.Sorted says so. A prefix that this store
// cannot be asked for (see Keys) is asked for as far as it can, and the rest is sorted out here.
//
// # Time
//
// A page's clock and the store time of a Put are the Date header of their answers, cut to whole seconds; a
// listing tells Last-Modified, which most stores cut to seconds too. A store time is zero where the header is missing.
//
// # Writing
//
// An object is one plain PutObject with its length; an empty one has Content-Length: 0 and no framing. A body that is no
// io.Seeker has no known length, and S3 takes none without: it is read to its end first, into memory up to 1 MiB,
// beyond into a temporary file in os.TempDir that has no name there, and then sent once. A body of more than 5 GiB, the limit
// of one PutObject, is bucket.ErrUnsupported before anything is sent; uploads in parts are not made.
//
// On AWS the SDK's checksums are sent; with a custom endpoint none that the operation does not require.
//
// # Deleting
//
// One key by DeleteObject, more by DeleteObjects, 1,000 each, four at a time. Each key counts as gone when the
// answer names it. Keys that XML cannot say are deleted one by one, sixteen at a time, and so are all where the store has
// no DeleteObjects; one that wants Content-MD5 gets it. What was found out is remembered.
//
// # Keys
//
// S3 keys are UTF-8 of at most 1,024 bytes, Options.Prefix included. HTTP clients, proxies and servers resolve dot
// segments, so that keys with one are refused. With a custom endpoint empty segments and control characters
// are refused too, unless Options.AnyKeys is set: servers were seen to take a//b for a/b and U+0001 for U+FFFD,
// and a key with a slash at its end takes no body, being a directory on some.
//
// # Retries
//
// What a repetition may cure is repeated, with jittered pauses that double: connection errors, 5xx, 409, throttling, and
// once with new credentials after an expired token. An error after an attempt whose outcome is not known is
// bucket.ErrUnknown, whatever the last attempt was answered: a store that is throttling now may have stored before.
package s3bucket
