package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

const (
	listings       = "/v1/snapshots/team/models"
	pointerKey     = bucket.Key(snapshot.Root + "team/models/pointer")
	generationsKey = snapshot.Root + "team/models/generations/"
)

// row is a line of a listing, of a path that Go and JSON quote alike.
func row(path string) string {
	return fmt.Sprintf(`{"path":%q,"size":4,"mtime":"2026-02-28T12:00:00.5Z","digest":""}`+"\n", path)
}

func rowOf(t *testing.T, r snapshot.Row) string {
	t.Helper()
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

var twoRows = row("a") + row("b/c")

func rowsHeader(more ...string) []string {
	return append([]string{"Content-Type", "application/x-ndjson"}, more...)
}

// publish sends a listing.
func (s *site) publish(rows string, header ...string) answer {
	s.t.Helper()
	return s.do("POST", listings+"/rows", rows, rowsHeader(header...)...)
}

// replace publishes after what there is.
func (s *site) replace(rows string) answer {
	s.t.Helper()
	return s.publish(rows, "If-Match", s.get(listings).want(http.StatusOK).header.Get("Etag")).want(http.StatusCreated)
}

func paths(t *testing.T, a answer) (names []string) {
	t.Helper()
	for _, r := range decode[api.SnapshotRows](a.want(http.StatusOK)).Rows {
		names = append(names, r.Path)
	}
	return names
}

// TestSnapshot_OverHTTP: what each step answers, and what it costs.
func TestSnapshot_OverHTTP(t *testing.T) {
	s := newSite(t)
	a := s.publish(twoRows, "If-None-Match", "*").want(http.StatusCreated)
	s.wantAll(fakes.Counts{List: 2, Put: 2}, 2, 2)
	tag := a.header.Get("Etag")
	p := decode[api.SnapshotPublication](a)
	id, stored, digest := p.Current.Id, p.Current.Bytes, p.Current.Digest
	want := api.SnapshotPublication{Outcome: "published", Current: api.SnapshotGeneration{
		Generation: 1, Id: id, Rows: 2, Parts: 1, Bytes: stored, Digest: digest, Class: "operator", PublishedAt: start,
	}}
	if diff := cmp.Diff(want, p); diff != "" || !strings.HasPrefix(digest, "sha256:") || stored < 50 {
		t.Errorf("%s, %s, %d bytes", diff, digest, stored)
	}

	a = s.get(listings).want(http.StatusOK)
	s.wantAll(fakes.Counts{}, 1, 0)
	status := api.SnapshotStatus{
		Generation: 1, Id: id, Rows: 2, Parts: 1, Bytes: stored, Digest: digest, Class: "operator", PublishedAt: start,
		GraceMs: 60_000, Retired: []string{},
	}
	if diff := cmp.Diff(status, decode[api.SnapshotStatus](a)); diff != "" || a.header.Get("Etag") != tag ||
		a.header.Get("Cache-Control") != "no-cache" {
		t.Error(diff, a.header)
	}
	a = s.get(listings + "/rows").want(http.StatusOK)
	s.wantAll(fakes.Counts{Open: 2}, 2, 0)
	mtime := time.Date(2026, 2, 28, 12, 0, 0, 5e8, time.UTC)
	rows := api.SnapshotRows{Generation: 1, Rows: []api.SnapshotRow{
		{Path: "a", Size: 4, Mtime: mtime}, {Path: "b/c", Size: 4, Mtime: mtime},
	}}
	if diff := cmp.Diff(rows, decode[api.SnapshotRows](a)); diff != "" || a.header.Get("Etag") != tag {
		t.Error(diff, a.header)
	}

	// A client that has it asks for the pointer alone.
	for _, path := range []string{listings, listings + "/rows", listings + "/rows?prefix=b"} {
		for _, method := range []string{"GET", "HEAD"} {
			a := s.do(method, path, "", "If-None-Match", tag).want(http.StatusNotModified)
			if a.header.Get("Etag") != tag || a.header.Get("Cache-Control") != "no-cache" {
				t.Errorf("%s %s: %v", method, path, a.header)
			}
			s.wantAll(fakes.Counts{}, 1, 0)
		}
	}

	a = s.publish(twoRows, "If-Match", tag).want(http.StatusOK)
	s.wantAll(fakes.Counts{List: 1}, 2, 0)
	if p := decode[api.SnapshotPublication](a); p.Outcome != "unchanged" || p.Current.Generation != 1 || a.header.Get("Etag") != tag {
		t.Errorf("%+v", p)
	}
	s.clock.advance(time.Minute)
	a = s.publish(twoRows+row("d"), "If-Match", tag).want(http.StatusCreated)
	if p := decode[api.SnapshotPublication](a); p.Current.Generation != 2 || p.Swept != (api.SnapshotSwept{Kept: 1}) {
		t.Errorf("%+v", p)
	}
	if st := decode[api.SnapshotStatus](s.get(listings)); !slices.Equal(st.Retired, []string{id}) {
		t.Errorf("%+v", st)
	}
	s.get(listings + "/rows?prefix=b").want(http.StatusOK)
	s.do("GET", listings+"/rows", "", "If-None-Match", tag).want(http.StatusOK)
}

// TestSnapshot_Superseded: who saw an older state before its walk publishes nothing, and is told what is current; nothing of its
// body is asked for.
func TestSnapshot_Superseded(t *testing.T) {
	s := newSite(t)
	first := s.publish(twoRows, "If-None-Match", "*").header.Get("Etag")
	s.replace(row("new"))
	s.docs.reset()
	s.count.Reset()
	for _, header := range [][]string{{"If-Match", first}, {"If-None-Match", "*"}} {
		p := s.publish(row("old"), header...).problem(http.StatusConflict, "superseded")
		s.wantAll(fakes.Counts{}, 1, 0)
		if p.Pointer == nil || *p.Pointer != 2 || p.Generation != nil {
			t.Errorf("%+v", p)
		}
	}
	// While it is staged.
	st := s.get(listings)
	s.docs.hooks(nil, func() error {
		s.docs.hooks(nil, nil, nil)
		other, err := snapshot.New(s.docs, "team", "models", nil)
		if err == nil {
			_, err = other.Publish(t.Context(), snapshot.NDJSON(strings.NewReader(row("newer"))), nil)
		}
		return err
	}, nil)
	p := s.publish(row("old"), "If-Match", st.header.Get("Etag")).problem(http.StatusConflict, "superseded")
	if p.Pointer == nil || *p.Pointer != 3 || p.Generation == nil || *p.Generation != 3 {
		t.Errorf("%+v", p)
	}
	if got := paths(t, s.get(listings+"/rows")); !slices.Equal(got, []string{"newer"}) {
		t.Errorf("%q", got)
	}
}

// TestSnapshot_Pages: the pages of one list are of one generation, whatever is published meanwhile, and cursors of one that was
// swept say so.
func TestSnapshot_Pages(t *testing.T) {
	s := newSite(t)
	names := []string{"a", "b.txt", "b/1", "b/2\n", "b/é", "b0", "c"}
	var all string
	for _, n := range names {
		all += row(n)
	}
	s.publish(all, "If-None-Match", "*").want(http.StatusCreated)
	for prefix, want := range map[string][]string{
		"": names, "b": names[1:6], "b%2F": names[2:5], "b%2F2%0A": names[3:4], "b/%C3%A9": names[4:5], "d": nil, "0": nil,
	} {
		for limit := 1; limit <= 3; limit++ {
			query := fmt.Sprintf("?limit=%d", limit)
			if prefix != "" {
				query += "&prefix=" + prefix
			}
			var got []string
			for next := ""; ; {
				a := s.get(listings + "/rows" + query + next)
				got = append(got, paths(t, a)...)
				p := decode[api.SnapshotRows](a)
				if len(p.Rows) > limit {
					t.Errorf("%d rows on a page of %d", len(p.Rows), limit)
				}
				if p.Next == nil {
					break
				}
				next = "&cursor=" + *p.Next
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q by %d: %q, want %q", prefix, limit, got, want)
			}
		}
	}

	next := *decode[api.SnapshotRows](s.get(listings + "/rows?limit=2")).Next
	s.replace(row("z"))
	a := s.get(listings + "/rows?cursor=" + next)
	if p := decode[api.SnapshotRows](a); p.Generation != 1 || !slices.Equal(paths(t, a), names[2:]) {
		t.Errorf("%+v", p)
	}
	s.clock.advance(2 * time.Minute)
	s.replace(row("zz"))
	p := s.get(listings+"/rows?cursor="+next).problem(http.StatusGone, "swept")
	if p.Generation == nil || *p.Generation != 1 || p.Pointer == nil || *p.Pointer != 3 {
		t.Errorf("%+v", p)
	}
	// A path is no longer than a cursor can be.
	long := strings.Repeat("x/", 2047) + "yz"
	s.replace(row(long) + row("zz"))
	next = *decode[api.SnapshotRows](s.get(listings + "/rows?limit=1")).Next
	if got := paths(t, s.get(listings+"/rows?cursor="+next)); !slices.Equal(got, []string{"zz"}) {
		t.Errorf("%q", got)
	}
}

// TestSnapshot_EmptyListing is for who says so only.
func TestSnapshot_EmptyListing(t *testing.T) {
	s := newSite(t)
	s.publish("\n", "If-None-Match", "*").want(http.StatusCreated) // there was nothing
	s.replace(twoRows)
	tag := s.get(listings).header.Get("Etag")
	s.publish("\n", "If-Match", tag).problem(http.StatusUnprocessableEntity, "empty")
	s.do("POST", listings+"/rows?allow_empty=false", "\n", rowsHeader("If-Match", tag)...).problem(422, "empty")
	s.do("POST", listings+"/rows?allow_empty=true", "\n", rowsHeader("If-Match", tag)...).want(http.StatusCreated)
	if got := paths(t, s.get(listings+"/rows")); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// TestSnapshot_CutBody: a listing that ends before its end is not published, nor is one that is too large.
func TestSnapshot_CutBody(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Snapshots.MaxUpload = 1000 })
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.server.URL+listings+"/rows", r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("If-None-Match", "*")
	go func() {
		_, _ = io.WriteString(w, twoRows)
		w.CloseWithError(io.ErrClosedPipe)
	}()
	if res, err := s.client.Do(req); err == nil {
		res.Body.Close()
		t.Errorf("a cut body was answered: %d", res.StatusCode)
	}
	s.publish(strings.Repeat(" ", 1001), "If-None-Match", "*").problem(http.StatusRequestEntityTooLarge, "too_large")
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(twoRows+strings.Repeat("\n", 1000))), -1
	s.send(req).problem(http.StatusRequestEntityTooLarge, "too_large")
	s.get(listings).problem(http.StatusNotFound, "not_found")
}

// TestSnapshot_Trial: nothing is read of a listing before it is known that the store keeps its conditions.
func TestSnapshot_Trial(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Snapshots.Usable = func(context.Context) error { return bucket.ErrUnsupported }
	})
	s.publish(twoRows, "If-None-Match", "*").problem(http.StatusNotImplemented, "unsupported")
	s.wantAll(fakes.Counts{}, 0, 0)
	s.get(listings).problem(http.StatusNotFound, "not_found") // reading needs none
}

// TestSnapshot_None: a server that keeps none says so.
func TestSnapshot_None(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Snapshots = nil })
	for _, path := range []string{listings, listings + "/rows", "/snapshots?namespace=team&name=models"} {
		s.get(path).want(http.StatusNotImplemented)
	}
	s.publish(twoRows, "If-None-Match", "*").problem(http.StatusNotImplemented, "unsupported")
}

// manyRows is a listing of so many rows, made while it is read; at each of them it looks at what memory is in use.
type manyRows struct {
	n, next int
	left    []byte
	most    uint64
}

func (m *manyRows) Read(p []byte) (int, error) {
	if len(m.left) == 0 {
		if m.next == m.n {
			return 0, io.EOF
		}
		for range 1000 {
			m.left = append(m.left, row(fmt.Sprintf("%09d/%s", m.next, strings.Repeat("x", 100)))...)
			m.next++
		}
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		m.most = max(m.most, s.HeapAlloc)
	}
	n := copy(p, m.left)
	m.left = m.left[n:]
	return n, nil
}

// TestSnapshot_ListingsTakeLittleMemory: less than all of it would take.
func TestSnapshot_ListingsTakeLittleMemory(t *testing.T) {
	s := newSite(t)
	body := &manyRows{n: 200_000}
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.server.URL+listings+"/rows", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("If-None-Match", "*")
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	p := decode[api.SnapshotPublication](s.send(req).want(http.StatusCreated))
	if p.Current.Rows != 200_000 || p.Current.Parts < 5 {
		t.Errorf("%+v", p)
	}
	// The spool keeps 4 MiB of parts, and makes one of 4 MiB; twice that is garbage.
	if took := int64(body.most) - int64(before.HeapAlloc); took > 36<<20 {
		t.Errorf("%d MiB", took>>20)
	}
	if got := paths(t, s.get(listings+"/rows?prefix=000199999")); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// TestSnapshot_SweptWhileRead: who asks for what is current gets what is current by then.
func TestSnapshot_SweptWhileRead(t *testing.T) {
	s := newSite(t)
	s.publish(row("old"), "If-None-Match", "*").want(http.StatusCreated)
	for i, path := range []string{listings + "/rows", listingPage} {
		other, err := snapshot.New(s.docs, "team", "models", nil)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint("new", i)
		loads := 0
		s.docs.hooks(func() error {
			if loads++; loads != 2 { // after it was seen which one is current
				return nil
			}
			s.docs.hooks(nil, nil, nil)
			_, err := other.Publish(t.Context(), snapshot.NDJSON(strings.NewReader(row(name))),
				&snapshot.PublishOptions{Grace: snapshot.NoGrace})
			return err
		}, nil, nil)
		if a := s.get(path).want(http.StatusOK); !strings.Contains(a.body, name) {
			t.Error(a.body)
		}
	}
}

// TestCase_C54_Snapshots: the same of names of snapshots, without a request of the store.
func TestCase_C54_Snapshots(t *testing.T) {
	s := newSite(t)
	for _, b := range badNames {
		for _, request := range []string{
			"GET /v1/snapshots/%s/models", "GET /v1/snapshots/team/%s", "HEAD /v1/snapshots/team/%s", "GET /v1/snapshots/%s/models/rows",
			"GET /v1/snapshots/team/%s/rows", "POST /v1/snapshots/%s/models/rows", "POST /v1/snapshots/team/%s/rows",
		} {
			line := strings.Replace(request, "%s", b, 1)
			res := s.raw(line + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nIf-None-Match: *\r\n" +
				"Content-Type: application/x-ndjson\r\n" + sized(len(twoRows)) + twoRows)
			if res.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %d", line, res.StatusCode)
			}
		}
		if b == "" || strings.ContainsAny(b, `/\`) {
			continue
		}
		for _, query := range []string{"namespace=" + b + "&name=models", "namespace=team&name=" + b} {
			if a := s.get("/snapshots?" + query); a.status != http.StatusBadRequest {
				t.Errorf("the page of %s: %d", query, a.status)
			}
		}
	}
	s.wantAll(fakes.Counts{}, 0, 0)
}
