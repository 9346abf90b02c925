package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"
)

// A Request is what an answered request came to, with nothing in it that its client has chosen.
type Request struct {
	Method string // one that HTTP knows, else "other"
	// Route is the pattern of the path, such as /v1/indexes/:index/:namespace/cards; empty if it is of none, and where the
	// answer is 401 or 403: who may not come in leaves no trace by what they asked for.
	Route    string
	Status   int
	Duration time.Duration
}

// observe gives each request its id, and logs it by its route, so that no name or query gets into the log.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := s.opt.Now()
		method := identify(c)
		answered := false
		defer func() { s.observed(c, method, began, answered) }()
		if err := next(c); err != nil {
			s.refuse(err, c) // here, so that the status is known below
		}
		answered = true
		return nil
	}
}

// identify gives the request its id, and returns the method that it came with.
func identify(c echo.Context) (method string) {
	r := c.Request()
	id := requestID(r.Header)
	c.SetRequest(r.WithContext(WithRequestID(r.Context(), id)))
	c.Response().Header().Set(requestIDHeader, id)
	return r.Method
}

// observed tells of a request that is over: answered, or broken off by a panic that goes on to net/http.
func (s *Server) observed(c echo.Context, method string, began time.Time, answered bool) {
	ctx := c.Request().Context()
	r := Request{Method: known(method), Route: c.Path(), Status: c.Response().Status, Duration: s.opt.Now().Sub(began)}
	if !answered {
		s.log.LogAttrs(ctx, slog.LevelInfo, "request broken off", slog.String("method", r.Method), slog.String("route", r.Route))
		return
	}
	s.log.LogAttrs(ctx, levelOf(r), "request", slog.String("method", r.Method), slog.String("route", r.Route),
		slog.Int("status", r.Status), slog.Duration("duration", r.Duration))
	if r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden {
		r.Route = ""
	}
	if s.opt.Observe != nil {
		s.opt.Observe(r)
	}
}

// levelOf is that of the line about a request. Probes and scrapes that find all well come every few seconds, and say nothing.
func levelOf(r Request) slog.Level {
	switch r.Route {
	case "/healthz", "/readyz", metricsRoute:
		if r.Status < http.StatusBadRequest {
			return slog.LevelDebug
		}
	}
	return slog.LevelInfo
}

// known keeps a method of anybody's invention out of the log.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch,
		http.MethodOptions:
		return method
	}
	return "other"
}

// recover turns a panic into an answer. http.ErrAbortHandler goes on to net/http, which it is for.
func (s *Server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.panicked(c.Request().Context(), c.Path(), v)
			err = internal(nil)
		}()
		return next(c)
	}
}

// panicked logs a panic. Its value may quote the request; the stack has none but our own names.
func (s *Server) panicked(ctx context.Context, route string, v any) {
	s.log.ErrorContext(ctx, "panic", "route", route, "value", fmt.Errorf("%v", v), "stack", string(debug.Stack()))
}
