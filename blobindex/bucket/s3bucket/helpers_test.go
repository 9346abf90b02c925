package s3bucket_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A clock moves only when it is told to.
type clock struct{ seconds atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.seconds.Store(1_800_000_000)
	return c
}

func (c *clock) now() time.Time { return time.Unix(c.seconds.Load(), 0).UTC() }
func (c *clock) tick()          { c.seconds.Add(1) }

// options are those of a store that was proved to be as good as AWS, with pauses too short to notice.
func options(s *s3d.Server) *s3bucket.Options {
	return &s3bucket.Options{
		// As the SDK's package config has it.
		Config: aws.Config{
			RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
			ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		},
		Endpoint: s.URL, Credentials: credentials.NewStaticCredentialsProvider("AK", "the-secret", ""),
		Sorted: true, AnyKeys: true, Pause: time.Microsecond,
	}
}

// poor are the options of a store of which nothing is known.
func poor(s *s3d.Server) *s3bucket.Options {
	o := options(s)
	o.Sorted, o.AnyKeys = false, false
	return o
}

func open(t testing.TB, o *s3bucket.Options) *s3bucket.Bucket {
	t.Helper()
	b, err := s3bucket.New("bucket", o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// start returns a server and a bucket on it.
func start(t testing.TB, o *s3d.Options) (*s3d.Server, *s3bucket.Bucket) {
	t.Helper()
	s := s3d.New(t, o)
	return s, open(t, options(s))
}

// list returns the keys of a listing in the order in which they came, and its error.
func list(t testing.TB, b bucket.Objects, prefix string) ([]string, error) {
	t.Helper()
	var keys []string
	err := b.List(t.Context(), bucket.ListRequest{Prefix: prefix}, func(p bucket.Page) error {
		if len(p.Objects) > bucket.PageSize {
			t.Errorf("a page of %d objects", len(p.Objects))
		}
		for _, o := range p.Objects {
			keys = append(keys, string(o.Key))
		}
		return nil
	})
	return keys, err
}

// wantErr checks that err is want, and none of the sentinels that it does not include.
func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
	for _, other := range []error{
		bucket.ErrNotExist, bucket.ErrDenied, bucket.ErrThrottled, bucket.ErrUnknown, bucket.ErrIncomplete,
		bucket.ErrInvalidKey, bucket.ErrUnsupported,
	} {
		if other != want && errors.Is(err, other) {
			t.Errorf("%s: error %v, which is %v as well, want %v alone", what, err, other, want)
		}
	}
}
