package manifest_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
)

// proxy starts a proxy before f that compresses bodies: where it is not told to leave them as they are, or always. Its ETags
// are weak then. It returns where it listens.
func proxy(t testing.TB, f fake, always bool) string {
	t.Helper()
	to, err := url.Parse(f.url())
	if err != nil {
		t.Fatal(err)
	}
	carry := http.DefaultTransport.(*http.Transport).Clone()
	carry.DisableCompression = true // it would ask for that by itself
	t.Cleanup(carry.CloseIdleConnections)
	p := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: carry, ErrorLog: log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			accepted := r.Request.Header.Get("Accept-Encoding")
			if r.Request.Method != http.MethodGet || r.StatusCode != http.StatusOK ||
				!always && accepted != "" && !strings.Contains(accepted, "gzip") {
				return nil
			}
			return compress(r)
		},
	})
	t.Cleanup(p.Close)
	return p.URL
}

func compress(r *http.Response) error {
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	if _, err := io.Copy(w, r.Body); err != nil {
		return err
	}
	if err := errors.Join(w.Close(), r.Body.Close()); err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(&small), int64(small.Len())
	r.Header.Set("Content-Encoding", "gzip")
	r.Header.Set("Content-Length", fmt.Sprint(small.Len()))
	if tag := r.Header.Get("ETag"); tag != "" {
		r.Header.Set("ETag", "W/"+tag)
	}
	return nil
}

// TestCase_C32_ManifestCompressed: through a proxy that compresses what it may, lists and blobs are as they were stored. Through
// one that always does, the list is an error and nothing is changed.
func TestCase_C32_ManifestCompressed(t *testing.T) {
	body := strings.Repeat("compressible ", 1000)
	onWires(t, func(t *testing.T, f fake, _ *hand) {
		s := f.dial(t, nil, "")
		has(t, on(t, s), "a", "k", body)
		by := f.dial(t, nil, proxy(t, f, false))
		holds(t, by, "a="+body)
		has(t, on(t, by), "b", "k", "b"+body)
		holds(t, by, "b=b"+body)
		holds(t, s, "b=b"+body)

		m := on(t, f.dial(t, nil, proxy(t, f, true)))
		f.reset()
		_, loaded := m.Load(t.Context())
		_, added := m.Add(t.Context(), one("c", "k", "c"))
		_, removed := m.Remove(t.Context(), "b", "")
		for _, err := range []error{loaded, added, removed} {
			if err == nil || errors.Is(err, cas.ErrNotExist) || errors.Is(err, cas.ErrUnknown) {
				t.Errorf("by a proxy that always compresses: %v", err)
			}
		}
		if sent := f.sent(); slices.Contains(sent, "PUT list") || deleted(f) > 0 {
			t.Errorf("the requests were %q", sent)
		}
		holds(t, s, "b=b"+body)
	})
}

// A lagging cache answers GETs of the list as the first one was, times many of them; below 0 all.
type lagging struct {
	times int
	old   *http.Response
	body  []byte
}

func (l *lagging) RoundTrip(req *http.Request) (*http.Response, error) {
	where, err := url.PathUnescape(req.URL.Path)
	if err != nil || req.Method != http.MethodGet || !strings.HasSuffix(where, string(listKey)) {
		return http.DefaultTransport.RoundTrip(req)
	}
	if l.old != nil && l.times != 0 {
		l.times--
		again := *l.old
		again.Body, again.Header, again.Request = io.NopCloser(bytes.NewReader(l.body)), l.old.Header.Clone(), req
		return &again, nil
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || l.old != nil {
		return resp, err
	}
	l.body, err = io.ReadAll(resp.Body)
	resp.Body.Close()
	l.old = resp
	resp.Body = io.NopCloser(bytes.NewReader(l.body))
	return resp, err
}

// TestCase_N1_ManifestBase: whatever a process has seen or saved before, each change stands on a GET of its own, and on one that
// is answered of old nothing is saved: what came since stays, and so do its blobs.
func TestCase_N1_ManifestBase(t *testing.T) {
	onWires(t, func(t *testing.T, f fake, _ *hand) {
		s := f.dial(t, nil, "")
		a, b := on(t, s), on(t, f.dial(t, nil, ""))
		has(t, a, "0", "k", "0")
		for i, m := range []*manifest.Manifest{a, b, b, a, b} {
			f.reset()
			has(t, m, fmt.Sprint(i+1), "k", fmt.Sprint(i+1))
			want := []string{"PUT blob", "GET list", "HEAD blob", "PUT list"}
			// What the change before displaced is deleted once more, and what this one does for the first time.
			sent := slices.DeleteFunc(f.sent(), func(s string) bool { return s == "DELETE blob" || s == "POST" })
			if !slices.Equal(sent, want) {
				t.Errorf("change %d: %q, want %q", i, sent, want)
			}
		}
		holds(t, s, "5=5")
	})
	for _, times := range []int{1, 3, -1} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			onWires(t, func(t *testing.T, f fake, _ *hand) {
				s := f.dial(t, nil, "")
				has(t, on(t, s), "old", "k", "old")
				c := &lagging{}
				behind := f.dial(t, c, "")
				if _, err := on(t, behind).Load(t.Context()); err != nil {
					t.Fatal(err)
				}
				has(t, on(t, s), "new", "k", "new")
				c.times = times
				f.reset()
				_, err := on(t, behind).Add(t.Context(), one("ours", "", "ours"))
				if times > 0 {
					if err != nil {
						t.Errorf("Add: %v", err)
					}
					holds(t, s, "new=new", "ours=ours")
					return
				}
				if !errors.Is(err, cas.ErrUnsupported) || deleted(f) > 0 {
					t.Errorf("Add on a list that never comes: %v, and %d deletes", err, deleted(f))
				}
				holds(t, s, "new=new")
			})
		})
	}
}
