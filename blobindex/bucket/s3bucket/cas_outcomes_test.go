package s3bucket_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestSave_Outcomes: each answer to a conditional write has one meaning, and is asked for once, unless it says that nothing
// was done and that a repetition may help.
func TestSave_Outcomes(t *testing.T) {
	const attempts = 3
	for _, tt := range []struct {
		kind     s3d.Kind
		want     []error // each of them
		requests int
	}{
		{s3d.Status(412, "PreconditionFailed"), []error{cas.ErrConflict}, 1},
		{s3d.Status(412, ""), []error{cas.ErrConflict}, 1},
		{s3d.Status(409, "ConditionalRequestConflict"), []error{cas.ErrThrottled}, attempts},
		{s3d.Status(409, "OperationAborted"), nil, 1},
		{s3d.Status(404, "NoSuchKey"), []error{cas.ErrNotExist}, 1},
		{s3d.Status(403, "AccessDenied"), []error{cas.ErrDenied}, 1},
		{s3d.Status(429, "TooManyRequests"), []error{cas.ErrThrottled}, 1},
		{s3d.Status(501, "NotImplemented"), []error{cas.ErrUnsupported}, 1},
		{s3d.Status(408, ""), []error{cas.ErrUnknown}, 1},
		{s3d.Status(500, "InternalError"), []error{cas.ErrUnknown}, 1},
		{s3d.Status(502, ""), []error{cas.ErrUnknown}, 1},
		{s3d.Status(503, ""), []error{cas.ErrUnknown}, 1},
		{s3d.Status(503, "SlowDown"), []error{cas.ErrUnknown, cas.ErrThrottled}, 1},
		{s3d.AppliedThenStatus(500, "InternalError"), []error{cas.ErrUnknown}, 1},
		{s3d.AppliedThenStatus(503, "SlowDown"), []error{cas.ErrUnknown, cas.ErrThrottled}, 1},
		{s3d.ResetBefore(), []error{cas.ErrUnknown}, 1},
		{s3d.ResetAfter(), []error{cas.ErrUnknown}, 1},
		{s3d.DropBefore(), []error{cas.ErrUnknown}, 1},
		{s3d.DropAfter(), []error{cas.ErrUnknown}, 1},
	} {
		for _, exists := range []bool{true, false} {
			s := s3d.New(t, nil)
			o := options(s)
			o.Attempts = attempts
			b := open(t, o)
			p := cas.IfAbsent()
			if exists {
				p = cas.IfMatch(saved(t, b, "k", "one", p))
			}
			s.Plan(s3d.Fault{Op: s3d.PutObject, Every: true, Kind: tt.kind})
			s.Reset()
			v, err := b.Save(t.Context(), "k", []byte("two"), p)
			what := tt.kind.String() + ", " + p.String()
			if v != "" || err == nil {
				t.Errorf("%s: version %q, %v", what, v, err)
			}
			wantOutcome(t, what, err, tt.want)
			wantCounts(t, what, s, map[s3d.Op]int{s3d.PutObject: tt.requests})
		}
	}
}

// wantOutcome checks that err is each of want, and no other outcome.
func wantOutcome(t *testing.T, what string, err error, want []error) {
	t.Helper()
	for _, outcome := range []error{
		cas.ErrConflict, cas.ErrNotExist, cas.ErrUnknown, cas.ErrThrottled, cas.ErrUnsupported, cas.ErrDenied, cas.ErrPrecondition,
		cas.ErrNoVersion, bucket.ErrInvalidKey,
	} {
		wanted := false
		for _, w := range want {
			wanted = wanted || w == outcome
		}
		if errors.Is(err, outcome) != wanted {
			t.Errorf("%s: %v; is it %q: %t, want %t", what, err, outcome, !wanted, wanted)
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

// TestCase_C11_ConflictOfRequests: 409 ConditionalRequestConflict did nothing, and passes.
func TestCase_C11_ConflictOfRequests(t *testing.T) {
	s, b := start(t, nil)
	first := saved(t, b, "k", "one", cas.IfAbsent())
	for _, p := range []cas.Precondition{cas.IfAbsent(), cas.IfMatch(first)} {
		key := bucket.Key("k")
		if p.Absent() {
			key = "new"
		}
		s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: s3d.Status(409, "ConditionalRequestConflict")})
		s.Reset()
		saved(t, b, key, "two", p)
		wantCounts(t, p.String(), s, map[s3d.Op]int{s3d.PutObject: 2})
		if body, _ := s.Body("bucket", string(key)); body != "two" {
			t.Errorf("%v: stored %q", p, body)
		}
	}
}

// TestSave_Headers: what a conditional write says, and that it goes out in one part, unframed, not to be cached.
func TestSave_Headers(t *testing.T) {
	s, b := start(t, nil)
	v := saved(t, b, "k", "one", cas.IfAbsent())
	wantHeaders(t, s, map[string]string{"If-None-Match": "*", "If-Match": "", "Cache-Control": "no-store", "Content-Length": "3",
		"Content-Encoding": "", "Content-Type": "application/octet-stream"})
	if v == "" || v[0] != '"' {
		t.Errorf("the version is %s, want the tag as it came", v)
	}
	v = saved(t, b, "k", "two", cas.IfMatch(v))
	wantHeaders(t, s, map[string]string{"If-None-Match": "", "Cache-Control": "no-store"})
	b.UnquotedIfMatch(true)
	saved(t, b, "k", "three", cas.IfMatch(v))
	wantHeaders(t, s, map[string]string{"If-Match": strings.Trim(string(v), `"`)})
}

func wantHeaders(t *testing.T, s *s3d.Server, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := s.Header(s3d.PutObject).Get(name); got != value {
			t.Errorf("PUT sent %s: %q, want %q", name, got, value)
		}
	}
}

// A proxy between the driver and the server changes the tags of answers, but not those of HEAD.
type proxy struct {
	*http.Client
	change func(tag string) string
}

func (p proxy) Do(r *http.Request) (*http.Response, error) {
	resp, err := p.Client.Do(r)
	if err == nil && r.Method != http.MethodHead && resp.Header.Get("ETag") != "" {
		resp.Header.Set("ETag", p.change(resp.Header.Get("ETag")))
	}
	return resp, err
}

// changed are the ways in which proxies that compress change tags.
var changed = map[string]func(tag string) string{
	"weak":      func(tag string) string { return "W/" + tag },
	"suffix":    func(tag string) string { return strings.TrimSuffix(tag, `"`) + `-gzip"` },
	"semicolon": func(tag string) string { return strings.TrimSuffix(tag, `"`) + `;br"` },
}

func behind(t *testing.T, s *s3d.Server, change func(string) string) *s3bucket.Bucket {
	o := options(s)
	o.HTTPClient = proxy{http.DefaultClient, change}
	return open(t, o)
}

// TestCase_C32_ChangedTags: a tag that a proxy has made of the object's leads to a HEAD, which tells the object's own.
func TestCase_C32_ChangedTags(t *testing.T) {
	for name, change := range changed {
		s := s3d.New(t, nil)
		plain, b := open(t, options(s)), behind(t, s, change)
		v := saved(t, b, "k", "one", cas.IfAbsent())
		o, err := b.Load(t.Context(), "k")
		if err != nil || o.Version != v {
			t.Errorf("%s: Load: version %s, %v, want %s", name, o.Version, err, v)
		}
		if o, err := plain.Load(t.Context(), "k"); err != nil || o.Version != v {
			t.Errorf("%s: without the proxy the version is %s, %v, with it %s", name, o.Version, err, v)
		}
		saved(t, b, "k", "two", cas.IfMatch(v))
		_, err = b.Save(t.Context(), "k", []byte("six"), cas.IfMatch(v))
		wantOutcome(t, name, err, []error{cas.ErrConflict})
	}
}

// TestCase_C32_SavedButWhich: the object was saved, but HEAD does not tell its version, since it fails or somebody else has
// saved meanwhile: unknown, so that who saved reads back what became of it. It is no failure.
func TestCase_C32_SavedButWhich(t *testing.T) {
	for name, kind := range map[string]func(*s3d.Server) s3d.Kind{
		"fails":  func(*s3d.Server) s3d.Kind { return s3d.Status(500, "InternalError") },
		"denied": func(*s3d.Server) s3d.Kind { return s3d.Status(403, "") },
		"resets": func(*s3d.Server) s3d.Kind { return s3d.ResetBefore() },
		"replaced": func(s *s3d.Server) s3d.Kind {
			return s3d.Before(func() { s.Store("bucket", "k", "another") })
		},
	} {
		s := s3d.New(t, nil)
		b := behind(t, s, changed["weak"])
		s.Plan(s3d.Fault{Op: s3d.HeadObject, Every: true, Kind: kind(s)})
		v, err := b.Save(t.Context(), "k", []byte("one"), cas.IfAbsent())
		if v != "" {
			t.Errorf("%s: Save: version %q", name, v)
		}
		wantOutcome(t, name, err, []error{cas.ErrUnknown})
	}
}

// TestCase_C32_NobodyTells the object's own tag: that is an error, of reads as of writes.
func TestCase_C32_NobodyTells(t *testing.T) {
	for name, lies := range map[string]s3d.Lies{"weak": {WeakETags: true}, "none": {NoETag: true}} {
		s, b := start(t, &s3d.Options{Lies: lies})
		s.Store("bucket", "k", "one")
		if _, err := b.Load(t.Context(), "k"); !errors.Is(err, cas.ErrNoVersion) {
			t.Errorf("%s: Load: %v", name, err)
		}
		v, err := b.Save(t.Context(), "new", []byte("two"), cas.IfAbsent())
		if v != "" {
			t.Errorf("%s: Save: %q", name, v)
		}
		wantOutcome(t, name, err, []error{cas.ErrNoVersion})
	}
}

// TestSave_Cancelled while it is under way: unknown, and the context's error is in it.
func TestSave_Cancelled(t *testing.T) {
	s, b := start(t, nil)
	v := saved(t, b, "k", "one", cas.IfAbsent())
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: s3d.Before(func() {
		cancel()
		<-release
	})})
	_, err := b.Save(ctx, "k", []byte("two"), cas.IfMatch(v))
	close(release)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Save: %v, want the context's error in it", err)
	}
	wantOutcome(t, "cancelled", err, []error{cas.ErrUnknown})
}

// TestLoad_TooLarge: what no document may be is not read to its end.
func TestLoad_TooLarge(t *testing.T) {
	s, b := start(t, nil)
	s.Store("bucket", "k", strings.Repeat("x", cas.MaxSize+1))
	if _, err := b.Load(t.Context(), "k"); !errors.Is(err, cas.ErrTooLarge) {
		t.Errorf("Load: %v", err)
	}
}
