package gocloudbucket_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/gocloudbucket"
)

// always are the keys that are refused for any store, plain those that are refused by default, as the package comment
// has it.
func always(key bucket.Key) bool {
	return len(key) > 1024 || !utf8.ValidString(string(key)) || strings.Contains(string(key), "__0x")
}

func byDefault(key bucket.Key) bool {
	k := "/" + string(key) + "/"
	return always(key) || strings.Contains(k, "//") || strings.Contains(k, "./") ||
		strings.ContainsAny(k, "\\\"#%?\x7f") || strings.ContainsFunc(k, func(r rune) bool { return r < ' ' })
}

// TestConformance runs the suite over memblob.
func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name    string
		opts    gocloudbucket.Options
		refuses func(bucket.Key) bool
		wrap    func(*blob.Bucket) *blob.Bucket
	}{
		{name: "Default", refuses: byDefault},
		{name: "Sorted", opts: gocloudbucket.Options{Sorted: true, AnyKeys: true}, refuses: always},
		{name: "SmallPages", opts: gocloudbucket.Options{PageSize: 300}, refuses: byDefault},
		{name: "PagesOfTheContract", opts: gocloudbucket.Options{PageSize: bucket.PageSize}, refuses: byDefault},
		{name: "BelowAPath", refuses: byDefault, wrap: func(b *blob.Bucket) *blob.Bucket {
			return blob.PrefixedBucket(b, "some/path/")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			buckettest.Run(t, buckettest.Config{
				New: func(t testing.TB) bucket.Objects {
					b := memblob.OpenBucket(nil)
					if tt.wrap != nil {
						b = tt.wrap(b)
					}
					return adapt(t, b, tt.opts)
				},
				Empty: true, Sorted: tt.opts.Sorted, TimesObjects: true, Refuses: tt.refuses,
			})
		})
	}
}
