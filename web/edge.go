package web

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// maxBody is the most bytes that a body may have: labels of 1 KiB fit, however a client escapes them.
const maxBody = 8 << 10

// contentPolicy allows the page its own script, style and icon, and nothing else; above all no inline script.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// edge checks and prepares a request before it is routed.
func (s *Server) edge(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		maps.Copy(c.Response().Header(), s.secured)
		r := c.Request()
		for _, check := range []func(*http.Request) *problem{s.checkHost, s.checkOrigin, checkPath} {
			if p := check(r); p != nil {
				return p
			}
		}
		if s.shareWith(c) {
			return c.NoContent(http.StatusNoContent)
		}
		limit := s.bodyLimit(r)
		if r.ContentLength > limit {
			return tooLarge(limit)
		}
		if r.Body != http.NoBody {
			r.Body = http.MaxBytesReader(c.Response().Writer, r.Body, limit) // r is a copy of our own
		}
		return next(c)
	}
}

// limited ends what a route does after Options.Timeout.
func (s *Server) limited(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), s.opt.Timeout)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// secure returns what stands in the header of every answer. The answers share its values, which nobody changes: who wants another
// one sets another one.
func secure() http.Header {
	h := make(http.Header)
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	// Not no-referrer, with which browsers do not say where a form of ours comes from.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store") // answers that have an ETag replace it
	return h
}

// checkPath refuses empty segments and dot segments, which proxies and clients resolve, each in its own way.
func checkPath(r *http.Request) *problem {
	path := r.URL.EscapedPath()
	if path == "/" {
		return nil
	}
	rest, ok := strings.CutPrefix(path, "/")
	for segment := range strings.SplitSeq(rest, "/") {
		ok = ok && segment != "" && segment != "." && segment != ".."
	}
	if ok {
		return nil
	}
	return badRequest("The path has an empty segment or a dot segment.",
		"Send ids and names percent-encoded, as one segment each, with no slash at the end.")
}

// bodyLimit is the most bytes that the body of a request may have.
func (s *Server) bodyLimit(r *http.Request) int64 {
	upload := r.Method == http.MethodPost || r.Method == http.MethodPut
	switch {
	case s.shelf != nil && upload && strings.HasPrefix(r.URL.Path, manifestRoot):
		return s.shelf.MaxUpload
	case s.gallery != nil && upload && strings.HasPrefix(r.URL.Path, snapshotRoot):
		return s.gallery.MaxUpload
	}
	return maxBody
}
