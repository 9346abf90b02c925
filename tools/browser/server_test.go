package browser

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A server is `indexd serve` as a process of its own.
type server struct {
	t     *testing.T
	url   string
	cmd   *exec.Cmd
	log   *locked
	token string // that requests are made with, or empty
}

// A locked buffer may be read while it is written.
type locked struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// serve starts a server of a directory, which ends with the test.
func serve(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	needs(t)
	s := &server{t: t, log: new(locked)}
	s.cmd = exec.Command(chromium.program,
		append([]string{"serve", "--listen", "127.0.0.1:0", "--bucket", "file://" + dir, "--prune-every", "0"}, args...)...)
	s.cmd.Dir, s.cmd.Stderr = t.TempDir(), s.log
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if s.url = address.FindString(line); s.url == "" {
		t.Fatalf("no address told: %q, %v, %v: %s", line, err, s.cmd.Wait(), s.log)
	}
	t.Cleanup(s.stop)
	return s
}

// stop ends the server as an operator would; it must go in time although streams are open.
func (s *server) stop() {
	if s.cmd.ProcessState != nil {
		return
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(20*time.Second, func() { s.cmd.Process.Kill() })
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("stopping the server: %v: %s", err, s.log)
	}
	late.Stop()
}

// do makes a request of the API and fails the test unless it succeeds.
func (s *server) do(method, path, body string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %d: %s %v", method, path, res.StatusCode, answer, err)
	}
}

const items = "/v1/indexes/running/default/items/"

// register registers a run that starts now, and returns its id. labels are JSON, or nothing.
func (s *server) register(subkey, labels string) string {
	s.t.Helper()
	id := subkey + "_" + fmt.Sprint(time.Now().UnixNano())
	s.do(http.MethodPut, items+url.PathEscape(id), labels)
	return id
}

func (s *server) finish(id, outcome string) {
	s.t.Helper()
	s.do(http.MethodDelete, items+url.PathEscape(id)+"?outcome="+outcome, "")
}

// put writes an object of the default namespace directly, as any client of the store may.
func put(t *testing.T, dir, name, body string, age time.Duration) {
	t.Helper()
	path := filepath.Join(dir, "_active_runs", "default", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// It is written elsewhere and put there whole and in its time, as a listing may come at any moment.
	made := filepath.Join(t.TempDir(), "made")
	if err := os.WriteFile(made, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(made, at, at); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(made, path); err != nil {
		t.Fatal(err)
	}
}

// remove deletes an object directly.
func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "_active_runs", "default", name)); err != nil {
		t.Fatal(err)
	}
}

// A gate stands between browsers and a server, and counts the streams that are open through it.
type gate struct {
	url     string
	behind  atomic.Pointer[url.URL]
	streams atomic.Int64 // that are open
	closed  atomic.Bool  // to streams: they are answered as by a server that has none
}

func newGate(t *testing.T, s *server) *gate {
	t.Helper()
	g := new(gate)
	g.to(s)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(g.behind.Load()); r.Out.Host = r.In.Host },
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			if g.closed.Load() {
				http.NotFound(w, r)
				return
			}
			g.streams.Add(1)
			defer g.streams.Add(-1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	g.url = front.URL
	return g
}

// to puts another server behind the gate.
func (g *gate) to(s *server) {
	to, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	g.behind.Store(to)
}

// await fails the test unless a look comes true in time.
func await(t *testing.T, what string, look func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); !look(); <-tick.C {
		if time.Since(begun) > patience {
			t.Fatalf("never came: %s", what)
		}
	}
}
