package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/metrics"
)

// newMetrics returns the metrics of a server of this program, whose views have room for so many cards. The server may come to
// exist later, but before anybody scrapes.
func newMetrics(views func() []live.Stats, cards int) *metrics.Metrics {
	return metrics.New(&metrics.Options{Version: version(), Views: func() []metrics.View {
		var all []metrics.View
		for _, s := range views() {
			all = append(all, metrics.View{Stats: s, Cards: min(s.Counts.Live, cards)})
		}
		return all
	}})
}

// observed hands on to the metrics what a server tells of its requests.
func observed(m *metrics.Metrics) func(web.Request) {
	return func(r web.Request) { m.Request(r.Method, r.Route, r.Status, r.Duration) }
}

func metricsFlag(cmd *cobra.Command) {
	cmd.Flags().String("metrics-listen", "", "address to answer GET /metrics on, to whoever reaches it, such as 127.0.0.1:9090")
}

func (s *settings) checkMetricsListen() error {
	if s.MetricsListen == "" {
		return nil
	}
	return s.blame("metrics_listen", checkAddress(s.MetricsListen))
}

// listenMetrics listens for scrapes where that was asked for; nil if not. Any address is listened on, also one that lets other
// hosts in: it is listened on because somebody has written it, Prometheus is on another host as a rule, and what is told are
// numbers, with the names of indexes, and of namespaces while they are watched. It is said in the log.
func (s *settings) listenMetrics(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	if s.MetricsListen == "" {
		return nil, nil
	}
	l, err := listenOn(ctx, "metrics-listen", s.MetricsListen)
	if err != nil {
		return nil, err
	}
	if !loopbackOnly(l) {
		log.Warn("metrics are answered to other hosts, without authentication", "address", l.Addr().String())
	}
	log.Info("metrics are answered", "url", "http://"+l.Addr().String()+"/metrics")
	return l, nil
}

func loopbackOnly(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// A side is a listener for metrics alone, which is served until the server has stopped.
type side struct {
	listener net.Listener
	handler  http.Handler
}

func metricsSide(l net.Listener, m *metrics.Metrics) *side {
	if l == nil {
		return nil
	}
	return &side{l, web.MetricsOnly(m.Handler(), loopbackOnly(l))}
}

// start serves. What it returns stops that, and waits: scrapes are short, and nobody waits for their end.
func (s *side) start(ctx context.Context, log *slog.Logger) (stop func()) {
	if s == nil {
		return func() {}
	}
	server := web.NewHTTPServer(context.WithoutCancel(ctx), s.handler, log)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(s.listener); err != nil && ctx.Err() == nil {
			log.Error("metrics are not answered any more", "error", err)
		}
	}()
	return func() {
		server.Close()
		<-done
	}
}
