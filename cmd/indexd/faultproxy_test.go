package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A trouble is what befalls a request on its way through a faultProxy.
type trouble struct {
	name    string
	before  time.Duration // that it is kept for at the most, before it goes on
	early   bool          // its answer, or the end of the connection, comes before it goes on
	refuse  bool          // it does not go on
	partly  bool          // half of its body goes on, and then the end
	status  int           // answered in place of the server's answer; 0: see cut
	cut     bool          // no answer but the end of the connection
	reset   bool          // which is a reset
	halfway bool          // half of the answer, and then the end
}

var troubles = []trouble{
	{name: "reset before", refuse: true, cut: true, reset: true}, {name: "closed before", refuse: true, cut: true},
	{name: "reset after", cut: true, reset: true}, {name: "closed after", cut: true},
	{name: "503 before", refuse: true, status: 503}, {name: "503 after", status: 503},
	{name: "429 before", refuse: true, status: 429}, {name: "500 after", status: 500},
	{name: "half a request", partly: true, cut: true, reset: true}, {name: "half an answer", halfway: true},
	{name: "delayed", before: time.Second},
	{name: "closed, applied later", before: 3 * time.Second, early: true, cut: true},
	{name: "503, applied later", before: 3 * time.Second, early: true, status: 503},
}

// A faultProxy stands between clients and a server, and one request of some below the manifests fares ill: one of four that
// save a list, one of 24 of the others. What has arrived whole goes on even if its client is killed.
type faultProxy struct {
	URL  string
	to   *url.URL
	host bool // requests keep the name of the host, which is signed
	out  *http.Transport
	late sync.WaitGroup

	mu     sync.Mutex // guards all below
	passed int
	struck map[string]int
}

// newFaultProxy starts one before the server at the URL.
func newFaultProxy(t *testing.T, server string, signed bool) *faultProxy {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{to: to, host: signed, struck: map[string]int{}, out: &http.Transport{DisableCompression: true,
		MaxIdleConnsPerHost: 64}}
	front := httptest.NewUnstartedServer(p)
	front.Config.ErrorLog = log.New(io.Discard, "", 0) // connections are broken on purpose
	front.Start()
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		p.settle()
		p.out.CloseIdleConnections()
	})
	p.URL = front.URL
	return p
}

// settle waits for what is to be applied later.
func (p *faultProxy) settle() { p.late.Wait() }

// pick chooses what befalls a request.
func (p *faultProxy) pick(r *http.Request, body []byte) trouble {
	where, _ := url.QueryUnescape(r.URL.String())
	where += string(body[:min(len(body), 1024)]) // an upload to Cloud Storage has its name there
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed++
	if !strings.Contains(where, "_indexd/manifest/") {
		return trouble{}
	}
	odds := 24
	if strings.Contains(where, "/list") && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
		odds = 4
	}
	if rand.N(odds) > 0 {
		return trouble{}
	}
	k := troubles[rand.N(len(troubles))]
	p.struck[k.name]++
	return k
}

func (p *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client broke off
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.through(w, r, p.pick(r, body))
}

// through lets a request through, or what its trouble leaves of it.
func (p *faultProxy) through(w http.ResponseWriter, r *http.Request, k trouble) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	ctx := context.WithoutCancel(r.Context())
	if k.early {
		again := r.Clone(ctx)
		p.late.Go(func() {
			linger(k.before)
			if answer, err := p.forward(ctx, again, body, false); err == nil {
				answer.Body.Close()
			}
		})
		k.answer(w)
		return
	}
	linger(k.before)
	if k.refuse {
		k.answer(w)
		return
	}
	answer, err := p.forward(ctx, r, body, k.partly)
	if err != nil {
		sever(w, true)
		return
	}
	defer answer.Body.Close()
	if k.status != 0 || k.cut {
		io.Copy(io.Discard, answer.Body) // it is carried out when it is answered whole
		k.answer(w)
		return
	}
	p.copy(w, answer, k.halfway)
}

// linger keeps a request for some time up to d, as a slow network does.
func linger(d time.Duration) {
	if d > 0 {
		<-time.After(rand.N(d))
	}
}

// answer is what the trouble answers by itself.
func (k trouble) answer(w http.ResponseWriter) {
	if k.status != 0 {
		w.WriteHeader(k.status) // without a body, as proxies do
		return
	}
	sever(w, k.reset)
}

func sever(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0)
	}
	conn.Close()
}

var errBroken = errors.New("the other half never comes")

// forward sends a request on, or half of it.
func (p *faultProxy) forward(ctx context.Context, r *http.Request, body []byte, half bool) (*http.Response, error) {
	out := r.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.RequestURI = p.to.Scheme, p.to.Host, ""
	if !p.host {
		out.Host = p.to.Host
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Expect"} {
		out.Header.Del(name)
	}
	out.Body = io.NopCloser(bytes.NewReader(body))
	if half {
		out.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), brokenReader{}))
		if len(body) == 0 {
			return nil, errBroken
		}
	} else if len(body) == 0 {
		out.Body = http.NoBody
	}
	return p.out.RoundTrip(out)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

// copy hands an answer on, or half of it.
func (p *faultProxy) copy(w http.ResponseWriter, answer *http.Response, half bool) {
	maps.Copy(w.Header(), answer.Header)
	w.Header().Del("Connection")
	if answer.ContentLength >= 0 {
		w.Header().Set("Content-Length", fmt.Sprint(answer.ContentLength))
	}
	if half {
		body, _ := io.ReadAll(answer.Body) // whatever there is of it
		w.WriteHeader(answer.StatusCode)
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, answer.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// told is how often each trouble struck.
func (p *faultProxy) told() (passed int, struck map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed, maps.Clone(p.struck)
}

// TestFaultProxy: each trouble does what its name says, and what is not below the manifests passes.
func TestFaultProxy(t *testing.T) {
	arrived := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			arrived <- string(body)
		}
		io.WriteString(w, "answer")
	}))
	t.Cleanup(server.Close)
	for _, k := range append(slices.Clone(troubles), trouble{name: "none"}) {
		k.before = min(k.before, time.Millisecond)
		p := newFaultProxy(t, server.URL, false)
		served := make(chan struct{})
		front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(served)
			p.through(w, r, k)
		}))
		front.Config.ErrorLog = log.New(io.Discard, "", 0) // connections are broken on purpose
		front.Start()
		t.Cleanup(front.Close)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // which would send it again by itself
		resp, err := client.Post(front.URL, "text/plain", strings.NewReader("request"))
		got := ""
		if err == nil {
			var body []byte
			body, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			got = fmt.Sprint(resp.StatusCode, " ", string(body))
		}
		<-served
		p.settle()
		came := ""
		select {
		case came = <-arrived:
		default:
		}
		carried := !k.refuse && !k.partly
		broken := k.cut || k.halfway
		if carried != (came == "request") || broken != (err != nil) {
			t.Errorf("%s: answered %q, %v; the server had %q", k.name, got, err, came)
		}
		if !broken && k.status == 0 && got != "200 answer" || k.status != 0 && got != fmt.Sprintf("%d ", k.status) {
			t.Errorf("%s: answered %q", k.name, got)
		}
	}
}
