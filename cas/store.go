package cas

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A Version names one state of an object: an ETag, a generation. It is compared for equality only, and goes back to the
// store as it came. No object has the empty one.
type Version string

// An Object is what Load found.
type Object struct {
	Body      []byte
	Version   Version
	ModTime   time.Time // when the store accepted this body, by its clock; zero if it tells none
	StoreTime time.Time // the store's clock in this very answer; zero if it tells none
}

// A Precondition is what a Save demands of the object that is there. Its zero value demands nothing and is refused.
type Precondition struct {
	absent  bool
	version Version
}

// IfAbsent demands that there is no object.
func IfAbsent() Precondition { return Precondition{absent: true} }

// IfMatch demands that the object is still the one of that version.
func IfMatch(v Version) Precondition { return Precondition{version: v} }

// Absent reports whether p is IfAbsent.
func (p Precondition) Absent() bool { return p.absent }

// Version is what p is to match; empty for IfAbsent.
func (p Precondition) Version() Version { return p.version }

// Check returns ErrPrecondition for one that demands nothing, or that a store takes for none: generation 0 means so to
// Cloud Storage, and * any object to S3, with quotes or without (https://www.rfc-editor.org/rfc/rfc9110#section-13.1.1). Every
// Store calls it before any request.
func (p Precondition) Check() error {
	if p.absent == (p.version != "") || p.version == "0" {
		return ErrPrecondition
	}
	if plain := strings.Trim(string(p.version), `"`); !p.absent && (plain == "" || plain == "*") {
		return ErrPrecondition
	}
	return nil
}

// String is for errors and logs.
func (p Precondition) String() string {
	switch {
	case p.absent:
		return "if absent"
	case p.version != "":
		return "if it is still " + string(p.version)
	}
	return "without a precondition"
}

// Store is what a driver offers for objects that several writers change. It is safe for concurrent use.
//
// Nothing of it is cached or retried beyond what cannot be mistaken: after a Save that was sent once, a driver sends it
// again only if the answer says that nothing was done. There is no conditional delete: too many stores ignore the
// condition.
type Store interface {
	// Load returns the object as it is now, whole: body and version are of one state. ErrNotExist if there is none. An
	// object without a version is an error.
	Load(ctx context.Context, key bucket.Key) (Object, error)

	// Save stores body if the precondition holds, atomically, and returns the new version. ErrConflict: it does not
	// hold, nothing was changed, and this Save will not change anything later. ErrNotExist: it names a version, and there
	// is no object. ErrThrottled, ErrDenied, ErrInvalidKey: nothing was done. ErrUnknown: it may have been, or may be
	// yet, whatever else the error matches (ErrThrottled where the store asks for slower writes besides).
	// ErrPrecondition: p demands nothing, and nothing was sent. A success without a version is ErrNoVersion, and the
	// object was stored.
	Save(ctx context.Context, key bucket.Key, body []byte, p Precondition) (Version, error)
}

// Errors beside those of package bucket. Match them with errors.Is.
var (
	// ErrConflict: the precondition did not hold; nothing was changed.
	ErrConflict = errors.New("cas: the object has changed")
	// ErrPrecondition: a write without a condition was asked for.
	ErrPrecondition = errors.New("cas: no precondition")
	// ErrNoVersion: the store told no version of an object, so that it cannot be changed safely.
	ErrNoVersion = errors.New("cas: the store tells no version")
	// ErrCorrupt: the object is no document: empty, cut, or something else.
	ErrCorrupt = errors.New("cas: not a document")
	// ErrFormat: the document is of another kind, or of a version that this program does not know.
	ErrFormat = errors.New("cas: document of another format")
	// ErrTooLarge: the document would be larger than MaxSize.
	ErrTooLarge = errors.New("cas: document too large")
	// ErrBackwards: the store served an older state than one that was seen before.
	ErrBackwards = errors.New("cas: the store went back to an older document")
)

// Errors of package bucket, which mean the same here.
var (
	ErrNotExist    = bucket.ErrNotExist
	ErrUnknown     = bucket.ErrUnknown
	ErrThrottled   = bucket.ErrThrottled
	ErrDenied      = bucket.ErrDenied
	ErrUnsupported = bucket.ErrUnsupported
)
