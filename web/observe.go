package web

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/labstack/echo/v4"
)

// observe logs each request by its route, so that no id, name or query gets into the log.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		method, began := c.Request().Method, s.opt.Now()
		if err := next(c); err != nil {
			s.refuse(err, c) // here, so that the status is known below
		}
		s.opt.Log.LogAttrs(c.Request().Context(), slog.LevelInfo, "request",
			slog.String("method", known(method)), slog.String("route", c.Path()),
			slog.Int("status", c.Response().Status), slog.Duration("duration", s.opt.Now().Sub(began)))
		return nil
	}
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
			s.opt.Log.Error("panic", "route", c.Path(), "value", v, "stack", string(debug.Stack()))
			err = internal(nil)
		}()
		return next(c)
	}
}
