package gcsd

import (
	"time"

	"github.com/blobindex/indexd/fakes/internal/wire"
)

// Lies are the ways in which the server differs from the service. Each was seen of a server that claims to speak this
// API, or can be made of the service by permissions, caches and clocks.
type Lies struct {
	DeleteIgnoresConditions bool // deletes whatever generation is named
	WriteIgnoresConditions  bool // creates over what exists, and saves over any generation
	ReadIgnoresConditions   bool
	IgnoresMetageneration   bool
	NoPace                  bool // takes any number of writes of one name within a second
	ConflictEvery           int  // answers 409 to each n-th upload, and does nothing
	// RaceWindow lies between the moment at which the conditions of an upload are held against the object and the one at
	// which it is stored: one after the other all is well, at once all win.
	RaceWindow time.Duration
	// ContentionFails: an upload with conditions that comes within the RaceWindow of another one of its name is answered
	// 500, and not carried out.
	ContentionFails bool
	// OldBodyNewGeneration: the first read after an object was overwritten tells the body from before with the generation
	// from after.
	OldBodyNewGeneration bool
	// CachesReads answers every read of a body with what the first one of that name was answered, unless that was stored
	// no-store: so do the caches before a public bucket.
	CachesReads bool

	IgnoresOffsets bool // startOffset and endOffset
	IgnoresPrefix  bool
	Unsorted       bool // in an order of its own, across all pages
	NoPageCap      bool // pages as long as is asked for, endless by default
	IgnoresMax     bool // everything on one page, whatever is asked for
	PageCap        int  // pages of so many, whatever is asked for; 0: 1000
	EmptyPages     bool // a page without objects, but with a token, before each page
	RepeatToken    bool // the same token with each page that is not the last: the second one comes for ever
	LostToken      bool // a page that is not the last comes without a token

	NullForDeleted bool // a listing has null for each object that was there once (gcsemulator, for a moment)
	RedirectsPaths bool // leads who asks for a//b to a/b, though both are objects (gcsemulator)

	GoesByBoundary bool // takes an upload for complete at its closing boundary, though the request broke off

	AbsentIsDenied   bool // 403 for absent objects, as to who may not list
	AutoCreateBucket bool
	BareErrors       bool // errors without a JSON body

	NoUpdated    bool // objects without times
	NoDate       bool // answers without a date
	NoChecksum   bool
	NoGeneration bool // objects without a generation
	BadChecksum  bool // of uploads
	ClockAhead   time.Duration
}

// String names the lies that are told, such as "Unsorted PageCap=3".
func (l Lies) String() string { return wire.Told(l) }
