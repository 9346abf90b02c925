package manifest_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A fake is a server on the wire, whatever protocol it speaks.
type fake interface {
	// dial is a client of its own. at, if not empty, is asked instead of the server; via, if not nil, carries the requests.
	dial(t testing.TB, via http.RoundTripper, at string) manifest.Store
	strike(faults ...fault)
	forgive()       // no fault strikes any more
	sent() []string // what reached the socket since the last reset, such as "PUT list"
	reset()
	settle() // waits for what was to be applied later
	url() string
}

// A fault strikes requests of a kind that are counted from the moment it is planned.
type fault struct {
	what  string // such as "PUT list", "HEAD blob"
	nth   int    // 0: the first
	every bool   // and all after it
	kind  kind
}

// A kind is what a fault does, in the words of each fake.
type kind struct {
	s3  s3d.Kind
	gcs gcsd.Kind
}

var (
	resetBefore = kind{s3d.ResetBefore(), gcsd.Reset()}
	dropAfter   = kind{s3d.DropAfter(), gcsd.AppliedThenDrop()}
	resetAfter  = kind{s3d.ResetAfter(), gcsd.AppliedThenReset()}
	halfRequest = kind{s3d.HalfRequest(), gcsd.HalfRequest()}
	busy        = kind{s3d.Status(503, "SlowDown"), gcsd.Status(503, "backendError")}
	busyAfter   = kind{s3d.AppliedThenStatus(503, "SlowDown"), gcsd.AppliedThenStatus(503)}
)

// later answers 503, and carries the request out when release is closed.
func later(release <-chan struct{}) kind {
	return kind{s3d.AppliedLater(release, 503, "SlowDown"), gcsd.AppliedLater(release, 503, "backendError")}
}

// before calls fn, and then carries the request out.
func before(fn func()) kind { return kind{s3d.Before(fn), gcsd.Before("a hook", fn)} }

// of names what a request is about.
func of(method, key string) string {
	switch {
	case key == string(listKey):
		return method + " list"
	case strings.HasPrefix(key, root+"blobs/"):
		return method + " blob"
	case key == "":
		return method
	}
	return method + " " + key
}

// A hand is the clock of a fake, that tests set.
type hand struct{ ahead atomic.Int64 }

func (h *hand) now() time.Time          { return start.Add(time.Duration(h.ahead.Load())) }
func (h *hand) advance(d time.Duration) { h.ahead.Add(int64(d)) }

// conf is how the fakes are started.
type conf struct {
	s3  s3d.Options
	gcs gcsd.Options
}

// onWires runs a case on a server of each kind, with clocks that stand still.
func onWires(t *testing.T, run func(t *testing.T, f fake, clock *hand)) {
	t.Helper()
	for name, begin := range map[string]func(*testing.T, conf) fake{"s3": startS3, "gcs": startGCS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hand{}
			run(t, begin(t, conf{s3d.Options{Now: h.now}, gcsd.Options{Now: h.now, Lies: gcsd.Lies{NoPace: true}}}), h)
		})
	}
}

type s3Fake struct {
	*s3d.Server
	front *httptest.Server

	mu  sync.Mutex // guards log
	log []string
}

// startS3 starts a server with something before it that keeps a log: s3d keeps numbers only.
func startS3(t *testing.T, c conf) fake {
	f := &s3Fake{Server: s3d.New(t, &c.s3)}
	f.front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.log = append(f.log, of(r.Method, strings.Trim(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")))
		f.mu.Unlock()
		f.ServeHTTP(w, r)
	}))
	f.front.Config.ErrorLog = log.New(io.Discard, "", 0) // faults break connections
	f.front.Start()
	t.Cleanup(f.front.Close)
	return f
}

func (f *s3Fake) dial(t testing.TB, via http.RoundTripper, at string) manifest.Store {
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
	ops := map[string]s3d.Op{"GET": s3d.GetObject, "HEAD": s3d.HeadObject, "PUT": s3d.PutObject, "POST": s3d.DeleteObjects}
	for _, x := range faults {
		method, _, _ := strings.Cut(x.what, " ")
		f.Plan(s3d.Fault{Op: ops[method], Nth: x.nth, Every: x.every, Kind: x.kind.s3, Text: x.what,
			Key: func(key string) bool { return of(method, key) == x.what }})
	}
}

func (f *s3Fake) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *s3Fake) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = nil
}

func (f *s3Fake) forgive()    { f.Forgive() }
func (f *s3Fake) settle()     { f.Settle() }
func (f *s3Fake) url() string { return f.front.URL }

type gcsFake struct {
	*gcsd.Server
	t gcsd.TB

	mu    sync.Mutex // guards plans
	plans int        // faults planned before this one strike no more
}

func startGCS(t *testing.T, c conf) fake {
	s := gcsd.New(&c.gcs)
	t.Cleanup(s.Close)
	return &gcsFake{Server: s, t: t}
}

func (f *gcsFake) dial(t testing.TB, via http.RoundTripper, at string) manifest.Store {
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

// asked is what a request is about.
func asked(r gcsd.Request) string {
	key := r.Name
	if key == "" {
		key = r.Query.Get("name")
	}
	method := map[gcsd.Op]string{gcsd.List: "GET", gcsd.Get: "HEAD", gcsd.Download: "GET", gcsd.Insert: "PUT",
		gcsd.Delete: "DELETE"}[r.Op]
	return of(method, key)
}

func (f *gcsFake) strike(faults ...fault) {
	f.mu.Lock()
	plan := f.plans
	f.mu.Unlock()
	for _, x := range faults {
		// gcsd strikes every one or the n-th; every one from the n-th on are those that come after n-1 others.
		calls := 0
		where := func(r gcsd.Request) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			if asked(r) != x.what || plan != f.plans {
				return false
			}
			calls++
			return !x.every || calls >= x.nth
		}
		f.Plan(f.t, gcsd.Fault{Where: where, Text: x.what, Nth: x.nth, Every: x.every, Kind: x.kind.gcs})
	}
}

func (f *gcsFake) sent() (all []string) {
	for _, r := range f.Requests() {
		all = append(all, asked(r))
	}
	return all
}

func (f *gcsFake) forgive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans++
}

func (f *gcsFake) reset()      { f.Reset() }
func (f *gcsFake) settle()     { f.Settle() }
func (f *gcsFake) url() string { return f.URL() }

// onStores runs a case on each kind of store, with a client of its own each time that open is called.
func onStores(t *testing.T, run func(t *testing.T, open func() manifest.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		b := membucket.New(nil)
		run(t, func() manifest.Store { return b })
	})
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		run(t, func() manifest.Store {
			b, err := dirbucket.Create(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			return b
		})
	})
	onWires(t, func(t *testing.T, f fake, _ *hand) { run(t, func() manifest.Store { return f.dial(t, nil, "") }) })
}

// A laterStore tells in its listings that it is two hours later: to who collects by it, all is older than the shortest grace.
type laterStore struct{ manifest.Store }

func (s laterStore) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return s.Store.List(ctx, req, func(p bucket.Page) error {
		p.Now = p.Now.Add(2 * time.Hour)
		return fn(p)
	})
}

// on is the manifest of the tests on a store. It never waits, and gives up where it would do so without end.
func on(t testing.TB, s manifest.Store) *manifest.Manifest {
	t.Helper()
	var waits atomic.Int64
	m, err := manifest.New(s, "team", "models", &manifest.Options{Grace: manifest.MinGrace, Doc: &cas.Options{
		Now: func() time.Time { return start },
		Wait: func(ctx context.Context, _ time.Duration) error {
			if waits.Add(1) > 1000 {
				return errors.New("waited a thousand times")
			}
			return ctx.Err()
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// one is a request for an entry of one blob.
func one(id, dedupeKey, body string) manifest.AddRequest {
	return manifest.AddRequest{ID: id, DedupeKey: dedupeKey, Create: true, Sources: []manifest.Source{text(body)}}
}

// has adds an entry that is to be won.
func has(t testing.TB, m *manifest.Manifest, id, dedupeKey, body string) manifest.Change {
	t.Helper()
	c, err := m.Add(t.Context(), one(id, dedupeKey, body))
	if err != nil {
		t.Errorf("adding %s: %v", id, err)
	}
	return c
}

// collect is a gc to which everything is old. Of many at once it does not matter who collects what.
func collect(t testing.TB, s manifest.Store) manifest.GCReport {
	t.Helper()
	r, err := on(t, laterStore{s}).GC(t.Context(), &manifest.GCOptions{Force: true})
	if err != nil || r.Failures > 0 {
		t.Errorf("gc: %+v, %v", r, err)
	}
	return r
}

// holds checks that the list has these entries, as "id=body" in order, that its blobs are whole, and returns it.
func holds(t testing.TB, s manifest.Store, want ...string) manifest.State {
	t.Helper()
	m := on(t, s)
	state, err := m.Load(t.Context())
	if err != nil {
		t.Errorf("reading the list: %v", err)
	}
	var got []string
	for _, e := range state.Entries {
		line := e.ID + "="
		for _, b := range e.Blobs {
			line += bodyOf(t, m, b)
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the list has %q, want %q", got, want)
	}
	c, err := m.Fsck(t.Context())
	if err != nil || len(c.Faults) > 0 {
		t.Errorf("fsck: %+v, %v", c.Faults, err)
	}
	return state
}

func bodyOf(t testing.TB, m *manifest.Manifest, b manifest.Blob) string {
	t.Helper()
	r, err := m.Open(t.Context(), b)
	if err != nil {
		t.Errorf("opening %s: %v", b.Key, err)
		return "?"
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil || int64(len(body)) != b.Size {
		t.Errorf("reading %s: %d bytes of %d, %v", b.Key, len(body), b.Size, err)
	}
	return string(body)
}

// blobs are the keys below blobs/ that are there.
func blobs(t testing.TB, s manifest.Store) (keys []string) {
	t.Helper()
	err := s.List(t.Context(), bucket.ListRequest{Prefix: root + "blobs/"}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, strings.TrimPrefix(string(o.Key), root+"blobs/"))
		}
		return nil
	})
	if err != nil {
		t.Errorf("listing blobs: %v", err)
	}
	return keys
}
