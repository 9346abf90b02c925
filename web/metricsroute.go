package web

import (
	"maps"
	"net/http"

	"github.com/labstack/echo/v4"
)

// metrics is GET /metrics.
func (s *Server) metrics(c echo.Context) error {
	if s.opt.Metrics == nil {
		return &problem{
			status: http.StatusNotFound, code: codeNotFound,
			detail: "This server counts nothing.", action: "Ask one that was started by \"indexd serve\".",
		}
	}
	s.opt.Metrics.ServeHTTP(c.Response(), c.Request())
	return nil
}

// MetricsOnly returns a handler that answers GET /metrics by h and nothing else, for a listener of its own. There is no
// authentication. With loopback it answers under loopback names only, as a server without authentication does: pages of others
// that a browser on this host shows must not read it.
func MetricsOnly(h http.Handler, loopback bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), secure())
		switch {
		case loopback && !underLoopback(r):
			http.Error(w, "Use a loopback name.", http.StatusForbidden)
		case r.URL.Path != metricsRoute:
			http.Error(w, "There is nothing but /metrics.", http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "Use GET.", http.StatusMethodNotAllowed)
		default:
			h.ServeHTTP(w, r)
		}
	})
}
