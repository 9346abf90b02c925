package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/blobindex/indexd/fakes/s3d"
	"github.com/blobindex/indexd/web/api"
)

// timed skips a test that takes its time, unless INDEXD_TIMED=1 is in the environment.
func timed(t *testing.T, takes string) {
	t.Helper()
	if os.Getenv("INDEXD_TIMED") != "1" {
		t.Skip("it takes " + takes + "; set INDEXD_TIMED=1")
	}
}

// after is when d is over, or the test.
func after(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// A gate stands between a server and its store.
type gate struct {
	URL  string
	mode atomic.Int32
	next http.Handler

	mu     sync.Mutex // guards opened
	opened chan struct{}
}

// The modes of a gate.
const (
	lets  int32 = iota
	fails       // 503 at once
	hangs       // no answer, until the client leaves or the gate is set otherwise; then the connection ends, nothing done
)

func newGate(t *testing.T, server string) *gate {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ErrorLog: log.New(io.Discard, "", 0),
	}
	g := &gate{next: proxy, opened: make(chan struct{})}
	front := httptest.NewUnstartedServer(g)
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.Start()
	t.Cleanup(func() {
		g.set(lets)
		front.CloseClientConnections()
		front.Close()
	})
	g.URL = front.URL
	return g
}

func (g *gate) set(mode int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mode.Store(mode)
	close(g.opened)
	g.opened = make(chan struct{})
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	switch g.mode.Load() {
	case fails:
		w.WriteHeader(http.StatusServiceUnavailable)
	case hangs:
		io.Copy(io.Discard, r.Body) // else the server does not see the client leave
		select {
		case <-opened:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// producers register over HTTP until they are stopped, or the server takes no more.
type producers struct {
	t    *testing.T
	all  sync.WaitGroup
	stop chan struct{}

	mu      sync.Mutex // guards what follows
	acked   []string   // ids
	refused int        // registrations that were answered by 503
	slowest time.Duration
	enough  chan struct{} // closed at the n-th acknowledgement
	n       int
}

// startProducers starts them. enough is closed once so many registrations are acknowledged.
func startProducers(t *testing.T, base, name string, count, enough int, every time.Duration) *producers {
	p := &producers{t: t, stop: make(chan struct{}), enough: make(chan struct{}), n: enough}
	for i := range count {
		p.all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for n := 0; p.one(client, base, fmt.Sprintf("%s-%d-%d", name, i, n)); n++ {
				select {
				case <-p.stop:
					return
				case <-time.After(every):
				}
			}
		})
	}
	return p
}

// one registers an item, and reports whether the server is still there. An answer that has begun must come to its end.
func (p *producers) one(client *http.Client, base, subkey string) bool {
	id := fmt.Sprintf("%s_%d", subkey, time.Now().UnixNano())
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPut, base+"/items/"+id, nil)
	if err != nil {
		p.t.Error(err)
		return false
	}
	began := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return false // there was no answer: nothing was acknowledged
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	took := time.Since(began)
	if err != nil || !json.Valid(body) {
		p.t.Errorf("a torn answer: %d, %q, %v", res.StatusCode, body, err)
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowest = max(p.slowest, took)
	switch {
	case res.StatusCode == http.StatusCreated:
		if p.acked = append(p.acked, id); len(p.acked) == p.n {
			close(p.enough)
		}
	case res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "":
		p.refused++
	default:
		p.t.Errorf("registering: %d, %s, Retry-After %q", res.StatusCode, body, res.Header.Get("Retry-After"))
	}
	return true
}

func (p *producers) end() (acked []string, refused int, slowest time.Duration) {
	close(p.stop)
	p.all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked, p.refused, p.slowest
}

// A stream is one of events, followed until it ends.
type stream struct {
	done chan struct{} // closed at its end

	mu     sync.Mutex // guards what follows
	events []string   // names
	err    error      // that it ended with; nil: in good order
}

// follow opens a stream and returns when its first event has come.
func follow(t *testing.T, url string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("a stream is answered %d, %v", res.StatusCode, res.Header)
	}
	s, first := &stream{done: make(chan struct{})}, make(chan struct{})
	begun := sync.OnceFunc(func() { close(first) })
	go func() {
		defer close(s.done)
		defer client.CloseIdleConnections()
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				s.mu.Lock()
				s.events = append(s.events, name)
				s.mu.Unlock()
				begun()
			}
		}
		s.mu.Lock()
		s.err = lines.Err()
		s.mu.Unlock()
	}()
	select {
	case <-first:
	case <-s.done:
		t.Fatal("a stream ended before its first event")
	}
	return s
}

// took returns the names of the events since the last time.
func (s *stream) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events
	s.events = nil
	return events
}

// TestServe_StopsUnderLoad: of 32 producers that register when the server is told to stop, each answer that begins comes whole,
// streams end in good order, the process ends within its 10 s with status 0, and what was acknowledged is in the bucket. With INDEXD_TIMED=1.
func TestServe_StopsUnderLoad(t *testing.T) {
	timed(t, "some seconds")
	for _, watched := range []bool{false, true} {
		p, told := launchLogged(t, "serve", "--listen", "127.0.0.1:0", "--bucket", "./data", "--log-level", "warn")
		load := startProducers(t, p.url+"/v1/indexes/running/team", "load", 32, 2000, time.Millisecond)
		<-load.enough
		var streams []*stream
		for range 20 {
			streams = append(streams, follow(t, p.url+"/v1/indexes/running/team/events"))
		}
		if watched {
			p.do(http.MethodGet, "/readyz", "")
		}
		began := time.Now()
		_, status := p.stop(syscall.SIGTERM)
		if took := time.Since(began); status != exitDone || took > 10*time.Second {
			t.Errorf("watched %t: status %d after %v: %s", watched, status, took, told)
		}
		for _, s := range streams {
			<-s.done
			if s.err != nil {
				t.Errorf("watched %t: a stream ended with %v", watched, s.err)
			}
		}
		acked, refused, _ := load.end()
		var lost []string
		for _, id := range acked {
			if _, err := os.Stat(filepath.Join(p.cmd.Dir, "data", "_active_runs", "team", id)); err != nil {
				lost = append(lost, id)
			}
		}
		if len(lost) > 0 || refused > 0 {
			t.Errorf("watched %t: of %d registrations %d are lost, such as %q, and %d were refused", watched, len(acked), len(lost),
				lost[:min(3, len(lost))], refused)
		}
	}
}

// A viewer polls the cards of a namespace.
type viewer struct {
	t    *testing.T
	url  string
	all  sync.WaitGroup
	stop context.CancelFunc

	mu   sync.Mutex // guards what follows
	last api.Cards
	code int
	seen map[string]int // answers that were complete, stale, or failed
	most int            // cards that one has shown
	less int            // answers with fewer cards than one before
}

func view(t *testing.T, url string, every time.Duration) *viewer {
	ctx, stop := context.WithCancel(t.Context())
	v := &viewer{t: t, url: url, stop: stop, seen: map[string]int{}}
	v.all.Go(func() {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for {
			v.look(ctx, client)
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
		}
	})
	t.Cleanup(v.end)
	return v
}

func (v *viewer) end() {
	v.stop()
	v.all.Wait()
}

func (v *viewer) look(ctx context.Context, client *http.Client) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		v.t.Error(err)
		return
	}
	res, err := client.Do(req)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		v.t.Errorf("a viewer got no answer: %v", err)
		return
	}
	defer res.Body.Close()
	var cards api.Cards
	err = json.NewDecoder(res.Body).Decode(&cards)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch v.code = res.StatusCode; {
	case err != nil || v.code != http.StatusOK:
		v.seen["failed"]++
		return
	case cards.Complete:
		v.seen["complete"]++
	default:
		v.seen["stale"]++
	}
	v.last = cards
	if len(cards.Cards) < v.most {
		v.less++
	}
	v.most = max(v.most, len(cards.Cards))
}

func (v *viewer) now() (last api.Cards, seen map[string]int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, v.seen = v.seen, map[string]int{}
	return v.last, seen
}

// TestServe_StoreFails: the store answers 503 for 30 s, and then nothing for 30 s. Viewers keep the last good view, marked as
// stale; who registers is told so by 503 with Retry-After, after no more than some 10 s; /readyz tells what is wrong; when the
// store is back all is well by itself, nothing acknowledged is lost, and no descriptor or goroutine is left. With INDEXD_TIMED=1.
func TestServe_StoreFails(t *testing.T) {
	timed(t, "two minutes")
	store := s3d.New(t, nil)
	g := newGate(t, store.URL)
	p := &program{t: t, cmd: child(t, "indexd", "serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log-level", "info",
		"--bucket", "s3://bucket?endpoint="+g.URL, "--prune-every", "0")}
	p.cmd.Env = append(p.cmd.Env, s3Vars(store)...)
	told := &lockedBuffer{}
	p.cmd.Stderr = told
	p.launch()
	metrics := metricsURL.FindString(told.String())
	const ns = "/v1/indexes/running/team"
	for i := range 5 {
		if status, body := p.do(http.MethodPost, ns+"/items", fmt.Sprintf(`{"subkey":"before%d"}`, i)); status != http.StatusCreated {
			t.Fatalf("%d: %s", status, body)
		}
	}
	watch := view(t, p.url+ns+"/cards", 500*time.Millisecond)
	events := follow(t, p.url+ns+"/events")
	after(t, 3*time.Second)
	before := numbers(t, metrics)
	for _, mode := range []int32{fails, hangs} {
		name := map[int32]string{fails: "fails", hangs: "hangs"}[mode]
		if last, seen := watch.now(); !last.Complete || seen["complete"] == 0 {
			t.Fatalf("%s: not well before: %+v %v", name, last, seen)
		}
		events.took()
		g.set(mode)
		began := time.Now()
		load := startProducers(t, p.url+ns, name, 8, 1<<30, 200*time.Millisecond)
		after(t, 15*time.Second)
		status, body := p.do(http.MethodGet, "/readyz", "")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, `"name":"store"`) || strings.Contains(body, `"ok","name":"store"`) {
			t.Errorf("%s: /readyz: %d %s", name, status, body)
		}
		watch.now()
		after(t, 15*time.Second-time.Since(began)+15*time.Second)
		last, seen := watch.now()
		if last.Complete || last.StaleSince == nil || len(last.Cards) < 5 || seen["stale"] == 0 || seen["complete"] > 0 || seen["failed"] > 0 {
			t.Errorf("%s: the last view is %d cards, complete %t, stale since %v; seen were %v", name, len(last.Cards), last.Complete,
				last.StaleSince, seen)
		}
		if names := events.took(); !slices.Contains(names, "stale") || slices.Contains(names, "remove") {
			t.Errorf("%s: the stream told %q", name, names)
		}
		g.set(lets)
		back := time.Now()
		eventuallyEvery(t, name+": a complete view", 200*time.Millisecond, func() bool {
			last, _ := watch.now()
			return last.Complete
		})
		eventuallyEvery(t, name+": registering", 200*time.Millisecond, func() bool {
			load.mu.Lock()
			defer load.mu.Unlock()
			return len(load.acked) > 8
		})
		if took := time.Since(back); took > 25*time.Second {
			t.Errorf("%s: it took %v until all was well", name, took)
		}
		if names := events.took(); !slices.Contains(names, "upsert") && !slices.Contains(names, "snapshot") {
			t.Errorf("%s: when all was well, the stream told %q", name, names)
		}
		acked, refused, slowest := load.end()
		if refused == 0 || slowest > 12*time.Second {
			t.Errorf("%s: %d registrations were refused, the slowest answer took %v", name, refused, slowest)
		}
		var items api.Items
		p.get(ns+"/items?limit=1000", &items)
		there := map[string]bool{}
		for _, it := range items.Items {
			there[it.Id] = true
		}
		for _, id := range acked {
			if !there[id] {
				t.Errorf("%s: %s was acknowledged, and is not there", name, id)
			}
		}
		t.Logf("%s: %d refused, slowest %v, back after %v", name, refused, slowest, time.Since(back))
		after(t, 2*time.Second)
	}
	watch.end()
	select {
	case <-events.done:
		t.Errorf("the stream has ended: %v", events.err)
	default:
	}
	if watch.less > 0 {
		t.Errorf("%d views showed fewer cards than one before", watch.less)
	}
	// Idle connections to the store and of clients go in their own time.
	var now map[string]float64
	eventuallyEvery(t, "descriptors and goroutines as before", time.Second, func() bool {
		now = numbers(t, metrics)
		return now["process_open_fds"] <= before["process_open_fds"]+8 && now["go_goroutines"] <= before["go_goroutines"]+16
	})
	for _, name := range []string{"indexd_store_requests_total list throttled", "indexd_store_requests_total put unknown"} {
		if now[name] == 0 {
			t.Errorf("%s is 0", name)
		}
	}
	if _, status := p.stop(syscall.SIGTERM); status != exitDone {
		t.Errorf("status %d: %s", status, told)
	}
	<-events.done
}

// eventuallyEvery is eventually, of what a look would disturb.
func eventuallyEvery(t *testing.T, what string, every time.Duration, look func() bool) {
	t.Helper()
	for range 600 {
		if look() {
			return
		}
		after(t, every)
	}
	t.Fatalf("never came: %s", what)
}
