package gcsd_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/storage"

	"github.com/blobindex/indexd/fakes/gcsd"
)

// TestXML reads by the other API: the official client does so by default.
func TestXML(t *testing.T) {
	s, b := start(t, nil)
	o := b.Object("dir/a b%2F?")
	first := mustSave(t, o, "first")
	mustSave(t, o, "second")
	s.Reset()
	if got, err := read(t.Context(), o); err != nil || got != "second" {
		t.Errorf("read: %q, %v", got, err)
	}
	r, err := o.NewRangeReader(t.Context(), 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	part, err := io.ReadAll(r)
	if err != nil || string(part) != "con" {
		t.Errorf("read of a range: %q, %v", part, err)
	}
	if _, err := read(t.Context(), o.If(storage.Conditions{GenerationMatch: first})); code(err) != "412" {
		t.Errorf("read of a stale generation: %v", err)
	}
	if _, err := read(t.Context(), b.Object("absent")); !errors.Is(err, storage.ErrObjectNotExist) {
		t.Errorf("read of an absent object: %v", err)
	}
	if n := s.Reset(); n[gcsd.XMLRead] != 4 || len(n) != 1 {
		t.Errorf("requests %v, want 4 XMLRead", n)
	}
}

// TestJSONRead reads by the JSON API, with checksum and generation.
func TestJSONRead(t *testing.T) {
	s, _ := start(t, nil)
	o := client(t, s.URL(), storage.WithJSONReads()).Bucket("bucket").Object("a")
	generation := mustSave(t, o, "body")
	r, err := o.NewReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err != nil || string(body) != "body" || r.Attrs.Generation != generation || r.Attrs.CRC32C == 0 {
		t.Errorf("read: %q, %v, %+v", body, err, r.Attrs)
	}
}

// TestMetageneration grows with metadata, and begins again with each generation.
func TestMetageneration(t *testing.T) {
	_, b := start(t, nil)
	o := b.Object("a")
	generation := mustSave(t, o, "body")
	attrs, err := o.If(storage.Conditions{MetagenerationMatch: 1}).Update(t.Context(), storage.ObjectAttrsToUpdate{CacheControl: "no-store"})
	if err != nil || attrs.Metageneration != 2 || attrs.Generation != generation || attrs.CacheControl != "no-store" {
		t.Fatalf("Update: %+v, %v", attrs, err)
	}
	stale := o.If(storage.Conditions{MetagenerationMatch: 1})
	if _, err := stale.Attrs(t.Context()); code(err) != "412" {
		t.Errorf("read: %v", err)
	}
	if err := stale.Delete(t.Context()); code(err) != "412" {
		t.Errorf("delete: %v", err)
	}
	mustSave(t, o, "again")
	if attrs, err := o.Attrs(t.Context()); err != nil || attrs.Metageneration != 1 || attrs.Generation <= generation {
		t.Errorf("after another save: %+v, %v", attrs, err)
	}
}

// TestResumable breaks off between the chunks; the client goes on, and the object is whole.
func TestResumable(t *testing.T) {
	s, b := start(t, nil)
	s.Plan(t, gcsd.Fault{Op: gcsd.Chunk, Nth: 2, Kind: gcsd.AppliedThenReset()}, gcsd.Fault{Op: gcsd.Chunk, Nth: 4, Kind: gcsd.AppliedThenReset()})
	body := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	o := b.Object("a").Retryer(storage.WithPolicy(storage.RetryAlways))
	if _, err := save(t.Context(), o, body, 256<<10); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t.Context(), o); err != nil || got != string(body) {
		t.Errorf("read: %d bytes, %v", len(got), err)
	}
	if n := s.Reset(); n[gcsd.Begin] != 1 || n[gcsd.Chunk] != 5 {
		t.Errorf("requests %v, want 3 chunks and 2 repetitions", n)
	}
}

// TestResumable_ConditionAtTheEnd: who saves while an upload is under way makes it fail.
func TestResumable_ConditionAtTheEnd(t *testing.T) {
	s, b := start(t, nil)
	o := b.Object("a")
	s.Plan(t, gcsd.Fault{Op: gcsd.Chunk, Nth: 2, Kind: gcsd.Before("another save", func() {
		resp, err := http.Post(s.URL()+"/upload/storage/v1/b/bucket/o?uploadType=media&name=a", "text/plain", strings.NewReader("other"))
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("other save: %v, %v", resp, err)
		}
		resp.Body.Close()
	})})
	_, err := save(t.Context(), o.If(storage.Conditions{DoesNotExist: true}), make([]byte, 300<<10), 256<<10)
	if code(err) != "412" {
		t.Errorf("save: %v, want 412", err)
	}
	if got, err := read(t.Context(), o); err != nil || got != "other" {
		t.Errorf("read: %q, %v", got, err)
	}
}

// TestUpload_BrokenOff stores nothing: the body has no end.
func TestUpload_BrokenOff(t *testing.T) {
	s, b := start(t, nil)
	body := "--x\r\nContent-Type: application/json\r\n\r\n{\"name\":\"a\"}\r\n--x\r\n\r\nhalf of a bo"
	resp, err := http.Post(s.URL()+"/upload/storage/v1/b/bucket/o?uploadType=multipart", "multipart/related; boundary=x", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("answered %s, want 400", resp.Status)
	}
	if _, err := b.Object("a").Attrs(t.Context()); code(err) != "404" {
		t.Errorf("read: %v, want 404", err)
	}
}

// TestUpload_WrongChecksum stores nothing.
func TestUpload_WrongChecksum(t *testing.T) {
	_, b := start(t, nil)
	w := b.Object("a").NewWriter(t.Context())
	w.ChunkSize, w.CRC32C, w.SendCRC32C = 0, 1, true
	io.WriteString(w, "body")
	if err := w.Close(); code(err) != "400" {
		t.Errorf("save: %v, want 400", err)
	}
	if _, err := b.Object("a").Attrs(t.Context()); code(err) != "404" {
		t.Errorf("read: %v, want 404", err)
	}
}

// TestPace refuses a second write of a name within a second, and no other; one who lies refuses none.
func TestPace(t *testing.T) {
	var ms atomic.Int64
	clock := func() time.Time { return time.UnixMilli(ms.Load()) }
	_, b := start(t, &gcsd.Options{Now: clock})
	saved := func(name string) string {
		_, err := save(t.Context(), b.Object(name), nil, 0)
		return code(err)
	}
	for _, step := range []struct {
		after      int64
		name, want string
	}{{0, "a", "ok"}, {999, "a", "429"}, {0, "b", "ok"}, {1, "a", "ok"}, {500, "a", "429"}} {
		ms.Add(step.after)
		if got := saved(step.name); got != step.want {
			t.Errorf("save of %s at %d ms: %s, want %s", step.name, ms.Load(), got, step.want)
		}
	}
	if _, err := b.Object("a").Update(t.Context(), storage.ObjectAttrsToUpdate{CacheControl: "no-store"}); code(err) != "429" {
		t.Errorf("update within the second: %v, want 429", err)
	}
	_, b = start(t, &gcsd.Options{Now: clock, Lies: gcsd.Lies{NoPace: true}})
	for range 3 {
		if got := saved("a"); got != "ok" {
			t.Errorf("without pace: %s", got)
		}
	}
}

// TestVersioned keeps what was overwritten and deleted, for those who ask.
func TestVersioned(t *testing.T) {
	_, b := start(t, &gcsd.Options{Versioned: true})
	o := b.Object("a")
	first := mustSave(t, o, "first")
	mustSave(t, o, "second")
	if err := o.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(t, b, nil); len(got) != 0 {
		t.Errorf("listed: %q, want nothing", got)
	}
	if got := names(t, b, &storage.Query{Versions: true}); len(got) != 2 {
		t.Errorf("listed with versions: %q, want 2", got)
	}
	if got, err := read(t.Context(), o.Generation(first)); err != nil || got != "first" {
		t.Errorf("read of the first generation: %q, %v", got, err)
	}
	if _, err := save(t.Context(), o.If(storage.Conditions{DoesNotExist: true}), nil, 0); err != nil {
		t.Errorf("create-only after a delete: %v", err)
	}
}

// TestList_Pages come to an end whatever the page size, in byte order or in one of the server's own.
func TestList_Pages(t *testing.T) {
	for _, lies := range []gcsd.Lies{{}, {PageCap: 3}, {Unsorted: true, PageCap: 3}, {EmptyPages: true, PageCap: 3}, {NoPageCap: true}, {IgnoresMax: true}} {
		_, b := start(t, &gcsd.Options{Lies: lies})
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprintf("n%02d", i))
			mustSave(t, b.Object(want[i]), "")
		}
		got := names(t, b, nil)
		if sorted := slices.IsSorted(got); sorted == lies.Unsorted {
			t.Errorf("%v: listed %q", lies, got)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%v: listed %q", lies, got)
		}
	}
}

// TestTimes are the server's own clock's, in the Date and in the objects; each lie takes one of them away.
func TestTimes(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 5_000_000, time.UTC)
	for _, lies := range []gcsd.Lies{{}, {ClockAhead: time.Hour}, {NoDate: true}, {NoUpdated: true}} {
		s, b := start(t, &gcsd.Options{Now: func() time.Time { return at }, Lies: lies})
		mustSave(t, b.Object("a"), "")
		resp, err := http.Get(s.URL() + "/storage/v1/b/bucket/o/a")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		wantDate := at.Add(lies.ClockAhead).Format(http.TimeFormat)
		if lies.NoDate {
			wantDate = ""
		}
		wantUpdated := !lies.NoUpdated
		if got := resp.Header.Get("Date"); got != wantDate {
			t.Errorf("%v: Date %q, want %q", lies, got, wantDate)
		}
		if got := bytes.Contains(body, fmt.Appendf(nil, `"updated":"%s"`, at.Add(lies.ClockAhead).Format("2006-01-02T15:04:05.000Z"))); got != wantUpdated {
			t.Errorf("%v: %s", lies, body)
		}
	}
}

// TestFault_Unfired is an error of the test that planned it.
func TestFault_Unfired(t *testing.T) {
	s, _ := start(t, nil)
	var rec recorder
	s.Plan(&rec, gcsd.Fault{Op: gcsd.List, Kind: gcsd.Reset()})
	for _, fn := range rec.cleanups {
		fn()
	}
	if rec.errors != 1 {
		t.Errorf("%d errors, want 1", rec.errors)
	}
}

type recorder struct {
	cleanups []func()
	errors   int
}

func (r *recorder) Helper()               {}
func (r *recorder) Cleanup(fn func())     { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Errorf(string, ...any) { r.errors++ }
