package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/fakes"
)

// crew registers ten runs: of mara's one is late, the others are kim's.
func (s *site) crew() {
	s.t.Helper()
	for i := range 10 {
		owner := "kim"
		if i%2 == 0 {
			owner = "mara"
		}
		item := fmt.Sprintf("%s/items/k%d_%d", ns, i, start.Unix()+int64(i))
		s.do("PUT", item, `{"owner":"`+owner+`"}`).want(http.StatusCreated)
		if i == 8 {
			s.do("POST", item+"/heartbeat", "").want(http.StatusNoContent)
		}
	}
	s.do("PUT", ns+"/items/gone_"+fmt.Sprint(start.Unix()), "").want(http.StatusCreated)
	s.do("DELETE", ns+"/items/gone_"+fmt.Sprint(start.Unix()), "").want(http.StatusNoContent)
	s.clock.advance(10 * time.Minute)
}

func TestPageFilters(t *testing.T) {
	s := newSite(t)
	s.crew()
	for query, want := range map[string]struct {
		headline string
		cards    int
		says     string
	}{
		"":                                  {"8 of 10 running", 8, "Only the newest are shown here. Show all 10."},
		"&subkey=&owner=&state=":            {"8 of 10 running", 8, "Show all 10."},
		"&limit=200":                        {"10 running", 10, "11 started in the last 2 h"},
		"&subkey=k3":                        {"1 running", 1, "1 started in the last 2 h."},
		"&owner=mara":                       {"5 running", 5, "these are of all owners"},
		"&owner=mara&limit=2":               {"At least 2 running", 2, "more are was not looked up."}, // fewer of them where some are known already
		"&subkey=k3&owner=mara":             {"Nothing running matches", 0, "There is no running item of the sub-key “k3” of the owner “mara”."},
		"&subkey=gone":                      {"Nothing running matches", 0, "Finished lately"},
		"&state=late":                       {"1 of 8 is late", 1, "Only the newest 8 of 10 running are looked at."},
		"&state=running":                    {"7 of 8 are running", 7, "Only the newest 8 of 10 running are looked at."},
		"&state=unknown":                    {"None of 8 is unknown", 0, "None of the items shown is unknown. Without the filter there are 8."},
		"&state=late&owner=kim":             {"None of 5 is late", 0, "None of the items shown is late. Without the filter there are 5."},
		"&state=late&subkey=%3Cb%3E&owner=": {"Nothing running matches", 0, "sub-key “<b>”"},
	} {
		a := s.get("/?namespace=team" + query).want(http.StatusOK)
		a.says(want.headline, want.says)
		if !strings.Contains(a.body, `<h1 id="headline">`+want.headline+`</h1>`) ||
			strings.Count(a.body, `<li class="card`) != want.cards {
			t.Errorf("%s: not %q with %d cards: %s", query, want.headline, want.cards, a.body)
		}
		if strings.Contains(query, "=k") && strings.Contains(a.body, "No item is registered here") {
			t.Errorf("%s: a filter looks like an empty namespace: %s", query, a.body)
		}
		checkMarkup(t, a.body)
	}
	for _, bad := range []string{"state=done", "limit=0", "limit=201", "limit=", "state=late&state=late", "color=red"} {
		s.get("/?namespace=team&" + bad).want(http.StatusBadRequest)
	}
}

// TestPageFilters_AskNothingMore: a filtered page takes the one listing that any page takes, and its links lead to pages.
func TestPageFilters_AskNothingMore(t *testing.T) {
	s := newSite(t)
	s.crew()
	s.get("/?namespace=team").want(http.StatusOK) // the names are known now
	s.count.Reset()
	a := s.get("/?namespace=team&subkey=k1&owner=kim&state=running&limit=50").want(http.StatusOK)
	s.wantRequests(fakes.Counts{List: 1, Open: 1})
	form := map[string]string{}
	for n := range parse(t, a.body).Descendants() {
		switch {
		case n.Data == "input":
			form[attr(n, "name")] = attr(n, "value")
		case n.Data == "option" && n.Parent.Parent.Parent.Type == html.ElementNode && hasAttr(n, "selected"):
			form[attr(n.Parent, "name")] = text(n)
		case attr(n, "id") == "main":
			if got, want := attr(n, "data-events"), ns+"/events?limit=50&owner=kim&subkey=k1"; got != want {
				t.Errorf("the page follows %q, want %q", got, want)
			}
		}
	}
	for name, want := range map[string]string{
		"index": "running", "namespace": "team", "subkey": "k1", "owner": "kim", "state": "running", "limit": "50",
	} {
		if form[name] != want {
			t.Errorf("the form's %s is %q, want %q", name, form[name], want)
		}
	}
	if !strings.Contains(a.body, `<a href="/?index=running&amp;namespace=team">Clear</a>`) {
		t.Errorf("there is no way back: %s", a.body)
	}
	a = s.get("/?namespace=team").want(http.StatusOK)
	links := 0
	for n := range parse(t, a.body).Descendants() {
		if href := attr(n, "href"); strings.HasPrefix(href, "/?") {
			links++
			s.get(href).want(http.StatusOK)
		}
	}
	if links != 9 || strings.Contains(a.body, ">Clear</a>") { // to each card's owner, and to more cards
		t.Errorf("%d links to other views: %s", links, a.body)
	}
}

// TestPageFilters_OfOddNames: what may stand in a label may be filtered by, and stays text.
func TestPageFilters_OfOddNames(t *testing.T) {
	s := newSite(t)
	const odd = `a&b="c"<i>%2F+#?/ü`
	s.put("_active_runs/team/x_"+fmt.Sprint(start.Unix()), `{"owner":"a&b=\"c\"<i>%2F+#?/ü"}`)
	a := s.get("/?namespace=team&owner=" + url.QueryEscape(odd)).want(http.StatusOK)
	a.says("1 running")
	checkMarkup(t, a.body)
	for n := range parse(t, s.get("/?namespace=team").body).Descendants() {
		if attr(n, "class") == "owner" {
			s.get(attr(n, "href")).want(http.StatusOK).says("1 running", odd)
			return
		}
	}
	t.Error("no link to the owner's items")
}

// TestPageFilters_NoSuchFilter: what cannot stand in a filter is no link that leads to a problem.
func TestPageFilters_NoSuchFilter(t *testing.T) {
	s := newSite(t)
	s.put("_active_runs/team/x_"+fmt.Sprint(start.Unix()), `{"owner":"a\r\nb"}`)
	s.put("_active_runs/team/y_"+fmt.Sprint(start.Unix()), `{"owner":"`+strings.Repeat("o", 201)+`"}`)
	s.put("_active_runs/team/z_"+fmt.Sprint(start.Unix()), "")
	a := s.get("/?namespace=team").want(http.StatusOK)
	a.says("3 running", strings.Repeat("o", 201))
	if strings.Contains(a.body, `<a class="owner"`) {
		t.Error(a.body)
	}
}

// TestPageFilters_BudgetSpent: what could not be looked up is not told to be nobody's.
func TestPageFilters_BudgetSpent(t *testing.T) {
	s := newSite(t)
	s.crew()
	s.serveStore(s.mem, func(o *blobindex.Options) {
		o.Budget, o.Resolver = 3, frank{State: blobindex.Running, Owner: "kim", Requests: 1}
	})
	a := s.get("/?namespace=team&owner=mara").want(http.StatusOK)
	a.says("None found", "No running item of the owner “mara” was found among those that could be looked up.")
	if strings.Contains(a.body, "Nothing running") {
		t.Error(a.body)
	}
}

func hasAttr(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}
