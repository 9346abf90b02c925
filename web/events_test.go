package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

// briskly lists a namespace with streams so often that a test need not wait.
func briskly(o *web.Options) {
	o.Live = &live.Options{MinInterval: 10 * time.Millisecond, MaxInterval: 10 * time.Millisecond}
}

// An sse is one event as it came, and what its data says.
type sse struct {
	id, name, data string
	api.Event
}

// A feed is a stream that is being read.
type feed struct {
	t      testing.TB
	res    *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
	quiet  int // comments
	retry  string
	pumped chan sse // by who reads on while the test does not
}

// stream opens one, over a connection of its own.
func (s *site) stream(path string, header ...string) *feed {
	s.t.Helper()
	transport := &http.Transport{DisableCompression: true}
	s.t.Cleanup(transport.CloseIdleConnections)
	return open(s.t, transport, s.server.URL+path, header...)
}

func open(t testing.TB, transport http.RoundTripper, url string, header ...string) *feed {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header[header[i]] = []string{header[i+1]}
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	f := &feed{t: t, res: res, lines: bufio.NewScanner(res.Body), cancel: cancel}
	f.lines.Buffer(nil, 1<<20)
	t.Cleanup(f.close)
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		t.Fatalf("%s answers %d: %s", url, res.StatusCode, body)
	}
	return f
}

func (f *feed) close() {
	f.cancel()
	f.res.Body.Close()
}

// read reads the next event, as the standard says that a client does.
func (f *feed) read() (e sse, err error) {
	for f.lines.Scan() {
		line := f.lines.Text()
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && e.name != "":
			return e, json.Unmarshal([]byte(e.data), &e.Event)
		case line == "":
		case strings.HasPrefix(line, ":"):
			f.quiet++
		case name == "id":
			e.id += value
		case name == "event":
			e.name += value
		case name == "data":
			e.data += value
		case name == "retry":
			f.retry = value
		default:
			return e, fmt.Errorf("a line of %q", line)
		}
	}
	return e, errors.Join(f.lines.Err(), io.EOF)
}

// pump reads on from here, for next to deliver; the channel ends with the stream.
func (f *feed) pump() {
	pumped := make(chan sse, 100)
	go func() {
		defer close(pumped)
		for {
			e, err := f.read()
			if err != nil {
				return
			}
			pumped <- e
		}
	}()
	f.pumped = pumped
}

func (f *feed) next() sse {
	f.t.Helper()
	if f.pumped != nil {
		e, ok := <-f.pumped
		if !ok {
			f.t.Fatal("the stream has ended")
		}
		return e
	}
	e, err := f.read()
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

func (e sse) cards() (ids []string) {
	for _, c := range *e.Cards {
		ids = append(ids, c.Id)
	}
	return ids
}

// TestEvents_Follow: from an empty namespace over a registration, a heartbeat and a finish, and on from an earlier event.
func TestEvents_Follow(t *testing.T) {
	s := newSite(t, briskly)
	f := s.stream(ns + "/events")
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no",
		"Content-Encoding": "", "Etag": "", "Content-Length": "",
	} {
		if got := f.res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	first := f.next()
	if first.name != "snapshot" || len(*first.Cards) != 0 || !first.Complete || first.Prev != nil || *first.Reset ||
		!first.AsOf.Equal(start) || f.retry == "" {
		t.Errorf("it begins with %+v, %q", first, f.retry)
	}
	s.count.Reset()
	id := s.id("a")
	s.do("PUT", ns+"/items/"+id, "").want(http.StatusCreated)
	up := f.next()
	if up.name != "upsert" || !slices.Equal(up.cards(), []string{id}) || up.Counts.Live != 1 || *up.Prev != first.id {
		t.Errorf("a registration is %+v", up)
	}
	s.clock.advance(time.Second)
	s.do("POST", ns+"/items/"+id+"/heartbeat", "").want(http.StatusNoContent)
	if e := f.next(); e.name != "upsert" || !(*e.Cards)[0].LastSeenAt.Equal(start.Add(time.Second)) || *e.Prev != up.id {
		t.Errorf("a heartbeat is %+v", e)
	}
	s.do("DELETE", ns+"/items/"+id, "").want(http.StatusNoContent)
	last := f.next()
	if last.name != "remove" || !slices.Equal(*last.Ids, []string{id}) || last.Counts.Live != 0 || last.Cards != nil {
		t.Errorf("a finish is %+v", last)
	}

	again := s.stream(ns+"/events", "Last-Event-Id", up.id)
	if e := again.next(); e.name != "upsert" || *e.Prev != up.id {
		t.Errorf("it goes on with %+v", e)
	}
	if e := again.next(); e.id != last.id || e.data != last.data {
		t.Errorf("it goes on with %+v", e)
	}
	for _, unknown := range []string{"x", "-", up.id + "0", "0" + up.id, strings.Repeat("9", 2000)} {
		if e := s.stream(ns+"/events", "Last-Event-Id", unknown).next(); e.name != "snapshot" || !*e.Reset || e.id != last.id {
			t.Errorf("after %.40q it begins with %+v", unknown, e)
		}
	}
	if e := s.stream(ns+"/events?limit=3", "Last-Event-Id", up.id).next(); e.name != "snapshot" || !*e.Reset || e.id == last.id {
		t.Errorf("after an event of another shape it begins with %+v", e)
	}
	s.do("HEAD", ns+"/events", "").want(http.StatusMethodNotAllowed)
	s.do("POST", ns+"/events", "").problem(http.StatusMethodNotAllowed, "method")
	s.get(ns+"/events?cursor=1").problem(http.StatusBadRequest, "bad_request")
	s.get(ns+"/events?limit=0").problem(http.StatusBadRequest, "bad_request")
}

// A failing store cannot be listed.
type failing struct{ bucket.Objects }

func (failing) List(context.Context, bucket.ListRequest, func(bucket.Page) error) error {
	return bucket.ErrThrottled
}

// TestEvents_FirstListingFails: a stream that cannot begin is a problem, as for cards.
func TestEvents_FirstListingFails(t *testing.T) {
	s := newSite(t, briskly)
	s.serveStore(failing{s.mem})
	a := s.get(ns + "/events")
	a.problem(http.StatusServiceUnavailable, "throttled")
	if a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
}

// TestEvents_Busy: more streams than there may be, and those that come when the server stops, are told to try again.
func TestEvents_Busy(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Live = &live.Options{MaxStreams: 1} })
	first := s.stream(ns + "/events")
	first.next()
	busy := func() {
		t.Helper()
		a := s.get(ns + "/events")
		if a.problem(http.StatusServiceUnavailable, "busy"); a.header.Get("Retry-After") == "" {
			t.Errorf("%v", a.header)
		}
	}
	busy()
	s.web.EndStreams()
	if e, err := first.read(); !errors.Is(err, io.EOF) || first.quiet == 0 {
		t.Errorf("at the end comes %+v, %v, %d comments", e, err, first.quiet)
	}
	busy()
	s.get(ns + "/cards").want(http.StatusOK)
	s.web.Close()
	s.get(ns+"/cards").problem(http.StatusServiceUnavailable, "busy")
	s.do("PUT", ns+"/items/"+s.id("x"), "").want(http.StatusCreated) // nothing of a view is needed for it
}

// TestCase_C52_Events: whatever an id or a label holds, an event is one event, and says the same as the cards.
func TestCase_C52_Events(t *testing.T) {
	s := newSite(t, briskly)
	hostile := "\u2028\u2029</script><img src=x onerror=alert(1)>\"' onmouseover=\r\n\r\nevent: remove\ndata: {}\n\n"
	label, err := json.Marshal(map[string]string{"title": hostile, "owner": hostile, "url": "javascript:alert(1)"})
	if err != nil {
		t.Fatal(err)
	}
	millis := s.clock.now().UnixMilli()
	for i, subkey := range []string{"a", "event: x", "data: y", "<img onerror>", "\u2028id: 1", "\" onmouseover="} {
		body := string(label)
		s.put(fmt.Sprintf("_active_runs/team/%s_%d", subkey, millis-int64(i)), body)
	}
	f := s.stream(ns + "/events")
	e := f.next()
	if e.name != "snapshot" || len(*e.Cards) != 6 || strings.ContainsAny(e.data, "\r\n\u2028<") {
		t.Fatalf("%+v", e)
	}
	cards := decode[api.Cards](s.get(ns + "/cards").want(http.StatusOK))
	want, _ := json.Marshal(cards.Cards)
	if got, _ := json.Marshal(*e.Cards); string(got) != string(want) {
		t.Errorf("the stream says\n%s\nthe cards\n%s", got, want)
	}
	for _, c := range *e.Cards {
		if c.Url != "" {
			t.Errorf("a link to %q", c.Url)
		}
	}
	s.do("PUT", ns+"/items/"+s.id("z"), "").want(http.StatusCreated)
	if e := f.next(); e.name != "upsert" || e.cards()[0] != s.id("z") {
		t.Errorf("the next event is %+v", e)
	}
}

// TestCase_C43_Events: cards, items, stream, page and numbers say the same before, at and after the end of an item's TTL.
func TestCase_C43_Events(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, time.Second} {
		s := newSite(t, briskly)
		s.put("_active_runs/team/a_"+fmt.Sprint(start.Unix()), "")
		s.put("_active_runs/team/b_"+fmt.Sprint(start.Unix()), "")
		s.clock.advance(2*time.Hour + d)
		want := 2
		if d > 0 {
			want = 0
		}
		e := s.stream(ns + "/events").next()
		cards := decode[api.Cards](s.get(ns + "/cards").want(http.StatusOK))
		items := decode[api.Items](s.get(ns + "/items").want(http.StatusOK))
		page := s.get("/?namespace=team").want(http.StatusOK)
		views := s.web.Views()
		if e.Counts.Live != want || cards.Counts.Live != want || len(*e.Cards) != want || len(items.Items) != want ||
			len(views) != 1 || views[0].Counts.Live != want || !views[0].AsOf.Equal(e.AsOf) {
			t.Errorf("%v past the TTL: stream %d, cards %d, items %d, numbers %+v", d, e.Counts.Live, cards.Counts.Live,
				len(items.Items), views)
		}
		if shown := strings.Count(page.body, `<li class="card`); shown != want {
			t.Errorf("%v past the TTL: the page shows %d", d, shown)
		}
	}
}

// A pipeline is a server over connections within a bubble.
type pipeline struct {
	handler *web.Server
	dial    *pipes
	url     string
}

func overPipes(t *testing.T, objects *membucket.Bucket, change func(*http.Server)) *pipeline {
	t.Helper()
	x, err := blobindex.New(objects, blobindex.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := web.New([]*blobindex.Index{x}, always, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newPipes()
	server := web.NewHTTPServer(t.Context(), h, nil)
	change(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		h.Close()
		server.Close()
		<-done
	})
	return &pipeline{h, l, "http://127.0.0.1" + ns}
}

// transport speaks HTTP/1.1, or HTTP/2 without TLS.
func (p *pipeline) transport(t *testing.T, two bool) *http.Transport {
	tr := &http.Transport{DialContext: p.dial.dial, DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!two)
	tr.Protocols.SetUnencryptedHTTP2(two)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// TestCase_C48_WriteTimeout: a stream outlives the limits of the server by far, over HTTP/1.1 and HTTP/2, and is not silent
// for 15 s.
func TestCase_C48_WriteTimeout(t *testing.T) {
	for _, two := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(start))
			p := overPipes(t, membucket.New(nil), func(s *http.Server) {
				s.WriteTimeout, s.ReadTimeout, s.IdleTimeout = 2*time.Second, 2*time.Second, 2*time.Second
				s.Protocols = new(http.Protocols)
				s.Protocols.SetHTTP1(true)
				s.Protocols.SetUnencryptedHTTP2(true)
			})
			tr := p.transport(t, two)
			f := open(t, tr, p.url+"/events")
			if f.res.ProtoMajor == 2 != two {
				t.Fatalf("it speaks %s", f.res.Proto)
			}
			f.next()
			f.pump() // a pipe holds nothing for who does not read
			for i, quiet := range []time.Duration{9 * time.Second, time.Minute, 10 * time.Minute} {
				time.Sleep(quiet)
				id := fmt.Sprintf("r%d_%d", i, time.Now().UnixMilli())
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.url+"/items/"+id, nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := p.transport(t, false).RoundTrip(req)
				if err != nil || res.StatusCode != http.StatusCreated {
					t.Fatal(res, err)
				}
				res.Body.Close()
				if e := f.next(); e.name != "upsert" || e.cards()[0] != id {
					t.Fatalf("after %v comes %+v", quiet, e)
				}
			}
			f.close()
			for range f.pumped {
			}
			if f.quiet < 11*60/15 || f.quiet > 11*60/5 {
				t.Errorf("%d comments in 11 minutes", f.quiet)
			}
			tr.CloseIdleConnections()
		})
	}
}

// TestCase_C49_NotReading: a client that does not read is dropped soon after its connection takes no more.
func TestCase_C49_NotReading(t *testing.T) {
	for _, two := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(start))
			p := overPipes(t, membucket.New(nil), func(s *http.Server) {
				s.Protocols = new(http.Protocols)
				s.Protocols.SetHTTP1(true)
				s.Protocols.SetUnencryptedHTTP2(true)
			})
			tr := p.transport(t, two)
			tr.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
			f := open(t, tr, p.url+"/events")
			f.next()
			began := time.Now()
			for len(p.handler.Views()) > 0 && p.handler.Views()[0].Streams > 0 && time.Since(began) < time.Hour {
				id := fmt.Sprintf("%s_%d", strings.Repeat("r", 180), time.Now().UnixMilli())
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.url+"/items/"+id, nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := p.transport(t, false).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(began); took > 10*time.Minute {
				t.Errorf("it was there for %v", took)
			}
			f.close()
			tr.CloseIdleConnections()
		})
	}
}

// TestCase_C49_ManyClients: of 100 clients 10 stop reading, 10 vanish and 30 close; the others get what comes, 50 are open when
// the server shuts down, and nothing of any of them is left.
func TestCase_C49_ManyClients(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	cycles := 100
	if os.Getenv("INDEXD_TIMED") != "" {
		cycles = 5000
	}
	manyClients(t, cycles)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	// What ends is gone a moment after whoever waited for it goes on.
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		left, open := runtime.NumGoroutine(), descriptors(t)
		if left <= goroutines+2 && open <= files+2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before; %d descriptors, %d before", left, goroutines, open, files)
		}
	}
}

func manyClients(t *testing.T, cycles int) {
	mem := membucket.New(nil)
	x, err := blobindex.New(mem, blobindex.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := web.New([]*blobindex.Index{x}, always, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := web.NewHTTPServer(t.Context(), h, nil)
	server.RegisterOnShutdown(h.EndStreams)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	url := "http://" + l.Addr().String() + ns
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4}
	defer transport.CloseIdleConnections()
	var feeds []*feed
	for range 100 {
		f := open(t, transport, url+"/events")
		f.next()
		feeds = append(feeds, f)
	}
	for _, f := range feeds[10:50] { // the first ten do not read any more
		f.close()
	}
	for range cycles {
		f := open(t, transport, url+"/events")
		f.next()
		f.close()
	}
	id := fmt.Sprintf("a_%d", time.Now().UnixMilli())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/items/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusCreated {
		t.Fatal(res, err)
	}
	res.Body.Close()
	var told, wg sync.WaitGroup
	told.Add(50)
	for _, f := range feeds[50:] {
		wg.Go(func() {
			if e, err := f.read(); err != nil || e.name != "upsert" || e.cards()[0] != id {
				t.Errorf("%+v, %v", e, err)
			}
			told.Done()
			if e, err := f.read(); !errors.Is(err, io.EOF) {
				t.Errorf("at the shutdown comes %+v, %v", e, err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	told.Wait()
	for _, f := range feeds[:10] {
		defer f.close()
	}
	if err := server.Shutdown(ctx); err != nil {
		t.Errorf("the shutdown: %v", err)
	}
	wg.Wait()
	<-served
}

// descriptors is how many files the process has open, 0 where that cannot be told.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
