package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/castest"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/prune/janitor"
	"github.com/blobindex/indexd/web/metrics"
)

var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape asks over HTTP and parses the answer as Prometheus does.
func scrape(t *testing.T, m *metrics.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// values are the samples of a metric by the values of its labels, in the order of their names; counts of histograms.
func values(f *dto.MetricFamily) map[string]float64 {
	all := map[string]float64{}
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetValue())
		}
		v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		if v != 0 {
			all[strings.Join(labels, " ")] = v
		}
	}
	return all
}

func want(t *testing.T, m *metrics.Metrics, name string, want map[string]float64) {
	t.Helper()
	f := scrape(t, m)[name]
	if f == nil && len(want) > 0 {
		t.Errorf("no %s", name)
	}
	if diff := cmp.Diff(want, values(f)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

// busy are metrics of which each has at least one sample.
func busy() *metrics.Metrics {
	m := metrics.New(&metrics.Options{Version: "v1.2.3", Views: func() []metrics.View {
		return []metrics.View{{Stats: live.Stats{Index: "running", Namespace: "team", AsOf: start, Age: time.Second, Streams: 2}}}
	}})
	m.Objects(membucket.New(nil)).Delete(context.Background(), []bucket.Key{"x"})
	m.Request("GET", "/healthz", 200, time.Millisecond)
	m.Swept(map[string]int{"stale": 1}, 1, 1)
	m.Pass("running", janitor.Report{Term: 1}, nil)
	m.Published("team", "files", snapshot.Published, nil)
	m.Collected(1, 1, nil)
	m.Observe(live.Observation{Kind: live.Slow})
	return m
}

// TestLint: names, units, help and types are as Prometheus wants them, and everything begins with our name or that of the
// library's own collectors.
func TestLint(t *testing.T) {
	m := busy()
	problems, err := testutil.GatherAndLint(m.Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for name := range scrape(t, m) {
		if !strings.HasPrefix(name, "indexd_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") &&
			!strings.HasPrefix(name, "promhttp_") {
			t.Errorf("whose is %s?", name)
		}
	}
	want(t, m, "indexd_sse_dropped_total", map[string]float64{"": 1})
	for labels := range values(scrape(t, m)["indexd_build_info"]) {
		if !strings.HasSuffix(labels, " v1.2.3") || !strings.HasPrefix(labels, "go1.") {
			t.Errorf("built as %q", labels)
		}
	}
}

// TestConformance: a store is not another one for being counted.
func TestConformance(t *testing.T) {
	t.Run("objects", func(t *testing.T) {
		buckettest.Run(t, buckettest.Config{
			New:   func(testing.TB) bucket.Objects { return metrics.New(nil).Objects(membucket.New(nil)) },
			Empty: true, Sorted: true, PageByPage: true, TellsTime: true,
		})
	})
	t.Run("documents", func(t *testing.T) {
		castest.Run(t, castest.Config{
			New:             func(testing.TB) cas.Store { return metrics.New(nil).Objects(membucket.New(nil)).(cas.Store) },
			ContentVersions: true, TellsTime: true,
		})
	})
	if _, ok := metrics.New(nil).Objects(fakes.NewCounter(membucket.New(nil))).(cas.Store); ok {
		t.Error("a store without conditional writes has got some")
	}
}

// TestStore_AsCounted: the numbers are those of who counts beside it.
func TestStore_AsCounted(t *testing.T) {
	m := metrics.New(nil)
	counter := fakes.NewCounter(membucket.New(nil))
	objects := m.Objects(counter)
	ctx := t.Context()
	var keys []bucket.Key
	for i := range 2001 {
		key := bucket.Key(fmt.Sprintf("k/%04d", i))
		if _, err := objects.Put(ctx, key, nil); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	pages := 0
	if err := objects.List(ctx, bucket.ListRequest{}, func(bucket.Page) error { pages++; return nil }); err != nil || pages != 3 {
		t.Fatalf("%d pages, %v", pages, err)
	}
	enough := errors.New("enough")
	if err := objects.List(ctx, bucket.ListRequest{}, func(bucket.Page) error { return enough }); err != enough {
		t.Fatal(err)
	}
	if body, err := objects.Open(ctx, keys[0]); err == nil {
		body.Close()
	}
	objects.Head(ctx, keys[0])
	if errs := objects.Delete(ctx, keys); errs != nil {
		t.Fatal(errs)
	}
	objects.Delete(ctx, nil)
	n := counter.Snapshot()
	want(t, m, "indexd_store_requests_total", map[string]float64{
		"list ok": float64(n.List), "put ok": float64(n.Put), "get ok": float64(n.Open), "head ok": float64(n.Head),
		"delete ok": float64(n.Delete),
	})
	want(t, m, "indexd_store_request_duration_seconds", map[string]float64{
		"list": 4, "put": 2001, "get": 1, "head": 1, "delete": 3,
	})
	want(t, m, "indexd_store_delete_keys_total", map[string]float64{"ok": float64(n.DeleteKeys)})
}

// TestStore_Results: each way in which a request can fail has its name, an open outcome before all others.
func TestStore_Results(t *testing.T) {
	for name, err := range map[string]error{
		"not_found": bucket.ErrNotExist, "denied": bucket.ErrDenied, "throttled": bucket.ErrThrottled, "conflict": cas.ErrConflict,
		"canceled": context.Canceled, "timeout": context.DeadlineExceeded, "unavailable": io.ErrUnexpectedEOF,
		"unknown": fmt.Errorf("%w: %w: %w", bucket.ErrThrottled, context.DeadlineExceeded, bucket.ErrUnknown),
	} {
		m := metrics.New(nil)
		objects := m.Objects(failing{err})
		ctx := t.Context()
		objects.List(ctx, bucket.ListRequest{}, func(bucket.Page) error { return nil })
		objects.Put(ctx, "x", nil)
		objects.Open(ctx, "x")
		objects.Head(ctx, "x")
		objects.Delete(ctx, []bucket.Key{"x", "y"})
		store := objects.(cas.Store)
		store.Load(ctx, "x")
		store.Save(ctx, "x", nil, cas.IfAbsent())
		all := map[string]float64{}
		for _, op := range []string{"list", "put", "get", "head", "delete", "load", "save"} {
			all[op+" "+name] = 1
		}
		want(t, m, "indexd_store_requests_total", all)
		want(t, m, "indexd_store_delete_keys_total", map[string]float64{name: 2})
	}
}

// TestStore_FailedPage: the pages that came were answered, the one that did not failed.
func TestStore_FailedPage(t *testing.T) {
	mem := membucket.New(nil)
	for i := range 1500 {
		if _, err := mem.Put(t.Context(), bucket.Key(fmt.Sprint(i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	m := metrics.New(nil)
	faulty := fakes.NewFaulty(t, mem, fakes.Fault{Op: fakes.List, Kind: fakes.FailPage(2, bucket.ErrThrottled)})
	if err := m.Objects(faulty).List(t.Context(), bucket.ListRequest{}, func(bucket.Page) error { return nil }); err == nil {
		t.Fatal("it does not fail")
	}
	want(t, m, "indexd_store_requests_total", map[string]float64{"list ok": 1, "list throttled": 1})
}

// TestStore_Duration: what the caller does with a page is not the store's time.
func TestStore_Duration(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	m := metrics.New(&metrics.Options{Now: func() time.Time { return now }})
	mem := membucket.New(&membucket.Options{PageSize: 1})
	for _, key := range []bucket.Key{"a", "b"} {
		if _, err := mem.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	objects := m.Objects(slow{mem, func(d time.Duration) { now = now.Add(d) }})
	err := objects.List(t.Context(), bucket.ListRequest{}, func(bucket.Page) error { now = now.Add(time.Hour); return nil })
	if err != nil {
		t.Fatal(err)
	}
	h := scrape(t, m)["indexd_store_request_duration_seconds"].GetMetric()[0].GetHistogram()
	if got := h.GetSampleSum(); math.Abs(got-3) > 1e-9 {
		t.Errorf("the pages took %v s, want 3", got)
	}
}

// slow answers a listing after three seconds.
type slow struct {
	bucket.Objects
	wait func(time.Duration)
}

func (s slow) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	s.wait(3 * time.Second)
	return s.Objects.List(ctx, req, fn)
}

// failing answers every request with its error.
type failing struct{ err error }

func (f failing) List(context.Context, bucket.ListRequest, func(bucket.Page) error) error {
	return f.err
}
func (f failing) Put(context.Context, bucket.Key, io.Reader) (time.Time, error) {
	return time.Time{}, f.err
}
func (f failing) Open(context.Context, bucket.Key) (io.ReadCloser, error) { return nil, f.err }
func (f failing) Head(context.Context, bucket.Key) (bucket.Object, error) {
	return bucket.Object{}, f.err
}
func (f failing) Delete(_ context.Context, keys []bucket.Key) []error {
	errs := make([]error, len(keys))
	for i := range errs {
		errs[i] = f.err
	}
	return errs
}
func (f failing) Load(context.Context, bucket.Key) (cas.Object, error) { return cas.Object{}, f.err }
func (f failing) Save(context.Context, bucket.Key, []byte, cas.Precondition) (cas.Version, error) {
	return "", f.err
}

func TestRequests(t *testing.T) {
	m := metrics.New(nil)
	for status, times := range map[int]int{200: 1, 204: 2, 304: 1, 404: 1, 503: 3, 0: 1, 999: 1} {
		for range times {
			m.Request("GET", "/v1/indexes", status, time.Second)
		}
	}
	m.Request("other", "", 401, time.Second)
	want(t, m, "indexd_http_requests_total", map[string]float64{
		"2xx GET /v1/indexes": 3, "3xx GET /v1/indexes": 1, "4xx GET /v1/indexes": 1, "5xx GET /v1/indexes": 3,
		"none GET /v1/indexes": 2, "4xx other -": 1,
	})
	want(t, m, "indexd_http_request_duration_seconds", map[string]float64{"GET /v1/indexes": 10, "other -": 1})
}

func TestPasses(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	m := metrics.New(&metrics.Options{Now: func() time.Time { return now }})
	const last = "indexd_pass_last_success_timestamp_seconds"
	at := func() map[string]float64 { return map[string]float64{"running": float64(now.Unix())} }
	m.Pass("running", janitor.Report{Term: 1, Deleted: map[string]int{"stale": 3, "superseded": 1}, Failures: 2}, nil)
	want(t, m, last, at())
	before := at()
	now = now.Add(time.Hour)
	m.Pass("running", janitor.Report{}, &lease.HeldError{})
	m.Pass("running", janitor.Report{Term: 2, Deleted: map[string]int{"stale": 1}}, fmt.Errorf("pruning: %w", lease.ErrLost))
	m.Pass("running", janitor.Report{Term: 3}, fmt.Errorf("%w: %w", lease.ErrLost, lease.ErrBroken))
	m.Pass("running", janitor.Report{Term: 4}, bucket.ErrThrottled)
	m.Pass("running", janitor.Report{Term: 5}, context.Canceled)
	m.Pass("running", janitor.Report{Term: 6, Withheld: "no clock", Unguarded: "x"}, nil)
	want(t, m, last, before)
	m.Pass("running", janitor.Report{Unguarded: "no conditional writes"}, nil)
	want(t, m, last, at())
	want(t, m, "indexd_passes_total", map[string]float64{
		"running done": 1, "running lease_held": 1, "running failed": 3, "running interrupted": 1, "running withheld": 1,
		"running lease_unavailable": 1,
	})
	want(t, m, "indexd_lease_outcomes_total", map[string]float64{"acquired": 6, "held": 1, "lost": 1, "broken": 1})
	m.Swept(map[string]int{"stale": 10}, 1, 5)
	want(t, m, "indexd_deleted_keys_total", map[string]float64{"pass stale": 4, "pass superseded": 1, "sweep stale": 10})
	want(t, m, "indexd_delete_failures_total", map[string]float64{"pass": 2, "sweep": 1})
	want(t, m, "indexd_sweep_dropped_keys_total", map[string]float64{"": 5})
}

func TestSnapshotsAndManifests(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	m := metrics.New(&metrics.Options{Now: func() time.Time { return now }})
	m.Published("team", "files", snapshot.Published, nil)
	m.Published("team", "files", snapshot.Unchanged, nil)
	good := float64(now.Unix())
	now = now.Add(time.Hour)
	m.Published("team", "files", snapshot.Superseded, nil)
	m.Published("team", "files", "", io.ErrUnexpectedEOF)
	want(t, m, "indexd_snapshot_publications_total", map[string]float64{
		"files team published": 1, "files team unchanged": 1, "files team superseded": 1, "files team failed": 1,
	})
	want(t, m, "indexd_snapshot_last_success_timestamp_seconds", map[string]float64{"files team": good})
	m.Collected(1, 7, nil)
	m.Collected(0, 0, &lease.HeldError{})
	m.Collected(2, 1, lease.ErrLost)
	want(t, m, "indexd_manifest_gc_runs_total", map[string]float64{"done": 1, "lease_held": 1, "failed": 1})
	want(t, m, "indexd_manifest_gc_deleted_files_total", map[string]float64{"": 8})
	want(t, m, "indexd_lease_outcomes_total", map[string]float64{"acquired": 2, "held": 1, "lost": 1})
}

// TestViews: each number is the view's, and of more views than have series the first by name have them.
func TestViews(t *testing.T) {
	views := []metrics.View{
		{Cards: 8, Stats: live.Stats{
			Index: "running", Namespace: "team", AsOf: start, Age: 1500 * time.Millisecond, StaleSince: start, Streams: 3,
			Counts: prune.Counts{Live: 10, Foreign: 2, BornLate: 3, Stale: 4},
		}},
		{Stats: live.Stats{Index: "a", Namespace: "_", Streams: 1}}, // not listed yet
	}
	m := metrics.New(&metrics.Options{Views: func() []metrics.View { return views }})
	for name, v := range map[string]float64{
		"listing_age_seconds": 1.5, "incomplete": 1, "cards": 8, "live_items": 10, "foreign_keys": 2, "born_late_items": 3,
		"stale_items": 4, "streams": 3,
	} {
		all := map[string]float64{"running team": v}
		if name == "streams" || name == "incomplete" {
			all["a _"] = 1
		}
		want(t, m, "indexd_view_"+name, all)
	}
	if n := len(scrape(t, m)["indexd_view_live_items"].GetMetric()); n != 1 {
		t.Errorf("%d views tell how much is running, of which one knows", n)
	}
	want(t, m, "indexd_sse_clients", map[string]float64{"": 4})
	views = nil
	want(t, m, "indexd_view_streams", map[string]float64{})
	for i := range metrics.MaxViews + 10 {
		views = append([]metrics.View{{Stats: live.Stats{Index: "running", Namespace: fmt.Sprintf("n%04d", i), Streams: 1}}}, views...)
	}
	families := scrape(t, m)
	if got := len(families["indexd_view_streams"].GetMetric()); got != metrics.MaxViews {
		t.Errorf("%d views have series", got)
	}
	if got := values(families["indexd_views_open"])[""]; got != metrics.MaxViews+10 {
		t.Errorf("%v views are told to be open", got)
	}
	if _, ok := values(families["indexd_view_streams"])["running n0000"]; !ok {
		t.Error("the first by name has no series")
	}
}

// TestHandler_OneServerEach: two servers in one process count for themselves.
func TestHandler_OneServerEach(t *testing.T) {
	one, two := metrics.New(nil), metrics.New(nil)
	one.Observe(live.Observation{Kind: live.Slow})
	want(t, one, "indexd_sse_dropped_total", map[string]float64{"": 1})
	want(t, two, "indexd_sse_dropped_total", map[string]float64{})
}

func TestObserve(t *testing.T) {
	m := metrics.New(nil)
	m.Observe(live.Observation{Kind: live.Listed})
	m.Observe(live.Observation{Kind: live.Listed})
	m.Observe(live.Observation{Kind: live.Listed, Err: bucket.ErrThrottled})
	m.Observe(live.Observation{Kind: live.Opened})
	want(t, m, "indexd_view_listings_total", map[string]float64{"ok": 2, "failed": 1})
	want(t, m, "indexd_sse_dropped_total", map[string]float64{})
}
