package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/fakes/s3d"
)

// launchOn starts serve on a store, without passes of its own, so that requests can be counted.
func launchOn(t *testing.T, s *s3d.Server) *program {
	t.Helper()
	p := &program{t: t, cmd: child(t, "indexd", "serve", "--listen", "127.0.0.1:0", "--prune-every", "0"), stderr: new(bytes.Buffer)}
	p.cmd.Stderr = p.stderr
	p.cmd.Env = append(p.cmd.Env, s3Vars(s)...)
	p.launch()
	return p
}

// add uploads files as one entry, by PUT where an id is given.
func (p *program) add(manifest, id, precondition string, files map[string]string) (int, string) {
	p.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		part, err := form.CreateFormFile("file", name)
		if err == nil {
			_, err = io.WriteString(part, files[name])
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		p.t.Fatal(err)
	}
	method, path := http.MethodPost, "/v1/manifests/"+manifest+"/entries"
	if id != "" {
		method, path = http.MethodPut, path+"/"+id
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, &body)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	name, value, _ := strings.Cut(precondition, ": ")
	req.Header.Set(name, value)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// TestServe_Manifests: what is added over HTTP the command has, and the other way round, in the same words.
func TestServe_Manifests(t *testing.T) {
	s := s3d.New(t, nil)
	p := launchOn(t, s)
	w := &wire{t, s, t.TempDir()}
	files := map[string]string{"a": "first", "b": strings.Repeat("b", 2<<20)}
	if status, body := p.add("team/models", "x", "If-None-Match: *", files); status != http.StatusCreated {
		t.Fatalf("%d: %s", status, body)
	}
	if out := w.must("manifest", "cat", "team/models", "x", "a"); out != "first" {
		t.Errorf("its file is %q", out)
	}
	w.must("manifest", "add", "team/models", w.file("c", "second"), "--id", "y", "--meta", "owner=ann", "--dedupe-key", "k")
	var served, told any
	p.get("/v1/manifests/team/models/entries", &served)
	if err := json.Unmarshal([]byte(w.must("manifest", "ls", "team/models", "--json")), &told); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(told, served); diff != "" {
		t.Error(diff)
	}
	if out := w.must("manifest", "fsck", "team/models"); !strings.Contains(out, "0 faults; 0 orphans") {
		t.Error(out)
	}
	status, body := p.do(http.MethodGet, "/manifests?namespace=team&name=models", "")
	if status != http.StatusOK || !strings.Contains(body, "2 entries") {
		t.Errorf("the page: %d: %s", status, body)
	}
	if _, status := p.stop(syscall.SIGTERM); status != exitDone {
		t.Errorf("status %d: %s", status, p.stderr)
	}
}

// TestServe_ManifestRequests counts what the README says, at the store's socket, after the first use.
func TestServe_ManifestRequests(t *testing.T) {
	s := s3d.New(t, nil)
	p := launchOn(t, s)
	if status, body := p.add("team/first", "", "If-None-Match: *", map[string]string{"a": "a"}); status != http.StatusCreated {
		t.Fatalf("%d: %s", status, body)
	}
	type counts = map[s3d.Op]int
	for _, c := range []struct {
		manifest, precondition string
		want                   counts
	}{
		{"team/models", "If-None-Match: *", counts{s3d.GetObject: 1, s3d.HeadObject: 2, s3d.PutObject: 3}},
		{"team/models", "If-Match: *", counts{s3d.GetObject: 1, s3d.HeadObject: 2, s3d.PutObject: 3}},
	} {
		s.Reset()
		status, body := p.add(c.manifest, "", c.precondition, map[string]string{"a": "a", "b": "b"})
		if got := s.Counts(); status != http.StatusCreated || !maps.Equal(got, c.want) {
			t.Errorf("%s: %d %s; %v, want %v", c.precondition, status, body, got, c.want)
		}
	}
	s.Reset()
	p.do(http.MethodGet, "/v1/manifests/team/models/entries", "")
	p.do(http.MethodGet, "/manifests?namespace=team&name=models", "")
	if got, want := s.Counts(), (counts{s3d.GetObject: 2}); !maps.Equal(got, want) {
		t.Errorf("two looks: %v, want %v", got, want)
	}
}

// TestCase_C03_ServedManifests: on a store that does not keep its conditions no manifest is changed, with a problem that says
// so; items work.
func TestCase_C03_ServedManifests(t *testing.T) {
	s := s3d.New(t, &s3d.Options{Lies: s3d.Lies{IgnoresIfMatch: true}})
	p := launchOn(t, s)
	status, body := p.add("team/models", "x", "If-None-Match: *", map[string]string{"a": "a"})
	if status != http.StatusNotImplemented || !strings.Contains(body, `"code":"unsupported"`) {
		t.Errorf("%d: %s", status, body)
	}
	for _, key := range s.Keys("bucket") {
		if strings.HasPrefix(key, "_indexd/manifest/") {
			t.Errorf("%s was stored", key)
		}
	}
	if status, body := p.do(http.MethodGet, "/v1/manifests/team/models/entries", ""); status != http.StatusNotFound {
		t.Errorf("%d: %s", status, body)
	}
	if status, body := p.do(http.MethodPost, "/v1/indexes/running/default/items", `{"subkey":"a"}`); status != http.StatusCreated {
		t.Errorf("registering: %d: %s", status, body)
	}
}

// TestServe_MaxUpload: the limit of an upload is the server's.
func TestServe_MaxUpload(t *testing.T) {
	p := launch(t, "serve", "--listen", "127.0.0.1:0", "--bucket", "mem://", "--max-upload", "1000")
	big, small := map[string]string{"a": strings.Repeat("a", 1000)}, map[string]string{"a": "a"}
	if status, body := p.add("team/models", "x", "If-None-Match: *", big); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d: %s", status, body)
	}
	if status, body := p.add("team/models", "x", "If-None-Match: *", small); status != http.StatusCreated {
		t.Errorf("%d: %s", status, body)
	}
	cmd := child(t, "indexd", "serve", "--listen", "127.0.0.1:0", "--max-upload", "0")
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitUsage {
		t.Errorf("a limit of 0: %v", err)
	}
}
