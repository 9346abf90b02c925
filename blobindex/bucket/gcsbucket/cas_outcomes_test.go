package gcsbucket_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// TestSave_Outcomes: each answer to a conditional write has one meaning, and none makes the driver ask again.
func TestSave_Outcomes(t *testing.T) {
	for _, tt := range []struct {
		kind gcsd.Kind
		want error // nil: none that the contract has a word for
	}{
		{gcsd.Status(412, "conditionNotMet"), cas.ErrConflict},
		{gcsd.Status(409, "conflict"), nil},
		{gcsd.Status(404, "notFound"), cas.ErrNotExist},
		{gcsd.Status(403, "forbidden"), cas.ErrDenied},
		{gcsd.Status(403, "rateLimitExceeded"), cas.ErrThrottled},
		{gcsd.Status(429, "rateLimitExceeded"), cas.ErrThrottled},
		{gcsd.Status(501, "notImplemented"), cas.ErrUnsupported},
		{gcsd.Status(500, "backendError"), cas.ErrUnknown},
		{gcsd.Status(502, "backendError"), cas.ErrUnknown},
		{gcsd.Status(503, "backendError"), cas.ErrUnknown},
		{gcsd.Status(408, "timeout"), cas.ErrUnknown},
		{gcsd.AppliedThenStatus(503), cas.ErrUnknown},
		{gcsd.Reset(), cas.ErrUnknown},
		{gcsd.Drop(), cas.ErrUnknown},
		{gcsd.AppliedThenReset(), cas.ErrUnknown},
		{gcsd.AppliedThenDrop(), cas.ErrUnknown},
		{gcsd.Half(), cas.ErrUnknown},
	} {
		for _, exists := range []bool{true, false} {
			b, s := serve(t, nil, nil)
			p := cas.IfAbsent()
			if exists {
				p = cas.IfMatch(saved(t, b, "k", "one", p))
			}
			s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Every: true, Kind: tt.kind})
			s.Reset()
			v, err := b.Save(t.Context(), "k", []byte("two"), p)
			what := tt.kind.String() + ", " + p.String()
			if v != "" || err == nil {
				t.Errorf("%s: version %q, %v", what, v, err)
			}
			wantOutcome(t, what, err, tt.want)
			if n := s.Reset()[gcsd.Insert]; n != 1 {
				t.Errorf("%s: %d requests", what, n)
			}
		}
	}
}

// wantOutcome checks that err is want, and no other outcome; a 503 that leaves it open asks for slower writes besides.
func wantOutcome(t *testing.T, what string, err, want error) {
	t.Helper()
	for _, outcome := range []error{
		cas.ErrConflict, cas.ErrNotExist, cas.ErrUnknown, cas.ErrThrottled, cas.ErrUnsupported, cas.ErrDenied, cas.ErrPrecondition,
		cas.ErrNoVersion, bucket.ErrInvalidKey,
	} {
		besides := outcome == cas.ErrThrottled && want == cas.ErrUnknown && strings.Contains(what, "503")
		if is := errors.Is(err, outcome); is != (outcome == want || besides) {
			t.Errorf("%s: %v; is it %q: %t", what, err, outcome, is)
		}
	}
}

func saved(t *testing.T, s cas.Store, key bucket.Key, body string, p cas.Precondition) cas.Version {
	t.Helper()
	v, err := s.Save(t.Context(), key, []byte(body), p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSave_Conditions: what a conditional write says. A version that is no generation is another store's, and matches
// nothing; no request leaves for it.
func TestSave_Conditions(t *testing.T) {
	b, s := serve(t, nil, nil)
	query := func() string {
		all := s.Requests()
		return all[len(all)-1].Query.Get("ifGenerationMatch")
	}
	v := saved(t, b, "k", "one", cas.IfAbsent())
	if got := query(); got != "0" {
		t.Errorf("if absent is sent as ifGenerationMatch=%q", got)
	}
	saved(t, b, "k", "two", cas.IfMatch(v))
	if got := query(); got != string(v) {
		t.Errorf("if match %s is sent as ifGenerationMatch=%q", v, got)
	}
	s.Reset()
	for _, v := range []cas.Version{`"abc"`, "-1", "00", "1.5", "99999999999999999999"} {
		_, err := b.Save(t.Context(), "k", []byte("six"), cas.IfMatch(v))
		wantOutcome(t, string(v), err, cas.ErrConflict)
	}
	if n := s.Reset(); len(n) != 0 {
		t.Errorf("requests left: %v", n)
	}
}

// TestCase_N2_NoGeneration: an answer without one is an error, of reads as of writes.
func TestCase_N2_NoGeneration(t *testing.T) {
	b, s := serve(t, &gcsd.Options{Lies: gcsd.Lies{NoGeneration: true}}, nil)
	s.Store("bucket", "k", "one")
	_, err := b.Load(t.Context(), "k")
	wantOutcome(t, "Load", err, cas.ErrNoVersion)
	s.Reset()
	_, err = b.Save(t.Context(), "new", []byte("two"), cas.IfAbsent())
	wantOutcome(t, "Save", err, cas.ErrNoVersion)
	if n := s.Reset()[gcsd.Insert]; n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestCase_C33_NoStore: a document is read anew through a cache that honours no-store.
func TestCase_C33_NoStore(t *testing.T) {
	b, _ := serve(t, &gcsd.Options{Lies: gcsd.Lies{CachesReads: true}}, nil)
	v := saved(t, b, "k", "one", cas.IfAbsent())
	for _, body := range []string{"two", "three"} {
		if _, err := b.Load(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		v = saved(t, b, "k", body, cas.IfMatch(v))
		if o, err := b.Load(t.Context(), "k"); err != nil || string(o.Body) != body || o.Version != v {
			t.Errorf("Load after %q was saved: %q, %v", body, o.Body, err)
		}
	}
}

// TestSave_Cancelled while it is under way: unknown, and the context's error is in it.
func TestSave_Cancelled(t *testing.T) {
	b, s := serve(t, nil, nil)
	v := saved(t, b, "k", "one", cas.IfAbsent())
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Kind: gcsd.Before("cancelled", func() {
		cancel()
		<-release
	})})
	_, err := b.Save(ctx, "k", []byte("two"), cas.IfMatch(v))
	close(release)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Save: %v, want the context's error in it", err)
	}
	wantOutcome(t, "cancelled", err, cas.ErrUnknown)
}

// TestLoad_TooLarge: what no document may be is not read to its end, and not asked for again.
func TestLoad_TooLarge(t *testing.T) {
	b, s := serve(t, nil, nil)
	s.Store("bucket", "k", strings.Repeat("x", cas.MaxSize+1))
	s.Reset()
	if _, err := b.Load(t.Context(), "k"); !errors.Is(err, cas.ErrTooLarge) {
		t.Errorf("Load: %v", err)
	}
	if n := s.Reset(); len(n) != 1 || n[gcsd.XMLRead]+n[gcsd.Download] != 1 {
		t.Errorf("requests: %v", n)
	}
}
