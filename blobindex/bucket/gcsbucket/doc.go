// Package gcsbucket is a bucket.Objects on Google Cloud Storage, by its JSON API and the official Go client. It owns how
// a bucket is reached, what is retried, and what an answer of Cloud Storage means in the words of the contract.
//
// # Keys
//
// An object's name is the key, below the path that Options.Prefix names. What Cloud Storage cannot hold is refused with
// bucket.ErrInvalidKey before any request: the empty key, names that are not valid UTF-8 (JSON would turn them into
// others), names of more than 1024 bytes or with a carriage return or line feed, "." and "..", and whatever begins with
// ".well-known/acme-challenge/" (https://cloud.google.com/storage/docs/objects#naming).
//
// # Time
//
// A store time is the "updated" of the object: of the listing, of Head's answer, of the upload's own answer. The clock of
// a page is the Date header of that very answer, in whole seconds, so it may be up to a second before store times of the
// same moment. A server that sends neither is a store that tells no time.
//
// # Requests
//
// Each attempt is exactly one request: a page, an upload of whatever length (one multipart request, streamed, no buffer),
// a read, a delete. The client's own retries are off, because it repeats some calls without end and says of none whether
// an earlier try may have been applied; the driver repeats instead, a bounded number of times, and knows. A transport of
// ours enforces it: whatever would send a second request within an attempt is stopped, redirects included. There are two
// exceptions, both of reads. The body that Open returns: where the connection breaks, the client asks for the rest of that
// same generation, as often as Options allows attempts in all. And package net/http repeats a GET once where a connection
// that it had kept turns out to be closed.
//
// Cloud Storage takes about one write per second for one name, and answers 429 above that: such answers are waited out
// for a second and more.
//
// # Errors
//
// 401 and 403 are bucket.ErrDenied: Cloud Storage answers 403 for an absent object to who may not list, so it says
// nothing about whether there is one. After a 401 credentials are looked for again, once, where they are the driver's to
// look for: a token may have been revoked, or this host's clock be wrong. 404 is bucket.ErrNotExist, and the text says
// whether the bucket is missing or the object. 429, and 503 to a read, are bucket.ErrThrottled. A write that met a broken connection, a cut answer or a 5xx
// may have been applied, and is bucket.ErrUnknown unless a later attempt succeeded. No bucket is ever created.
//
// # What it cannot detect
//
// A listing ends with the page that carries no token, so a page whose token was lost on the way looks like the last one;
// nothing else in the answer tells. A page that is no valid JSON, an answer other than 200, a token that comes a
// second time, and empty pages without an end are errors.
//
// Objects are written with "Cache-Control: no-store": publicly readable ones would otherwise be served from caches for an
// hour. Reads go by the JSON API too, so that reading and listing are one service with one kind of error.
package gcsbucket
