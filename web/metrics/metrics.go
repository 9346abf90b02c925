package metrics

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options of New; nil and zero fields mean the defaults.
type Options struct {
	// Version is that of the program, default "unknown".
	Version string
	// Views tells of the shared views that are open; it is called at each scrape and must not block. Nil: there are none.
	Views func() []View
	// Now is the host's clock, default time.Now.
	Now func() time.Time
}

// Metrics are those of one server. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	now      func() time.Time

	store   storeMetrics
	http    requestMetrics
	work    workMetrics
	handler http.Handler
}

// Scrapes are few and cheap; who sends many at once waits for nobody.
const (
	maxScrapes    = 4
	scrapeTimeout = 10 * time.Second
)

// New returns metrics that stand at zero.
func New(opt *Options) *Metrics {
	if opt == nil {
		opt = &Options{}
	}
	m := &Metrics{registry: prometheus.NewRegistry(), now: opt.Now}
	if m.now == nil {
		m.now = time.Now
	}
	version := opt.Version
	if version == "" {
		version = "unknown"
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "indexd_build_info", Help: "1, with the version of the program and of Go in the labels.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.store.register(m.registry)
	m.http.register(m.registry)
	m.work.register(m.registry)
	if opt.Views != nil {
		m.registry.MustRegister(viewCollector{opt.Views})
	}
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry: m.registry, MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout, EnableOpenMetrics: true,
	})
	return m
}

// Handler answers scrapes, whatever their path and method. Who may scrape is for others to say.
func (m *Metrics) Handler() http.Handler { return m.handler }

// Gatherer is for tests, and for those who send the metrics on.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// durations are the bounds of all histograms, in seconds: from an answer out of memory to the longest that a request may take.
var durations = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durations}, labels)
}
