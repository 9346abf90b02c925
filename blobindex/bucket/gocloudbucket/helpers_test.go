package gocloudbucket_test

import (
	"errors"
	"testing"
	"time"

	"gocloud.dev/blob"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gocloudbucket"
)

// adapt makes a bucket.Objects of b and closes b at the end of the test.
func adapt(t testing.TB, b *blob.Bucket, opts gocloudbucket.Options) *gocloudbucket.Bucket {
	t.Helper()
	t.Cleanup(func() { b.Close() })
	if opts.Pause == 0 {
		opts.Pause = time.Microsecond
	}
	g, err := gocloudbucket.New(b, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func put(t testing.TB, o bucket.Objects, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if _, err := o.Put(t.Context(), bucket.Key(key), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func list(t testing.TB, o bucket.Objects, prefix string) []string {
	t.Helper()
	keys, err := listed(t, o, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func listed(t testing.TB, o bucket.Objects, prefix string) (keys []string, err error) {
	err = o.List(t.Context(), bucket.ListRequest{Prefix: prefix}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, string(o.Key))
		}
		return nil
	})
	return keys, err
}

// sentinels are the meanings that an error can have.
var sentinels = []error{
	bucket.ErrNotExist, bucket.ErrDenied, bucket.ErrThrottled, bucket.ErrUnknown, bucket.ErrIncomplete,
	bucket.ErrInvalidKey, bucket.ErrUnsupported,
}

// wantErr checks that err is want and no other of the sentinels; with nil, that it is an error and none of them.
func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s: error %v, want one that is: %v", what, err, want)
	}
	for _, other := range sentinels {
		if other != want && errors.Is(err, other) {
			t.Errorf("%s: error %v, which is %v as well, want: %v", what, err, other, want)
		}
	}
}
