package s3d

import (
	"time"

	"github.com/blobindex/indexd/fakes/internal/wire"
)

// Lies are what a server does otherwise than AWS. The zero value is an honest one. Most were seen of a real server; which
// one is said where it helps.
type Lies struct {
	// Listings.

	IgnoresEncodingType bool // lists raw keys whatever was asked for, and does not say so (versitygw)
	EncodesSilently     bool // encodes the keys, but does not say so
	EncodesSpaceAs20    bool // encodes a space as %20, not as a plus
	Unsorted            bool // lists in an order of its own (s3rver)
	PageSize            int  // keys a page whatever was asked for; 0: as asked, 1,000 at most
	NoPageCap           bool // as many keys a page as are asked for
	LargePagesFail      bool // answers 500 to who asks for more than 1,000 keys (s3rver)
	TruncatedNoToken    bool // says that there is more, and not how to get it
	RepeatsToken        bool // gives the same page and the same token again and again
	EmptyPages          bool // answers empty pages with ever new tokens
	NoTruncated         bool // does not say whether there is more
	IgnoresPrefix       bool // lists the whole bucket
	IgnoresStartAfter   bool // starts every listing at its beginning
	RefusesStartAfter   bool // answers 501 to a start-after, as directory buckets do
	NoLastModified      bool // tells no time of an object
	EmptyList           bool // answers a listing with 200 and no body at all

	// Deletes.

	NoBatchDelete        bool // answers DeleteObjects with 501
	BatchWantsMD5        bool // refuses a DeleteObjects without Content-MD5, whatever checksum it has
	BatchForgets         bool // answers DeleteObjects with 200 and an empty result
	BatchIgnoresETag     bool // deletes whatever the ETag in a DeleteObjects is (versitygw, Ceph RGW)
	DeleteIgnoresIfMatch bool // deletes whatever the ETag of a DeleteObject is (Ceph RGW, s3rver)

	// Headers.

	RefusesChecksums bool // refuses x-amz-checksum-*, x-amz-sdk-checksum-algorithm and aws-chunked
	StoresFraming    bool // stores the framing of aws-chunked as the body
	NoDate           bool // tells no time of an answer
	NoETag           bool // tells no ETag of an object
	WeakETags        bool // tells W/"…", as a compressing proxy does

	// Preconditions.

	IgnoresIfMatch        bool // carries out a PUT with any If-Match, creating the object if need be (s3rver)
	IfMatchCreates        bool // carries out a PUT with an If-Match where there is no object, but refuses stale ones
	IfMatchAbsent412      bool // answers 412, not 404, to an If-Match where there is no object (Ceph RGW)
	QuotedIfMatchFails    bool // refuses each If-Match in quotes; without them it does as it should (Ceph RGW 16)
	CreateOnlyOverwrites  bool // answers 200 to a create-only PUT over an existing object, and carries it out (s3rver)
	VersionedOverwrites   bool // CreateOnlyOverwrites, in a versioned bucket only (Ceph RGW)
	MarkerBlocksCreate    bool // answers 412 to a create-only PUT over a delete marker (versitygw)
	Demands412            bool // answers 412 to every PUT without a condition
	IgnoresReadConditions bool // answers 200 to every GET of what is there
	ConflictEvery         int  // answers 409 ConditionalRequestConflict to each n-th conditional PUT; an honest AWS may, too
	// ContentionFails: a conditional PUT that comes within the RaceWindow of another one of its key is answered 500 and not
	// carried out (Ceph RGW).
	ContentionFails bool
	// RaceWindow lies between the moment at which the conditions of a PUT are held against the object and the one at which
	// it is stored: one after the other all is well, at once all win (two gateways on one directory).
	RaceWindow time.Duration

	// Bodies, of a GET: the first one after an object was overwritten.

	OldBodyNewETag       bool // the body from before with the ETag from after (versitygw with sidecar files)
	CutAfterOverwrite    bool // half of the body, then the end of the connection (rclone)
	AbsentAfterOverwrite bool // 404 (rclone)
	// CachesReads answers every GET with what the first one of that key was answered, unless that was stored no-store: a
	// cache before a public bucket.
	CachesReads bool

	// Keys.

	ManglesControl  bool // lists U+FFFD for control characters, and 0x01 never comes back
	CleansPaths     bool // takes a//b and a/./b for a/b, in keys and prefixes
	RefusesOddPaths bool // answers 400 to keys with empty or dot segments (rclone)

	// Pace is how soon after a write of a key the next one is answered 503 SlowDown, or 429 with PaceIs429; 0: never.
	Pace      time.Duration
	PaceIs429 bool
}

// String names the lies that are told, such as "Unsorted PageSize=300".
func (l Lies) String() string { return wire.Told(l) }
