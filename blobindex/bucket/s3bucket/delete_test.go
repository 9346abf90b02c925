package s3bucket_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// filled stores n objects past the wire and returns their keys.
func filled(s *s3d.Server, n int) []bucket.Key {
	keys := make([]bucket.Key, n)
	for i := range keys {
		keys[i] = bucket.Key(fmt.Sprintf("m/%06d", i))
		s.Store("bucket", string(keys[i]), "")
	}
	return keys
}

func wantCounts(t testing.TB, what string, s *s3d.Server, want map[s3d.Op]int) {
	t.Helper()
	if got := s.Reset(); !maps.Equal(got, want) {
		t.Errorf("%s: requests %v, want %v", what, got, want)
	}
}

// TestCase_C35_DeleteMany counts requests at the socket around the limits of a batch.
func TestCase_C35_DeleteMany(t *testing.T) {
	for _, tt := range []struct{ keys, batches int }{{0, 0}, {1000, 1}, {1001, 2}, {2500, 3}, {100_000, 100}} {
		s, b := start(t, nil)
		keys := filled(s, tt.keys)
		if errs := b.Delete(t.Context(), keys); errs != nil || len(s.Keys("bucket")) != 0 {
			t.Errorf("Delete of %d: %v, %d left", tt.keys, errs, len(s.Keys("bucket")))
		}
		want := map[s3d.Op]int{}
		if tt.batches > 0 {
			want[s3d.DeleteObjects] = tt.batches
		}
		wantCounts(t, fmt.Sprintf("Delete of %d", tt.keys), s, want)
	}
}

// TestCase_C35_NoBatchDelete: a store without DeleteObjects is asked for it once in each form, and never again.
func TestCase_C35_NoBatchDelete(t *testing.T) {
	s, b := start(t, &s3d.Options{Lies: s3d.Lies{NoBatchDelete: true}})
	for round, batches := range []int{2, 0} {
		keys := filled(s, 2500)
		if errs := b.Delete(t.Context(), keys); errs != nil || len(s.Keys("bucket")) != 0 {
			t.Errorf("Delete: %v, %d left", errs, len(s.Keys("bucket")))
		}
		want := map[s3d.Op]int{s3d.DeleteObject: 2500}
		if batches > 0 {
			want[s3d.DeleteObjects] = batches
		}
		wantCounts(t, fmt.Sprintf("round %d", round), s, want)
	}
}

// TestCase_C30_BatchWantsMD5: what the store wants is found out once.
func TestCase_C30_BatchWantsMD5(t *testing.T) {
	for _, lies := range []s3d.Lies{{BatchWantsMD5: true}, {BatchWantsMD5: true, RefusesChecksums: true}, {RefusesChecksums: true}} {
		s, b := start(t, &s3d.Options{Lies: lies})
		for round, batches := range []int{3, 2} {
			keys := filled(s, 2000)
			if errs := b.Delete(t.Context(), keys); errs != nil || len(s.Keys("bucket")) != 0 {
				t.Errorf("Delete: %v, %d left", errs, len(s.Keys("bucket")))
			}
			wantCounts(t, fmt.Sprintf("%+v round %d", lies, round), s, map[s3d.Op]int{s3d.DeleteObjects: batches})
		}
		if h := s.Header(s3d.DeleteObjects); h.Get("Content-Md5") == "" || h.Get("X-Amz-Checksum-Crc32") != "" {
			t.Errorf("headers of a batch: %v, want Content-MD5 alone", h)
		}
	}
}

// TestCase_C34_PerKeyErrors: 200, and three of ten keys denied.
func TestCase_C34_PerKeyErrors(t *testing.T) {
	s, b := start(t, &s3d.Options{Refuse: func(op s3d.Op, key string) string {
		if op == s3d.DeleteObjects && key != "" && key < "m/000003" {
			return "AccessDenied"
		}
		return ""
	}})
	keys := filled(s, 10)
	errs := b.Delete(t.Context(), keys)
	if len(errs) != 10 {
		t.Fatalf("Delete: %v, want 10 errors", errs)
	}
	for i, err := range errs {
		if i >= 3 && err != nil {
			t.Errorf("key %d: %v, want nil", i, err)
		}
		if i < 3 {
			wantErr(t, fmt.Sprintf("key %d", i), err, bucket.ErrDenied)
		}
	}
	if left := s.Keys("bucket"); len(left) != 3 {
		t.Errorf("left: %q, want the three", left)
	}
	wantCounts(t, "Delete", s, map[s3d.Op]int{s3d.DeleteObjects: 1})
}

// Keys whose own error passes are sent again, and they alone.
func TestDelete_RetriesKeys(t *testing.T) {
	var refused atomic.Int32
	s, b := start(t, &s3d.Options{Refuse: func(op s3d.Op, key string) string {
		if key == "m/000001" && refused.Add(1) < 3 {
			return "SlowDown"
		}
		if key == "m/000002" && refused.Load() < 100 {
			return "InternalError"
		}
		return ""
	}})
	errs := b.Delete(t.Context(), filled(s, 5))
	if len(errs) != 5 || errs[0] != nil || errs[1] != nil || errs[3] != nil {
		t.Fatalf("Delete: %v, want the third alone to fail", errs)
	}
	wantErr(t, "the third key", errs[2], bucket.ErrUnknown)
	wantCounts(t, "Delete", s, map[s3d.Op]int{s3d.DeleteObjects: 5})
}

// Keys that DeleteObjects would turn into others go one by one; the object under the other name stays.
func TestDelete_KeysThatXMLCannotSay(t *testing.T) {
	s, b := start(t, nil)
	odd := []bucket.Key{"a\x01b", "line\nfeed", "cr\r", "tab\t", "\ufffe", "x\u2028y", "x\u0085y", "\x7f", "a//b", "<&>\"'", "日本", " "}
	for _, key := range odd {
		s.Store("bucket", string(key), "")
	}
	s.Store("bucket", "a\ufffdb", "")
	if errs := b.Delete(t.Context(), odd); errs != nil {
		t.Errorf("Delete: %v", errs)
	}
	if left := s.Keys("bucket"); len(left) != 1 || left[0] != "a\ufffdb" {
		t.Errorf("left: %q, want the neighbour alone", left)
	}
	wantCounts(t, "Delete", s, map[s3d.Op]int{s3d.DeleteObjects: 1, s3d.DeleteObject: 7})
}

// What a server would take for another key is refused before a request, in a delete above all.
func TestDelete_NeverAnotherKey(t *testing.T) {
	s := s3d.New(t, &s3d.Options{Lies: s3d.Lies{CleansPaths: true}})
	s.Store("bucket", "a/b", "")
	b := open(t, poor(s))
	for _, key := range []bucket.Key{"a//b", "a/./b", "x/../a/b", "/a/b", "../bucket/a/b"} {
		errs := b.Delete(t.Context(), []bucket.Key{key})
		if len(errs) != 1 {
			t.Fatalf("Delete(%q): %v", key, errs)
		}
		wantErr(t, fmt.Sprintf("Delete(%q)", key), errs[0], bucket.ErrInvalidKey)
	}
	if _, ok := s.Body("bucket", "a/b"); !ok || len(s.Counts()) != 0 {
		t.Errorf("a/b there: %v, requests %v, want it untouched", ok, s.Counts())
	}
}

// A redirect leads to another key, or round in a circle; with no kind of client it is followed.
func TestDelete_RedirectIsNotFollowed(t *testing.T) {
	for name, client := range map[string]s3.HTTPClient{"default": nil, "SDK": awshttp.NewBuildableClient(), "net/http": &http.Client{}} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			s := s3d.New(t, nil)
			o := options(s)
			o.HTTPClient = client
			b := open(t, o)
			s.Store("bucket", "a/b", "")
			circle := func(key string) bool { return key == "round" }
			s.Plan(s3d.Fault{Op: s3d.DeleteObject, Key: circle, Every: true, Kind: s3d.StatusWith(status, "", "",
				http.Header{"Location": {s.URL + "/bucket/round"}})})
			s.Plan(s3d.Fault{Op: s3d.DeleteObject, Kind: s3d.StatusWith(status, "", "", http.Header{"Location": {s.URL + "/bucket/a/b"}})})
			for _, key := range []bucket.Key{"a//b", "round"} {
				errs := b.Delete(t.Context(), []bucket.Key{key})
				if err := errors.Join(errs...); err == nil || errors.Is(err, bucket.ErrUnknown) || !strings.Contains(err.Error(), "redirect") &&
					!strings.Contains(err.Error(), "region") {
					t.Errorf("%s client, %d: Delete(%q): %v, want an error that says why", name, status, key, err)
				}
			}
			if _, there := s.Body("bucket", "a/b"); !there {
				t.Errorf("%s client, %d: another key was deleted", name, status)
			}
			wantCounts(t, name, s, map[s3d.Op]int{s3d.DeleteObject: 2})
		}
	}
}

// An answer that does not name a key proves nothing about it.
func TestDelete_UnnamedKeysAreUnknown(t *testing.T) {
	s, b := start(t, &s3d.Options{Lies: s3d.Lies{BatchForgets: true}})
	errs := b.Delete(t.Context(), filled(s, 3))
	if len(errs) != 3 {
		t.Fatalf("Delete: %v, want 3 errors", errs)
	}
	for _, err := range errs {
		wantErr(t, "Delete", err, bucket.ErrUnknown)
	}
}

// TestCase_C37_VersionedBucket: a register after a delete really exists, and listings never show a delete marker.
func TestCase_C37_VersionedBucket(t *testing.T) {
	for _, lies := range []s3d.Lies{{}, {MarkerBlocksCreate: true}} {
		s, b := start(t, &s3d.Options{Versioned: true, Lies: lies})
		for range 10 {
			if _, err := b.Put(t.Context(), "m/a", nil); err != nil {
				t.Fatal(err)
			}
			if keys, err := list(t, b, ""); err != nil || strings.Join(keys, " ") != "m/a" {
				t.Errorf("List: %q, %v", keys, err)
			}
			if errs := b.Delete(t.Context(), []bucket.Key{"m/a"}); errs != nil {
				t.Fatal(errs)
			}
			if keys, err := list(t, b, ""); err != nil || len(keys) != 0 {
				t.Errorf("List after Delete: %q, %v", keys, err)
			}
		}
		if n := s.Counts(); n[s3d.Unknown] != 0 || n[s3d.PutObject] != 10 || n[s3d.DeleteObject] != 10 {
			t.Errorf("requests %v, want none about versions", n)
		}
		if n := s.Versions("bucket", "m/a"); n != 20 {
			t.Errorf("%d versions, want 20: the bucket is not versioned", n)
		}
	}
}
