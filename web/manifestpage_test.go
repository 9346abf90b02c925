package web_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/blobindex/indexd/fakes"
)

const modelsPage = "/manifests?namespace=team&name=models"

// TestManifestPage_Entries: what the page shows of a list, and at which cost.
func TestManifestPage_Entries(t *testing.T) {
	s := newSite(t)
	s.upload("PUT", models+"/run%207", create, field("dedupe_key", "train-eu"), field("meta", `{"owner":"ann","b":"c"}`),
		file("model.bin", strings.Repeat("x", 1536)), file("notes.txt", "")).want(http.StatusCreated)
	e := s.entry("second", "body")
	s.clock.advance(90 * time.Minute)
	a := s.get(modelsPage).want(http.StatusOK)
	s.wantAll(fakes.Counts{}, 1, 0)
	a.says("2 entries", "1.5 KiB in all", "1 run 7 added 1 h ago", "dedupe key train-eu", "size 1.5 KiB", "b c owner ann",
		"model.bin 1.5 KiB "+hexSum(strings.Repeat("x", 1536))[:12], "notes.txt 0 B", "2 second added 1 h ago",
		"f 4 B "+hexSum("body")[:12],
		"As of", "by the server's clock")
	found := links(t, a.body)
	for _, path := range []string{models, models + "/run%207", models + "/second", blobPath(e, 0)} {
		if !found[path] {
			t.Errorf("no link to %s in %v", path, found)
		}
	}
	for path := range found {
		if strings.HasPrefix(path, "/") {
			s.get(path).want(http.StatusOK)
		}
	}
	if strings.Contains(a.body, "data-final") || !strings.Contains(a.body, "data-keep") ||
		a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v, %s", a.header, a.body)
	}
}

// TestManifestPage_NothingToShow: an empty list, none, one that cannot be read, and no name given are told apart.
func TestManifestPage_NothingToShow(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/manifests", "/manifests?namespace=team", "/manifests?name=models"} {
		a := s.get(path).want(http.StatusOK)
		a.says("Which manifest?")
		s.wantAll(fakes.Counts{}, 0, 0)
	}
	a := s.get(modelsPage)
	a.want(http.StatusNotFound).says("404 · not_found", "There is no such manifest.")
	if !strings.Contains(a.body, "data-final") || strings.Contains(a.body, "No entries") {
		t.Error(a.body)
	}
	s.entry("x", "body")
	s.do("DELETE", models+"/x", "", anyway...).want(http.StatusOK)
	s.get(modelsPage).want(http.StatusOK).says("No entries", "The manifest is there, and holds nothing.",
		"indexd manifest add team/models FILE")
	s.docs.hooks(func() error { return errors.New("secret") }, nil, nil)
	a = s.get(modelsPage)
	a.want(http.StatusServiceUnavailable).says("503 · store_unavailable", "Nothing here says that it is empty.",
		"tries again by itself")
	if strings.Contains(a.body, "secret") || strings.Contains(a.body, "No entries") || strings.Contains(a.body, "data-final") ||
		strings.Contains(a.body, "data-keep") {
		t.Error(a.body)
	}
	s.docs.hooks(nil, nil, nil)
	s.put(string(listKey), "damaged")
	a = s.get(modelsPage)
	a.want(http.StatusServiceUnavailable).says("503 · manifest_corrupt", "it is left as it is")
	s.get("/manifests?x=1").want(http.StatusBadRequest).says("400 · bad_request")
	s.get("/manifests?namespace=%3Cb%3E&name=x").want(http.StatusBadRequest).says("400 · invalid_name")
}

// TestManifestPage_Long: of a long list the newest are shown, and the page says so.
func TestManifestPage_Long(t *testing.T) {
	s := newSite(t)
	var all []string
	for i := range 502 {
		all = append(all, fmt.Sprintf(`{"id":"e%03d","dedupe_key":"","blobs":[{"key":"K%d","name":"f","size":1,"digest":"sha256:x"}],`+
			`"size":1,"digest":"","added_at":"2026-03-01T12:00:00Z","meta":{}}`, i, i))
	}
	s.put(string(listKey), `{"format":"manifest/1","created":{"nonce":"N","at":"2026-03-01T12:00:00Z"},"seq":1,"nonce":"N",`+
		`"recent":[],"payload":{"grace_ms":86400000,"reaping":[],"entries":[`+strings.Join(all, ",")+`]}}`)
	a := s.get(modelsPage).want(http.StatusOK)
	a.says("502 entries", "502 B in all", "Only the newest 500 are shown here.", "3 e002 added", "502 e501 added")
	if strings.Contains(a.body, "e001") || strings.Count(a.body, `<li class="entry"`) != 500 {
		t.Error("others are shown as well")
	}
}

// TestCase_C52_ManifestPage: whatever an entry holds is text.
func TestCase_C52_ManifestPage(t *testing.T) {
	s := newSite(t)
	hostile := []string{
		"<img src=x onerror=alert(1)>", `" onmouseover="alert(1)`, "javascript:alert(1)", "</script><script>alert(1)</script>",
		"{{.}}",
		"]]>--><!--", "'`${1}", "\u202egnp.exe",
	}
	for i, h := range hostile {
		id := strings.ReplaceAll(h, "/", "|") + fmt.Sprint(i)
		text := strings.ReplaceAll(h, `"`, `\"`)
		s.upload("PUT", models+"/"+url.PathEscape(id), s.whichever(), field("dedupe_key", h),
			field("meta", `{"`+text+`":"`+text+`"}`), file(strings.ReplaceAll(strings.ReplaceAll(h, "/", "|"), `"`, `\"`), h)).want(http.StatusCreated)
	}
	a := s.get(modelsPage).want(http.StatusOK)
	said := checkMarkup(t, a.body)
	for _, h := range hostile {
		if strings.Count(said, h) < 3 {
			t.Errorf("the page does not say %q as it is: %s", h, said)
		}
	}
	for path := range links(t, a.body) {
		if strings.HasPrefix(path, "/v1/") {
			s.get(path).want(http.StatusOK)
		}
	}
}

// TestManifestPage_CanBeReadAloud: one of each landmark, and names for what is typed into.
func TestManifestPage_CanBeReadAloud(t *testing.T) {
	s := newSite(t)
	s.entry("x", "body")
	checkLandmarks(t, s, modelsPage, "/manifests", "/manifests?namespace=team&name=none")
}

func checkLandmarks(t *testing.T, s *site, pages ...string) {
	t.Helper()
	for _, path := range pages {
		seen, ids := map[string]int{}, map[string]bool{}
		root := parse(t, s.get(path).body)
		for n := range root.Descendants() {
			if n.Type == html.ElementNode {
				seen[n.Data]++
				ids[attr(n, "id")] = true
			}
		}
		for _, one := range []string{"main", "h1", "header", "nav", "title"} {
			if seen[one] != 1 {
				t.Errorf("%s: %d <%s>", path, seen[one], one)
			}
		}
		for n := range root.Descendants() {
			if by := attr(n, "aria-labelledby"); by != "" && !ids[by] {
				t.Errorf("%s: nothing has the id %q", path, by)
			}
			if n.Data == "input" && n.Parent.Data != "label" {
				t.Errorf("%s: a field without a label", path)
			}
		}
	}
}
