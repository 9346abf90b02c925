package web_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/blobindex/indexd/blobindex"
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
	a.says("8 of 9 running", "1 replaced by a newer run Older runs of a sub-key", "1 key that is no item", "Again", "mara",
		"running for 1:10", "seen 1 min ago", "cancelled k0 0:00 1 min ago", "Only the newest are shown here. The API lists all.",
		"This view took 3 LIST + 8 GET, $0.0000182 at list price", "As of 2026-03-01 12:01:30 UTC by the store's clock")
	if strings.Contains(a.body, "more is running") || strings.Contains(a.body, "Not shown") {
		t.Errorf("the page says twice what is not shown: %s", a.body)
	}
	for title, path := range map[string]string{
		"Cards as JSON": ns + "/cards", "Items as JSON": ns + "/items?limit=1000", "Finished as JSON": ns + "/recent?limit=1000",
	} {
		if !strings.Contains(a.body, `<a href="`+path+`">`+title+`</a>`) {
			t.Errorf("no link %s to %s", title, path)
		}
		s.get(path).want(http.StatusOK)
	}
	s.count.Reset()
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Error(a.header)
	}
	s.get("/?namespace=team").want(http.StatusOK)
	s.wantRequests(fakes.Counts{List: 1}) // the names are remembered, and what the labels of unchanged items say
	s.clock.advance(15 * time.Second)
	s.get("/?namespace=team").want(http.StatusOK)
	s.wantRequests(fakes.Counts{List: 3, Open: 8})
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
		"indexd register --bucket BUCKET --index running --namespace default --subkey demo", "the server's --bucket", "$0")
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
	s.clock.advance(9 * time.Minute) // ages go on, however long the store is away
	s.get("/?namespace=team").says("1 running", "running for 10:00")
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
		if strings.Contains(a.body, `http-equiv="refresh"`) || !strings.Contains(a.body, "data-final") {
			t.Errorf("%s: the page asks again, which can change nothing: %s", path, a.body)
		}
		if a.status < 400 || strings.Contains(a.body, "Nothing running") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	s.get("/?index=no").says("There is no index of that name. Choose an index above.")
	s.wantRequests(fakes.Counts{})
}

func TestPageRefreshes(t *testing.T) {
	s := newSite(t)
	s.faults.Plan(fakes.Fault{Op: fakes.List, Nth: 1, Kind: fakes.NotApplied(nil)},
		fakes.Fault{Op: fakes.List, Nth: 2, Kind: fakes.NotApplied(nil)})
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		a := s.get("/").want(status)
		if !strings.Contains(a.body, `http-equiv="refresh"`) || strings.Contains(a.body, "data-final") {
			t.Errorf("%d: the page stays as it is: %s", status, a.body)
		}
	}
}

func TestPageOfStartsAhead(t *testing.T) {
	s := newSite(t)
	s.do("PUT", fmt.Sprintf("%s/items/x_%d", ns, start.Unix()+32), "").want(http.StatusCreated)
	a := s.get("/?namespace=team").want(http.StatusOK)
	a.says("1 running", "starts in 0:32")
	if strings.Contains(a.body, "running for") {
		t.Error(a.body)
	}
}

func TestPageOfLateAndUnknownItems(t *testing.T) {
	s := newSite(t)
	item := ns + "/items/" + s.id("x")
	s.do("PUT", item, "").want(http.StatusCreated)
	s.do("POST", item+"/heartbeat", "").want(http.StatusNoContent)
	s.clock.advance(time.Hour)
	s.do("PUT", ns+"/items/"+fmt.Sprintf("y_%d", start.Unix()), "").want(http.StatusCreated)
	s.get("/?namespace=team").says("late", "It sends heartbeats, and some are missing.", "1 registered late Registered long after")
	s.serveStore(s.mem, func(o *blobindex.Options) { o.Resolver = frank{State: blobindex.Unknown} })
	s.get("/?namespace=team").says("unknown", "What has become of it could not be found out.")
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
