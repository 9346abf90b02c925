package metrics

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/prune/janitor"
)

// What a server does by itself, and is told to do.
type workMetrics struct {
	deleted     *prometheus.CounterVec
	failures    *prometheus.CounterVec
	dropped     prometheus.Counter
	passes      *prometheus.CounterVec
	lastPass    *prometheus.GaugeVec
	leases      *prometheus.CounterVec
	snapshots   *prometheus.CounterVec
	lastPublish *prometheus.GaugeVec
	collections *prometheus.CounterVec
	collected   prometheus.Counter
	slow        prometheus.Counter
	listings    *prometheus.CounterVec
}

// Who deletes.
const (
	bySweep = "sweep"
	byPass  = "pass"
)

// The results of passes. One without a lease has done its work all the same.
const (
	passDone        = "done"
	passUnguarded   = "lease_unavailable"
	passWithheld    = "withheld"
	passHeld        = "lease_held"
	passFailed      = "failed"
	passInterrupted = "interrupted"
)

func (w *workMetrics) register(reg prometheus.Registerer) {
	w.deleted = counter("indexd_deleted_keys_total",
		"Keys that were deleted since they are proven to be over, by who did (sweep or pass) and reason.", "by", "reason")
	w.failures = counter("indexd_delete_failures_total", "Keys that could not be deleted, by who tried; they are tried again.", "by")
	w.dropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "indexd_sweep_dropped_keys_total", Help: "Keys that readers found to be over and the sweeper had no room for.",
	})
	w.passes = counter("indexd_passes_total", "Passes of pruning, by index and result.", "index", "result")
	w.lastPass = gauge("indexd_pass_last_success_timestamp_seconds",
		"When a pass over the index came to its end the last time, with a lease or without.", "index")
	w.leases = counter("indexd_lease_outcomes_total",
		"What became of leases that were asked for: acquired, held by somebody else, lost while held, broken by an operator.", "outcome")
	w.snapshots = counter("indexd_snapshot_publications_total",
		"Publications of the directories of the configuration, by snapshot and outcome.", "namespace", "name", "outcome")
	w.lastPublish = gauge("indexd_snapshot_last_success_timestamp_seconds",
		"When the directory was published, or found to be unchanged, the last time.", "namespace", "name")
	w.collections = counter("indexd_manifest_gc_runs_total", "Collections of the files of manifests, by result.", "result")
	w.collected = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "indexd_manifest_gc_deleted_files_total", Help: "Files that no entry of a manifest had any more, and that were deleted.",
	})
	w.slow = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "indexd_sse_dropped_total", Help: "Streams of events that were ended since their client did not keep up.",
	})
	w.listings = counter("indexd_view_listings_total", "Listings of namespaces that are watched, by result; each is one for all viewers.",
		"result")
	reg.MustRegister(w.deleted, w.failures, w.dropped, w.passes, w.lastPass, w.leases, w.snapshots, w.lastPublish, w.collections,
		w.collected, w.slow, w.listings)
	for _, r := range []string{"ok", "failed"} {
		w.listings.WithLabelValues(r)
	}
	for _, by := range []string{bySweep, byPass} {
		w.failures.WithLabelValues(by)
	}
	for _, o := range []string{"acquired", "held", "lost", "broken"} {
		w.leases.WithLabelValues(o)
	}
	for _, r := range []string{passDone, passHeld, passFailed} {
		w.collections.WithLabelValues(r)
	}
}

// Swept counts a batch of the sweeper: the keys that it deleted by reason, those that it could not, and those that it dropped.
func (m *Metrics) Swept(deleted map[string]int, failed, dropped int) {
	m.work.count(bySweep, deleted, failed)
	m.work.dropped.Add(float64(dropped))
}

func (w *workMetrics) count(by string, deleted map[string]int, failed int) {
	for reason, n := range deleted {
		w.deleted.WithLabelValues(by, reason).Add(float64(n))
	}
	w.failures.WithLabelValues(by).Add(float64(failed))
}

// Pass counts a pass over an index of the configuration, with what Janitor.Run returned. A dry run is none.
func (m *Metrics) Pass(index string, r janitor.Report, err error) {
	m.work.count(byPass, r.Deleted, r.Failures)
	m.Lease(r.Term, err)
	result := passResult(r, err)
	m.work.passes.WithLabelValues(index, result).Inc()
	if result == passDone || result == passUnguarded {
		m.work.lastPass.WithLabelValues(index).Set(float64(m.now().UnixMilli()) / 1000)
	}
}

func passResult(r janitor.Report, err error) string {
	switch {
	case errors.Is(err, lease.ErrHeld):
		return passHeld
	case errors.Is(err, context.Canceled) && !errors.Is(err, lease.ErrLost):
		return passInterrupted
	case err != nil:
		return passFailed
	case r.Withheld != "":
		return passWithheld
	case r.Unguarded != "":
		return passUnguarded
	}
	return passDone
}

// Lease counts what became of a lease that was asked for: the term that was acquired, 0 if none was, and what the work under it
// ended with.
func (m *Metrics) Lease(term uint64, err error) {
	if term > 0 {
		m.work.leases.WithLabelValues("acquired").Inc()
	}
	switch {
	case errors.Is(err, lease.ErrHeld):
		m.work.leases.WithLabelValues("held").Inc()
	case errors.Is(err, lease.ErrBroken):
		m.work.leases.WithLabelValues("broken").Inc()
	case errors.Is(err, lease.ErrLost):
		m.work.leases.WithLabelValues("lost").Inc()
	}
}

// Published counts a publication of a directory of the configuration, with what Snapshot.Publish returned.
func (m *Metrics) Published(namespace, name string, outcome snapshot.Outcome, err error) {
	text := string(outcome)
	if err != nil {
		text = "failed"
	}
	m.work.snapshots.WithLabelValues(namespace, name, text).Inc()
	if err == nil && outcome != snapshot.Superseded {
		m.work.lastPublish.WithLabelValues(namespace, name).Set(float64(m.now().UnixMilli()) / 1000)
	}
}

// Collected counts a collection of the files of one manifest: under which term, how many files it deleted, and what it ended
// with.
func (m *Metrics) Collected(term uint64, deleted int, err error) {
	m.Lease(term, err)
	m.work.collected.Add(float64(deleted))
	result := passDone
	switch {
	case errors.Is(err, lease.ErrHeld):
		result = passHeld
	case err != nil:
		result = passFailed
	}
	m.work.collections.WithLabelValues(result).Inc()
}

// Observe counts what happens to shared views.
func (m *Metrics) Observe(o live.Observation) {
	switch o.Kind {
	case live.Slow:
		m.work.slow.Inc()
	case live.Listed:
		result := "ok"
		if o.Err != nil {
			result = "failed"
		}
		m.work.listings.WithLabelValues(result).Inc()
	}
}
