package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"go.uber.org/goleak"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/blobindex/resolve"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when every site's clock stands at first.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// A clock is the store's and the host's.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// A site is a server over a store in memory, with three indexes: running, flat (without namespaces) and ulids.
type site struct {
	t      *testing.T
	clock  *clock
	mem    *membucket.Bucket
	faults *fakes.Faulty
	count  *fakes.Counter
	docs   *docs // documents of the manifests
	web    *web.Server
	server *httptest.Server
	client *http.Client
}

func newSite(t *testing.T, change ...func(*web.Options)) *site {
	t.Helper()
	s := &site{t: t, clock: &clock{t: start}}
	s.mem = membucket.New(&membucket.Options{Now: s.clock.now})
	s.faults = fakes.NewFaulty(t, s.mem)
	s.count = fakes.NewCounter(s.faults)
	var indexes []*blobindex.Index
	ready := func(ctx context.Context) error {
		return s.count.List(ctx, bucket.ListRequest{Prefix: "_indexd/ready"}, func(bucket.Page) error { return nil })
	}
	for _, cfg := range []blobindex.Config{
		{}, {Name: "flat", Prefix: "flat", Flat: true},
		{Name: "ulids", Prefix: "ulids", Rules: prune.Rules{Grammar: itemid.ULID}},
	} {
		x, err := blobindex.New(s.count, cfg, &blobindex.Options{Now: s.clock.now, Resolver: resolve.NewMarker(s.count)})
		if err != nil {
			t.Fatal(err)
		}
		indexes = append(indexes, x)
	}
	s.docs = &docs{Objects: s.count, store: s.mem}
	opt := web.Options{
		Now: s.clock.now, Live: eachRead(), Manifests: &web.Manifests{Store: s.docs}, Snapshots: &web.Snapshots{Store: s.docs}, Prune: s.prune,
	}
	for _, f := range change {
		f(&opt)
	}
	h, err := web.New(indexes, ready, &opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	s.web = h
	s.serve(h)
	return s
}

// eachRead has each read list the store, as tests that write to it by other ways want it.
func eachRead() *live.Options { return &live.Options{MinInterval: 1, MaxInterval: 1} }

// serve puts h behind the site's address, in the place of what was there.
func (s *site) serve(h http.Handler, change ...func(*http.Server)) {
	server := httptest.NewUnstartedServer(nil)
	server.Config = web.NewHTTPServer(s.t.Context(), h, nil)
	for _, f := range change {
		f(server.Config)
	}
	server.Start()
	s.server = server
	transport := &http.Transport{DisableCompression: true}
	s.client = &http.Client{
		Transport:     &checked{s.t, transport, description(s.t)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return fmt.Errorf("a redirect") },
	}
	s.t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
}

// always is ready.
func always(context.Context) error { return nil }

// serveStore puts a server of one index in another store behind the site's address.
func (s *site) serveStore(objects bucket.Objects, change ...func(*blobindex.Options)) {
	s.t.Helper()
	opt := blobindex.Options{Now: s.clock.now}
	for _, f := range change {
		f(&opt)
	}
	x, err := blobindex.New(objects, blobindex.Config{}, &opt)
	if err != nil {
		s.t.Fatal(err)
	}
	h, err := web.New([]*blobindex.Index{x}, always, &web.Options{Now: s.clock.now, Live: eachRead()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(h.Close)
	s.serve(h)
}

func description(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.Description)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// checked holds every answer to openapi.yaml.
type checked struct {
	t    *testing.T
	next http.RoundTripper
	doc  *openapi3.T
}

func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, broken := io.ReadAll(res.Body)
	res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method == http.MethodHead && len(body) > 0 {
		c.t.Errorf("HEAD %s has a body", r.URL)
	}
	if broken != nil {
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), brokenOff{broken}))
		return res, nil
	}
	if err := c.check(r, res, body); err != nil {
		c.t.Errorf("%s %s answers %d not as openapi.yaml says: %v\n%s", r.Method, r.URL, res.StatusCode, err, body)
	}
	return res, nil
}

func (c *checked) check(r *http.Request, res *http.Response, body []byte) error {
	route := c.route(r)
	if route == nil { // no such path or method: a problem, or an asset of the page
		if res.StatusCode < 400 {
			return nil
		}
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			return err
		}
		return c.doc.Components.Schemas["Problem"].Value.VisitJSON(v)
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if tag, ok := res.Header["Etag"]; ok && route.Method == http.MethodGet &&
		route.Operation.Responses.Status(http.StatusNotModified) == nil {
		return fmt.Errorf("an ETag, %s, where no 304 is declared", tag)
	}
	if res.StatusCode == http.StatusNotModified {
		return nil
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusNoContent && !strings.Contains(kind, "json") {
		described := route.Operation.Responses.Status(res.StatusCode)
		if described == nil {
			described = route.Operation.Responses.Default()
		}
		if len(described.Value.Content) == 0 && len(body) == 0 {
			return nil // a redirect
		}
		if described.Value.Content.Get(kind) == nil || len(body) == 0 && kind != "application/octet-stream" {
			return fmt.Errorf("a body of %q and %d bytes", kind, len(body))
		}
		return nil
	}
	return openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, Route: route},
		Status:                 res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
}

// brokenOff is the end of an answer that was cut.
type brokenOff struct{ err error }

func (b brokenOff) Read([]byte) (int, error) { return 0, b.err }

var braces = regexp.MustCompile(`\{[a-z]+\}`)

func (c *checked) route(r *http.Request) *routers.Route {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for path, item := range c.doc.Paths.Map() {
		if regexp.MustCompile("^" + braces.ReplaceAllString(path, "[^/]+") + "$").MatchString(r.URL.EscapedPath()) {
			if op := item.GetOperation(method); op != nil {
				return &routers.Route{Spec: c.doc, Path: path, PathItem: item, Method: method, Operation: op}
			}
		}
	}
	return nil
}

// An answer is a response that has been read.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// do sends a request. body may be empty; header pairs follow.
func (s *site) do(method, path, body string, header ...string) answer {
	s.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header[header[i]] = []string{header[i+1]}
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	return s.send(req)
}

func (s *site) send(req *http.Request) answer {
	s.t.Helper()
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{s.t, res.StatusCode, res.Header, string(b)}
}

func (s *site) get(path string) answer { s.t.Helper(); return s.do("GET", path, "") }

// want fails the test unless the status is as wanted.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// problem fails the test unless the answer is that problem.
func (a answer) problem(status int, code string) api.Problem {
	a.t.Helper()
	a.want(status)
	p := decode[api.Problem](a)
	if p.Code != code || p.Status != status || p.Detail == "" || p.Action == "" ||
		a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Cache-Control") != "no-store" {
		a.t.Errorf("want a problem %q, got %+v with %v", code, p, a.header)
	}
	return p
}

func decode[T any](a answer) (v T) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// id is an id of a run that starts now.
func (s *site) id(subkey string) string {
	return fmt.Sprintf("%s_%d", subkey, s.clock.now().UnixMilli())
}

const ns = "/v1/indexes/running/team"

// put writes an object directly, as any client of the store may.
func (s *site) put(key, body string) {
	s.t.Helper()
	if _, err := s.mem.Put(s.t.Context(), bucket.Key(key), strings.NewReader(body)); err != nil {
		s.t.Fatal(err)
	}
}

// wantRequests fails the test unless those requests were made since the last time.
func (s *site) wantRequests(want fakes.Counts) {
	s.t.Helper()
	if got := s.count.Reset(); got != want {
		s.t.Errorf("requests of the store: %v, want %v", got, want)
	}
}
