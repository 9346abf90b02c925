package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
)

// revalidate gives every GET that may be kept a strong ETag over its body, and answers If-None-Match (RFC 9110, section
// 13.1.2). Bodies are bounded, so they are held until they are whole: an answer is never cut by its own error.
func revalidate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !get(c) {
			return next(c)
		}
		res := c.Response()
		switch c.Path() {
		case "", "/", "/healthz", "/readyz":
		default:
			res.Header().Set("Cache-Control", "no-cache")
		}
		out := res.Writer
		held := &heldResponse{header: out.Header()}
		res.Writer = held
		defer func() { res.Writer = out }()
		if err := next(c); err != nil {
			return err // nothing was held: handlers write last
		}
		if res.Status == http.StatusOK && out.Header().Get("Cache-Control") != "no-store" {
			sum := sha256.Sum256(held.body.Bytes())
			tag := `"` + hex.EncodeToString(sum[:16]) + `"`
			out.Header().Set("ETag", tag)
			if matches(c.Request().Header.Values("If-None-Match"), tag) {
				out.Header().Del("Content-Type")
				res.Status = http.StatusNotModified
				out.WriteHeader(res.Status)
				return nil
			}
		}
		out.Header().Set("Content-Length", strconv.Itoa(held.body.Len()))
		out.WriteHeader(res.Status)
		_, err := out.Write(held.body.Bytes())
		return err
	}
}

// matches compares weakly, as the RFC wants it for If-None-Match.
func matches(fields []string, tag string) bool {
	for _, field := range fields {
		for one := range strings.SplitSeq(field, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}

type heldResponse struct {
	header http.Header
	body   bytes.Buffer
}

func (h *heldResponse) Header() http.Header         { return h.header }
func (h *heldResponse) Write(b []byte) (int, error) { return h.body.Write(b) }
func (h *heldResponse) WriteHeader(int)             {} // echo keeps the status
