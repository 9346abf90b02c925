package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune/janitor"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

// prune makes a pass as a server does whose bucket keeps the conditions of writes.
func (s *site) prune(ctx context.Context, x *blobindex.Index, opt *janitor.RunOptions) (janitor.Report, error) {
	return janitor.New(x, &janitor.Options{Store: s.docs}).Run(ctx, opt)
}

const pruning = "/v1/indexes/running/prune"

// stale puts markers that are over, and one that is not, into namespaces.
func (s *site) stale(namespaces ...string) {
	s.t.Helper()
	ids := map[string]string{}
	for _, n := range namespaces {
		ids[n] = s.id("old")
		s.put("_active_runs/"+n+"/"+ids[n], "")
	}
	s.clock.advance(3 * time.Hour)
	s.put("_active_runs/team/"+s.id("new"), "")
}

// left counts the markers of the default index.
func (s *site) left() (n int) {
	s.t.Helper()
	err := s.mem.List(s.t.Context(), bucket.ListRequest{Prefix: "_active_runs/"}, func(p bucket.Page) error {
		n += len(p.Objects)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestPrune_Report: a dry run tells what would go and leaves it; a pass over a namespace, and one over all, delete it.
func TestPrune_Report(t *testing.T) {
	s := newSite(t)
	s.stale("team", "other")
	dry := decode[api.PruneReport](s.do("POST", pruning+"?dry_run=true", "").want(http.StatusOK))
	want := api.PruneReport{
		Index: "running", Namespaces: 2, Planned: map[string]int{"stale": 2}, Deleted: map[string]int{}, Failed: []api.KeyFailure{},
		Deferred: []string{}, Slow: []string{}, AsOf: s.clock.now(), Clock: "store",
	}
	if diff := cmp.Diff(want, dry); diff != "" || s.left() != 3 {
		t.Errorf("%d left; %s", s.left(), diff)
	}
	one := decode[api.PruneReport](s.do("POST", pruning+"?namespace=team", "").want(http.StatusOK))
	if one.Namespaces != 1 || one.Term != 1 || !maps.Equal(one.Deleted, map[string]int{"stale": 1}) || s.left() != 2 {
		t.Errorf("%d left: %+v", s.left(), one)
	}
	all := decode[api.PruneReport](s.do("POST", pruning, "").want(http.StatusOK))
	if all.Namespaces != 2 || all.Term != 2 || !maps.Equal(all.Deleted, map[string]int{"stale": 1}) || s.left() != 1 {
		t.Errorf("%d left: %+v", s.left(), all)
	}
	s.do("POST", pruning+"?namespace=_", "").problem(http.StatusBadRequest, "invalid_name")
	s.do("POST", "/v1/indexes/flat/prune?namespace=_", "").want(http.StatusOK)
	s.do("POST", "/v1/indexes/other/prune", "").problem(http.StatusNotFound, "not_found")
}

// TestPrune_Held: while somebody else is at work nothing is changed, and the problem says who in no more than a word.
func TestPrune_Held(t *testing.T) {
	s := newSite(t)
	s.stale("team")
	l, err := lease.New(s.mem, "_active_runs", lease.Scheduler, &lease.Options{Clock: lease.Clock{Wall: s.clock.now}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.Acquire(t.Context(), &lease.AcquireOptions{Reason: "pass"})
	if err != nil {
		t.Fatal(err)
	}
	since := s.clock.now()
	defer h.Release(context.Background())
	s.clock.advance(7 * time.Second)
	s.docs.reset()
	a := s.do("POST", pruning, "")
	a.want(http.StatusConflict)
	got := decode[api.LeaseHeld](a)
	expires := since.Add(lease.DefaultTTL + lease.Margin)
	if got.Code != "lease_held" || got.Class != "scheduler" || !got.Since.Equal(since) || got.Expires == nil ||
		!got.Expires.Equal(expires) || a.header.Get("Retry-After") != "29" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%+v, %v", got, a.header)
	}
	if _, saves := s.docs.reset(); saves > 0 || s.left() != 2 {
		t.Errorf("%d saves, %d left", saves, s.left())
	}
	s.do("POST", pruning+"?dry_run=true", "").want(http.StatusOK)

	if _, err := l.Break(t.Context(), h.Term()); err != nil {
		t.Fatal(err)
	}
	broken := decode[api.LeaseHeld](s.do("POST", pruning, "").want(http.StatusConflict))
	if broken.Class != "" || !strings.Contains(broken.Detail, "may not know") {
		t.Errorf("%+v", broken)
	}
	s.clock.advance(time.Minute)
	if r := decode[api.PruneReport](s.do("POST", pruning, "").want(http.StatusOK)); r.Term != 2 || r.Deleted["stale"] != 1 {
		t.Errorf("%+v", r)
	}
}

// TestPrune_Problems: what can go wrong with a pass, told without the text of an error.
func TestPrune_Problems(t *testing.T) {
	secret := errors.New("secret: 10.1.2.3/bucket")
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("%w: %w", lease.ErrLost, secret), 503, "lease_lost"},
		{fmt.Errorf("%w: %w", cas.ErrUnknown, secret), 503, "unknown"},
		{fmt.Errorf("%w: %w", cas.ErrCorrupt, secret), 503, "lease_corrupt"},
		{fmt.Errorf("%w: %w", cas.ErrFormat, secret), 503, "lease_corrupt"},
		{fmt.Errorf("%w: %w", cas.ErrTooLarge, secret), 503, "lease_corrupt"},
		{fmt.Errorf("%w: %w", bucket.ErrDenied, secret), 503, "store_denied"},
		{fmt.Errorf("%w: %w", bucket.ErrThrottled, secret), 503, "throttled"},
		{fmt.Errorf("%w: %w", context.Canceled, secret), 503, "store_unavailable"},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, secret), 503, "store_unavailable"},
		{&blobindex.RulesError{Index: "running", Key: "_indexd/index/secret", Err: cas.ErrCorrupt}, 503, "rules"},
		{&blobindex.RulesError{Index: "running", Key: "_indexd/index/secret", Err: secret}, 503, "store_unavailable"},
		{secret, 503, "store_unavailable"},
	} {
		var log lockedText
		s := newSite(t, func(o *web.Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.Prune = func(context.Context, *blobindex.Index, *janitor.RunOptions) (janitor.Report, error) {
				return janitor.Report{}, tc.err
			}
		})
		a := s.do("POST", pruning, "")
		a.problem(tc.status, tc.code)
		if strings.Contains(a.body, "secret") || strings.Contains(a.body, "nothing was done") || !strings.Contains(log.String(), "secret") {
			t.Errorf("%v: %s; log %s", tc.err, a.body, &log)
		}
	}
	s := newSite(t, func(o *web.Options) { o.Prune = nil })
	s.do("POST", pruning, "").problem(http.StatusNotImplemented, "unsupported")
	for header, value := range map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"} {
		newSite(t).do("POST", pruning, "", header, value).problem(http.StatusForbidden, "origin")
	}
	newSite(t).do("POST", pruning, "", "Host", "evil.example").problem(http.StatusForbidden, "host")
}

// TestPrune_SafeReport: what a report has of errors is told in words of our own.
func TestPrune_SafeReport(t *testing.T) {
	secret := errors.New("secret")
	report := janitor.Report{Unguarded: "secret", Withheld: "comparing the clocks failed: secret", Clock: blobindex.HostClock}
	var want []string
	for err, told := range map[error]string{
		bucket.ErrDenied: "denied", bucket.ErrThrottled: "throttled", bucket.ErrUnknown: "unknown", secret: "failed",
	} {
		report.Failed = append(report.Failed, janitor.KeyError{Key: "k", Err: fmt.Errorf("%w: %w", err, secret)})
		want = append(want, told)
	}
	report.Failures = len(report.Failed)
	s := newSite(t, func(o *web.Options) {
		o.Prune = func(context.Context, *blobindex.Index, *janitor.RunOptions) (janitor.Report, error) {
			return report, nil
		}
	})
	a := s.do("POST", pruning, "").want(http.StatusOK)
	got := decode[api.PruneReport](a)
	for i, f := range got.Failed {
		if f.Error != want[i] {
			t.Errorf("failure %d is %q, want %q", i, f.Error, want[i])
		}
	}
	if got.Unguarded != "lease_unavailable" || got.Withheld == "" || strings.Contains(a.body, "secret") {
		t.Errorf("%s", a.body)
	}
}

// TestPrune_ClientLeaves: a pass whose client has left ends.
func TestPrune_ClientLeaves(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	s := newSite(t, func(o *web.Options) {
		o.Prune = func(ctx context.Context, _ *blobindex.Index, _ *janitor.RunOptions) (janitor.Report, error) {
			close(began)
			<-ctx.Done()
			close(ended)
			return janitor.Report{}, ctx.Err()
		}
	})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL+pruning, nil)
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
			res.Body.Close()
			t.Error("it was answered")
		}
	}()
	<-began
	leave()
	<-ended
	<-left
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestPrune_TakesItsTime: a pass may take longer than the limits of other requests, and 15 minutes at the most.
func TestPrune_TakesItsTime(t *testing.T) {
	for _, tc := range []struct {
		takes  time.Duration
		status int
	}{{14 * time.Minute, http.StatusOK}, {16 * time.Minute, http.StatusServiceUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			status, body := overPipe(t, nil, func(ctx context.Context, _ *blobindex.Index, _ *janitor.RunOptions) (janitor.Report, error) {
				select {
				case <-time.After(tc.takes):
					return janitor.Report{Clock: blobindex.StoreClock}, nil
				case <-ctx.Done():
					return janitor.Report{}, ctx.Err()
				}
			})
			if took := time.Since(began); status != tc.status || took != min(tc.takes, 15*time.Minute) {
				t.Errorf("a pass of %v: status %d after %v: %s", tc.takes, status, took, body)
			}
		})
	}
}

// TestCase_C58_SlowBodyOfAPass: nobody reads the body of a request for a pass, but it has to come in time, as any other: before
// the pass, and so that a client that leaves then is seen.
func TestCase_C58_SlowBodyOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes, began := 0, time.Now()
		body, stuck := io.Pipe()
		defer stuck.Close()
		status, answer := overPipe(t, body, func(context.Context, *blobindex.Index, *janitor.RunOptions) (janitor.Report, error) {
			passes++
			return janitor.Report{Clock: blobindex.StoreClock}, nil
		})
		if took := time.Since(began); status != http.StatusRequestTimeout || took > time.Minute || passes > 0 {
			t.Errorf("status %d after %v, %d passes: %s", status, took, passes, answer)
		}
	})
	newSite(t).do("POST", pruning, strings.Repeat("x", 1<<20)).problem(http.StatusRequestEntityTooLarge, "too_large")
	newSite(t).do("POST", pruning, "{}").want(http.StatusOK)
}

// overPipe asks a server, with all limits of a real one, for a pass, over a connection within the bubble.
func overPipe(t *testing.T, sent io.Reader, prune func(context.Context, *blobindex.Index, *janitor.RunOptions) (janitor.Report, error)) (int, string) {
	t.Helper()
	s := &site{t: t, clock: &clock{t: start}}
	x, err := blobindex.New(nil, blobindex.Config{}, &blobindex.Options{Now: s.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	h, err := web.New([]*blobindex.Index{x}, always, &web.Options{Now: s.clock.now, Prune: prune})
	if err != nil {
		t.Fatal(err)
	}
	l := newPipes()
	server := web.NewHTTPServer(t.Context(), h, nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	transport := &http.Transport{DialContext: l.dial}
	defer func() {
		transport.CloseIdleConnections()
		server.Close()
		<-done
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+pruning, sent)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// pipes are a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), gone: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.gone:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.gone:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.gone) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
