package probe

import (
	"context"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// A Site is one way to the bucket: an endpoint. All sites of a run must lead to the same objects.
type Site struct {
	Name    string // for people, such as the URL of the endpoint
	Objects bucket.Objects
	Store   cas.Store
	// Extra is what the interfaces below are looked for in; nil: Store.
	Extra any
}

func (s *Site) extra() any {
	if s.Extra != nil {
		return s.Extra
	}
	return s.Store
}

// What a driver may offer beyond its contracts, so that more can be found out. Keys and prefixes are those of the driver.
// ErrUnsupported says that the store has no such thing, ErrDenied that it may not be seen.
type (
	// A Quoter sends versions in two forms: as they came, which is the default, and without their quotes.
	Quoter interface{ UnquotedIfMatch(on bool) }

	// An Unguarder gives access to the same objects past what its driver refuses to ask this store for: keys that stores
	// were seen to mangle, and listings after a key.
	Unguarder interface{ Unguarded() bucket.Objects }

	// A Pager asks for one page of at most max keys, beginning after a key or a token if they are not empty, and hands over
	// what was answered, past all checks. form says how keys are written in the answer, "" where only one way exists.
	Pager interface {
		ListPage(ctx context.Context, prefix, after, token string, max int) (keys []string, next, form string, err error)
	}

	// A Conditioner sends requests on conditions that indexd does not use elsewhere: "read", "metadata", "delete",
	// "batch-delete". The error is nil if it was carried out, cas.ErrConflict if the condition was refused.
	Conditioner interface {
		Conditional(ctx context.Context, request string, key bucket.Key, v cas.Version) error
	}

	// A MetaReader tells an object's version from its metadata alone.
	MetaReader interface {
		MetadataVersion(ctx context.Context, key bucket.Key) (cas.Version, error)
	}

	// A SlowSaver is Save, but calls midway once about half of the body has been sent, and sends the rest when that
	// returns. midway is not called if nobody asked for the body.
	SlowSaver interface {
		SaveSlowly(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition, midway func()) (cas.Version, error)
	}

	// A Batcher tells how it has come to delete: "batch", "batch with Content-MD5", "one by one".
	Batcher interface{ DeleteMode() string }

	// A Settings tells how the bucket is set up, by the name of the setting: "versioning", "soft-delete", "retention" and
	// "object-lock", each "off" or a text for people. ErrUnsupported: this kind of store has no such setting.
	Settings interface {
		Setting(ctx context.Context, name string) (string, error)
	}

	// An Expirer tells the lifecycle rules that take current objects away: below which prefix ("" is all), and what they do
	// when, such as "deletes objects after 30 days".
	Expirer interface {
		Expirations(ctx context.Context, rule func(prefix, what string)) error
	}
)

// Options configures a run; nil and zero fields mean the defaults.
type Options struct {
	// WrongSecret and AbsentBucket list with a secret that is wrong, and in a bucket that does not exist, and return what
	// came of it; nil: not asked.
	WrongSecret, AbsentBucket func(context.Context) error

	Creates    int // rounds of racing creates; default 20
	Increments int // rounds of racing increments; default 5
	Racers     int // of each round; default 32
	Objects    int // that are listed and deleted at once; default 1,002: more than a page, even when one is deleted

	// Now is this host's clock; default time.Now.
	Now func() time.Time
	// Wait pauses; default a timer. It returns the context's error if that ends first.
	Wait func(ctx context.Context, d time.Duration) error
	// Progress, if not nil, is called before each step, and at the end.
	Progress func(done, total int, step string)
}

func (o *Options) withDefaults() Options {
	d := Options{}
	if o != nil {
		d = *o
	}
	for _, n := range []struct {
		field *int
		value int
	}{{&d.Creates, 20}, {&d.Increments, 5}, {&d.Racers, 32}, {&d.Objects, bucket.PageSize + 2}} {
		if *n.field <= 0 {
			*n.field = n.value
		}
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Wait == nil {
		d.Wait = wait
	}
	if d.Progress == nil {
		d.Progress = func(int, int, string) {}
	}
	return d
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
