package web_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

// TestReadiness: each check is told by its kind and nothing of the inside; only what is needed keeps the server from being ready.
func TestReadiness(t *testing.T) {
	secret := errors.New("secret: 10.1.2.3")
	for _, tc := range []struct {
		store  error
		checks []web.Check
		status int
		code   string
		kinds  string
	}{
		{nil, nil, 200, "", "store=ok"},
		{fmt.Errorf("%w: %w", bucket.ErrDenied, secret), nil, 503, "store_denied", "store=denied"},
		{fmt.Errorf("%w: %w", bucket.ErrThrottled, secret), nil, 503, "throttled", "store=throttled"},
		{fmt.Errorf("%w: %w", bucket.ErrNotExist, secret), nil, 503, "store_unavailable", "store=missing"},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, secret), nil, 503, "store_unavailable", "store=timeout"},
		{secret, nil, 503, "store_unavailable", "store=unavailable"},
		{nil, []web.Check{found("cas", "untried", nil, false), found("rules", "differ", secret, false)}, 200, "",
			"store=ok cas=untried rules=differ"},
		{nil, []web.Check{found("oidc", "", secret, true)}, 503, "not_ready", "store=ok oidc=unavailable"},
		{secret, []web.Check{found("oidc", "", nil, true)}, 503, "store_unavailable", "store=unavailable oidc=ok"},
	} {
		var log lockedText
		s := newSite(t)
		s.serve(readySite(t, func(context.Context) error { return tc.store }, func(o *web.Options) {
			o.Checks, o.Log = tc.checks, slog.New(slog.NewTextHandler(&log, nil))
		}))
		a := s.get("/readyz")
		var checks []api.Check
		if tc.status == http.StatusOK {
			checks = decode[api.Readiness](a.want(tc.status)).Checks
		} else if p := a.problem(tc.status, tc.code); p.Checks != nil {
			checks = *p.Checks
		}
		var kinds []string
		for _, c := range checks {
			kinds = append(kinds, c.Name+"="+c.Kind)
		}
		if diff := cmp.Diff(tc.kinds, strings.Join(kinds, " ")); diff != "" || strings.Contains(a.body, "secret") {
			t.Errorf("%v: %s %s", tc, diff, a.body)
		}
		failed := tc.store != nil || strings.Contains(tc.kinds, "differ") || tc.code == "not_ready"
		if strings.Contains(log.String(), "check failed") != failed || failed && !strings.Contains(log.String(), "secret") {
			t.Errorf("%v: the log is %s", tc, &log)
		}
		s.get("/readyz")
		if n := strings.Count(log.String(), "check failed"); n > 1 {
			t.Errorf("%v: what is known is logged again: %s", tc, &log)
		}
	}
}

// found is a check that always finds the same.
func found(name, kind string, err error, needed bool) web.Check {
	return web.Check{Name: name, Needed: needed, Do: func(context.Context) (string, error) { return kind, err }}
}

func readySite(t *testing.T, ready func(context.Context) error, change ...func(*web.Options)) *web.Server {
	t.Helper()
	var opt web.Options
	for _, f := range change {
		f(&opt)
	}
	x, err := blobindex.New(membucket.New(nil), blobindex.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := web.New([]*blobindex.Index{x}, ready, &opt)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestReadiness_OneRequest: a thousand probes within a second are one request of the store, whether it answers or hangs, and the
// next one is made when somebody asks a second later.
func TestReadiness_OneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := fakes.NewFaulty(t, membucket.New(nil))
		count := fakes.NewCounter(faulty)
		h := readySite(t, func(ctx context.Context) error {
			return count.List(ctx, bucket.ListRequest{Prefix: "_indexd/ready"}, func(bucket.Page) error { return nil })
		})
		probe := func() int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, localRequest(t, "GET", "/readyz"))
			return w.Code
		}
		thousand := func(want int) (took time.Duration) {
			t.Helper()
			began := time.Now()
			var all sync.WaitGroup
			var wrong atomic.Int64
			for range 1000 {
				all.Go(func() {
					if probe() != want {
						wrong.Add(1)
					}
				})
			}
			all.Wait()
			if n := count.Reset(); n.List != 1 || wrong.Load() > 0 {
				t.Errorf("%v, %d of 1000 answered otherwise than %d", n, wrong.Load(), want)
			}
			return time.Since(began)
		}
		thousand(http.StatusOK)
		time.Sleep(time.Second - 1)
		probe()
		if n := count.Reset(); n.List != 0 {
			t.Errorf("within the second: %v", n)
		}
		time.Sleep(time.Nanosecond)
		faulty.Plan(fakes.Fault{Op: fakes.List, Kind: fakes.Hang()})
		if took := thousand(http.StatusServiceUnavailable); took != 5*time.Second {
			t.Errorf("a store that hangs was waited for for %v", took)
		}
		time.Sleep(time.Second)
		thousand(http.StatusOK)
	})
}

// TestReadiness_Deaf: a check that does not end with its context is told as a timeout, and is not begun a second time.
func TestReadiness_Deaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var calls atomic.Int64
		h := readySite(t, func(context.Context) error { calls.Add(1); <-release; return nil })
		for range 3 {
			began := time.Now()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, localRequest(t, "GET", "/readyz"))
			if d := time.Since(began); w.Code != http.StatusServiceUnavailable || d != 5*time.Second || calls.Load() != 1 ||
				!strings.Contains(w.Body.String(), `"kind":"timeout"`) {
				t.Errorf("%d after %v and %d calls: %s", w.Code, d, calls.Load(), w.Body)
			}
		}
		close(release)
	})
}

// TestReadiness_Draining: who is told to stop is not ready, and goes on serving; it knows whether anybody is watching.
func TestReadiness_Draining(t *testing.T) {
	s := newSite(t)
	watched := readySite(t, always, func(o *web.Options) { o.Now = s.clock.now })
	s.serve(watched)
	s.get("/readyz").want(http.StatusOK)
	s.clock.advance(29 * time.Second)
	if !watched.Drain() {
		t.Error("nobody is said to watch")
	}
	a := s.get("/readyz")
	a.problem(http.StatusServiceUnavailable, "stopping")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.get("/healthz").want(http.StatusOK)
	w := httptest.NewRecorder()
	if watched.ServeHTTP(w, localRequest(t, "GET", "/v1/indexes")); w.Code != http.StatusOK || w.Header().Get("Connection") != "close" {
		t.Errorf("%d, and the connection is kept: %v", w.Code, w.Header())
	}
	s.clock.advance(30 * time.Second)
	if watched.Drain() {
		t.Error("somebody is said to watch who went long ago")
	}
	if readySite(t, always).Drain() {
		t.Error("somebody is said to watch who never was there")
	}
}

// localRequest is one under a loopback name.
func localRequest(t *testing.T, method, path string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Host = "127.0.0.1:8080"
	return r
}

// TestMetricsRoute: the server answers what it is given, and nothing where it is given nothing.
func TestMetricsRoute(t *testing.T) {
	s := newSite(t)
	if a := s.get("/metrics").want(http.StatusOK); a.body != "indexd_build_info 1\n" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%q, %v", a.body, a.header)
	}
	s.do("POST", "/metrics", "").problem(http.StatusMethodNotAllowed, "method")
	s.serve(readySite(t, always))
	s.get("/metrics").problem(http.StatusNotFound, "not_found")
}

// TestMetricsOnly: a listener of its own answers that one path; on loopback only under loopback names.
func TestMetricsOnly(t *testing.T) {
	count := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "numbers") })
	for _, tc := range []struct {
		method, path, host string
		loopback           bool
		status             int
	}{
		{"GET", "/metrics", "127.0.0.1:9090", true, 200}, {"HEAD", "/metrics", "localhost", true, 200},
		{"GET", "/metrics", "evil.example", true, 403}, {"GET", "/metrics", "indexd:9090", false, 200},
		{"POST", "/metrics", "localhost", true, 405}, {"GET", "/", "localhost", true, 404}, {"GET", "/metrics/", "localhost", true, 404},
		{"GET", "/v1/indexes", "localhost", false, 404},
	} {
		r := localRequest(t, tc.method, tc.path)
		r.Host = tc.host
		w := httptest.NewRecorder()
		web.MetricsOnly(count, tc.loopback).ServeHTTP(w, r)
		if w.Code != tc.status || (w.Body.String() == "numbers") != (tc.status == 200) {
			t.Errorf("%+v: %d %s", tc, w.Code, w.Body)
		}
	}
}
