package gcsbucket_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// onlyReader hides every other method of a body.
type onlyReader struct{ io.Reader }

// calls are all calls of the contract on one key.
func calls(ctx context.Context, b *gcsbucket.Bucket, key bucket.Key) map[string]error {
	errs := map[string]error{}
	_, _, errs["List"] = list(ctx, b, bucket.ListRequest{})
	_, errs["Put"] = b.Put(ctx, key, nil)
	_, errs["Open"] = b.Open(ctx, key)
	_, errs["Head"] = b.Head(ctx, key)
	errs["Delete"] = errors.Join(b.Delete(ctx, []bucket.Key{key})...)
	return errs
}

// TestRequest_Register is one upload without conditions, of an object that no cache keeps.
func TestRequest_Register(t *testing.T) {
	b, s := serve(t, nil, nil)
	put(t, b, "runs/team/a_1700000000")
	requests := s.Requests()
	if len(requests) != 1 || requests[0].Op != gcsd.Insert || requests[0].Name != "runs/team/a_1700000000" {
		t.Fatalf("requests %+v, want one Insert", requests)
	}
	q := requests[0].Query
	if q.Get("uploadType") != "multipart" {
		t.Errorf("uploadType %q, want multipart", q.Get("uploadType"))
	}
	for name := range q {
		if strings.HasPrefix(strings.ToLower(name), "if") {
			t.Errorf("a marker is written with condition %s", name)
		}
	}
	resp, err := http.Get(s.URL() + "/bucket/runs/team/a_1700000000")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("Cache-Control"); resp.StatusCode != 200 || got != "no-store" {
		t.Errorf("read by HTTP: %s, Cache-Control %q, want no-store", resp.Status, got)
	}
}

// TestRequest_List asks for three fields and no more, and for the page size that it needs.
func TestRequest_List(t *testing.T) {
	b, s := serve(t, nil, func(o *gcsbucket.Options) { o.Prefix = "path" })
	if _, _, err := list(t.Context(), b, bucket.ListRequest{Prefix: "runs/", After: "runs/b"}); err != nil {
		t.Fatal(err)
	}
	q := s.Requests()[0].Query
	for name, want := range map[string]string{"prefix": "path/runs/", "startOffset": "path/runs/b", "maxResults": "1000",
		"projection": "noAcl", "delimiter": ""} {
		if q.Get(name) != want {
			t.Errorf("%s = %q, want %q", name, q.Get(name), want)
		}
	}
	_, items, _ := strings.Cut(q.Get("fields"), "items(")
	for _, field := range []string{"name", "size", "updated"} {
		items = strings.Replace(items, field, "", 1)
	}
	if items != ",,)" {
		t.Errorf("fields = %q, want name, size and updated", q.Get("fields"))
	}
}

// TestRequest_Counts: every other call is one request too, streams included.
func TestRequest_Counts(t *testing.T) {
	b, s := serve(t, nil, nil)
	big := strings.Repeat("x", 3<<20)
	for _, body := range []io.Reader{nil, strings.NewReader("label"), strings.NewReader(big), onlyReader{strings.NewReader(big)}} {
		if _, err := b.Put(t.Context(), "a", body); err != nil {
			t.Fatal(err)
		}
		if n := s.Reset(); n[gcsd.Insert] != 1 || len(n) != 1 {
			t.Errorf("Put: requests %v, want one Insert", n)
		}
	}
	for call, err := range calls(t.Context(), b, "a") {
		if err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	for op, n := range s.Reset() {
		if n != 1 {
			t.Errorf("%d requests %s, want 1", n, op)
		}
	}
}

// TestPut_Memory: a register allocates far less than the 16 MB of the client's default, on both sides of the socket.
func TestPut_Memory(t *testing.T) {
	b, _ := serve(t, nil, nil)
	put(t, b, "warm")
	var before, after runtime.MemStats
	const n = 50
	runtime.ReadMemStats(&before)
	for range n {
		put(t, b, "runs/team/a_1700000000")
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 200_000 {
		t.Errorf("%d bytes for each register, want at most 200,000", each)
	}
}

// TestWrite_Ambiguous strikes a put and a delete so that they may have been applied: once, and they succeed; always, and
// they are unknown.
func TestWrite_Ambiguous(t *testing.T) {
	for _, kind := range []gcsd.Kind{
		gcsd.Reset(), gcsd.Drop(), gcsd.AppliedThenReset(), gcsd.AppliedThenDrop(), gcsd.Status(500, "backendError"),
		gcsd.AppliedThenStatus(503), gcsd.AppliedThenStatus(502), gcsd.AppliedThenStatus(408),
	} {
		b, s := serve(t, nil, nil)
		for op, write := range map[gcsd.Op]func() error{
			gcsd.Insert: func() error {
				_, err := b.Put(t.Context(), "a", bytes.NewReader([]byte("body")))
				return err
			},
			gcsd.Delete: func() error { return errors.Join(b.Delete(t.Context(), []bucket.Key{"a"})...) },
		} {
			s.Reset()
			s.Plan(t, gcsd.Fault{Op: op, Kind: kind})
			if err := write(); err != nil {
				t.Errorf("%s struck once by %v: %v", op, kind, err)
			}
			if n := s.Reset(); n[op] != 2 {
				t.Errorf("%s struck once by %v: requests %v, want 2", op, kind, n)
			}
			s.Plan(t, gcsd.Fault{Op: op, Every: true, Kind: kind})
			if err := write(); !errors.Is(err, bucket.ErrUnknown) {
				t.Errorf("%s struck always by %v: error %v, want ErrUnknown", op, kind, err)
			}
			if n := s.Reset(); n[op] != 5 {
				t.Errorf("%s struck always by %v: requests %v, want 5", op, kind, n)
			}
		}
	}
}

// TestWrite_HalfAnAnswer: what was answered cannot be read, so nothing is known of it.
func TestWrite_HalfAnAnswer(t *testing.T) {
	b, s := serve(t, nil, nil)
	s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Every: true, Kind: gcsd.Half()})
	if _, err := b.Put(t.Context(), "a", nil); !errors.Is(err, bucket.ErrUnknown) {
		t.Errorf("Put: error %v, want ErrUnknown", err)
	}
}

// TestWrite_AmbiguousThenRefused: a refusal of the second attempt says nothing about the first.
func TestWrite_AmbiguousThenRefused(t *testing.T) {
	for _, refusal := range []gcsd.Kind{gcsd.Status(403, "forbidden"), gcsd.Status(429, "rateLimitExceeded")} {
		b, s := serve(t, nil, nil)
		s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Kind: gcsd.AppliedThenReset()}, gcsd.Fault{Op: gcsd.Insert, Every: true, Kind: refusal})
		if _, err := b.Put(t.Context(), "a", nil); !errors.Is(err, bucket.ErrUnknown) || errors.Is(err, bucket.ErrDenied) {
			t.Errorf("Put, applied and reset, then %v: error %v, want ErrUnknown alone", refusal, err)
		}
	}
}

// TestWrite_Definite: a refusal is no unknown outcome, and only what may pass is repeated.
func TestWrite_Definite(t *testing.T) {
	for _, c := range []struct {
		kind     gcsd.Kind
		want     error
		requests int
	}{
		{gcsd.Status(401, "authError"), bucket.ErrDenied, 1},
		{gcsd.Status(403, "forbidden"), bucket.ErrDenied, 1},
		{gcsd.Status(403, "rateLimitExceeded"), bucket.ErrThrottled, 5},
		{gcsd.Status(429, "rateLimitExceeded"), bucket.ErrThrottled, 5},
		{gcsd.Status(404, "notFound"), bucket.ErrNotExist, 1},
	} {
		b, s := serve(t, nil, nil)
		s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Every: true, Kind: c.kind})
		_, err := b.Put(t.Context(), "a", nil)
		if !errors.Is(err, c.want) || errors.Is(err, bucket.ErrUnknown) {
			t.Errorf("Put answered with %v: error %v, want %v", c.kind, err, c.want)
		}
		if n := s.Reset()[gcsd.Insert]; n != c.requests {
			t.Errorf("Put answered with %v: %d requests, want %d", c.kind, n, c.requests)
		}
	}
}

// TestPut_StreamIsSentOnce: a body that cannot be read again is not, even where a repetition would be safe.
func TestPut_StreamIsSentOnce(t *testing.T) {
	for _, kind := range []gcsd.Kind{gcsd.Status(429, "rateLimitExceeded"), gcsd.AppliedThenReset(), gcsd.Status(503, "")} {
		b, s := serve(t, nil, nil)
		s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Kind: kind})
		if _, err := b.Put(t.Context(), "a", onlyReader{strings.NewReader("stream")}); err == nil {
			t.Errorf("Put of a stream, struck by %v: no error", kind)
		}
		if n := s.Reset()[gcsd.Insert]; n != 1 {
			t.Errorf("Put of a stream, struck by %v: %d requests", kind, n)
		}
	}
}

// TestPut_SeekerIsSentWhole: each attempt starts where the body stood.
func TestPut_SeekerIsSentWhole(t *testing.T) {
	b, s := serve(t, nil, nil)
	s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Kind: gcsd.Reset()}, gcsd.Fault{Op: gcsd.Insert, Nth: 2, Kind: gcsd.Status(500, "")})
	body := strings.NewReader("head" + strings.Repeat("tail", 100_000))
	body.Seek(4, io.SeekStart)
	if _, err := b.Put(t.Context(), "a", body); err != nil {
		t.Fatal(err)
	}
	if o, err := b.Head(t.Context(), "a"); err != nil || o.Size != 400_000 {
		t.Errorf("Head: %+v, %v, want 400000 bytes", o, err)
	}
}

// TestPut_DamagedOnItsWay: another body under the key than the one that was sent is no success.
func TestPut_DamagedOnItsWay(t *testing.T) {
	b, s := serve(t, nil, nil)
	sum := regexp.MustCompile(`"crc32c":"[^"]*"`)
	s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Every: true, Kind: gcsd.Rewrite("another checksum", func(a []byte) []byte {
		return sum.ReplaceAll(a, []byte(`"crc32c":"AAAAAQ=="`))
	})})
	if _, err := b.Put(t.Context(), "a", strings.NewReader("body")); err == nil {
		t.Error("Put of a body that arrived damaged succeeded")
	}
}

// TestOpen_Resumed: a body that breaks off is read on, a bounded number of times.
func TestOpen_Resumed(t *testing.T) {
	b, s := serve(t, nil, nil)
	want := strings.Repeat("0123456789", 50_000)
	if _, err := b.Put(t.Context(), "a", strings.NewReader(want)); err != nil {
		t.Fatal(err)
	}
	read := func() (string, error) {
		r, err := b.Open(t.Context(), "a")
		if err != nil {
			return "", err
		}
		defer r.Close()
		body, err := io.ReadAll(r)
		return string(body), err
	}
	s.Plan(t, gcsd.Fault{Op: gcsd.Download, Kind: gcsd.Half()})
	if got, err := read(); err != nil || got != want {
		t.Errorf("read over a broken connection: %d bytes, %v, want %d", len(got), err, len(want))
	}
	s.Reset()
	s.Plan(t, gcsd.Fault{Op: gcsd.Download, Every: true, Kind: gcsd.Half()})
	if got, err := read(); err == nil || errors.Is(err, bucket.ErrNotExist) {
		t.Errorf("read over connections that always break: %d bytes, error %v", len(got), err)
	}
	if n := s.Reset()[gcsd.Download]; n > 5 {
		t.Errorf("%d requests, want at most 5", n)
	}
}

// TestOpen_Damaged: a body that does not have the object's checksum is an error, not a body.
func TestOpen_Damaged(t *testing.T) {
	b, s := serve(t, nil, nil)
	if _, err := b.Put(t.Context(), "a", strings.NewReader("body")); err != nil {
		t.Fatal(err)
	}
	s.Plan(t, gcsd.Fault{Op: gcsd.Download, Kind: gcsd.Rewrite("a flipped bit", func([]byte) []byte { return []byte("bodx") })})
	r, err := b.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if body, err := io.ReadAll(r); err == nil {
		t.Errorf("read %q and no error", body)
	}
}

// TestList_TokenThatComesAgain ends with an error instead of going round for ever, with objects on the pages or without.
func TestList_TokenThatComesAgain(t *testing.T) {
	b, _ := serve(t, &gcsd.Options{Lies: gcsd.Lies{PageCap: 10, RepeatToken: true}}, func(o *gcsbucket.Options) { o.Sorted = false })
	numbered(t, b, 35)
	if _, _, err := list(t.Context(), b, bucket.ListRequest{}); !errors.Is(err, bucket.ErrIncomplete) {
		t.Errorf("List: error %v, want ErrIncomplete", err)
	}

	var requests atomic.Int64
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		io.WriteString(w, `{"nextPageToken":"again"}`)
	}))
	t.Cleanup(empty.Close)
	b = connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: empty.URL})
	_, pages, err := list(t.Context(), b, bucket.ListRequest{})
	if n := requests.Load(); !errors.Is(err, bucket.ErrIncomplete) || n != 2 || len(pages) != 1 {
		t.Errorf("List of empty pages: error %v after %d requests and %d pages, want ErrIncomplete after 2 and 1", err, n, len(pages))
	}
}

// TestList_NotAnAnswer: what is no page is never an empty one.
func TestList_NotAnAnswer(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"204":         func(w http.ResponseWriter) { w.WriteHeader(204) },
		"202":         func(w http.ResponseWriter) { w.WriteHeader(202); io.WriteString(w, "{}") },
		"a login":     func(w http.ResponseWriter) { io.WriteString(w, "<html>Please sign in</html>") },
		"no body":     func(w http.ResponseWriter) { w.WriteHeader(200) },
		"a redirect":  func(w http.ResponseWriter) { w.Header().Set("Location", "/other"); w.WriteHeader(307) },
		"no name":     func(w http.ResponseWriter) { io.WriteString(w, `{"items":[{"size":"0"}]}`) },
		"null in all": func(w http.ResponseWriter) { io.WriteString(w, `{"items":[null,null]}`) },
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/other" {
				t.Errorf("%s: it was followed", name)
			}
			answer(w)
		}))
		t.Cleanup(s.Close)
		b := connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: s.URL, FirstPause: time.Microsecond})
		if _, pages, err := list(t.Context(), b, bucket.ListRequest{}); err == nil || len(pages) != 0 {
			t.Errorf("List answered with %s: %d pages, error %v", name, len(pages), err)
		}
	}
}

// TestDelete_RedirectIsNotFollowed: it leads to another key.
func TestDelete_RedirectIsNotFollowed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.EscapedPath(), "/o/a/b") {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.Header().Set("Location", "/storage/v1/b/bucket/o/a/b")
		w.WriteHeader(http.StatusPermanentRedirect)
	}))
	t.Cleanup(s.Close)
	b := connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: s.URL, FirstPause: time.Microsecond})
	if errs := b.Delete(t.Context(), []bucket.Key{"a//b"}); errs == nil {
		t.Error("Delete succeeded")
	}
}

// TestPage_NowIsTheStores: the clock of a page is its own answer's, not this host's.
func TestPage_NowIsTheStores(t *testing.T) {
	clock := newClock()
	b, s := serve(t, &gcsd.Options{Now: clock.now, Lies: gcsd.Lies{PageCap: 2, ClockAhead: -time.Hour}}, nil)
	numbered(t, b, 3)
	s.Plan(t, gcsd.Fault{Op: gcsd.List, Nth: 2, Kind: gcsd.Before("a second passes", clock.tick)})
	_, pages, err := list(t.Context(), b, bucket.ListRequest{})
	if err != nil || len(pages) != 2 {
		t.Fatalf("List: %d pages, %v", len(pages), err)
	}
	first := time.Unix(1_700_000_000-3600, 0)
	if !pages[0].Now.Equal(first) || !pages[1].Now.Equal(first.Add(time.Second)) || !pages[0].Objects[0].StoreTime.Equal(first) {
		t.Errorf("times %v, %v, %v, want %v, a second later, the first", pages[0].Now, pages[1].Now, pages[0].Objects[0].StoreTime, first)
	}
}
