// Package buckettest is the conformance suite of bucket.Objects: what every driver, decorator and fake must do, as
// small steps that each work below a key prefix of their own.
//
// The suite does not need a bucket to itself (see Config.Empty), cleans up behind itself, and waits for nothing but
// answers, so that the same steps run on memory, on a directory and on a server far away. What stores honestly differ
// in is said in Config; everything else is the same for all.
package buckettest

import (
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Config says how to reach the store and in what it honestly differs from others. The zero value of each flag is the
// poorest store.
type Config struct {
	// New returns the bucket for one step. It may return the same one each time.
	New func(t testing.TB) bucket.Objects
	// Empty says that New returns buckets that hold nothing, so that listing the whole of one can be checked too.
	Empty bool
	// FileTree says that keys are paths: none may lie below another, and none may have empty or dot segments or
	// segments over 255 bytes. Such keys must be refused with bucket.ErrInvalidKey.
	FileTree bool
	// Refuses reports further keys that the store cannot hold, to be refused with bucket.ErrInvalidKey; nil: none.
	Refuses func(bucket.Key) bool
	// Sorted says that listings come in byte order, say so, and take After; else After must be refused with
	// bucket.ErrUnsupported.
	Sorted bool
	// PageByPage says that nothing is read ahead where a page ends with the last key of a directory: the next page shows
	// what the callback wrote and deleted in the next directory, behind the key that was to come next. Else a step about
	// it checks nothing.
	PageByPage bool
	// TellsTime says that Put, Head and listings tell store times, and each page the store's clock.
	TellsTime bool
	// TimesObjects says, of a store that does not tell time in this sense, that Head and listings tell store times all the
	// same: only Put and the pages tell none.
	TimesObjects bool
	// TimeSlack is how far the store's clock and times may disagree about one moment: 0 where all come from one
	// clock, some seconds where answers carry dates cut to whole ones.
	TimeSlack time.Duration
	// Tick moves the store's clock visibly; nil: it runs by itself.
	Tick func()
	// Fill, if not nil, stores empty objects past the driver, in what New returned. It is for stores that New makes for
	// one step and that go with it: listings of thousands of keys then cost no thousand requests, and nothing is cleaned
	// up. Writing through the driver is what the other steps are about.
	Fill func(o bucket.Objects, keys []bucket.Key)
}

// A step checks one duty of a driver.
type step struct {
	name string
	run  func(*env)
}

// steps are in reading order: when several fail, the first one says most.
var steps = []step{
	{"RoundTrip", roundTrip},
	{"Overwrite", overwrite},
	{"EmptyBody", emptyBody},
	{"StreamingBody", streamingBody},
	{"FailingBody", failingBody},
	{"CancelledBody", cancelledBody},
	{"Boundaries", boundaries},
	{"WholeBucket", wholeBucket},
	{"Order", order},
	{"After", after},
	{"CallbackError", callbackError},
	{"Cancelled", cancelled},
	{"PageBoundaries", pageBoundaries},
	{"ListWhileChanging", listWhileChanging},
	{"PageByPage", pageByPage},
	{"OddKeys", oddKeys},
	{"Nested", nested},
	{"EmptyKey", emptyKey},
	{"StoreTime", storeTime},
	{"Refresh", refresh},
	{"Delete", deletes},
	{"DeleteErrors", deleteErrors},
	{"DeleteMany", deleteMany},
	{"Concurrent", concurrent},
}

// Run runs every step as a subtest of t.
func Run(t *testing.T, c Config) {
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) { s.run(newEnv(t, c, s.name)) })
	}
}
