package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/web"
)

var minted = regexp.MustCompile(`^[0-9a-f]{24}$`)

// TestRequestID: an id that can be used is answered as it came, any other is replaced, and each line of the log has it.
func TestRequestID(t *testing.T) {
	var log lockedText
	s := newSite(t, logTo(&log))
	seen := map[string]bool{}
	for given, taken := range map[string]bool{
		"a": true, "7f3c-22/x=+": true, strings.Repeat("x", 64): true, `quote"and\`: true, "~!": true,
		strings.Repeat("x", 65): false, "": false, "two words": false, "tab\tin": false, "ümlaut": false, "\x80": false,
	} {
		log.Reset()
		got := s.do("GET", "/v1/indexes", "", "X-Request-Id", given).want(http.StatusOK).header.Get("X-Request-Id")
		if taken && got != given || !taken && !minted.MatchString(got) || seen[got] {
			t.Errorf("%q: answered as %q", given, got)
		}
		seen[got] = true
		var line struct {
			ID string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(log.String()), &line); err != nil || line.ID != got {
			t.Errorf("%q: logged as %q, %v: %s", given, line.ID, err, &log)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.server.URL+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["X-Request-Id"] = []string{"one", "two"}
	if got := s.send(req).header.Get("X-Request-Id"); !minted.MatchString(got) {
		t.Errorf("of two: %q", got)
	}
	a := s.get("/nothing")
	a.problem(http.StatusNotFound, "not_found")
	if got := a.header.Get("X-Request-Id"); !minted.MatchString(got) {
		t.Errorf("of a problem: %q", got)
	}
}

// TestObserve: what is told of requests has no value that a client chose, and no route where the client may not come in. Probes and
// scrapes that find all well are not logged.
func TestObserve(t *testing.T) {
	var log lockedText
	var got []web.Request
	s := newSite(t, logTo(&log), func(o *web.Options) { o.Observe = func(r web.Request) { got = append(got, r) } })
	s.get(ns + "/cards?limit=3")
	s.get("/hush")
	s.do("HUSH", "/healthz", "")
	s.do("GET", ns+"/cards", "", "Host", "evil.example")
	s.do("PUT", ns+"/items/"+s.id("x"), "", "Origin", "http://evil.example")
	want := []web.Request{
		{Method: "GET", Route: "/v1/indexes/:index/:namespace/cards", Status: 200}, {Method: "GET", Status: 404},
		{Method: "other", Route: "/healthz", Status: 405}, {Method: "GET", Status: 403}, {Method: "PUT", Status: 403},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	log.Reset()
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		s.get(path).want(http.StatusOK)
	}
	if log.String() != "" {
		t.Errorf("logged: %s", &log)
	}
}

// TestRequestID_InContext: whoever answers a request finds its id there, and nobody else finds one.
func TestRequestID_InContext(t *testing.T) {
	if got := web.RequestID(t.Context()); got != "" {
		t.Errorf("without one: %q", got)
	}
	if got := web.RequestID(web.WithRequestID(t.Context(), "x")); got != "x" {
		t.Errorf("%q", got)
	}
	s := newSite(t)
	var got string
	x := indexOn(t, seesContext{s.count, func(ctx context.Context) { got = web.RequestID(ctx) }})
	s.serve(x)
	s.do("PUT", ns+"/items/"+s.id("x"), "", "X-Request-Id", "mine").want(http.StatusCreated)
	if got != "mine" {
		t.Errorf("the store was asked for %q", got)
	}
}

// TestLogHidesWhatClientsChose: a request that carries secrets everywhere leaves none of them in the log, whether it is
// answered, refused, failed by the store, or panicked on; and the log still tells what went wrong.
func TestLogHidesWhatClientsChose(t *testing.T) {
	const secret = "s3cr3t"
	spelled := func(text string) string { // each letter percent-encoded
		var b strings.Builder
		for _, c := range []byte(text) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
		return b.String()
	}
	headers := []string{
		"Authorization", "Bearer " + secret, "Cookie", "session=" + secret, "Referer", "http://" + secret, "User-Agent", secret,
		"Idempotency-Key", secret, "If-None-Match", `"` + secret + `"`, "X-Forwarded-For", secret,
	}
	id := func(s *site) string { return s.id(secret) }
	asks := map[string]func(*site) answer{
		"put": func(s *site) answer { return s.do("PUT", ns+"/items/"+id(s), `{"title":"`+secret+`"}`, headers...) },
		"put encoded": func(s *site) answer {
			return s.do("PUT", "/v1/indexes/running/"+spelled(secret)+"/items/"+spelled(id(s)), "", headers...)
		},
		"create":    func(s *site) answer { return s.do("POST", ns+"/items", `{"subkey":"`+secret+`"}`, headers...) },
		"heartbeat": func(s *site) answer { return s.do("POST", ns+"/items/"+id(s)+"/heartbeat", "", headers...) },
		"finish":    func(s *site) answer { return s.do("DELETE", ns+"/items/"+id(s), "", headers...) },
		"cards": func(s *site) answer {
			return s.do("GET", ns+"/cards?owner="+secret+"&subkey="+spelled(secret), "", headers...)
		},
		"query":     func(s *site) answer { return s.do("GET", ns+"/cards?"+secret+"=x", "", headers...) },
		"token":     func(s *site) answer { return s.do("GET", ns+"/cards?access_token="+secret, "", headers...) },
		"namespace": func(s *site) answer { return s.do("GET", "/v1/indexes/running/"+secret+"/cards", "", headers...) },
		"page":      func(s *site) answer { return s.do("GET", "/?namespace="+secret, "", headers...) },
		"path":      func(s *site) answer { return s.do("GET", "/"+secret+"/"+spelled(secret), "", headers...) },
		"explain":   func(s *site) answer { return s.do("GET", ns+"/items/"+id(s)+"/explain", "", headers...) },
		"bad body":  func(s *site) answer { return s.do("PUT", ns+"/items/"+id(s), `{"`+secret+`":`, headers...) },
		"manifest": func(s *site) answer {
			return s.do("GET", "/v1/manifests/"+secret+"/"+spelled(secret)+"/entries/"+secret, "", headers...)
		},
		"snapshot": func(s *site) answer {
			return s.do("GET", "/v1/snapshots/"+secret+"/x/rows?prefix="+secret, "", headers...)
		},
		"method": func(s *site) answer { return s.do("S3CR3T", ns+"/cards", "", headers...) },
	}
	// As a store words its errors, with the key and with what was sent.
	failed := func(key bucket.Key) error {
		return fmt.Errorf("PUT https://store/b/%s?x=%s: open %s: %q with %q is %w", key, url.QueryEscape(string(key)), key, key,
			"a label of x"+secret+"x", errStoreIsDown)
	}
	for what, ask := range asks {
		for _, how := range []string{"answered", "failed", "panicked"} {
			var log lockedText
			s := newSite(t)
			objects := seesKeys{s.count, func(key bucket.Key) error {
				switch how {
				case "failed":
					return failed(key)
				case "panicked":
					panic(failed(key))
				}
				return nil
			}}
			h := indexOn(t, objects, func(o *web.Options) {
				o.Now = s.clock.now
				o.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				o.Manifests = &web.Manifests{Store: &docs{Objects: objects, store: s.mem}}
				o.Snapshots = &web.Snapshots{Store: &docs{Objects: objects, store: s.mem}}
			})
			s.serve(h)
			a := ask(s)
			h.Close()
			out := strings.ToLower(asked(log.String()))
			if strings.Contains(out, secret) || strings.Contains(out, strings.ToLower(spelled(secret))) {
				t.Errorf("%s, %s (%d): the log repeats it: %s", what, how, a.status, &log)
			}
			if a.status >= 500 && !strings.Contains(out, errStoreIsDown.Error()) {
				t.Errorf("%s, %s: the log does not say why: %s", what, how, &log)
			}
			if !strings.Contains(out, `"msg":"request"`) || how != "answered" && what == "put" && a.status < 500 {
				t.Errorf("%s, %s: %d, %s", what, how, a.status, &log)
			}
		}
	}
}

// asked leaves out the lines of the log that are of no request: a shared view names the namespace that it cannot list.
func asked(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "request_id") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

var errStoreIsDown = errors.New("the store is down")

// indexOn returns a server of the index running in a store.
func indexOn(t *testing.T, objects bucket.Objects, change ...func(*web.Options)) *web.Server {
	t.Helper()
	opt := web.Options{Now: (&clock{t: start}).now}
	for _, f := range change {
		f(&opt)
	}
	x, err := blobindex.New(objects, blobindex.Config{}, &blobindex.Options{Now: opt.Now})
	if err != nil {
		t.Fatal(err)
	}
	h, err := web.New([]*blobindex.Index{x}, always, &opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// A seesContext tells the context of each Put.
type seesContext struct {
	bucket.Objects
	tell func(context.Context)
}

func (b seesContext) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	b.tell(ctx)
	return b.Objects.Put(ctx, key, body)
}

// A seesKeys is asked about each request before it is made, and answers the error if there is one.
type seesKeys struct {
	bucket.Objects
	ask func(bucket.Key) error
}

func (b seesKeys) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	if err := b.ask(bucket.Key(req.Prefix)); err != nil {
		return err
	}
	return b.Objects.List(ctx, req, fn)
}

func (b seesKeys) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if err := b.ask(key); err != nil {
		return time.Time{}, err
	}
	return b.Objects.Put(ctx, key, body)
}

func (b seesKeys) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	if err := b.ask(key); err != nil {
		return nil, err
	}
	return b.Objects.Open(ctx, key)
}

func (b seesKeys) Delete(ctx context.Context, keys []bucket.Key) []error {
	errs := make([]error, len(keys))
	for i, key := range keys {
		if errs[i] = b.ask(key); errs[i] != nil {
			return errs
		}
	}
	return b.Objects.Delete(ctx, keys)
}
