package gcsbucket_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// refused are the keys that Cloud Storage cannot hold, below a prefix of their own.
func refused(key bucket.Key) bool {
	return len(key) > 1024 || !utf8.ValidString(string(key)) || strings.ContainsAny(string(key), "\r\n")
}

// honest is the driver on a server that tells the truth. The Date of an answer has whole seconds.
func honest(server gcsd.Options, change func(*gcsbucket.Options)) buckettest.Config {
	return buckettest.Config{
		New: func(t testing.TB) bucket.Objects {
			b, s := serve(t, &server, change)
			return served{b, s}
		},
		Fill: func(o bucket.Objects, keys []bucket.Key) {
			for _, key := range keys {
				o.(served).s.Store("bucket", o.(served).Path()+string(key), "")
			}
		},
		Empty: true, Sorted: true, TellsTime: true, TimeSlack: time.Second, Refuses: refused,
	}
}

// served is a bucket with its server.
type served struct {
	*gcsbucket.Bucket
	s *gcsd.Server
}

func TestConformance(t *testing.T) { buckettest.Run(t, honest(gcsd.Options{}, nil)) }

func TestConformance_BelowAPath(t *testing.T) {
	buckettest.Run(t, honest(gcsd.Options{}, func(o *gcsbucket.Options) { o.Prefix = "/team/data//" }))
}

// TestConformance_Lies runs the suite on each lie that a bucket.Objects must live with.
func TestConformance_Lies(t *testing.T) {
	for _, c := range []struct {
		name string
		lies gcsd.Lies
		poor func(*buckettest.Config) // what remains honestly poorer
	}{
		{"conditions ignored, bare answers, clock an hour ahead", gcsd.Lies{DeleteIgnoresConditions: true,
			WriteIgnoresConditions: true, ReadIgnoresConditions: true, IgnoresMetageneration: true, BareErrors: true,
			NoChecksum: true, NoGeneration: true, ClockAhead: time.Hour, GoesByBoundary: true}, nil},
		{"offsets and prefix ignored, no page cap, clock an hour behind", gcsd.Lies{IgnoresOffsets: true,
			IgnoresPrefix: true, IgnoresMax: true, ClockAhead: -time.Hour}, nil},
		{"small and empty pages, buckets made by themselves", gcsd.Lies{EmptyPages: true, PageCap: 99, AutoCreateBucket: true}, nil},
		{"unsorted", gcsd.Lies{Unsorted: true, PageCap: 500}, func(c *buckettest.Config) { c.Sorted = false }},
		{"no times", gcsd.Lies{NoUpdated: true, NoDate: true}, func(c *buckettest.Config) { c.TellsTime = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var config buckettest.Config
			config = honest(gcsd.Options{Lies: c.lies}, func(o *gcsbucket.Options) { o.Sorted = config.Sorted })
			if c.poor != nil {
				c.poor(&config)
			}
			buckettest.Run(t, config)
		})
	}
}

// TestConformance_Versioned: old generations never show.
func TestConformance_Versioned(t *testing.T) {
	buckettest.Run(t, honest(gcsd.Options{Versioned: true}, nil))
}

// TestAbsentIsDenied: on a bucket that this caller may not list, absence cannot be told.
func TestAbsentIsDenied(t *testing.T) {
	b, _ := serve(t, &gcsd.Options{Lies: gcsd.Lies{AbsentIsDenied: true}}, nil)
	_, headErr := b.Head(t.Context(), "absent")
	_, openErr := b.Open(t.Context(), "absent")
	for call, err := range map[string]error{"Head": headErr, "Open": openErr} {
		if !errors.Is(err, bucket.ErrDenied) || errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("%s of an absent object: error %v, want ErrDenied and not ErrNotExist", call, err)
		}
	}
}
