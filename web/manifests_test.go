package web_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

const (
	models   = "/v1/manifests/team/models/entries"
	listKey  = bucket.Key(manifest.Root + "team/models/list")
	blobsKey = manifest.Root + "team/models/blobs/"
)

// docs is the site's store as one of documents: it counts what is asked, and lets a test get in between.
type docs struct {
	bucket.Objects
	store cas.Store

	mu           sync.Mutex
	loads, saves int
	load         func() error // instead of loading, if it returns an error
	save         func() error // instead of saving, if it returns an error
	saved        func() error // in the place of success
}

func (d *docs) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	d.mu.Lock()
	d.loads++
	hook := d.load
	d.mu.Unlock()
	if hook != nil {
		if err := hook(); err != nil {
			return cas.Object{}, err
		}
	}
	return d.store.Load(ctx, key)
}

func (d *docs) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	d.mu.Lock()
	d.saves++
	before, after := d.save, d.saved
	d.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return "", err
		}
	}
	v, err := d.store.Save(ctx, key, body, p)
	if err == nil && after != nil {
		err = after()
	}
	return v, err
}

// hooks sets what happens from now on.
func (d *docs) hooks(load, save, saved func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.load, d.save, d.saved = load, save, saved
}

func (d *docs) reset() (loads, saves int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	loads, saves, d.loads, d.saves = d.loads, d.saves, 0, 0
	return loads, saves
}

// wantAll is wantRequests, and of the documents.
func (s *site) wantAll(want fakes.Counts, loads, saves int) {
	s.t.Helper()
	s.wantRequests(want)
	if l, v := s.docs.reset(); l != loads || v != saves {
		s.t.Errorf("%d loads and %d saves, want %d and %d", l, v, loads, saves)
	}
}

// A part is one of a form.
type part struct {
	name, filename, body string
	isFile               bool
}

func file(name, body string) part  { return part{"file", name, body, true} }
func field(name, body string) part { return part{name: name, body: body} }

// form is the body of an upload and its type.
func form(parts ...part) (body, kind string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", fmt.Sprintf(`form-data; name=%q`, p.name))
		if p.isFile {
			h.Set("Content-Disposition", fmt.Sprintf(`form-data; name=%q; filename="%s"`, p.name, p.filename))
		}
		pw, err := w.CreatePart(h)
		if err == nil {
			_, err = io.WriteString(pw, p.body)
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String(), w.FormDataContentType()
}

var (
	create = []string{"If-None-Match", "*"}
	anyway = []string{"If-Match", "*"}
)

func (s *site) upload(method, path string, header []string, parts ...part) answer {
	s.t.Helper()
	body, kind := form(parts...)
	return s.do(method, path, body, append([]string{"Content-Type", kind}, header...)...)
}

// whichever is the precondition that holds just now.
func (s *site) whichever() []string {
	s.t.Helper()
	if s.get(models).status == http.StatusNotFound {
		return create
	}
	return anyway
}

// entry adds an entry with one file, and returns it.
func (s *site) entry(id, body string) api.Entry {
	s.t.Helper()
	e := decode[api.Change](s.upload("PUT", models+"/"+id, s.whichever(), file("f", body)).want(http.StatusCreated)).Entry
	s.count.Reset()
	s.docs.reset()
	return e
}

func blobPath(e api.Entry, i int) string {
	return models + "/" + url.PathEscape(e.Id) + "/blobs/" + e.Blobs[i].Key
}

func sha(body string) string { return "sha256:" + hexSum(body) }

// TestManifest_OneEntry: from an absent manifest to one that is empty again, with what each step asks of the store.
func TestManifest_OneEntry(t *testing.T) {
	s := newSite(t)
	s.get(models).problem(http.StatusNotFound, "not_found")
	s.wantAll(fakes.Counts{List: 1}, 1, 0)

	a := s.upload("PUT", models+"/run%207", create, field("dedupe_key", "train-eu"), field("meta", `{"owner":"ann"}`),
		file("model.bin", "weights"), file("empty", "")).want(http.StatusCreated)
	s.wantAll(fakes.Counts{Put: 2, Head: 2}, 1, 1)
	tag := a.header.Get("Etag")
	added := decode[api.Change](a)
	if a.header.Get("Location") != models+"/run%207" || len(tag) < 10 || tag[0] != '"' || len(added.Displaced) != 0 {
		t.Errorf("%v, %+v", a.header, added)
	}
	e := added.Entry
	want := api.Entry{
		Id: "run 7", DedupeKey: "train-eu", Size: 7, Digest: sha(sha("weights") + "\n" + sha("") + "\n"), AddedAt: start,
		Meta: map[string]string{"owner": "ann"}, Blobs: []api.Blob{
			{Key: e.Blobs[0].Key, Name: "model.bin", Size: 7, Digest: sha("weights")},
			{Key: e.Blobs[1].Key, Name: "empty", Size: 0, Digest: sha("")},
		},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}

	all := s.get(models).want(http.StatusOK)
	s.wantAll(fakes.Counts{}, 1, 0)
	if diff := cmp.Diff(api.Entries{Entries: []api.Entry{want}}, decode[api.Entries](all)); diff != "" {
		t.Error(diff)
	}
	one := s.get(models + "/run%207").want(http.StatusOK)
	if diff := cmp.Diff(want, decode[api.Entry](one)); diff != "" {
		t.Error(diff)
	}
	for _, got := range []answer{all, one} {
		if got.header.Get("Etag") != tag || got.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%v, want the tag %s", got.header, tag)
		}
	}
	s.get(models+"/run").problem(http.StatusNotFound, "not_found")

	// Another one displaces it.
	a = s.upload("POST", models, []string{"If-Match", tag}, field("dedupe_key", "train-eu"), file("model.bin", "more weights"))
	second := decode[api.Change](a.want(http.StatusCreated))
	if id := second.Entry.Id; len(id) != 26 || a.header.Get("Location") != models+"/"+id {
		t.Errorf("id %q at %s", id, a.header.Get("Location"))
	}
	if diff := cmp.Diff([]api.Entry{want}, second.Displaced); diff != "" {
		t.Error(diff)
	}
	s.get(blobPath(e, 0)).problem(http.StatusNotFound, "not_found")
	s.count.Reset()
	s.docs.reset()

	// It is taken out, on the state that was answered last and no other.
	stale, now := tag, a.header.Get("Etag")
	s.do("DELETE", a.header.Get("Location"), "", "If-Match", stale).problem(http.StatusPreconditionFailed, "changed")
	s.wantAll(fakes.Counts{}, 1, 0)
	gone := s.do("DELETE", a.header.Get("Location"), "", "If-Match", now).want(http.StatusOK)
	s.wantAll(fakes.Counts{Delete: 2, DeleteKeys: 3}, 1, 1) // those that the change before has journaled, once more
	if diff := cmp.Diff(api.Change{Entry: second.Entry, Displaced: []api.Entry{}}, decode[api.Change](gone)); diff != "" {
		t.Error(diff)
	}
	empty := s.get(models).want(http.StatusOK)
	if strings.TrimSpace(empty.body) != `{"entries":[]}` || empty.header.Get("Etag") != gone.header.Get("Etag") {
		t.Errorf("%s, %v", empty.body, empty.header)
	}
	s.do("DELETE", a.header.Get("Location"), "", "If-Match", "*").problem(http.StatusNotFound, "not_found")
}

// TestManifest_Order: entries are in the order in which they were added, whatever their ids.
func TestManifest_Order(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"c", "a", "b", "ü", "%2B"} {
		s.entry(id, "body of "+id)
	}
	var ids []string
	for _, e := range decode[api.Entries](s.get(models)).Entries {
		ids = append(ids, e.Id)
	}
	if diff := cmp.Diff([]string{"c", "a", "b", "ü", "+"}, ids); diff != "" {
		t.Error(diff)
	}
}

// TestManifest_Revalidation: If-None-Match of reads; HEAD is GET without its body.
func TestManifest_Revalidation(t *testing.T) {
	s := newSite(t)
	e := s.entry("x", "body")
	for _, path := range []string{models, models + "/x", blobPath(e, 0)} {
		a := s.get(path).want(http.StatusOK)
		tag := a.header.Get("Etag")
		for _, match := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			for _, method := range []string{"GET", "HEAD"} {
				s.count.Reset()
				b := s.do(method, path, "", "If-None-Match", match).want(http.StatusNotModified)
				if b.body != "" || b.header.Get("Etag") != tag || b.header.Get("Cache-Control") != "no-cache" {
					t.Errorf("%s %s: %q, %v", method, path, b.body, b.header)
				}
				s.wantRequests(fakes.Counts{}) // no body was opened
			}
		}
		s.do("GET", path, "", "If-None-Match", `"other"`).want(http.StatusOK)
		head := s.do("HEAD", path, "").want(http.StatusOK)
		for _, own := range []string{"Date", "X-Request-Id"} {
			a.header.Del(own)
			head.header.Del(own)
		}
		if diff := cmp.Diff(a.header, head.header); diff != "" || head.body != "" {
			t.Errorf("HEAD %s: %s%s", path, diff, head.body)
		}
	}
	tag := s.get(models + "/x").header.Get("Etag")
	s.entry("y", "body")
	if s.do("GET", models+"/x", "", "If-None-Match", tag).want(http.StatusOK).header.Get("Etag") == tag {
		t.Error("the tag holds though the manifest has changed")
	}
}

// TestManifest_Preconditions: a change names the state that it is made on, and is refused on any other. What can be seen to
// be wrong is refused before a request.
func TestManifest_Preconditions(t *testing.T) {
	s := newSite(t)
	for _, absent := range []bool{true, false} {
		tag := `"none-1"`
		if !absent {
			s.entry("x", "body")
			tag = s.get(models).header.Get("Etag")
		}
		for _, c := range []struct {
			header []string
			status int
			code   string
			asked  bool // the store
		}{
			{nil, 428, "precondition", false},
			{[]string{"If-None-Match", tag}, 400, "bad_request", false},
			{[]string{"If-None-Match", ""}, 400, "bad_request", false},
			{[]string{"If-None-Match", "*", "If-Match", "*"}, 400, "bad_request", false},
			{[]string{"If-Match", strings.Trim(tag, `"`)}, 400, "bad_request", false},
			{[]string{"If-Match", tag + "x"}, 400, "bad_request", false},
			{[]string{"If-Match", `"a` + "\t"}, 400, "bad_request", false},
			{[]string{"If-Match", `"`}, 400, "bad_request", false},
			{[]string{"If-Match", "*, " + tag}, 400, "bad_request", false},
			{[]string{"If-Match", ""}, 400, "bad_request", false},
			{[]string{"If-Match", `"a", ` + tag}, 400, "bad_request", false},
			{[]string{"If-Match", `""`}, 412, "changed", false},
			{[]string{"If-Match", `"%` + fmt.Sprintf("%x", tag[1]) + tag[2:]}, 412, "changed", false}, // if it were decoded
			{[]string{"If-Match", `"%"`}, 412, "changed", false},
			{[]string{"If-Match", "W/" + tag}, 412, "changed", false},
			{[]string{"If-Match", `W/"a", W/` + tag}, 412, "changed", false},
			{[]string{"If-Match", `"other"`}, 412, "changed", true},
			{[]string{"If-Match", strings.ToLower(tag)}, 412, "changed", true},
			{[]string{"If-Match", strings.TrimSuffix(tag, `"`) + `-gzip"`}, 412, "changed", true},
		} {
			body, kind := form(file("f", "body"))
			for _, request := range []string{"POST " + models, "PUT " + models + "/y", "DELETE " + models + "/x"} {
				method, path, _ := strings.Cut(request, " ")
				s.count.Reset()
				s.docs.reset()
				header := append([]string{"Content-Type", kind}, c.header...)
				sent := body
				if method == "DELETE" {
					sent = ""
				}
				s.do(method, path, sent, header...).problem(c.status, c.code)
				if !c.asked {
					s.wantAll(fakes.Counts{}, 0, 0)
				}
			}
		}
		if absent {
			for _, header := range [][]string{{"If-Match", tag}, anyway} {
				p := s.upload("PUT", models+"/x", header, file("f", "body")).problem(http.StatusPreconditionFailed, "changed")
				// The files that are there are those of this very request.
				if !strings.Contains(p.Detail, "no such manifest") || !strings.Contains(p.Action, "If-None-Match: * makes it") {
					t.Errorf("%+v", p)
				}
				s.do("DELETE", models+"/x", "", header...).problem(http.StatusPreconditionFailed, "changed")
			}
			s.get(models).problem(http.StatusNotFound, "not_found")
			continue
		}
		s.upload("PUT", models+"/y", create, file("f", "body")).problem(http.StatusPreconditionFailed, "changed")
		s.do("DELETE", models+"/x", "", create...).problem(http.StatusBadRequest, "bad_request")
		// Of a list the weak ones are passed over.
		s.upload("PUT", models+"/y", []string{"If-Match", `W/"a" , ` + tag + ","}, file("f", "body")).want(http.StatusCreated)
		s.upload("PUT", models+"/z", []string{"If-Match", tag}, file("f", "body")).problem(http.StatusPreconditionFailed, "changed")
		if n := len(decode[api.Entries](s.get(models)).Entries); n != 2 {
			t.Errorf("%d entries, want 2", n)
		}
	}
}

// TestCase_C32_OwnTagsCompareStrongly: a tag that a proxy has weakened or given a suffix changes nothing, and is no conflict
// without end.
func TestCase_C32_OwnTagsCompareStrongly(t *testing.T) {
	s := newSite(t)
	s.entry("x", "body")
	tag := s.get(models).header.Get("Etag")
	open := strings.TrimSuffix(tag, `"`)
	for _, altered := range []string{"W/" + tag, open + `-gzip"`, open + `;gzip"`} {
		s.do("DELETE", models+"/x", "", "If-Match", altered).problem(http.StatusPreconditionFailed, "changed")
	}
	if loads, saves := s.docs.reset(); saves != 0 || loads > 4 {
		t.Errorf("%d loads, %d saves", loads, saves)
	}
	s.do("DELETE", models+"/x", "", "If-Match", tag).want(http.StatusOK)
}

// TestManifest_ForeignNonce: the tag of a list that another program has made may be any text, and works as others do.
func TestManifest_ForeignNonce(t *testing.T) {
	s := newSite(t)
	s.put(string(listKey), `{"format":"manifest/1","created":{"nonce":"a\"\r\n, ü%","at":"2026-03-01T12:00:00Z"},"seq":1,`+
		`"nonce":"a\"\r\n, ü%","recent":[],"payload":{"grace_ms":86400000,"reaping":[],"entries":[]}}`)
	tag := s.get(models).want(http.StatusOK).header.Get("Etag")
	if strings.Trim(tag, `"`) == "" || strings.ContainsAny(strings.Trim(tag, `"`), "\"\r\n, ü") {
		t.Fatalf("the tag is %q", tag)
	}
	s.do("GET", models, "", "If-None-Match", tag).want(http.StatusNotModified)
	a := s.upload("PUT", models+"/x", []string{"If-Match", tag}, file("f", "body")).want(http.StatusCreated)
	s.do("DELETE", models+"/x", "", "If-Match", a.header.Get("Etag")).want(http.StatusOK)
}

// TestManifest_Encodings: a file that is declared to be encoded would not be stored as it came, or not as it was meant.
func TestManifest_Encodings(t *testing.T) {
	s := newSite(t)
	for encoding, status := range map[string]int{
		"quoted-printable": 400, "BASE64": 400, "x": 400, "binary": 201, "8BIT": 201, "7bit": 201,
	} {
		raw := "--" + rawBoundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n" +
			"Content-Transfer-Encoding: " + encoding + "\r\n\r\na=3Db\r\n" + rawEnd
		header := append([]string{"Content-Type", "multipart/form-data; boundary=" + rawBoundary}, s.whichever()...)
		if a := s.do("PUT", models+"/"+encoding, raw, header...); a.want(status).status == http.StatusCreated {
			if got := s.get(blobPath(decode[api.Change](a).Entry, 0)).body; got != "a=3Db" {
				t.Errorf("%s: stored as %q", encoding, got)
			}
		}
	}
}

// TestManifest_Forms: what is no form of an upload adds nothing.
func TestManifest_Forms(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("n", 256)
	files := func(n int) (all []part) {
		for i := range n {
			all = append(all, file(fmt.Sprint(i), ""))
		}
		return all
	}
	for name, c := range map[string]struct {
		parts  []part
		status int
		code   string
	}{
		"no file":            {[]part{field("meta", "{}")}, 400, "bad_request"},
		"nothing":            {nil, 400, "bad_request"},
		"an unknown field":   {[]part{field("id", "x"), file("f", "")}, 400, "bad_request"},
		"a field twice":      {[]part{field("meta", "{}"), field("meta", "{}"), file("f", "")}, 400, "bad_request"},
		"a field at the end": {[]part{file("f", ""), field("meta", "{}")}, 400, "bad_request"},
		"another name":       {[]part{file("f", ""), {"other", "g", "", true}}, 400, "bad_request"},
		"meta is a list":     {[]part{field("meta", "[]"), file("f", "")}, 400, "bad_request"},
		"meta is no text":    {[]part{field("meta", `{"a":1}`), file("f", "")}, 400, "bad_request"},
		"meta is null":       {[]part{field("meta", `{"a":null}`), file("f", "")}, 400, "bad_request"},
		"meta twice":         {[]part{field("meta", `{"a":"b","a":"c"}`), file("f", "")}, 400, "bad_request"},
		"meta is no UTF-8":   {[]part{field("meta", "{\"a\":\"\xff\"}"), file("f", "")}, 400, "bad_request"},
		"meta is empty":      {[]part{field("meta", ""), file("f", "")}, 400, "bad_request"},
		"a long meta":        {[]part{field("meta", strings.Repeat(" ", 8<<10+1)), file("f", "")}, 413, "too_large"},
		"a long key":         {[]part{field("dedupe_key", strings.Repeat("k", 1001)), file("f", "")}, 400, "bad_request"},
		"a key, no UTF-8":    {[]part{field("dedupe_key", "\xff"), file("f", "")}, 400, "bad_request"},
		"no file name":       {[]part{field("file", "body")}, 400, "bad_request"},
		"an empty name":      {[]part{file("", "body")}, 400, "bad_request"},
		"a dot":              {[]part{file("..", "body")}, 400, "bad_request"},
		"a long name":        {[]part{file(long, "body")}, 400, "bad_request"},
		"a name, no UTF-8":   {[]part{file("\xff", "body")}, 400, "bad_request"},
		"a control in it":    {[]part{file("a\x01b", "body")}, 400, "bad_request"},
		"names twice":        {[]part{file("f", "a"), file("f", "b")}, 400, "bad_request"},
		"names twice, paths": {[]part{file("x/f", "a"), file("y/f", "b")}, 400, "bad_request"},
		"too many files":     {files(1001), 400, "bad_request"},
	} {
		t.Run(name, func(t *testing.T) {
			s.upload("PUT", models+"/x", create, c.parts...).problem(c.status, c.code)
		})
	}
	for _, kind := range []string{"application/json", "", "multipart/form-data", "text/plain; boundary=x"} {
		a := s.do("PUT", models+"/x", "{}", append([]string{"Content-Type", kind}, create...)...)
		a.problem(http.StatusUnsupportedMediaType, "media_type")
	}
	p := s.upload("PUT", models+"/x", create, field("meta", strings.Repeat(" ", 8<<10+1)), file("f", "")).
		problem(http.StatusRequestEntityTooLarge, "too_large")
	if !strings.Contains(p.Detail, "meta") || strings.Contains(p.Detail+p.Action, "body") || strings.Contains(p.Action, "labels") {
		t.Errorf("of a long field: %+v", p)
	}
	if _, saves := s.docs.reset(); saves != 0 {
		t.Errorf("%d saves", saves)
	}
	e := decode[api.Change](s.upload("PUT", models+"/x", create, append([]part{field("dedupe_key", ""), field("meta", " {} ")},
		append(files(999), file(long[:255], "body"))...)...).want(http.StatusCreated)).Entry
	if len(e.Blobs) != 1000 {
		t.Errorf("%d files", len(e.Blobs))
	}
}

// TestManifest_Blobs: a file goes out as it came, under its name and as nothing that a browser would run.
func TestManifest_Blobs(t *testing.T) {
	s := newSite(t)
	big := strings.Repeat("0123456789abcdef", 20<<10)
	var parts []part
	bodies := map[string]string{
		"page.html": "<script>alert(1)</script>", "empty": "", "big": big, "chunk": big[:64<<10], "chunks": big[:128<<10],
		"more": big[:64<<10+1], "a b;c=d": "x", "ключ": "y", `q\"q`: "z", `dir\\f`: "w",
	}
	for name, body := range bodies {
		parts = append(parts, file(name, body))
	}
	e := decode[api.Change](s.upload("PUT", models+"/x", create, parts...).want(http.StatusCreated)).Entry
	for i, b := range e.Blobs {
		s.count.Reset()
		s.docs.reset()
		a := s.get(blobPath(e, i)).want(http.StatusOK)
		s.wantAll(fakes.Counts{Open: 1}, 1, 0)
		if want := parts[i].body; a.body != want {
			t.Errorf("%s: %d bytes, want %d", b.Name, len(a.body), len(want))
		}
		sum, err := hex.DecodeString(strings.TrimPrefix(b.Digest, "sha256:"))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache",
			"Content-Length": fmt.Sprint(len(a.body)), "Etag": `"` + b.Digest + `"`,
			"Repr-Digest": "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", b.Name, name, got, want)
			}
		}
		d := a.header.Get("Content-Disposition")
		if !strings.HasPrefix(d, "attachment; filename") || strings.ContainsAny(d, "\\/\r\n") && b.Name != `q"q` {
			t.Errorf("%q: %s", b.Name, d)
		}
		if !strings.HasPrefix(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Error(a.header)
		}
	}
	s.get(models+"/x/blobs/NONE").problem(http.StatusNotFound, "not_found")
	s.get(models+"/y/blobs/"+e.Blobs[0].Key).problem(http.StatusNotFound, "not_found")
}

// TestManifest_UnknownOutcome: an entry that may be there is told with the path at which to look.
func TestManifest_UnknownOutcome(t *testing.T) {
	s := newSite(t)
	s.entry("w", "body")
	lost := func() {
		answered := false
		s.docs.hooks(func() error {
			if answered {
				return bucket.ErrDenied
			}
			return nil
		}, nil, func() error { answered = true; return bucket.ErrUnknown })
	}
	for _, request := range []string{"PUT " + models + "/x", "POST " + models} {
		method, path, _ := strings.Cut(request, " ")
		lost()
		a := s.upload(method, path, anyway, file("f", "body"))
		p := a.problem(http.StatusServiceUnavailable, "unknown")
		at := a.header.Get("Location")
		if !strings.Contains(p.Detail, "the entry "+at[strings.LastIndex(at, "/")+1:]+" may have been added") {
			t.Errorf("%+v at %s", p, at)
		}
		s.docs.hooks(nil, nil, nil)
		e := decode[api.Entry](s.get(at).want(http.StatusOK))
		if s.get(blobPath(e, 0)).want(http.StatusOK).body != "body" {
			t.Error("its file is another one")
		}
		s.upload("PUT", at, anyway, file("f", "body")).problem(http.StatusConflict, "entry_exists")
		lost()
		s.do("DELETE", at, "", anyway...).problem(http.StatusServiceUnavailable, "unknown")
		s.docs.hooks(nil, nil, nil)
		s.do("DELETE", at, "", anyway...).problem(http.StatusNotFound, "not_found")
	}
	// A lost answer that is found again is no matter.
	first := true
	s.docs.hooks(nil, nil, func() error {
		if first {
			first = false
			return bucket.ErrUnknown
		}
		return nil
	})
	a := s.upload("PUT", models+"/y", anyway, file("f", "body")).want(http.StatusCreated)
	if a.header.Get("Etag") != s.get(models).header.Get("Etag") {
		t.Errorf("the tag %s is not that of the state", a.header.Get("Etag"))
	}
}

// TestManifest_StreamsAreReadOnce: a file that was gone before the save cannot be uploaded again, and nothing is added.
func TestManifest_StreamsAreReadOnce(t *testing.T) {
	s := newSite(t)
	s.faults.Plan(fakes.Fault{Op: fakes.Head, Kind: fakes.NotApplied(bucket.ErrNotExist)})
	a := s.upload("PUT", models+"/x", create, file("f", "body"))
	p := a.problem(http.StatusServiceUnavailable, "upload_failed")
	if a.header.Get("Retry-After") == "" || !strings.Contains(p.Action, "Send all of it again") {
		t.Errorf("%+v, %v", p, a.header)
	}
	if p := s.get(models).problem(http.StatusNotFound, "not_found"); !strings.Contains(p.Action, "a first upload did not end") {
		t.Errorf("%+v", p)
	}
	s.upload("PUT", models+"/x", create, file("f", "body")).want(http.StatusCreated)
	if got := s.get(models).want(http.StatusOK); len(decode[api.Entries](got).Entries) != 1 {
		t.Error(got.body)
	}
}

// TestCase_C38_BlobGone: a file that something else deleted has a problem of its own, and nothing is rewritten for it. One
// whose entry was removed is just not there.
func TestCase_C38_BlobGone(t *testing.T) {
	s := newSite(t)
	e := s.entry("x", "body")
	before, err := s.mem.Load(t.Context(), listKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range s.mem.Delete(t.Context(), []bucket.Key{blobsKey + bucket.Key(e.Blobs[0].Key)}) {
		t.Error(err)
	}
	for range 2 {
		s.get(blobPath(e, 0)).problem(http.StatusInternalServerError, "blob_missing")
	}
	if head := s.do("HEAD", blobPath(e, 0), ""); head.status != http.StatusInternalServerError {
		t.Errorf("HEAD: %d", head.status)
	}
	if len(decode[api.Entries](s.get(models)).Entries) != 1 {
		t.Error("the entry has gone as well")
	}
	if after, err := s.mem.Load(t.Context(), listKey); err != nil || after.Version != before.Version {
		t.Errorf("the list was rewritten, %v", err)
	}
	if _, saves := s.docs.reset(); saves > 0 {
		t.Errorf("%d saves", saves)
	}

	e = s.entry("y", "body")
	s.faults.Plan(fakes.Fault{Op: fakes.Open, Kind: fakes.Before("removed", func() {
		s.do("DELETE", models+"/y", "", anyway...).want(http.StatusOK)
	})})
	s.get(blobPath(e, 0)).problem(http.StatusNotFound, "not_found")
}

// TestManifest_CorruptBlobs: a body that is not the one that was added never arrives whole.
func TestManifest_CorruptBlobs(t *testing.T) {
	s := newSite(t)
	for name, size := range map[string]int{"small": 100, "one": 64 << 10, "big": 200 << 10} {
		e := s.entry(name, strings.Repeat("x", size))
		for what, body := range map[string]string{
			"other": strings.Repeat("x", size-1) + "y", "short": strings.Repeat("x", size-1),
			"long": strings.Repeat("x", size+1), "empty": "",
		} {
			s.put(blobsKey+e.Blobs[0].Key, body)
			if size <= 64<<10 || body == "" {
				s.get(blobPath(e, 0)).problem(http.StatusInternalServerError, "blob_corrupt")
				continue
			}
			res, err := s.client.Get(s.server.URL + blobPath(e, 0))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			res.Body.Close()
			if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) >= size || res.StatusCode != http.StatusOK {
				t.Errorf("%s, %s: %d with %d bytes, %v", name, what, res.StatusCode, len(got), err)
			}
		}
	}
}

// TestManifest_Absent: a list that is not there is told from a bucket that is not, and from one that something else deleted.
func TestManifest_Absent(t *testing.T) {
	s := newSite(t)
	s.get(models).problem(http.StatusNotFound, "not_found")
	s.get(models+"/x").problem(http.StatusNotFound, "not_found")
	s.get(models+"/x/blobs/K").problem(http.StatusNotFound, "not_found")
	s.entry("x", "body")
	for _, err := range s.mem.Delete(t.Context(), []bucket.Key{listKey}) {
		t.Error(err)
	}
	for _, p := range []api.Problem{
		s.get(models).problem(http.StatusNotFound, "not_found"),
		s.do("DELETE", models+"/x", "", anyway...).problem(http.StatusPreconditionFailed, "changed"),
	} {
		if !strings.Contains(p.Detail, "there are files of it") || !strings.Contains(p.Action, "something else deleted it") {
			t.Errorf("%+v", p)
		}
	}
	s = newSite(t)
	s.faults.Plan(fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.NotApplied(bucket.ErrNotExist)})
	s.get(models).problem(http.StatusServiceUnavailable, "store_unavailable")
	s.get("/manifests?namespace=team&name=models").says("503 · store_unavailable", "Nothing here says that it is empty.")
}

// TestCase_C33_ServedManifests: from one request to the next the server does not go back to an older list that some cache
// serves.
func TestCase_C33_ServedManifests(t *testing.T) {
	s := newSite(t)
	s.entry("x", "body")
	older, err := s.mem.Load(t.Context(), listKey)
	if err != nil {
		t.Fatal(err)
	}
	s.entry("y", "body")
	newer, err := s.mem.Load(t.Context(), listKey)
	if err != nil {
		t.Fatal(err)
	}
	s.put(string(listKey), string(older.Body))
	s.get(models).problem(http.StatusServiceUnavailable, "store_unavailable")
	s.put(string(listKey), string(newer.Body))
	s.get(models).want(http.StatusOK)
}

// TestManifest_Trial: a store whose conditions are not kept, or not known to be, is asked for nothing else, and nothing is
// read of an upload.
func TestManifest_Trial(t *testing.T) {
	var verdict error
	asked := 0
	s := newSite(t, func(o *web.Options) {
		o.Manifests.Usable = func(context.Context) error { asked++; return verdict }
	})
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("secret: %w", cas.ErrUnsupported), 501, "unsupported"}, {bucket.ErrDenied, 503, "store_denied"},
		{errors.New("secret"), 503, "store_unavailable"}, {bucket.ErrUnknown, 503, "store_unavailable"},
		{context.DeadlineExceeded, 503, "store_unavailable"},
	} {
		verdict = c.err
		for _, a := range []answer{
			s.upload("PUT", models+"/x", create, file("f", "body")), s.do("DELETE", models+"/x", "", anyway...),
		} {
			if a.problem(c.status, c.code); strings.Contains(a.body, "secret") {
				t.Error(a.body)
			}
		}
		s.wantAll(fakes.Counts{}, 0, 0)
	}
	verdict, asked = nil, 0
	for _, path := range []string{"/v1/manifests/a/b/entries", "/v1/manifests/c/d/entries", "/v1/manifests/e/f/entries"} {
		s.upload("POST", path, create, file("f", "body")).want(http.StatusCreated)
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	none := newSite(t, func(o *web.Options) { o.Manifests = nil })
	none.get(models).problem(http.StatusNotImplemented, "unsupported")
	for x, there := range map[*site]bool{none: false, s: true} {
		if page := x.get("/").want(http.StatusOK).body; strings.Contains(string(page), `href="/manifests"`) != there {
			t.Errorf("a link to the manifests on the page, want %t:\n%s", there, page)
		}
	}
	none.upload("POST", models, create, file("f", "body")).problem(http.StatusNotImplemented, "unsupported")
}

func hexSum(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}
