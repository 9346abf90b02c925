package gcsd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/iterator"

	"github.com/blobindex/indexd/fakes/gcsd"
)

// window is long enough for 32 uploads to be under way at once.
const window = 100 * time.Millisecond

// TestLies_Alone tells each lie alone that a step of TestAgreement shows, and nothing else changes.
func TestLies_Alone(t *testing.T) {
	for _, lie := range []struct {
		lies     gcsd.Lies
		deviates map[string]string
	}{
		{gcsd.Lies{DeleteIgnoresConditions: true}, map[string]string{"delete, stale generation": "ok", "still there": "404",
			"delete, right generation": "404"}},
		{gcsd.Lies{WriteIgnoresConditions: true, RaceWindow: window}, map[string]string{"create-only, there": "ok",
			"save, stale generation": "ok", "save, generation, absent": "ok", "save, metageneration": "ok",
			"create-only, 32 at once": "several won"}},
		{gcsd.Lies{ReadIgnoresConditions: true}, map[string]string{"read, stale generation": "ok", "read, not this generation": "ok"}},
		{gcsd.Lies{IgnoresMetageneration: true}, map[string]string{"save, metageneration": "ok"}},
		{gcsd.Lies{IgnoresOffsets: true}, map[string]string{"list, offsets": "a b c d"}},
		{gcsd.Lies{IgnoresMax: true}, map[string]string{"list, page of two": "4 of 4"}},
		{gcsd.Lies{AutoCreateBucket: true}, map[string]string{"absent bucket": "ok"}},
		{gcsd.Lies{RaceWindow: window}, map[string]string{"create-only, 32 at once": "several won"}},
		{gcsd.Lies{AbsentIsDenied: true}, map[string]string{"read, absent": "403"}},
	} {
		s, _ := start(t, &gcsd.Options{Lies: lie.lies})
		got := behaviour(t, client(t, s.URL()), "bucket")
		if diff := cmp.Diff(want(lie.deviates), got); diff != "" {
			t.Errorf("%v: behaviour (-want +got):\n%s", lie.lies, diff)
		}
	}
}

// pages are the names on each page, and the token behind it; a dash stands for an entry that names none.
func pages(t *testing.T, s *gcsd.Server, query string, most int) (all []string) {
	t.Helper()
	token := ""
	for range most {
		r, err := http.Get(s.URL() + "/storage/v1/b/bucket/o?" + query + "&pageToken=" + token)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Items         []*struct{ Name string }
			Prefixes      []string
			NextPageToken string
		}
		decode(t, r, &p)
		page := ""
		for _, o := range p.Items {
			if o == nil {
				page += "-"
			} else {
				page += o.Name
			}
		}
		all = append(all, strings.Join(append([]string{page}, p.Prefixes...), "+"))
		if token = p.NextPageToken; token == "" {
			return all
		}
	}
	return append(all, "…")
}

// TestLies_Listing shows each lie about listings in the pages of four objects.
func TestLies_Listing(t *testing.T) {
	for _, tt := range []struct {
		lies  gcsd.Lies
		query string
		want  string
	}{
		{gcsd.Lies{}, "", "[abcd]"},
		{gcsd.Lies{}, "maxResults=3", "[abc d]"},
		{gcsd.Lies{PageCap: 3}, "", "[abc d]"},
		{gcsd.Lies{IgnoresMax: true}, "maxResults=3", "[abcd]"},
		{gcsd.Lies{EmptyPages: true, PageCap: 3}, "", "[ abc  d]"},
		{gcsd.Lies{RepeatToken: true, PageCap: 1}, "", "[a b b b …]"},
		{gcsd.Lies{LostToken: true, PageCap: 3}, "", "[abc]"},
		{gcsd.Lies{}, "prefix=b", "[b]"},
		{gcsd.Lies{IgnoresPrefix: true}, "prefix=b", "[abcd]"},
		{gcsd.Lies{}, "startOffset=b&endOffset=d", "[bc]"},
		{gcsd.Lies{IgnoresOffsets: true}, "startOffset=b&endOffset=d", "[abcd]"},
		{gcsd.Lies{NullForDeleted: true}, "", "[abcd-]"},
	} {
		s, b := start(t, &gcsd.Options{Lies: tt.lies})
		for _, name := range []string{"gone", "a", "b", "c", "d"} {
			s.Store("bucket", name, "")
		}
		if err := b.Object("gone").Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(pages(t, s, tt.query, 4)); got != tt.want {
			t.Errorf("%v, %s: pages %s, want %s", tt.lies, tt.query, got, tt.want)
		}
	}
	for lies, want := range map[gcsd.Lies]int{{}: 2, {NoPageCap: true}: 1} {
		s, _ := start(t, &gcsd.Options{Lies: lies})
		for i := range 1001 {
			s.Store("bucket", fmt.Sprintf("n%04d", i), "")
		}
		if got := len(pages(t, s, "maxResults=5000", 9)); got != want {
			t.Errorf("%v: %d pages, want %d", lies, got, want)
		}
	}
}

// TestList_Delimiter: what names have in common comes once, in its place.
func TestList_Delimiter(t *testing.T) {
	for page := range 4 {
		s, b := start(t, &gcsd.Options{Lies: gcsd.Lies{PageCap: page}})
		for _, name := range []string{"p/a", "p/b/1", "p/b/2", "p/b/3/4", "p/b0", "p/c/1", "p/d", "q/1"} {
			s.Store("bucket", name, "")
		}
		it := b.Objects(t.Context(), &storage.Query{Prefix: "p/", Delimiter: "/"})
		var got []string
		for {
			o, err := it.Next()
			if errors.Is(err, iterator.Done) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, o.Name+o.Prefix)
		}
		if slices.Sort(got); fmt.Sprint(got) != "[p/a p/b/ p/b0 p/c/ p/d]" {
			t.Errorf("pages of %d: %q", page, got)
		}
	}
}

// TestLies_Writes shows what becomes of one upload after the other.
func TestLies_Writes(t *testing.T) {
	for _, tt := range []struct {
		lies gcsd.Lies
		want string
	}{
		{gcsd.Lies{}, "ok ok ok ok"},
		{gcsd.Lies{ConflictEvery: 2}, "ok 409 ok 409"},
		{gcsd.Lies{BadChecksum: true}, "400 400 400 400"},
	} {
		_, b := start(t, &gcsd.Options{Lies: tt.lies})
		var got []string
		for _, name := range []string{"a", "b", "a", "b"} {
			_, err := save(t.Context(), b.Object(name), nil, 0)
			got = append(got, code(err))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v: %q, want %s", tt.lies, got, tt.want)
		}
	}
}

// TestLies_Contention: beside another conditional upload of its name one is answered 500 and not carried out.
func TestLies_Contention(t *testing.T) {
	_, b := start(t, &gcsd.Options{Lies: gcsd.Lies{ContentionFails: true, RaceWindow: window}})
	o := b.Object("a").If(storage.Conditions{DoesNotExist: true})
	got := race(func(o *storage.ObjectHandle) string {
		_, err := save(t.Context(), o, []byte("x"), 0)
		return code(err)
	}, o)
	if !strings.Contains(got, "500") || !strings.Contains(got, "ok") {
		t.Errorf("outcomes %s", got)
	}
	if _, err := save(t.Context(), o, nil, 0); code(err) != "412" {
		t.Errorf("once more: %v", err)
	}
}

// TestLies_Bodies reads an object before and after it is overwritten, and once more.
func TestLies_Bodies(t *testing.T) {
	for _, tt := range []struct {
		lies gcsd.Lies
		want string
	}{
		{gcsd.Lies{}, "1 of 1, 2 of 2, 2 of 2"},
		{gcsd.Lies{OldBodyNewGeneration: true}, "1 of 1, 1 of 2, 2 of 2"},
		{gcsd.Lies{CachesReads: true}, "1 of 1, 1 of 1, 1 of 1"},
	} {
		tt.lies.NoChecksum = true
		_, b := start(t, &gcsd.Options{Lies: tt.lies})
		o := b.Object("a")
		first := mustSave(t, o, "1")
		var got []string
		look := func() {
			r, err := o.NewReader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(r)
			r.Close()
			of := map[bool]string{true: "1", false: "2"}[r.Attrs.Generation == first]
			got = append(got, string(body)+" of "+of)
		}
		look()
		mustSave(t, o, "2")
		look()
		look()
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%v: read %q, want %s", tt.lies, got, tt.want)
		}
	}
}

// TestLies_CachesReads_NoStore: what is stored no-store is never served from a cache.
func TestLies_CachesReads_NoStore(t *testing.T) {
	_, b := start(t, &gcsd.Options{Lies: gcsd.Lies{CachesReads: true}})
	for _, body := range []string{"1", "2"} {
		w := b.Object("a").NewWriter(t.Context())
		w.CacheControl = "no-store"
		io.WriteString(w, body)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := read(t.Context(), b.Object("a")); err != nil || got != body {
			t.Errorf("read %q, %v, want %q", got, err, body)
		}
	}
}

// TestLies_Answers looks at what an answer says besides its body.
func TestLies_Answers(t *testing.T) {
	for _, tt := range []struct {
		lies       gcsd.Lies
		path       string
		status     int
		has, lacks string // in headers and body
	}{
		{gcsd.Lies{}, "a", 200, `"generation":"`, "Location"},
		{gcsd.Lies{}, "a", 200, `"crc32c":"`, "Location"},
		{gcsd.Lies{NoGeneration: true}, "a", 200, `"name":"a"`, `"generation"`},
		{gcsd.Lies{NoChecksum: true}, "a", 200, `"name":"a"`, `"crc32c"`},
		{gcsd.Lies{}, "absent", 404, `"reason":"notFound"`, "forbidden"},
		{gcsd.Lies{BareErrors: true}, "absent", 404, "Content-Length:[0]", "notFound"},
		{gcsd.Lies{AbsentIsDenied: true}, "absent", 403, "forbidden", "notFound"},
		{gcsd.Lies{}, "b%2F%2Fc", 200, `"name":"b//c"`, "Location"},
		{gcsd.Lies{RedirectsPaths: true}, "b%2F%2Fc", 308, "/o/b%2Fc", `"name"`},
		{gcsd.Lies{RedirectsPaths: true}, "a", 200, `"name":"a"`, "Location"},
	} {
		s, _ := start(t, &gcsd.Options{Lies: tt.lies})
		s.Store("bucket", "a", "body")
		s.Store("bucket", "b//c", "body")
		c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		r, err := c.Get(s.URL() + "/storage/v1/b/bucket/o/" + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		text := fmt.Sprint(r.Header) + string(body)
		if r.StatusCode != tt.status || !strings.Contains(text, tt.has) || strings.Contains(text, tt.lacks) {
			t.Errorf("%v: %s: %d %s, want %d, with %s and without %s", tt.lies, tt.path, r.StatusCode, text, tt.status, tt.has, tt.lacks)
		}
	}
}

// TestLies_GoesByBoundary: an upload that breaks off behind its closing boundary is stored by who goes by that.
func TestLies_GoesByBoundary(t *testing.T) {
	for _, lies := range []gcsd.Lies{{}, {GoesByBoundary: true}} {
		s, _ := start(t, &gcsd.Options{Lies: lies})
		whole := "--x\r\nContent-Type: application/json\r\n\r\n{\"name\":\"a\"}\r\n--x\r\n\r\nhalf\r\n--x--\r\n"
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/upload/storage/v1/b/bucket/o?uploadType=multipart",
			io.MultiReader(strings.NewReader(whole), broken{}))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "multipart/related; boundary=x")
		if _, err := http.DefaultClient.Do(req); err == nil {
			t.Error("a body that breaks off was answered")
		}
		for lies.GoesByBoundary && s.Body("bucket", "a") == "" && t.Context().Err() == nil {
			s.Store("bucket", "b", "") // gives the server its time, which nobody tells that it is done
		}
		for len(s.Requests()) == 0 {
			s.Store("bucket", "b", "")
		}
		s.Close()
		if stored := s.Body("bucket", "a") == "half"; stored != lies.GoesByBoundary {
			t.Errorf("%v: stored %q", lies, s.Body("bucket", "a"))
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken off") }

// TestLies_String names what is told and nothing else.
func TestLies_String(t *testing.T) {
	if got := (gcsd.Lies{Unsorted: true, PageCap: 3, ClockAhead: time.Hour}).String(); got != "Unsorted PageCap=3 ClockAhead=1h0m0s" {
		t.Errorf("%q", got)
	}
}

// TestFaults strikes the second save of an object: what the client is told, and whether it was carried out.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		kind    gcsd.Kind
		applied bool
	}{
		{gcsd.Reset(), false}, {gcsd.Drop(), false}, {gcsd.HalfRequest(), false}, {gcsd.Status(503, "backendError"), false},
		{gcsd.AppliedThenReset(), true}, {gcsd.AppliedThenDrop(), true}, {gcsd.AppliedThenStatus(500), true}, {gcsd.Half(), true},
	} {
		s, b := start(t, nil)
		s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Where: func(r gcsd.Request) bool { return r.Name != "b" }, Nth: 2, Kind: tt.kind})
		for i, name := range []string{"a", "b", "c", "d"} {
			_, err := save(t.Context(), b.Object(name), make([]byte, 200<<10), 0)
			if struck := i == 2; struck != (err != nil) || (len(s.Body("bucket", name)) > 0) != (!struck || tt.applied) {
				t.Errorf("%v, save %d: %v, stored %d bytes", tt.kind, i, err, len(s.Body("bucket", name)))
			}
		}
	}
}

// TestAppliedLater: the answer comes before the effect, and the effect comes.
func TestAppliedLater(t *testing.T) {
	for _, status := range []int{0, 503} {
		s, b := start(t, nil)
		release := make(chan struct{})
		s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Kind: gcsd.AppliedLater(release, status, "backendError")})
		if _, err := save(t.Context(), b.Object("a"), []byte("x"), 0); err == nil {
			t.Errorf("%d: no error", status)
		}
		if _, err := b.Object("a").Attrs(t.Context()); code(err) != "404" {
			t.Errorf("%d: a read after the answer: %v", status, err)
		}
		close(release)
		s.Settle()
		if body, err := read(t.Context(), b.Object("a")); body != "x" {
			t.Errorf("%d: a read after the release: %q, %v", status, body, err)
		}
	}
}

// TestFaults_Delay: the request waits, whoever else comes meanwhile does not.
func TestFaults_Delay(t *testing.T) {
	s, b := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Name: "a", Kind: gcsd.Delay(time.Hour)})
	done := make(chan error)
	go func() {
		_, err := save(ctx, b.Object("a"), nil, 0)
		done <- err
	}()
	for s.Reset()[gcsd.Insert] == 0 {
		b.Object("a").Attrs(t.Context())
	}
	mustSave(t, b.Object("b"), "")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("delayed save: %v", err)
	}
}

// TestFault_String is printed where a planned fault never strikes.
func TestFault_String(t *testing.T) {
	all := func(gcsd.Request) bool { return true }
	for want, f := range map[string]gcsd.Fault{
		"any #1: reset":                              {Kind: gcsd.Reset()},
		"Insert of a #2: closed":                     {Op: gcsd.Insert, Name: "a", Nth: 2, Kind: gcsd.Drop()},
		"List where it is page 2 every: half a body": {Op: gcsd.List, Where: all, Text: "it is page 2", Every: true, Kind: gcsd.Half()},
		"Delete #1: status 503, applied later":       {Op: gcsd.Delete, Kind: gcsd.AppliedLater(nil, 503, "")},
		"Delete #1: closed, applied later":           {Op: gcsd.Delete, Kind: gcsd.AppliedLater(nil, 0, "")},
		"Get where it is so #1: delayed by 1s":       {Op: gcsd.Get, Where: all, Kind: gcsd.Delay(time.Second)},
		"Insert #1: half a request":                  {Op: gcsd.Insert, Kind: gcsd.HalfRequest()},
		"Insert #1: applied, then status 500":        {Op: gcsd.Insert, Kind: gcsd.AppliedThenStatus(500)},
		"Download #1: rewritten: a flipped bit":      {Op: gcsd.Download, Kind: gcsd.Rewrite("a flipped bit", nil)},
	} {
		if f.String() != want {
			t.Errorf("%q, want %q", f, want)
		}
	}
}
