package cas_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A fake is a server on the wire, and what a test of documents needs of it whatever protocol it speaks.
type fake interface {
	// dial is a client of its own. via, if not nil, carries its requests; at, if not empty, is asked instead of the server.
	dial(t testing.TB, via http.RoundTripper, at string) driver
	strike(faults ...fault)
	sent() []sent // what reached the socket since the last reset
	reset()
	put(body string) // makes it the document, past the wire
	body() string    // of the document, past the wire
	settle()         // waits for what was to be applied later
	url() string
}

type driver interface {
	bucket.Objects
	cas.Store
}

// A sent request is what a test asks about one.
type sent struct {
	method    string // GET, HEAD, PUT or DELETE; an upload is a PUT
	condition string // absent, the version to match, or empty
	header    http.Header
}

// A fault strikes requests of a method that are counted from the moment it is planned.
type fault struct {
	method string
	nth    int  // 0: the first
	every  bool // and all after it
	kind   kind
}

// A kind is what a fault does, in the words of each fake.
type kind struct {
	s3  s3d.Kind
	gcs gcsd.Kind
}

var (
	resetBefore = kind{s3d.ResetBefore(), gcsd.Reset()}
	dropBefore  = kind{s3d.DropBefore(), gcsd.Drop()}
	resetAfter  = kind{s3d.ResetAfter(), gcsd.AppliedThenReset()}
	dropAfter   = kind{s3d.DropAfter(), gcsd.AppliedThenDrop()}
)

func status(code int, s3Code, reason string) kind {
	return kind{s3d.Status(code, s3Code), gcsd.Status(code, reason)}
}

func appliedThen(code int, s3Code string) kind {
	return kind{s3d.AppliedThenStatus(code, s3Code), gcsd.AppliedThenStatus(code)}
}

// later answers a status, or closes the connection, and carries the request out when release is closed.
func later(release <-chan struct{}, code int, s3Code string) kind {
	return kind{s3d.AppliedLater(release, code, s3Code), gcsd.AppliedLater(release, code, "backendError")}
}

// before calls fn, and then carries the request out.
func before(fn func()) kind { return kind{s3d.Before(fn), gcsd.Before("a hook", fn)} }

// conf is how the fakes are started.
type conf struct {
	s3  s3d.Options
	gcs gcsd.Options
}

// A starter starts a server.
type starter func(*testing.T, conf) fake

// stores are the fakes on which each case runs.
var stores = []struct {
	name  string
	start starter
}{{"s3", startS3}, {"gcs", startGCS}}

// each runs a case on each kind of fake.
func each(t *testing.T, run func(t *testing.T, start starter)) {
	t.Helper()
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			run(t, s.start)
		})
	}
}

// onEach runs a case on a server of each kind.
func onEach(t *testing.T, c conf, run func(t *testing.T, f fake)) {
	t.Helper()
	each(t, func(t *testing.T, start starter) { run(t, start(t, c)) })
}

type s3Fake struct {
	*s3d.Server
	front *httptest.Server

	mu  sync.Mutex // guards log
	log []sent
}

// startS3 starts a server with something before it that keeps a log: s3d keeps numbers only.
func startS3(t *testing.T, c conf) fake {
	f := &s3Fake{Server: s3d.New(t, &c.s3)}
	f.front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		condition := r.Header.Get("If-Match")
		if r.Header.Get("If-None-Match") == "*" {
			condition += "absent"
		}
		f.mu.Lock()
		f.log = append(f.log, sent{r.Method, condition, r.Header.Clone()})
		f.mu.Unlock()
		f.ServeHTTP(w, r)
	}))
	f.front.Config.ErrorLog = log.New(io.Discard, "", 0) // faults break connections
	f.front.Start()
	t.Cleanup(f.front.Close)
	return f
}

func (f *s3Fake) dial(t testing.TB, via http.RoundTripper, at string) driver {
	o := &s3bucket.Options{
		Endpoint: f.url(), Credentials: credentials.NewStaticCredentialsProvider("AK", "secret", ""), Pause: time.Microsecond,
	}
	if at != "" {
		o.Endpoint = at
	}
	if via != nil {
		o.HTTPClient = &http.Client{Transport: via}
	}
	b, err := s3bucket.New("bucket", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func (f *s3Fake) strike(faults ...fault) {
	ops := map[string]s3d.Op{"GET": s3d.GetObject, "HEAD": s3d.HeadObject, "PUT": s3d.PutObject}
	for _, x := range faults {
		f.Plan(s3d.Fault{Op: ops[x.method], Nth: x.nth, Every: x.every, Kind: x.kind.s3})
	}
}

func (f *s3Fake) sent() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *s3Fake) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = nil
}

func (f *s3Fake) put(body string) { f.Store("bucket", "doc", body) }
func (f *s3Fake) settle()         { f.Settle() }
func (f *s3Fake) url() string     { return f.front.URL }

func (f *s3Fake) body() string {
	body, _ := f.Body("bucket", "doc")
	return body
}

type gcsFake struct {
	*gcsd.Server
	t gcsd.TB
}

// startGCS starts a server by whose clock no write is too early, unless it is given one.
func startGCS(t *testing.T, c conf) fake {
	if c.gcs.Now == nil {
		c.gcs.Now = gcsd.Ticking(time.Unix(1_800_000_000, 0), time.Second)
	}
	s := gcsd.New(&c.gcs)
	t.Cleanup(s.Close)
	return &gcsFake{s, t}
}

func (f *gcsFake) dial(t testing.TB, via http.RoundTripper, at string) driver {
	o := gcsbucket.Options{Bucket: "bucket", Endpoint: f.url(), FirstPause: time.Microsecond}
	if at != "" {
		o.Endpoint = at
	}
	if via != nil {
		o.HTTPClient = &http.Client{Transport: via}
	}
	b, err := gcsbucket.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func (f *gcsFake) strike(faults ...fault) {
	ops := map[string]gcsd.Op{"GET": gcsd.Download, "HEAD": gcsd.Get, "PUT": gcsd.Insert}
	for _, x := range faults {
		// gcsd strikes every one or the n-th; every one from the n-th on are those that come after n-1 others.
		calls, where := 0, (func(gcsd.Request) bool)(nil)
		if x.every {
			where = func(gcsd.Request) bool { calls++; return calls >= x.nth }
		}
		f.Plan(f.t, gcsd.Fault{Op: ops[x.method], Where: where, Nth: x.nth, Every: x.every, Kind: x.kind.gcs})
	}
}

func (f *gcsFake) sent() []sent {
	var log []sent
	for _, r := range f.Requests() {
		s := sent{method: "GET", header: r.Header}
		switch r.Op {
		case gcsd.Insert:
			s.method = "PUT"
		case gcsd.Delete:
			s.method = "DELETE"
		case gcsd.Get:
			s.method = "HEAD"
		case gcsd.Begin, gcsd.Chunk, gcsd.Patch, gcsd.Other:
			s.method = string(r.Op)
		}
		if s.condition = r.Query.Get("ifGenerationMatch"); s.condition == "0" {
			s.condition = "absent"
		}
		log = append(log, s)
	}
	return log
}

func (f *gcsFake) reset()          { f.Reset() }
func (f *gcsFake) put(body string) { f.Store("bucket", "doc", body) }
func (f *gcsFake) body() string    { return f.Body("bucket", "doc") }
func (f *gcsFake) settle()         { f.Settle() }
func (f *gcsFake) url() string     { return f.URL() }

// begin makes the document of f, if it is to exist, forgets what that took, and returns what it has then.
func begin(t testing.TB, f fake, exists bool) (names []string) {
	t.Helper()
	if exists {
		update(t, f, "seed")
		names = []string{"seed"}
	}
	f.reset()
	return names
}

// update adds a name as another client does.
func update(t testing.TB, f fake, name string) {
	t.Helper()
	if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), add(name), create); err != nil {
		t.Errorf("adding %q: %v", name, err)
	}
}

var create = &cas.UpdateOptions{Create: true}

// An adder adds a name, and counts how often it is asked to.
type adder struct {
	name string
	runs int
	then func(run int) // after it has looked, before it saves
}

func (a *adder) change(l *list, _ cas.State[list]) error {
	a.runs++
	l.Names = append(l.Names, a.name)
	if a.then != nil {
		a.then(a.runs)
	}
	return nil
}

// holds checks what is in the document once everything has landed, past all faults.
func holds(t testing.TB, f fake, want []string) {
	t.Helper()
	f.settle()
	s, err := cas.NewDoc[list](stored{f}, "doc", format, nil).Load(t.Context())
	if len(want) == 0 && f.body() == "" {
		return
	}
	if err != nil || !slices.Equal(s.Value.Names, want) {
		t.Errorf("the document has %q, %v, want %q", s.Value.Names, err, want)
	}
}

// puts are the conditions of the uploads that reached the socket. An upload without one is an error of any test.
func puts(t testing.TB, f fake) (conditions []string) {
	t.Helper()
	for _, s := range f.sent() {
		if s.method == "PUT" {
			conditions = append(conditions, s.condition)
		}
		if s.method == "PUT" && s.condition == "" || !slices.Contains([]string{"GET", "HEAD", "PUT", "DELETE"}, s.method) {
			t.Errorf("an upload without a condition, or something else: %+v", s)
		}
	}
	return conditions
}

// same checks that there were n uploads, all under one condition.
func same(t testing.TB, f fake, n int) {
	t.Helper()
	if got := puts(t, f); len(got) != n || len(slices.Compact(slices.Clone(got))) > 1 {
		t.Errorf("the uploads had the conditions %q, want %d times the same", got, n)
	}
}

// methods are the requests that reached the socket.
func methods(f fake) (all []string) {
	for _, s := range f.sent() {
		all = append(all, s.method)
	}
	return all
}

// A stored document is read past the wire, whatever faults are planned.
type stored struct{ fake }

func (s stored) Load(context.Context, bucket.Key) (cas.Object, error) {
	return cas.Object{Body: []byte(s.body()), Version: "past the wire"}, nil
}

func (s stored) Save(context.Context, bucket.Key, []byte, cas.Precondition) (cas.Version, error) {
	return "", cas.ErrUnsupported
}
