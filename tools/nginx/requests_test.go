package nginx

import (
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// behind is indexd behind each configuration, and without any.
func behind(t *testing.T) (p *program, direct *site, proxied []*site) {
	t.Helper()
	p = serve(t)
	plain := proxy(t, func(addr string) string { return bare(addr, p.addr) })
	cert := certify(t)
	secure := proxy(t, func(addr string) string { return deploy(t, addr, p.addr, cert) })
	return p, newSite(t, p, "itself", "http://"+p.addr, p.addr, nil), []*site{
		newSite(t, p, "nginx's defaults", "http://"+plain, plain, nil),
		newSite(t, p, "deploy/nginx.conf", "https://"+deployed, secure, &tls.Config{RootCAs: cert.pool, ServerName: deployed}),
	}
}

const team = "/v1/indexes/running/team"

// now is the end of an id, of 13 digits.
func now() string { return fmt.Sprint(time.Now().UnixMilli()) }

// TestPages: the page and its files come through whole, compressed where nginx compresses.
func TestPages(t *testing.T) {
	real(t)
	_, direct, proxied := behind(t)
	direct.do("PUT", team+"/items/train_"+now(), "").want(http.StatusCreated)
	for _, s := range proxied {
		page := s.do("GET", "/?namespace=team", "", "Accept-Encoding", "gzip").want(http.StatusOK)
		if page.header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: the page is not compressed: nothing is tested", s.name)
		}
		if text := unzip(t, page.body); !strings.Contains(text, "train") || !strings.Contains(text, "</html>") {
			t.Errorf("%s: the page is %.2000s", s.name, text)
		}
		for _, path := range []string{"/ui/app.js", "/ui/app.css", "/openapi.yaml"} {
			want := direct.do("GET", path, "").want(http.StatusOK)
			got := s.do("GET", path, "").want(http.StatusOK)
			if got.body != want.body || got.header.Get("Content-Security-Policy") != want.header.Get("Content-Security-Policy") {
				t.Errorf("%s: %s comes differently: %v", s.name, path, got.header)
			}
			s.do("HEAD", path, "").want(http.StatusOK)
		}
		cards := s.do("GET", team+"/cards", "").want(http.StatusOK)
		s.do("GET", team+"/cards", "", "If-None-Match", cards.header.Get("Etag")).want(http.StatusNotModified)
	}
}

func unzip(t *testing.T, body string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSignIn: through deploy/nginx.conf people sign in under the public name, and into a cookie that browsers send back over
// https alone; another site's pages change nothing.
func TestSignIn(t *testing.T) {
	real(t)
	p, _, proxied := behind(t)
	s := proxied[len(proxied)-1]
	s.token = ""
	s.do("GET", "/", "").want(http.StatusSeeOther)
	form := url.Values{"token": {p.token}}.Encode()
	const kind = "application/x-www-form-urlencoded"
	s.do("POST", "/signin", form, "Content-Type", kind, "Origin", "https://elsewhere.example").want(http.StatusForbidden)
	s.do("POST", "/signin", form, "Content-Type", kind, "Origin", "http://"+deployed).want(http.StatusForbidden)
	in := s.do("POST", "/signin", form, "Content-Type", kind, "Origin", "https://"+deployed).want(http.StatusSeeOther)
	cookie, err := http.ParseSetCookie(in.header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	if !cookie.Secure || !cookie.HttpOnly || !strings.HasPrefix(cookie.Name, "__Host-") {
		t.Errorf("the cookie is %q", in.header.Get("Set-Cookie"))
	}
	s.do("GET", "/", "", "Cookie", cookie.Name+"="+cookie.Value, "Sec-Fetch-Site", "same-origin").want(http.StatusOK)
}

// TestUploads: files of a size that nginx takes by itself come through; with deploy/nginx.conf larger ones do.
func TestUploads(t *testing.T) {
	real(t)
	_, direct, proxied := behind(t)
	for i, s := range proxied {
		for _, size := range []int{200 << 10, 5 << 20} {
			entry := fmt.Sprintf("/v1/manifests/team/models%d-%d/entries/one", i, size)
			file := strings.Repeat("0123456789abcde\n", size/16)
			if added := s.upload(entry, file); size > 1<<20 && i == 0 {
				added.want(http.StatusRequestEntityTooLarge) // nginx's own limit, as deploy/nginx.conf says
				direct.do("GET", entry, "").want(http.StatusNotFound)
				continue
			} else {
				added.want(http.StatusCreated)
			}
			for _, reader := range []*site{s, direct} {
				var found struct {
					Blobs []struct{ Key string }
				}
				if err := json.Unmarshal([]byte(reader.do("GET", entry, "").want(http.StatusOK).body), &found); err != nil {
					t.Fatal(err)
				}
				if len(found.Blobs) != 1 {
					t.Fatalf("%s: %s has the files %v", reader.name, entry, found.Blobs)
				}
				got := reader.do("GET", entry+"/blobs/"+url.PathEscape(found.Blobs[0].Key), "").want(http.StatusOK)
				if got.body != file {
					t.Errorf("%s: %s comes back with %d bytes, want %d", reader.name, entry, len(got.body), len(file))
				}
			}
		}
	}
}

// hostile are paths that name something else for whoever decodes them, or decodes them once more.
var hostile = []string{
	"/v1/indexes/running/team%2Fcards",
	"/v1/indexes/running/team%2fitems%2fx_1",
	"/v1/indexes/running/team/..%2fteam2/cards",
	"/v1/indexes/running/team%2F..%2Fteam2/cards",
	"/v1/indexes/running/team/items/..%2f..%2fteam2%2fitems%2fx_1",
	"/v1/indexes/running/team/%2e%2e/team2/cards",
	"/v1/indexes/running/team/%2e%2e%2fteam2/cards",
	"/v1/indexes/running/team/../team2/cards",
	"/v1/indexes/running/./team2/cards",
	"/v1/indexes/running//team2/cards",
	"/v1/indexes/running/team/items/a%2Fb_1",
	"/v1/indexes/running/team/items/a%00b_1",
	"/v1/indexes/running/team/items/a%0Ab_1",
	"/v1/indexes/running/team/items/a%ffb_1",
	"/v1/manifests/team/..%2f..%2fmanifests%2fteam2/m/entries",
	"/v1/manifests/team%2Fm/entries",
	"/ui/..%2f..%2fv1%2findexes",
}

// TestCase_C54_Traversal: through nginx no path comes out as that of another resource: it is refused, as without nginx, and what
// is in the bucket stays as it is. What may be in an id comes through as it is.
func TestCase_C54_Traversal(t *testing.T) {
	real(t)
	p, direct, proxied := behind(t)
	stamp := now()
	for _, namespace := range []string{"team", "team2"} {
		direct.do("PUT", "/v1/indexes/running/"+namespace+"/items/x_"+stamp, "").want(http.StatusCreated)
	}
	before := files(t, p.bucket)
	for i, s := range proxied {
		for _, path := range hostile {
			path = strings.ReplaceAll(path, "x_1", "x_"+stamp)
			path = strings.ReplaceAll(path, "b_1", "b_"+stamp)
			for _, method := range []string{"GET", "PUT", "DELETE", "POST"} {
				got, want := s.raw(method, path), direct.raw(method, path)
				if got.status < 400 || got.status != want.status && got.status != http.StatusBadRequest {
					t.Errorf("%s: status %d, %d without nginx", got.what, got.status, want.status)
				}
			}
		}
		if after := files(t, p.bucket); !slices.Equal(before, after) {
			t.Errorf("%s: there was %q, there is %q", s.name, before, after)
		}
		for _, subkey := range []string{"a b", "a+b", "a%2Fb", "a..%2f..%2fteam2%2fb", "é", "a?b=c#d", "a;b", "a\\b", `"a"`, "a&b", "a:b@c"} {
			id := fmt.Sprint(subkey, i, "_", stamp) // once per id: what has ended does not begin again
			path := team + "/items/" + url.PathEscape(id)
			s.do("PUT", path, "").want(http.StatusCreated)
			if !slices.Contains(items(t, direct), id) {
				t.Errorf("%s: %q is not what was registered: %q", s.name, id, items(t, direct))
			}
			if got := s.do("GET", path+"/explain", "").want(http.StatusOK); !strings.Contains(got.body, `"shown":true`) {
				t.Errorf("%s: %q is explained as %s", s.name, id, got.body)
			}
			s.do("DELETE", path, "").want(http.StatusNoContent)
		}
		before = files(t, p.bucket) // with the tombstones
	}
}

// TestCase_C54_PathInProxyPass: why deploy/nginx.conf warns of a path in proxy_pass. If this fails, nginx has changed.
func TestCase_C54_PathInProxyPass(t *testing.T) {
	real(t)
	p := serve(t)
	addr := proxy(t, func(addr string) string { return withPath(addr, p.addr) })
	s := newSite(t, p, "proxy_pass with a path", "http://"+addr, addr, nil)
	id := "x_" + now()
	s.raw("PUT", "/v1/indexes/running/team%2F..%2Fteam2/items/"+id).want(http.StatusCreated)
	if got := files(t, p.bucket); !slices.ContainsFunc(got, func(f string) bool { return strings.HasSuffix(f, "team2/"+id) }) {
		t.Errorf("there is %q", got)
	}
}

func items(t *testing.T, s *site) (ids []string) {
	t.Helper()
	var list struct{ Items []struct{ ID string } }
	if err := json.Unmarshal([]byte(s.do("GET", team+"/items", "").want(http.StatusOK).body), &list); err != nil {
		t.Fatal(err)
	}
	for _, it := range list.Items {
		ids = append(ids, it.ID)
	}
	return ids
}

// files are those of the bucket but for what the program keeps of its own.
func files(t *testing.T, bucket string) []string {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(bucket, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(path, "_indexd/") {
			found[path] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(found))
}
