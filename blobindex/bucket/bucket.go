package bucket

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Key names one object, from the root of the bucket, without a leading slash.
type Key string

// An Object is what a listing or Head tells about one object.
type Object struct {
	Key       Key
	Size      int64     // body length in bytes
	StoreTime time.Time // when the store last accepted it, by the store's clock; zero if it tells none
}

// A ListRequest selects the objects to list.
type ListRequest struct {
	// Prefix is matched byte by byte against the start of the key; it is no directory. Empty lists the bucket.
	Prefix string
	// After, if not empty, leaves out every key that is not greater than it. A store that does not list in byte
	// order refuses it with ErrUnsupported.
	After Key
}

// A Page is one answer of a listing.
type Page struct {
	// Objects may be empty. The slice belongs to the driver again once the callback has returned; its strings
	// may be kept.
	Objects []Object
	// Now is the store's clock when it answered this page; zero if it tells none.
	Now time.Time
	// Sorted says that the keys of this listing come in ascending byte order, within and across its pages. It is
	// the same on all pages of a listing.
	Sorted bool
}

// PageSize is the number of objects that a page holds at the most; what a listing of n objects costs is counted
// as ⌈n/PageSize⌉ requests, and as one for n = 0.
const PageSize = 1000

// Objects is what indexd asks of an object store.
//
// A driver must be safe for concurrent use by any number of goroutines and, where the store is shared, processes.
// Every call ends soon after its context does. Retrying is the driver's task, within the context and bounded;
// callers do not retry. Success means that the effect is durable and visible to every later call from anywhere.
type Objects interface {
	// List calls fn with each page of the listing, at least once for a listing that succeeds: an empty listing
	// has one empty page, so that its Now is told. An object that existed, unchanged, for the whole of the
	// listing is listed exactly once; one written or deleted meanwhile may or may not be. If fn returns an error,
	// List stops and returns that very error. Any other error means that the listing is incomplete, whatever
	// pages came before it; a truncated answer without a usable continuation is such an error (ErrIncomplete).
	List(ctx context.Context, req ListRequest, fn func(Page) error) error

	// Put stores body under key, over whatever is there, and returns the store time that the object now has (zero
	// if the store tells none). A nil body is an empty object. A reader sees the old object or the new one, whole.
	// Put may be repeated with the same body at will: a body that is an io.Seeker is retried by the driver, from
	// where it stood, after an error that a repetition may cure; any other body is sent once. After an error
	// the object may or may not have been stored; ErrUnknown says that the driver cannot tell, ErrInvalidKey,
	// ErrDenied and ErrThrottled that it was not.
	Put(ctx context.Context, key Key, body io.Reader) (time.Time, error)

	// Open returns the body of the object; the caller closes it. ErrNotExist if there is none.
	Open(ctx context.Context, key Key) (io.ReadCloser, error)

	// Head tells about the object without its body. ErrNotExist if there is none.
	Head(ctx context.Context, key Key) (Object, error)

	// Delete removes the objects, unconditionally, in batches where the store can. It returns nil if every key is
	// gone (an absent key is), else one error per key, in the order of keys, nil for those that are gone. No keys
	// make no request. A caller deletes only keys whose reuse is harmless or impossible: the delete may be carried
	// out later than anything that the caller knows of.
	Delete(ctx context.Context, keys []Key) []error
}

// Errors that drivers return, wrapped with the step and the key; match them with errors.Is.
var (
	// ErrNotExist: there is no such object, or no such bucket (the text says which).
	ErrNotExist = errors.New("bucket: not found")
	// ErrDenied: the store refuses this caller this operation. It says nothing about whether the object exists.
	ErrDenied = errors.New("bucket: permission denied")
	// ErrThrottled: the store is busy, and retries did not help; nothing was done.
	ErrThrottled = errors.New("bucket: throttled by the store")
	// ErrUnknown: a write was sent and its outcome is not known.
	ErrUnknown = errors.New("bucket: outcome unknown")
	// ErrIncomplete: the store ended a listing in a way that does not prove that it was complete.
	ErrIncomplete = errors.New("bucket: listing incomplete")
	// ErrInvalidKey: this store cannot hold that key.
	ErrInvalidKey = errors.New("bucket: key not usable on this store")
	// ErrFull: the store has no room for what was to be written, and has kept nothing of it. What is there can be read and
	// deleted, which is what makes room.
	ErrFull = errors.New("bucket: no room left")
	// ErrUnsupported: this store cannot do what was asked.
	ErrUnsupported = errors.New("bucket: not supported by this store")
)
