package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type requestMetrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func (r *requestMetrics) register(reg prometheus.Registerer) {
	r.requests = counter("indexd_http_requests_total",
		"Requests that were answered, by method, pattern of the path (- for none, and for who may not come in) and class of status.",
		"method", "route", "class")
	r.durations = histogram("indexd_http_request_duration_seconds",
		"Time that requests took, by method and pattern of the path; streams are as long as they are watched.", "method", "route")
	reg.MustRegister(r.requests, r.durations)
}

// Request counts a request that was answered. method and route are of fixed sets: neither may be what a client has sent; an
// empty route is told as "-".
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	if route == "" {
		route = "-"
	}
	class := "none"
	if status >= 100 && status < 600 {
		class = strconv.Itoa(status/100) + "xx"
	}
	m.http.requests.WithLabelValues(method, route, class).Inc()
	m.http.durations.WithLabelValues(method, route).Observe(took.Seconds())
}
