package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
)

// whole holds the answers of a route until they are complete, so that none is cut by its own error; they are bounded.
// Where they depend on the state of the index alone they may be kept: they get a strong ETag over the body, unless they
// have one, and If-None-Match is answered (RFC 9110, section 13.1.2).
func whole(kept bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			res := c.Response()
			out := res.Writer
			held := &heldResponse{header: out.Header()}
			res.Writer = held
			defer func() { res.Writer = out }()
			if err := next(c); err != nil {
				return err // nothing was held: handlers write last
			}
			if kept && res.Status == http.StatusOK && held.notModified(c.Request()) {
				res.Status = http.StatusNotModified
				out.WriteHeader(res.Status)
				return nil
			}
			out.Header().Set("Content-Length", strconv.Itoa(held.body.Len()))
			out.WriteHeader(res.Status)
			if _, err := out.Write(held.body.Bytes()); err != nil {
				return notTaken(err)
			}
			return nil
		}
	}
}

// notModified tags the body, and reports whether the client has it.
func (h *heldResponse) notModified(r *http.Request) bool {
	tag := h.header.Get("ETag")
	if tag == "" {
		tag = tagOf(h.body.Bytes())
		h.header.Set("ETag", tag)
	}
	h.header.Set("Cache-Control", "no-cache")
	if !matches(r.Header.Values("If-None-Match"), tag) {
		return false
	}
	h.header.Del("Content-Type")
	return true
}

// tagOf is the strong ETag of a body.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
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

// lend is Write of a whole body that nobody changes any more, without copying it.
func (h *heldResponse) lend(b []byte) { h.body = *bytes.NewBuffer(slices.Clip(b)) }

func (h *heldResponse) Header() http.Header         { return h.header }
func (h *heldResponse) Write(b []byte) (int, error) { return h.body.Write(b) }
func (h *heldResponse) WriteHeader(int)             {} // echo keeps the status
