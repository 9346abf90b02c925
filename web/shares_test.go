package web_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/auth"
)

// TestEvents_Shares: one principal leaves room for the streams of others, of whatever they are, and gets its own share back when
// its streams end.
func TestEvents_Shares(t *testing.T) {
	for name, c := range map[string]struct {
		bounds live.Options
		path   func(i int) string // of the i-th stream
	}{
		"streams":    {live.Options{MaxStreams: 8}, func(int) string { return ns + "/events" }},
		"shapes":     {live.Options{MaxShapes: 8}, func(i int) string { return fmt.Sprintf("%s/events?limit=%d", ns, i+1) }},
		"namespaces": {live.Options{MaxViews: 8}, func(i int) string { return fmt.Sprintf("/v1/indexes/running/n%d/events", i) }},
	} {
		t.Run(name, func(t *testing.T) {
			tokens, guarded := guards(t, map[string][]auth.Grant{"greedy": all(auth.Reader), "other": all(auth.Reader)})
			s := newSite(t, guarded, func(o *web.Options) { o.Live = &c.bounds })
			var open []*feed
			for i := range 4 {
				f := s.stream(c.path(i), bearer(tokens["greedy"])...)
				f.next()
				open = append(open, f)
			}
			refused := s.opened(c.path(4), tokens["greedy"])
			if refused.StatusCode != http.StatusTooManyRequests || refused.Header.Get("Retry-After") == "" {
				t.Fatalf("one more is answered %d, %v", refused.StatusCode, refused.Header)
			}
			for i := range 4 {
				s.stream(c.path(10+i), bearer(tokens["other"])...).next()
			}
			open[0].close()
			// The server notices when it gets to it.
			for s.opened(c.path(0), tokens["greedy"]).StatusCode != http.StatusOK {
				runtime.Gosched()
			}
		})
	}
}

// opened is the answer to who wants a stream, which is closed again.
func (s *site) opened(path, token string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.server.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	res.Body.Close()
	return res
}

// TestEvents_ClockSet: a stream ends with its token by the clock of the host, also where that was set, or went on while the host
// was suspended.
func TestEvents_ClockSet(t *testing.T) {
	tokens, guarded := guards(t, map[string][]auth.Grant{"brief": all(auth.Reader), "producer": all(auth.Producer)}, func(c *auth.Config) {
		c.Tokens[0].Expires = start.Add(time.Hour) // that of brief
	})
	s := newSite(t, guarded, briskly)
	f := s.stream(ns+"/events", bearer(tokens["brief"])...)
	f.next()
	s.clock.advance(time.Hour)
	s.do("PUT", ns+"/items/"+s.id("a"), "", bearer(tokens["producer"])...).want(http.StatusCreated)
	if e, err := f.read(); !errors.Is(err, io.EOF) {
		t.Errorf("after its end comes %+v, %v", e, err)
	}
}
