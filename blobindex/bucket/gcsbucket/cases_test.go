package gcsbucket_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// halved cuts an answer in the middle, with a length that agrees.
func halved(b []byte) []byte { return b[:len(b)/2] }

// TestCase_C04_FailedOrPartialListing: a page that fails for good is an error; one that fails once is asked for again.
func TestCase_C04_FailedOrPartialListing(t *testing.T) {
	for _, kind := range []gcsd.Kind{
		gcsd.Status(500, "backendError"), gcsd.Status(503, "backendError"), gcsd.Status(429, "rateLimitExceeded"),
		gcsd.Reset(), gcsd.Drop(), gcsd.Half(), gcsd.Rewrite("JSON cut in the middle", halved),
		gcsd.Rewrite("null entries", func([]byte) []byte { return []byte(`{"items":[null]}`) }),
	} {
		b, s := serve(t, &gcsd.Options{Lies: gcsd.Lies{PageCap: 10}}, nil)
		want := numbered(t, b, 25)
		s.Plan(t, gcsd.Fault{Op: gcsd.List, Nth: 2, Kind: kind})
		if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || !slices.Equal(got, want) {
			t.Errorf("page 2 struck once by %v: %d keys, %v, want all %d", kind, len(got), err, len(want))
		}
		s.Reset()
		s.Plan(t, gcsd.Fault{Op: gcsd.List, Every: true, Kind: kind, Where: func(r gcsd.Request) bool {
			return r.Query.Get("pageToken") != ""
		}})
		got, pages, err := list(t.Context(), b, bucket.ListRequest{})
		if err == nil || len(pages) != 1 || len(got) != 10 {
			t.Errorf("page 2 struck always by %v: %d pages, error %v, want 1 and an error", kind, len(pages), err)
		}
		// Package net/http repeats a GET by itself, once, where a kept connection is closed under it.
		if n := s.Reset()[gcsd.List]; n != 1+5 && n != 1+5+1 {
			t.Errorf("page 2 struck always by %v: %d requests, want 1 and 5 attempts", kind, n)
		}
	}
}

// TestCase_C22_PageBoundaries counts the pages at the socket.
func TestCase_C22_PageBoundaries(t *testing.T) {
	b, s := serve(t, nil, nil)
	keys := stored(s, 2001)
	for _, c := range []struct{ objects, requests int }{{2001, 3}, {2000, 2}, {1001, 2}, {1000, 1}, {999, 1}, {1, 1}, {0, 1}} {
		if errs := b.Delete(t.Context(), keys[c.objects:]); errs != nil {
			t.Fatal(errors.Join(errs...))
		}
		keys = keys[:c.objects]
		s.Reset()
		got, pages, err := list(t.Context(), b, bucket.ListRequest{Prefix: "runs/"})
		if err != nil || !slices.Equal(got, keys) || len(pages) != c.requests {
			t.Errorf("List of %d: %d keys on %d pages, %v, want %d pages", c.objects, len(got), len(pages), err, c.requests)
		}
		if n := s.Reset(); n[gcsd.List] != c.requests || len(n) != 1 {
			t.Errorf("List of %d: requests %v, want %d List", c.objects, n, c.requests)
		}
	}
}

// TestCase_C24_Unsorted: all keys come, no order is claimed, no early start is asked for; a claim that is false is found.
func TestCase_C24_Unsorted(t *testing.T) {
	server := &gcsd.Options{Lies: gcsd.Lies{Unsorted: true, PageCap: 10}}
	b, s := serve(t, server, func(o *gcsbucket.Options) { o.Sorted = false })
	want := numbered(t, b, 35)
	got, pages, err := list(t.Context(), b, bucket.ListRequest{})
	if slices.IsSorted(got) {
		t.Error("the server lists in order: this test shows nothing")
	}
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) || pages[0].Sorted {
		t.Errorf("List: %d keys, sorted %v, %v, want %d", len(got), pages[0].Sorted, err, len(want))
	}
	s.Reset()
	_, _, err = list(t.Context(), b, bucket.ListRequest{After: want[3]})
	if n := s.Reset(); !errors.Is(err, bucket.ErrUnsupported) || len(n) != 0 {
		t.Errorf("List with After: error %v, requests %v, want ErrUnsupported and none", err, n)
	}

	liar := connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: s.URL(), Sorted: true})
	if _, _, err := list(t.Context(), liar, bucket.ListRequest{}); !errors.Is(err, bucket.ErrIncomplete) {
		t.Errorf("List of a server falsely declared sorted: error %v, want ErrIncomplete", err)
	}
}

// TestCase_C26_HostileKey: each hostile key that the store can hold leaves the others alone; the driver refuses the rest
// and asks nothing.
func TestCase_C26_HostileKey(t *testing.T) {
	for _, hostile := range []string{"runs/\x01", "runs/a\x01b_1700000000", "runs/a//b", "runs/", "runs/\x7f", "runs/\u2028", "runs/\x00"} {
		b, _ := serve(t, nil, nil)
		want := append(numbered(t, b, 10), bucket.Key(hostile))
		put(t, b, hostile)
		slices.Sort(want)
		if got, _, err := list(t.Context(), b, bucket.ListRequest{Prefix: "runs/"}); err != nil || !slices.Equal(got, want) {
			t.Errorf("List beside %q: %q, %v", hostile, got, err)
		}
	}
	b, s := serve(t, nil, nil)
	for _, key := range []bucket.Key{"line\nend_1", "cr\r_1", "\xff_1", "caf\xc3_1", ".", "..", "", ".well-known/acme-challenge/x",
		bucket.Key(strings.Repeat("n", 1025))} {
		_, err := b.Put(t.Context(), key, nil)
		errs := b.Delete(t.Context(), []bucket.Key{key})
		if !errors.Is(err, bucket.ErrInvalidKey) || !errors.Is(errors.Join(errs...), bucket.ErrInvalidKey) {
			t.Errorf("Put and Delete of %q: %v, %v, want ErrInvalidKey", key, err, errs)
		}
	}
	if n := s.Reset(); len(n) != 0 {
		t.Errorf("refused keys made requests: %v", n)
	}
}

// TestCase_C27_Encoding: names that mean something in URLs, byte for byte in listing, reading and deleting.
func TestCase_C27_Encoding(t *testing.T) {
	b, s := serve(t, nil, func(o *gcsbucket.Options) { o.Prefix = "a+b/c%20d" })
	keys := []bucket.Key{"a+b_1", "a b_1", "a%2Bb_1", "a%252F_1", "a&b_1", "a?x_1", "a#y_1"}
	slices.Sort(keys)
	for _, key := range keys {
		if _, err := b.Put(t.Context(), key, strings.NewReader(string(key))); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range s.Requests() {
		if !strings.HasPrefix(r.Name, "a+b/c%20d/a") {
			t.Errorf("stored under %q", r.Name)
		}
	}
	for len(keys) > 0 {
		if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || !slices.Equal(got, keys) {
			t.Fatalf("List: %q, %v, want %q", got, err, keys)
		}
		r, err := b.Open(t.Context(), keys[0])
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(r); err != nil || string(body) != string(keys[0]) {
			t.Errorf("body of %q: %q, %v", keys[0], body, err)
		}
		r.Close()
		if errs := b.Delete(t.Context(), keys[:1]); errs != nil {
			t.Error(errs[0])
		}
		keys = keys[1:]
	}
}

// TestCase_C34_PerKeyErrors: three of ten deletes are refused, and the report says which.
func TestCase_C34_PerKeyErrors(t *testing.T) {
	b, s := serve(t, &gcsd.Options{Deny: func(r gcsd.Request) bool {
		return r.Op == gcsd.Delete && strings.Contains("258", r.Name[len(r.Name)-1:])
	}}, nil)
	keys := numbered(t, b, 10)
	s.Reset()
	errs := b.Delete(t.Context(), keys)
	if len(errs) != 10 {
		t.Fatalf("Delete of 10: %d errors", len(errs))
	}
	for i, err := range errs {
		if denied := i == 2 || i == 5 || i == 8; errors.Is(err, bucket.ErrDenied) != denied || (err == nil) == denied {
			t.Errorf("error %d: %v, want denied: %v", i, err, denied)
		}
	}
	if n := s.Reset(); n[gcsd.Delete] != 10 {
		t.Errorf("requests %v, want 10 Delete: a refusal is not repeated", n)
	}
	got, _, err := list(t.Context(), b, bucket.ListRequest{})
	if want := []bucket.Key{keys[2], keys[5], keys[8]}; err != nil || !slices.Equal(got, want) {
		t.Errorf("left: %q, %v, want %q", got, err, want)
	}
}

// TestCase_C35_HowMany: one request a key, none for no keys, 32 of them at once and never more.
func TestCase_C35_HowMany(t *testing.T) {
	const together = 32
	var begun, now, most atomic.Int64
	b, s := serve(t, &gcsd.Options{Deny: func(r gcsd.Request) bool {
		if r.Op == gcsd.Delete {
			now.Add(-1)
		}
		return false
	}}, nil)
	all := make(chan struct{})
	s.Plan(t, gcsd.Fault{Op: gcsd.Delete, Every: true, Kind: gcsd.Before("the first ones wait for each other", func() {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if n := begun.Add(1); n == together {
			// Others are served meanwhile: a 33rd delete, if there were one, would be here by then.
			for range 50 {
				if resp, err := http.Get(s.URL() + "/storage/v1/b/bucket"); err == nil {
					resp.Body.Close()
				}
			}
			close(all)
		} else if n < together {
			<-all
		}
	})})
	for _, n := range []int{0, 1000, 1001, 2500} {
		keys := stored(s, n)
		s.Reset()
		if errs := b.Delete(t.Context(), keys); errs != nil {
			t.Fatal(errors.Join(errs...))
		}
		if got := s.Reset(); got[gcsd.Delete] != n || n == 0 && len(got) != 0 {
			t.Errorf("Delete of %d: requests %v", n, got)
		}
		if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || len(got) != 0 {
			t.Errorf("Delete of %d: %d left, %v", n, len(got), err)
		}
	}
	if n := most.Load(); n != together {
		t.Errorf("%d deletes at once, want %d", n, together)
	}
}

// TestCase_C37_VersionedBucket: listings never ask for versions, and a put after a delete exists.
func TestCase_C37_VersionedBucket(t *testing.T) {
	b, s := serve(t, &gcsd.Options{Versioned: true}, nil)
	for range 3 {
		put(t, b, "runs/a_1700000000")
		if _, err := b.Head(t.Context(), "runs/a_1700000000"); err != nil {
			t.Error(err)
		}
		if errs := b.Delete(t.Context(), []bucket.Key{"runs/a_1700000000"}); errs != nil {
			t.Error(errs[0])
		}
	}
	if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || len(got) != 0 {
		t.Errorf("List: %q, %v, want nothing", got, err)
	}
	for _, r := range s.Requests() {
		if r.Query.Has("versions") && r.Query.Get("versions") != "false" || r.Query.Has("softDeleted") {
			t.Errorf("%s asks for versions: %v", r.Op, r.Query)
		}
	}
}

// TestCase_C12_OneWritePerSecond: a name that is written too fast is waited for.
func TestCase_C12_OneWritePerSecond(t *testing.T) {
	clock := newClock()
	b, s := serve(t, &gcsd.Options{Now: clock.now}, nil)
	put(t, b, "a")
	s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Nth: 3, Kind: gcsd.Before("a second passes", clock.tick)})
	s.Reset()
	if _, err := b.Put(t.Context(), "a", bytes.NewReader(nil)); err != nil {
		t.Errorf("Put within the second: %v", err)
	}
	if n := s.Reset()[gcsd.Insert]; n != 3 {
		t.Errorf("%d requests, want 2 that were refused and one", n)
	}
	if _, err := b.Put(t.Context(), "a", nil); !errors.Is(err, bucket.ErrThrottled) || errors.Is(err, bucket.ErrUnknown) {
		t.Errorf("Put on a clock that stands still: error %v, want ErrThrottled", err)
	}
}
