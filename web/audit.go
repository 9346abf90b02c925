package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/blobindex/indexd/web/auth"
	"github.com/labstack/echo/v4"
)

// audit logs who changed what, or was not let: one line for each mutation, with no token, label or query in it. Of what was not
// allowed nothing is named.
func (s *Server) audit(c echo.Context, p *auth.Principal, names bool, err error) {
	switch c.Request().Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return
	}
	status := c.Response().Status
	if err != nil && !c.Response().Committed {
		status = asProblem(err).status
	}
	line := []slog.Attr{slog.String("principal", p.Name)}
	if p.Issuer != "" {
		line = append(line, slog.String("issuer", p.Issuer))
	}
	line = append(line, slog.String("method", c.Request().Method), slog.String("route", c.Path()))
	if names {
		line = append(line, place(c)...)
	}
	line = append(line, slog.Int("status", status))
	s.log.LogAttrs(c.Request().Context(), slog.LevelInfo, "audit", line...)
}

// place is what a request names in its path, and the id that was minted for it, which stands where the answer says it is. What is
// longer than any name is cut: a caller who is let in must not fill the log with what is refused.
func place(c echo.Context) []slog.Attr {
	var all []slog.Attr
	for _, param := range []string{"index", "namespace", "name", "id"} {
		if text, err := url.PathUnescape(c.Param(param)); err == nil && text != "" {
			if len(text) > maxText {
				text = strings.ToValidUTF8(text[:maxText], "") + "…"
			}
			all = append(all, slog.String(param, text))
		}
	}
	at := c.Response().Header().Get("Location")
	if c.Param("id") == "" && at != "" {
		if id, err := url.PathUnescape(at[strings.LastIndex(at, "/")+1:]); err == nil {
			all = append(all, slog.String("id", id))
		}
	}
	return all
}
