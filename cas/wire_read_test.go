package cas_test

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
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// proxy starts a proxy before f that changes answers, and returns where it listens.
func proxy(t testing.TB, f fake, change func(*http.Response) error) string {
	t.Helper()
	to, err := url.Parse(f.url())
	if err != nil {
		t.Fatal(err)
	}
	carry := http.DefaultTransport.(*http.Transport).Clone()
	carry.DisableCompression = true // it would ask for that by itself
	t.Cleanup(carry.CloseIdleConnections)
	p := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: carry, ModifyResponse: change, ErrorLog: log.New(io.Discard, "", 0),
	})
	p.Start()
	t.Cleanup(p.Close)
	return p.URL
}

// retag changes the ETag of good answers to the methods.
func retag(form string, methods ...string) func(*http.Response) error {
	return func(r *http.Response) error {
		if tag := r.Header.Get("ETag"); tag != "" && slices.Contains(methods, r.Request.Method) {
			r.Header.Set("ETag", strings.ReplaceAll(form, "x", strings.Trim(tag, `"`)))
		}
		return nil
	}
}

// compress compresses bodies as a proxy may: where it is not told to leave them as they are, or always.
func compress(always bool) func(*http.Response) error {
	return func(r *http.Response) error {
		accepted := r.Request.Header.Get("Accept-Encoding")
		may := always || accepted == "" || strings.Contains(accepted, "gzip")
		if r.Request.Method != http.MethodGet || r.StatusCode != http.StatusOK || !may {
			return nil
		}
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		if _, err := io.Copy(w, r.Body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		r.Body.Close()
		r.Body = io.NopCloser(&small)
		r.Header.Set("Content-Encoding", "gzip")
		r.Header.Set("Content-Length", fmt.Sprint(small.Len()))
		r.ContentLength = int64(small.Len())
		return retag(`W/"x"`, http.MethodGet)(r)
	}
}

// TestCase_C32_ChangedTags: through a proxy that changes ETags the document is read and saved under its own one, which a
// HEAD tells; Cloud Storage's generation is no tag, and passes.
func TestCase_C32_ChangedTags(t *testing.T) {
	for _, form := range []string{
		`W/"x"`, `"x-gzip"`, `"x;gzip"`, `"x--gzip"`, `W/"x-gzip"`, `"x-br"`, `"x-zstd"`, `"x-deflate"`,
	} {
		for _, on := range [][]string{{"GET"}, {"GET", "PUT"}, {"PUT"}} {
			t.Run(fmt.Sprint(form, on), func(t *testing.T) {
				onEach(t, conf{}, func(t *testing.T, f fake) {
					begin(t, f, false)
					d := open(f.dial(t, nil, proxy(t, f, retag(form, on...))), nil)
					for i, name := range []string{"a", "b", "c"} {
						if s, err := d.Update(t.Context(), add(name), create); err != nil || s.Seq != uint64(i+1) || s.Version == "" {
							t.Fatalf("%s: seq %d, version %q, %v", name, s.Seq, s.Version, err)
						}
					}
					if _, err := d.Load(t.Context()); err != nil {
						t.Error(err)
					}
					if got := puts(t, f); len(got) != 3 || strings.Contains(strings.Join(got, ""), "W/") {
						t.Errorf("uploads under %q", got)
					}
					holds(t, f, []string{"a", "b", "c"})
				})
			})
		}
	}
}

// TestCase_C32_NoTagOfItsOwn: where nobody tells the object's own tag, there is an error after a few requests, and no save.
func TestCase_C32_NoTagOfItsOwn(t *testing.T) {
	f := startS3(t, conf{})
	want := begin(t, f, true)
	d := open(f.dial(t, nil, proxy(t, f, retag(`W/"x"`, "GET", "HEAD", "PUT"))), nil)
	if _, err := d.Update(t.Context(), add("ours"), nil); !errors.Is(err, cas.ErrNoVersion) {
		t.Errorf("Update: %v, want ErrNoVersion", err)
	}
	if n := len(f.sent()); n > 40 {
		t.Errorf("%d requests", n)
	}
	same(t, f, 0)
	holds(t, f, want)
}

// TestCase_C32_WonWithoutATag: the save is there, but the HEAD that should tell its version fails or finds a later one.
// It is won, or unknown where it can never be told; applied once in any case.
func TestCase_C32_WonWithoutATag(t *testing.T) {
	ours, late := []string{"seed", "ours"}, []string{"seed", "ours", "rival"}
	for name, tt := range map[string]struct {
		head  func(*testing.T, fake) fault
		form  []string // the methods whose tags are changed
		want  error
		names []string
	}{
		"HEAD fails":      {always(fault{method: "HEAD", kind: status(500, "", "")}), []string{"PUT"}, nil, ours},
		"HEAD is denied":  {always(fault{method: "HEAD", kind: status(403, "", "")}), []string{"PUT"}, nil, ours},
		"HEAD breaks off": {always(fault{method: "HEAD", every: true, kind: dropBefore}), []string{"PUT"}, nil, ours},
		"a rival was faster": {func(t *testing.T, f fake) fault {
			return fault{method: "HEAD", kind: before(func() { update(t, f, "rival") })}
		}, []string{"PUT"}, nil, late},
		"nobody tells any more": {always(fault{method: "HEAD", nth: 2, every: true, kind: status(500, "", "")}),
			[]string{"PUT", "GET"}, cas.ErrUnknown, ours},
	} {
		t.Run(name, func(t *testing.T) {
			f := startS3(t, conf{})
			begin(t, f, true)
			f.strike(tt.head(t, f))
			ours := &adder{name: "ours"}
			_, err := open(f.dial(t, nil, proxy(t, f, retag(`W/"x"`, tt.form...))), nil).Update(t.Context(), ours.change, nil)
			if !errors.Is(err, tt.want) || ours.runs != 1 {
				t.Errorf("%v, want %v; computed %d times", err, tt.want, ours.runs)
			}
			holds(t, f, tt.names)
		})
	}
}

func always(x fault) func(*testing.T, fake) fault { return func(*testing.T, fake) fault { return x } }

// TestCase_C32_Compressed: identity is asked for, so that a proxy leaves bodies as they are; one that compresses all the
// same is an error, and nothing is saved on what it answered.
func TestCase_C32_Compressed(t *testing.T) {
	onEach(t, conf{}, func(t *testing.T, f fake) {
		want := begin(t, f, true)
		d := open(f.dial(t, nil, proxy(t, f, compress(false))), nil)
		if _, err := d.Update(t.Context(), add("ours"), nil); err != nil {
			t.Error(err)
		}
		if got := methods(f); !slices.Equal(got, []string{"GET", "PUT"}) {
			t.Errorf("the requests were %q", got)
		}
		for _, s := range f.sent() {
			if e := s.header.Get("Accept-Encoding"); s.method == "GET" && e != "identity" {
				t.Errorf("the document was asked for with Accept-Encoding %q", e)
			}
		}
		want = append(want, "ours")
		holds(t, f, want)
		f.reset()
		d = open(f.dial(t, nil, proxy(t, f, compress(true))), nil)
		if _, err := d.Update(t.Context(), add("more"), nil); err == nil || errors.Is(err, cas.ErrNotExist) {
			t.Errorf("Update through a proxy that always compresses: %v", err)
		}
		same(t, f, 0)
		holds(t, f, want)
	})
}

// TestCase_C33_NoStore: documents are stored so that no cache keeps them, and one before the bucket that honours it does no
// harm.
func TestCase_C33_NoStore(t *testing.T) {
	onEach(t, conf{s3: s3d.Options{Lies: s3d.Lies{CachesReads: true}}, gcs: gcsd.Options{Lies: gcsd.Lies{CachesReads: true}}},
		func(t *testing.T, f fake) {
			begin(t, f, false)
			writer, reader := open(f.dial(t, nil, ""), nil), open(f.dial(t, nil, ""), nil)
			for i := range 3 {
				if _, err := writer.Update(t.Context(), add("x"), create); err != nil {
					t.Fatal(err)
				}
				if s, err := reader.Load(t.Context()); err != nil || s.Seq != uint64(i+1) {
					t.Errorf("after save %d: seq %d, %v", i+1, s.Seq, err)
				}
				if how := cacheControl(t, f); how != "no-store" {
					t.Errorf("save %d is stored with Cache-Control %q", i+1, how)
				}
			}
		})
}

// cacheControl is what the store tells whoever reads the document.
func cacheControl(t testing.TB, f fake) (how string) {
	t.Helper()
	at := proxy(t, f, func(r *http.Response) error { how = r.Header.Get("Cache-Control"); return nil })
	if _, err := f.dial(t, nil, at).Load(t.Context(), "doc"); err != nil {
		t.Error(err)
	}
	return how
}

// TestCase_C33_OldAfterNew: a cache serves an older state after a newer one was seen, or saved. It is asked again, and
// never shown.
func TestCase_C33_OldAfterNew(t *testing.T) {
	each(t, func(t *testing.T, start starter) {
		for _, x := range []struct {
			times int
			want  error
		}{{1, nil}, {3, nil}, {-1, cas.ErrBackwards}} {
			for _, saves := range []bool{false, true} {
				f := start(t, conf{})
				begin(t, f, true)
				c := &lagging{RoundTripper: http.DefaultTransport, from: 1}
				d := open(f.dial(t, c, ""), nil)
				if s, err := d.Load(t.Context()); err != nil || s.Seq != 1 {
					t.Fatalf("seq %d, %v", s.Seq, err)
				}
				if saves {
					if _, err := d.Update(t.Context(), add("new"), nil); err != nil {
						t.Fatal(err)
					}
				} else {
					update(t, f, "new")
					if s, err := d.Load(t.Context()); err != nil || s.Seq != 2 {
						t.Fatalf("seq %d, %v", s.Seq, err)
					}
				}
				f.reset()
				c.times = x.times
				if s, err := d.Load(t.Context()); !errors.Is(err, x.want) || err == nil && s.Seq != 2 {
					t.Errorf("%d old answers, saves=%t: Load: seq %d, %v, want %v", x.times, saves, s.Seq, err, x.want)
				}
				c.times = x.times
				_, err := d.Update(t.Context(), add("newer"), nil)
				if !errors.Is(err, x.want) || (err == nil) != (len(puts(t, f)) == 1) {
					t.Errorf("%d old answers, saves=%t: Update: %v, want %v", x.times, saves, err, x.want)
				}
				want := []string{"seed", "new"}
				if x.want == nil {
					want = append(want, "newer")
				}
				holds(t, f, want)
			}
		}
	})
}

// TestCase_N1_TheBaseIsFromTheStore: whatever the process has seen or saved before, each save stands on a GET of its own,
// and names the version that the store had.
func TestCase_N1_TheBaseIsFromTheStore(t *testing.T) {
	onEach(t, conf{}, func(t *testing.T, f fake) {
		begin(t, f, true)
		a, b, look := open(f.dial(t, nil, ""), nil), open(f.dial(t, nil, ""), nil), f.dial(t, nil, "")
		for i := range 6 {
			d := []*cas.Doc[list]{a, b, b, a, a, b}[i]
			if i%3 == 0 {
				if _, err := d.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			o, err := look.Load(t.Context(), "doc")
			if err != nil {
				t.Fatal(err)
			}
			f.reset()
			if _, err := d.Update(t.Context(), add(fmt.Sprint(i)), nil); err != nil {
				t.Fatal(err)
			}
			if got := f.sent(); !slices.Equal(methods(f), []string{"GET", "PUT"}) || got[1].condition != string(o.Version) {
				t.Errorf("update %d: %q under %q, want GET and PUT under %q", i, methods(f), puts(t, f), o.Version)
			}
		}
		holds(t, f, []string{"seed", "0", "1", "2", "3", "4", "5"})
	})
}

// TestCase_N1_AnOldAnswerIsNoBase: a process that has only ever seen an old answer saves nothing over what came since.
func TestCase_N1_AnOldAnswerIsNoBase(t *testing.T) {
	each(t, func(t *testing.T, start starter) {
		for _, times := range []int{1, 3, -1} {
			f := start(t, conf{})
			begin(t, f, true)
			c := &lagging{RoundTripper: http.DefaultTransport, from: 1}
			client := f.dial(t, c, "")
			if _, err := client.Load(t.Context(), "doc"); err != nil {
				t.Fatal(err)
			}
			update(t, f, "new")
			c.times = times
			want := []string{"seed", "new"}
			switch _, err := open(client, nil).Update(t.Context(), add("ours"), nil); {
			case times > 0 && err == nil:
				want = append(want, "ours")
			case times > 0 || !errors.Is(err, cas.ErrUnsupported):
				t.Errorf("%d old answers: %v", times, err)
			}
			puts(t, f)
			holds(t, f, want)
		}
	})
}

// generation is a generation in the metadata that answers an upload.
var generation = regexp.MustCompile(`"generation":"\d+",?`)

// TestCase_N2_AnyVersionOnTheWire: a tag that every object has, to a store that reads it in a condition, and one that is several,
// are none.
func TestCase_N2_AnyVersionOnTheWire(t *testing.T) {
	for _, tag := range []string{"*", `"*"`, `W/*`, `"a", "b"`, "a,b", `"a,b"`, `"`} {
		onEach(t, conf{}, func(t *testing.T, f fake) {
			if _, ok := f.(*s3Fake); !ok {
				return // generations are numbers
			}
			want := begin(t, f, true)
			at := proxy(t, f, func(r *http.Response) error {
				if r.Header["Etag"] != nil {
					r.Header.Set("Etag", tag)
				}
				return nil
			})
			if _, err := open(f.dial(t, nil, at), nil).Update(t.Context(), add("ours"), nil); !errors.Is(err, cas.ErrNoVersion) {
				t.Errorf("%s: Update: %v", tag, err)
			}
			same(t, f, 0)
			holds(t, f, want)
		})
	}
}

// TestCase_N2_NoVersionOnTheWire: an answer that tells no version, or one that would be none as a token, is an error, and no
// write follows from it.
func TestCase_N2_NoVersionOnTheWire(t *testing.T) {
	for _, none := range []string{"", `""`, "0", "-1", "-"} { // "-": the header is missing
		t.Run("read "+none, func(t *testing.T) {
			onEach(t, conf{}, func(t *testing.T, f fake) {
				want := begin(t, f, true)
				at := proxy(t, f, func(r *http.Response) error {
					for _, name := range []string{"Etag", "X-Goog-Generation"} {
						if r.Header[name] != nil && r.Request.Method == http.MethodGet {
							if r.Header.Set(name, none); none == "-" {
								r.Header.Del(name)
							}
						}
					}
					return nil
				})
				if _, ok := f.(*s3Fake); ok && none == "-1" {
					return // a strange ETag, but one that a store may give
				}
				for _, may := range []*cas.UpdateOptions{nil, create} {
					if _, err := open(f.dial(t, nil, at), nil).Update(t.Context(), add("ours"), may); err == nil ||
						none != `""` && !errors.Is(err, cas.ErrNoVersion) && !errors.Is(err, cas.ErrPrecondition) { // that is no number
						t.Errorf("Update: %v", err)
					}
				}
				same(t, f, 0)
				holds(t, f, want)
			})
		})
		t.Run("create "+none, func(t *testing.T) {
			onEach(t, conf{}, func(t *testing.T, f fake) {
				if _, ok := f.(*s3Fake); ok && (none == "-1" || none == "0") {
					return
				}
				begin(t, f, false)
				at := proxy(t, f, func(r *http.Response) error { return unversioned(r, none) })
				s, err := open(f.dial(t, nil, at), nil).Update(t.Context(), add("ours"), create)
				o, _ := f.dial(t, nil, "").Load(t.Context(), "doc")
				switch {
				case err == nil && s.Version == o.Version: // the answer could not be read at all, and a read has told it
				case err == nil, !errors.Is(err, cas.ErrUnknown):
					t.Errorf("Update: version %q, %v", s.Version, err)
				}
				for _, condition := range puts(t, f) {
					if condition != "absent" {
						t.Errorf("an upload under %q", condition)
					}
				}
				holds(t, f, []string{"ours"})
			})
		})
	}
	t.Run("lie", func(t *testing.T) {
		onEach(t, conf{s3: s3d.Options{Lies: s3d.Lies{NoETag: true}}, gcs: gcsd.Options{Lies: gcsd.Lies{NoGeneration: true}}},
			func(t *testing.T, f fake) {
				begin(t, f, false)
				_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), add("ours"), create)
				if !errors.Is(err, cas.ErrNoVersion) || !errors.Is(err, cas.ErrUnknown) {
					t.Errorf("a creation: %v, want ErrNoVersion, and ErrUnknown since it is there", err)
				}
				_, err = open(f.dial(t, nil, ""), nil).Update(t.Context(), add("more"), create)
				if !errors.Is(err, cas.ErrNoVersion) || errors.Is(err, cas.ErrUnknown) {
					t.Errorf("an update: %v, want ErrNoVersion, and nothing was sent", err)
				}
				same(t, f, 1)
				holds(t, f, []string{"ours"})
			})
	})
}

// unversioned takes the version out of every answer but a read's.
func unversioned(r *http.Response, none string) error {
	if r.Header.Get("Etag") != "" && r.Request.Method == http.MethodPut {
		if r.Header.Set("Etag", none); none == "-" {
			r.Header.Del("Etag")
		}
	}
	if r.Request.Method != http.MethodPost {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	with := `"generation":"` + none + `",`
	if none == "-" {
		with = ""
	}
	body = generation.ReplaceAll(body, []byte(with))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

// TestCase_C56_NoDocument: what is at the key is no document of this format: an error that names the key, on every store,
// and it is never written over.
func TestCase_C56_NoDocument(t *testing.T) {
	begun := newFlaky()
	seed(t, begun)
	o, err := begun.Store.Load(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	good := string(o.Body)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	io.WriteString(w, good)
	w.Close()
	bodies := map[string]struct {
		body string
		want error
	}{
		"0 bytes": {"", cas.ErrCorrupt}, "NULs": {strings.Repeat("\x00", len(good)), cas.ErrCorrupt},
		"cut in half": {good[:len(good)/2], cas.ErrCorrupt}, "one byte short": {good[:len(good)-1], cas.ErrCorrupt},
		"NULs at the end": {good[:len(good)-9] + strings.Repeat("\x00", 9), cas.ErrCorrupt},
		"twice":           {good + good, cas.ErrCorrupt}, "text": {"hello\n", cas.ErrCorrupt}, "space": {" \n", cas.ErrCorrupt},
		"labels": {`{"title":"a run"}`, cas.ErrCorrupt}, "an XML error": {"<Error><Code>NoSuchKey</Code></Error>", cas.ErrCorrupt},
		"compressed": {packed.String(), cas.ErrCorrupt}, "a BOM": {"\ufeff" + good, cas.ErrCorrupt},
		"another kind":  {strings.Replace(good, "list/1", "lease/1", 1), cas.ErrFormat},
		"a later one":   {strings.Replace(good, "list/1", "list/2", 1), cas.ErrFormat},
		"another shape": {`{"format":"list/2","body":1}`, cas.ErrFormat},
		"its payload":   {strings.Replace(good, `["seed"]`, `"seed"`, 1), cas.ErrCorrupt},
	}
	refuses := func(t *testing.T, s cas.Store, name string, want error) {
		t.Helper()
		if s, err := open(s, nil).Load(t.Context()); !errors.Is(err, want) || !strings.Contains(err.Error(), `"doc"`) {
			t.Errorf("%s: Load: %+v, %v, want %v", name, s.Value, err, want)
		}
		for _, may := range []*cas.UpdateOptions{nil, create} {
			_, err := open(s, nil).Update(t.Context(), add("x"), may)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), `"doc"`) || errors.Is(err, cas.ErrNotExist) ||
				errors.Is(err, cas.ErrUnknown) {
				t.Errorf("%s: Update: %v, want %v", name, err, want)
			}
		}
	}
	onEach(t, conf{}, func(t *testing.T, f fake) {
		for name, x := range bodies {
			f.put(x.body)
			refuses(t, f.dial(t, nil, ""), name, x.want)
			if same(t, f, 0); f.body() != x.body {
				t.Errorf("%s: it was written over with %q", name, f.body())
			}
		}
	})
	t.Run("directory", func(t *testing.T) {
		dir := t.TempDir()
		b := openDir(t, dir)
		for name, x := range bodies {
			if err := os.WriteFile(filepath.Join(dir, "doc"), []byte(x.body), 0o666); err != nil {
				t.Fatal(err)
			}
			refuses(t, b, name, x.want)
			if now, err := os.ReadFile(filepath.Join(dir, "doc")); err != nil || string(now) != x.body {
				t.Errorf("%s: it was written over with %q, %v", name, now, err)
			}
		}
	})
}

// TestCase_C56_CutOnTheWay: a body that breaks off on the way is neither the document nor a corrupt one: it is read again,
// and in the end an error of reading.
func TestCase_C56_CutOnTheWay(t *testing.T) {
	half := kind{s3d.HalfBody(), gcsd.Half()}
	each(t, func(t *testing.T, start starter) {
		f := start(t, conf{})
		want := begin(t, f, true)
		f.strike(fault{method: "GET", kind: half})
		if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), add("ours"), nil); err != nil {
			t.Errorf("cut once: %v", err)
		}
		holds(t, f, append(want, "ours"))
		f = start(t, conf{})
		begin(t, f, true)
		f.strike(fault{method: "GET", every: true, kind: half})
		_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), add("ours"), create)
		if err == nil || errors.Is(err, cas.ErrCorrupt) || errors.Is(err, cas.ErrNotExist) || errors.Is(err, cas.ErrUnknown) {
			t.Errorf("cut each time: %v", err)
		}
		same(t, f, 0)
		holds(t, f, want)
	})
}
