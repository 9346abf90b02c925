package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// ErrOrigin is wrapped by the errors of CheckOrigin.
var ErrOrigin = errors.New("web: not an origin")

// CheckOrigin returns an error unless text is an origin as browsers send it: a scheme, a host in small letters, and the port if
// it is not the usual one.
func CheckOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || usualHost(u.Scheme, u.Host) != u.Host ||
		u.Scheme+"://"+u.Host != text || strings.Contains(u.Host, "*") {
		return fmt.Errorf("%w: %.200q; give a scheme and a host in small letters, with a port if it is not the usual one and nothing "+
			"behind it, such as https://portal.example: there are no patterns", ErrOrigin, text)
	}
	return nil
}

// usualHost is a host and port as browsers write them.
func usualHost(scheme, host string) string {
	host = strings.ToLower(host)
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return strings.TrimSuffix(host, port)
}

// publicHost is the host of Options.PublicURL; empty without one.
func (s *Server) publicHost() string {
	_, host, _ := strings.Cut(s.opt.PublicURL, "://")
	return host
}

// ownOrigin is the origin of the pages that a request for this host can come from.
func (s *Server) ownOrigin(r *http.Request) string {
	scheme, _, _ := strings.Cut(s.opt.PublicURL, "://")
	switch {
	case scheme != "" && usualHost(scheme, r.Host) == s.publicHost():
		return s.opt.PublicURL
	case r.TLS != nil:
		return "https://" + usualHost("https", r.Host)
	}
	return "http://" + usualHost("http", r.Host)
}

// checkHost refuses names that some DNS answer has pointed at this host: such a page may read whatever it gets. Where every
// answer is for a token, which such a page does not have, any name does, unless there is one that is known to be right.
func (s *Server) checkHost(r *http.Request) *problem {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(r.Host, "["), "]")
	}
	if loopback(host) {
		return nil
	}
	p := &problem{
		status: http.StatusForbidden, code: codeHost,
		detail: "This server answers only under a loopback name.",
		action: "Use http://localhost or http://127.0.0.1 with the port of the server.",
	}
	if s.opt.Auth == nil {
		return p
	}
	scheme, _, _ := strings.Cut(s.opt.PublicURL, "://")
	if scheme == "" || usualHost(scheme, r.Host) == s.publicHost() {
		return nil
	}
	switch r.URL.Path {
	case "/healthz", "/readyz", metricsRoute: // which are asked for by address
		return nil
	}
	p.detail = "This server answers under its public name only."
	p.action = "Use " + s.opt.PublicURL + "."
	return p
}

// checkOrigin refuses mutations that a browser sends on behalf of another site. Origins that are listed may send them to the
// API, but never with the cookie.
func (s *Server) checkOrigin(r *http.Request) *problem {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	site := r.Header.Get("Sec-Fetch-Site")
	foreign := site != "" && site != "same-origin" && site != "none"
	if s.listedOrigin(r) != "" {
		return nil
	}
	for _, origin := range r.Header.Values("Origin") {
		foreign = foreign || !strings.EqualFold(origin, s.ownOrigin(r))
	}
	if !foreign {
		return nil
	}
	return foreignProblem()
}

func foreignProblem() *problem {
	return &problem{
		status: http.StatusForbidden, code: codeOrigin,
		detail: "The request comes from a page of another site.",
		action: "Send it from a page of this server, or from a program that sends no Origin. Behind a proxy, public_url says which " +
			"pages are its own; cors_origins lets others in.",
	}
}

// listedOrigin is the origin that a request for the API comes from, if it is one of Options.Origins; else empty.
func (s *Server) listedOrigin(r *http.Request) string {
	given := r.Header.Values("Origin")
	if len(given) != 1 || !forAnyOrigin(r.URL.Path) || !slices.Contains(s.opt.Origins, given[0]) {
		return ""
	}
	return given[0]
}

// forAnyOrigin reports whether pages of other origins can want a path: they have no use for our pages.
func forAnyOrigin(path string) bool {
	return strings.HasPrefix(path, "/v1/") || path == "/openapi.yaml"
}

// What pages of other origins may send and read beyond what every page may.
const (
	corsMethods = "GET, HEAD, PUT, POST, DELETE"
	corsSends   = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, X-Request-Id"
	corsReads   = "ETag, Location, Retry-After, Indexd-As-Of, Indexd-Clock, Indexd-Cost, WWW-Authenticate, X-Request-Id"
	corsLife    = "600" // seconds for which a browser need not ask again
)

// shareWith tells the browser whether pages of the request's origin may read the answer (the CORS protocol of the Fetch
// standard), and reports whether that is all that it asks. They never may with credentials that the browser adds by itself.
func (s *Server) shareWith(c echo.Context) (preflight bool) {
	r, h := c.Request(), c.Response().Header()
	if len(s.opt.Origins) == 0 || !forAnyOrigin(r.URL.Path) {
		return false
	}
	h.Add("Vary", "Origin")
	origin := s.listedOrigin(r)
	if origin == "" {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", corsReads)
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsSends)
	h.Set("Access-Control-Max-Age", corsLife)
	return true
}
