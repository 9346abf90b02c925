package s3bucket_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestConformance runs the suite on an honest server and on each kind of liar that may not matter.
func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server s3d.Options
		poor   bool // the driver knows nothing of the store
		prefix string
		stored string // what stands before each key in the store
	}{
		{name: "Honest"},
		{name: "NotKnownPath", poor: true, prefix: "/some//path/", stored: "some/path/"},
		{name: "VersionedLargePages", server: s3d.Options{Versioned: true, Lies: s3d.Lies{PageSize: 2500, NoETag: true}}},
		{name: "SmallPages", server: s3d.Options{Lies: s3d.Lies{PageSize: 300, IgnoresStartAfter: true, EncodesSpaceAs20: true, WeakETags: true}}},
		{name: "Unsorted", poor: true, server: s3d.Options{Lies: s3d.Lies{Unsorted: true, PageSize: 500, RefusesStartAfter: true, LargePagesFail: true, RefusesOddPaths: true}}},
		{name: "ManglesKeys", poor: true, server: s3d.Options{Lies: s3d.Lies{
			IgnoresEncodingType: true, ManglesControl: true, CleansPaths: true}}},
		{name: "NoBatchDeleteNoConditions", server: s3d.Options{Lies: s3d.Lies{NoBatchDelete: true, NoPageCap: true,
			IgnoresIfMatch: true, CreateOnlyOverwrites: true, DeleteIgnoresIfMatch: true, MarkerBlocksCreate: true}}},
		{name: "OldHeaders", server: s3d.Options{Lies: s3d.Lies{
			BatchWantsMD5: true, RefusesChecksums: true, StoresFraming: true, IgnoresEncodingType: true, ManglesControl: true}}, poor: true},
		{name: "NoTimes", server: s3d.Options{Lies: s3d.Lies{NoLastModified: true, NoDate: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clock := newClock()
			conf := buckettest.Config{
				New: func(t testing.TB) bucket.Objects {
					o := tt.server
					o.Now = clock.now
					s := s3d.New(t, &o)
					opts := options(s)
					if tt.poor {
						opts = poor(s)
					}
					opts.Prefix = tt.prefix
					return served{open(t, opts), s}
				},
				Fill: func(o bucket.Objects, keys []bucket.Key) {
					for _, key := range keys {
						o.(served).s.Store("bucket", tt.stored+string(key), "")
					}
				},
				Empty: true, Sorted: !tt.poor, TellsTime: tt.name != "NoTimes", Tick: clock.tick,
				Refuses: refuses(!tt.poor, tt.prefix),
			}
			buckettest.Run(t, conf)
		})
	}
}

// served is a bucket with its server.
type served struct {
	bucket.Objects
	s *s3d.Server
}

// refuses is what the package comment says of keys, said again.
func refuses(anyKeys bool, prefix string) func(bucket.Key) bool {
	return func(key bucket.Key) bool {
		k := "/" + string(key) + "/"
		if !utf8.ValidString(k) || len(key)+len(prefix) > 1024 || strings.Contains(k, "/./") || strings.Contains(k, "/../") {
			return true
		}
		return !anyKeys && (strings.HasSuffix(k, "//") || strings.Contains("/"+string(key), "//") || strings.ContainsAny(k, "\x00\x01\n\t\r"))
	}
}
