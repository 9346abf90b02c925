package web_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
)

// says fails the test unless the page holds each text.
func (a answer) says(texts ...string) {
	a.t.Helper()
	words := strings.Join(strings.Fields(text(parse(a.t, a.body))), " ")
	for _, w := range texts {
		if !strings.Contains(words, w) {
			a.t.Errorf("the page does not say %q: %s", w, words)
		}
	}
}

func TestPageShowsWhatRuns(t *testing.T) {
	s := newSite(t, cost(5, 4))
	for i := range 10 {
		s.do("PUT", fmt.Sprintf("%s/items/k%d_%d", ns, i, start.Unix()+int64(i)), `{"title":"T`+fmt.Sprint(i)+`"}`)
	}
	s.do("PUT", fmt.Sprintf("%s/items/k9_%d", ns, start.Unix()+20), `{"title":"Again","owner":"mara","url":"https://ci/9"}`)
	s.do("DELETE", ns+"/items/k0_"+fmt.Sprint(start.Unix())+"?outcome=cancelled", "")
	s.put("_active_runs/team/what", "")
	s.clock.advance(90 * time.Second)
	s.count.Reset()
	a := s.get("/").want(http.StatusOK) // team is the only namespace, hence the first
	// One for the view, two for the names; with a label to read on each card.
	s.wantRequests(fakes.Counts{List: 3, Open: 8})
	a.says("8 of 9 running", "1 more is running", "1 replaced by a newer run", "1 key that is no item", "Again", "mara",
		"running for 1:10", "seen 1 min ago", "cancelled k0 0:00 1 min ago", "This view took 3 LIST + 8 GET, $0.0000182",
		"As of 2026-03-01 12:01:30 UTC by the store's clock")
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Error(a.header)
	}
	s.get("/?namespace=team").want(http.StatusOK)
	s.wantRequests(fakes.Counts{List: 1, Open: 8}) // the names are remembered
}

func TestPagePickers(t *testing.T) {
	s := newSite(t)
	for _, n := range []string{"zoo", "default", "a"} {
		s.do("PUT", "/v1/indexes/running/"+n+"/items/"+s.id("x"), "").want(http.StatusCreated)
	}
	chosen := func(path string) (found []string) {
		for n := range parse(t, s.get(path).want(http.StatusOK).body).Descendants() {
			if n.Data != "option" {
				continue
			}
			for _, a := range n.Attr {
				if a.Key == "selected" {
					found = append(found, text(n))
				}
			}
		}
		return found
	}
	for path, want := range map[string]string{
		"/": "running default", "/?namespace=a": "running a", "/?namespace=new": "running new", "/?index=flat": "flat",
		"/?index=ulids": "ulids default", "/?index=flat&namespace=_": "flat",
	} {
		if got := strings.Join(chosen(path), " "); got != want {
			t.Errorf("%s shows %q, want %q", path, got, want)
		}
	}
	s.get("/?index=flat").says("curl -X POST " + s.server.URL + "/v1/indexes/flat/_/items")
}

func TestPageSaysHowToBegin(t *testing.T) {
	s := newSite(t)
	a := s.get("/").want(http.StatusOK)
	a.says("Nothing running", "curl -X POST "+s.server.URL+"/v1/indexes/running/default/items",
		"indexd register --index running --namespace default --subkey demo", "$0")
}

func TestPageOfAnOldView(t *testing.T) {
	s := newSite(t)
	s.do("PUT", ns+"/items/"+s.id("x"), "").want(http.StatusCreated)
	s.get("/?namespace=team").want(http.StatusOK)
	s.faults.Plan(fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.NotApplied(errors.New("secret"))})
	s.clock.advance(time.Minute)
	s.count.Reset()
	a := s.get("/?namespace=team").want(http.StatusOK)
	s.wantRequests(fakes.Counts{List: 2}) // the names' and the view's
	a.says("This is an old view.", "since 2026-03-01 12:01:00 UTC", "from 2026-03-01 12:00:00 UTC", "1 running",
		"running for 1:00")
	if strings.Contains(a.body, "secret") {
		t.Error(a.body)
	}
	a = s.get("/?namespace=other").want(http.StatusServiceUnavailable)
	a.says("503 · store_unavailable", "What is running is not known at the moment.", "The page tries again by itself.")
	if strings.Contains(a.body, "secret") || strings.Contains(a.body, "Nothing running") {
		t.Error(a.body)
	}
}

func TestProblemPages(t *testing.T) {
	s := newSite(t)
	for path, want := range map[string]string{
		"/?index=no": "404 · not_found", "/?namespace=..": "400 · invalid_name", "/?index=%3Cb%3E": "400 · invalid_name",
		"/?x=1": "400 · bad_request", "/?index=flat&namespace=x": "400 · invalid_name",
	} {
		a := s.get(path)
		a.says(want)
		checkMarkup(t, a.body)
		if a.status < 400 || strings.Contains(a.body, "Nothing running") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	s.wantRequests(fakes.Counts{})
}

func TestPageNotice(t *testing.T) {
	notice := ""
	s := newSite(t, func(o *web.Options) { o.Notice = func() string { return notice } })
	if a := s.get("/"); strings.Contains(a.body, `class="notice"`) {
		t.Error(a.body)
	}
	notice = "The shared list has lost 17 items."
	s.get("/").says(notice)
}

func TestPageCanBeReadAloud(t *testing.T) {
	s := newSite(t)
	s.do("PUT", "/v1/indexes/running/default/items/"+s.id("x"), "").want(http.StatusCreated)
	seen, labelled := map[string]int{}, map[string]bool{}
	root := parse(t, s.get("/").want(http.StatusOK).body)
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			seen[n.Data]++
			labelled[attr(n, "id")] = true
		}
	}
	for _, one := range []string{"main", "h1", "header", "nav", "footer", "title"} {
		if seen[one] != 1 {
			t.Errorf("%d <%s>", seen[one], one)
		}
	}
	for n := range root.Descendants() {
		if by := attr(n, "aria-labelledby"); by != "" && !labelled[by] {
			t.Errorf("nothing has the id %q", by)
		}
		if n.Data == "select" && n.Parent.Data != "label" {
			t.Error("a picker without a label")
		}
	}
	if root.Type != html.DocumentNode || attr(root.FirstChild.NextSibling, "lang") != "en" {
		t.Error("the page does not tell its language")
	}
}
