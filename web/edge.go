package web

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

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
		secure(c.Response().Header())
		r := c.Request()
		for _, check := range []func(*http.Request) *problem{checkHost, checkOrigin, checkPath} {
			if p := check(r); p != nil {
				return p
			}
		}
		limit := s.bodyLimit(r)
		if r.ContentLength > limit {
			return tooLarge(limit)
		}
		r.Body = http.MaxBytesReader(c.Response().Writer, r.Body, limit) // r is a copy of our own
		return next(c)
	}
}

// markerTimeout is the longest that a request may take that writes a marker.
const markerTimeout = 10 * time.Second

// limit is limited, for a route that writes.
func (s *Server) limit(route string) echo.MiddlewareFunc {
	if strings.HasPrefix(route, namespaceRoute+"/items") {
		return s.limited(min(s.opt.Timeout, markerTimeout))
	}
	return s.limited(s.opt.Timeout)
}

// limited ends what a route does after a time.
func (s *Server) limited(d time.Duration) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx, cancel := context.WithTimeout(c.Request().Context(), d)
			defer cancel()
			c.SetRequest(c.Request().WithContext(ctx))
			return next(c)
		}
	}
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store") // answers that have an ETag replace it
}

// checkHost refuses names that some DNS answer has pointed at this host: such a page may read whatever it gets.
func checkHost(r *http.Request) *problem {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(r.Host, "["), "]")
	}
	if loopback(host) {
		return nil
	}
	return &problem{
		status: http.StatusForbidden, code: codeHost,
		detail: "This server answers only under a loopback name.",
		action: "Use http://localhost or http://127.0.0.1 with the port of the server.",
	}
}

// checkOrigin refuses mutations that a browser sends on behalf of another site.
func checkOrigin(r *http.Request) *problem {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	site := r.Header.Get("Sec-Fetch-Site")
	foreign := site != "" && site != "same-origin" && site != "none"
	for _, origin := range r.Header.Values("Origin") {
		foreign = foreign || !strings.EqualFold(origin, "http://"+r.Host)
	}
	if !foreign {
		return nil
	}
	return &problem{
		status: http.StatusForbidden, code: codeOrigin,
		detail: "The request comes from a page of another site.",
		action: "Send it from a page of this server, or from a program that sends no Origin.",
	}
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
