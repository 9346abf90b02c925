package web_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

func ids(cards api.Cards) (ids []string) {
	for _, c := range cards.Cards {
		ids = append(ids, c.Id)
	}
	slices.Sort(ids)
	return ids
}

func TestCase_C27_OddIdsInLinks(t *testing.T) {
	s := newSite(t)
	at := fmt.Sprint(start.Unix())
	var want []string
	for _, sub := range []string{"a+b", "a b", "a%2Bb", "a%252F", "a&b", "a?x", "a#y", `a\b`, "a'\"<b>", "ü\u2028"} {
		want = append(want, sub+"_"+at)
	}
	slices.Sort(want)
	for _, id := range want {
		a := s.do("PUT", ns+"/items/"+url.PathEscape(id), "").want(http.StatusCreated)
		if got := decode[api.Registered](a).Id; got != id {
			t.Errorf("registered %q as %q", id, got)
		}
		if _, err := s.mem.Head(t.Context(), bucket.Key("_active_runs/team/"+id)); err != nil {
			t.Errorf("the store has no such key: %v", err)
		}
		s.do("POST", a.header.Get("Location")+"/heartbeat", "").want(http.StatusNoContent)
		if _, err := s.mem.Head(t.Context(), bucket.Key(fmt.Sprintf("_active_runs/team/%s~%d", id, start.UnixMilli()))); err != nil {
			t.Errorf("no heartbeat: %v", err)
		}
	}
	if diff := cmp.Diff(want, ids(decode[api.Cards](s.get(ns+"/cards?limit=50")))); diff != "" {
		t.Error(diff)
	}
	explained := func() (ids []string) {
		for path := range links(t, s.get("/?namespace=team").want(http.StatusOK).body) {
			if strings.HasSuffix(path, "/explain") {
				ids = append(ids, decode[api.Explanation](s.get(path).want(http.StatusOK)).Id)
			}
		}
		slices.Sort(ids)
		return ids
	}
	if got := explained(); len(got) != 8 || !subset(got, want) {
		t.Errorf("the links of the page lead to %q", got)
	}
	for _, id := range want {
		s.do("DELETE", ns+"/items/"+url.PathEscape(id), "").want(http.StatusNoContent)
		if got := decode[api.Explanation](s.get(ns + "/items/" + url.PathEscape(id) + "/explain")); got.Rule != "finished" {
			t.Errorf("%q: %+v", id, got)
		}
	}
	if got := explained(); len(got) != 8 || !subset(got, want) {
		t.Errorf("the links of what finished lead to %q", got)
	}
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// links returns where a page's links lead.
func links(t *testing.T, page string) map[string]bool {
	found := make(map[string]bool)
	for n := range parse(t, page).Descendants() {
		if n.Data == "a" {
			found[attr(n, "href")] = true
		}
	}
	return found
}

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text is what a page says, without its tags.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func TestCase_C39_NothingIsNoName(t *testing.T) {
	s := newSite(t)
	for _, request := range []string{
		"PUT " + ns + "/items/", "PUT " + ns + "/items/%20", "PUT " + ns + "/items/.", "DELETE " + ns + "/items/",
		"DELETE " + ns + "/items/%20", "POST " + ns + "/items//heartbeat", "POST " + ns + "/items/%20/heartbeat",
		"GET " + ns + "/items//explain", "GET /v1/indexes//team/cards", "GET /v1/indexes/running//cards",
		"GET /v1/indexes/running/%20/cards", "GET /v1/indexes/%20/team/cards", "GET /v1/indexes/running/%2F/items",
		"POST /v1/indexes/running//items", "POST " + ns + "/items",
	} {
		method, path, _ := strings.Cut(request, " ")
		body := ""
		if method == "POST" && strings.HasSuffix(path, "/items") {
			body = `{"subkey":""}`
		}
		s.do(method, path, body).want(http.StatusBadRequest)
	}
	s.wantRequests(fakes.Counts{})
}

func TestCase_C40_Separators(t *testing.T) {
	s := newSite(t)
	at := fmt.Sprint(start.Unix())
	for id, subkey := range map[string]string{
		"ab_cd_" + at: "ab_cd", "ab__" + at: "ab_", at + "_" + at: at, "_" + at: "", at: "", "x_" + at + "_ab": "",
	} {
		a := s.do("PUT", ns+"/items/"+id, "")
		if subkey == "" {
			a.problem(http.StatusBadRequest, "invalid_id")
		} else if got := decode[api.Registered](a.want(http.StatusCreated)); got.Subkey != subkey {
			t.Errorf("%s: sub-key %q", id, got.Subkey)
		}
	}
	if got := decode[api.Cards](s.get(ns + "/cards")); len(got.Cards) != 3 || got.Counts.Foreign != 0 {
		t.Errorf("%+v", got)
	}
}

func TestCase_C43_OneNumber(t *testing.T) {
	s := newSite(t)
	s.do("PUT", ns+"/items/"+s.id("x"), "").want(http.StatusCreated)
	s.clock.advance(2*time.Hour - time.Second)
	for _, c := range []struct {
		at   string
		live int
		says string
	}{{"-1 s", 1, "1 running"}, {"=", 1, "1 running"}, {"+1 s", 0, "Nothing running"}} {
		a := s.get(ns + "/cards").want(http.StatusOK)
		cards, items := decode[api.Cards](a), decode[api.Items](s.get(ns+"/items"))
		page := s.get("/?namespace=team").want(http.StatusOK).body
		if cards.Counts.Live != c.live || len(cards.Cards) != c.live || len(items.Items) != c.live ||
			cards.Counts.Stale != 1-c.live {
			t.Errorf("%s: %+v, %d items", c.at, cards, len(items.Items))
		}
		if !strings.Contains(page, `<h1 id="headline">`+c.says+`</h1>`) || strings.Count(page, `<li class="card`) != c.live {
			t.Errorf("%s: the page differs: %s", c.at, page)
		}
		s.clock.advance(time.Second)
	}
}

func TestCase_C43_PageIsOfOneInstant(t *testing.T) {
	s := newSite(t)
	id := s.id("x")
	s.do("PUT", ns+"/items/"+id, "").want(http.StatusCreated)
	s.get("/?namespace=team").want(http.StatusOK) // the names are known now
	// It finishes after the listing of the cards, before that of what finished lately.
	s.faults.Plan(fakes.Fault{Op: fakes.List, Kind: fakes.After("finish", func() {
		s.clock.advance(time.Second)
		s.put("_active_runs/team/"+id+"~done", "")
	})})
	page := s.get("/?namespace=team").want(http.StatusOK).body
	if strings.Count(page, `<li class="card`) != 1 || strings.Contains(page, "Finished lately") {
		t.Errorf("the item is in neither place, or in both: %s", page)
	}
	page = s.get("/?namespace=team").want(http.StatusOK).body
	if strings.Contains(page, `<li class="card`) || !strings.Contains(page, "Finished lately") {
		t.Errorf("the next page is late: %s", page)
	}
}

func TestCase_C52_Injection(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Notice = func() string { return `<b onclick="x">&` } })
	hostile := []string{
		"a\\r\\nevent: x\\r\\n\\r\\ndata: y", "a\\u2028b\\u2029c", "<img src=x onerror=alert(1)>", `\" onmouseover=\"alert(1)`,
		"javascript:alert(1)", "</script><script>alert(1)</script>", "]]>--><!--", "{{.}}", "\\u202egnp.exe", "'`${1}",
	}
	for i, h := range hostile {
		id := fmt.Sprintf("k%d_%d", i, start.Unix()+int64(i))
		s.put("_active_runs/team/"+id, `{"title":"`+h+`","owner":"`+h+`","url":"`+h+`"}`)
	}
	for _, sub := range []string{"<script>alert(1)<script>", `" onfocus="alert(1)`, "javascript:alert(1)", "\u2028'"} {
		s.put("_active_runs/team/"+sub+"_"+fmt.Sprint(start.Unix()+30), "")
	}
	s.put("_active_runs/team/<i>_"+fmt.Sprint(start.Unix()), "")
	s.put("_active_runs/team/<i>_"+fmt.Sprint(start.Unix())+"~done", "")
	s.put("_active_runs/team/link_"+fmt.Sprint(start.Unix()+40), `{"url":"https://ci.example/?a=<b>&c=\"d\""}`)
	a := s.get(ns + "/cards?limit=100").want(http.StatusOK)
	cards := decode[api.Cards](a)
	if len(cards.Cards) != len(hostile)+5 || strings.ContainsAny(a.body, "\u2028\u2029\r<>") {
		t.Errorf("%d cards: %s", len(cards.Cards), a.body)
	}
	for _, c := range cards.Cards {
		if c.Url != "" && !strings.HasPrefix(c.Url, "https://ci.example/") {
			t.Errorf("a link to %q", c.Url)
		}
	}
	said := ""
	for shown := 0; shown < len(cards.Cards); shown += 8 {
		said += checkMarkup(t, s.get("/?namespace=team").want(http.StatusOK).body)
		for _, c := range cards.Cards[shown:min(shown+8, len(cards.Cards))] { // then the page shows the next ones
			s.do("DELETE", ns+"/items/"+url.PathEscape(c.Id), "").want(http.StatusNoContent)
		}
	}
	for _, want := range []string{
		"<img src=x onerror=alert(1)>", `" onmouseover="alert(1)`, "</script><script>alert(1)</script>", "{{.}}",
		"javascript:alert(1)", "<i>", `<b onclick="x">&`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q as it is", want)
		}
	}
}

// A frank resolver says what it was told to, checked by nobody.
type frank blobindex.Status

func (frank) MaxRequests(blobindex.Target) int { return 1 }

func (f frank) Resolve(context.Context, blobindex.Target) (blobindex.Status, error) {
	return blobindex.Status(f), nil
}

func TestCase_C52_ResolversMayBeAnybodys(t *testing.T) {
	s := newSite(t)
	progress := math.NaN()
	for link, want := range map[string]string{
		"https://ci.example/7": "https://ci.example/7", "http://ci.example": "http://ci.example",
		"javascript:alert(1)": "", "JavaScript:alert(1)": "", "data:text/html,x": "", "//ci.example/": "", "/v1/indexes": "",
		"https:": "", "https:///x": "", "vbscript:x": "", "https://ci.example/\x00": "", " https://ci.example": "",
	} {
		s.serveStore(s.mem, func(o *blobindex.Options) {
			o.Resolver = frank{State: blobindex.Running, URL: link, Progress: &progress}
		})
		s.do("PUT", ns+"/items/"+s.id("x"), "").want(http.StatusCreated)
		cards := decode[api.Cards](s.get(ns + "/cards").want(http.StatusOK)).Cards
		if len(cards) != 1 || cards[0].Url != want || cards[0].Progress != nil {
			t.Errorf("%q: %+v", link, cards)
		}
		if page := s.get("/?namespace=team").want(http.StatusOK); want != "" && !links(t, page.body)[want] ||
			want == "" && strings.Contains(page.body, `<h2><a`) {
			t.Errorf("%q: %s", link, page.body)
		}
	}
}

// checkMarkup fails the test if a page holds anything active but its own script, and returns its text.
func checkMarkup(t *testing.T, page string) string {
	t.Helper()
	root := parse(t, page)
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			}
		}
		switch n.Data {
		case "script":
			if attr(n, "src") != "/ui/app.js" || n.FirstChild != nil {
				t.Errorf("a script: %v", n.Attr)
			}
		case "img":
			if attr(n, "src") != "/ui/icon.svg" {
				t.Errorf("an image: %v", n.Attr)
			}
		case "a":
			if href := attr(n, "href"); !strings.HasPrefix(href, "/") && !strings.HasPrefix(href, "https://ci.example/") &&
				href != "#main" {
				t.Errorf("a link to %q", href)
			}
		case "style", "iframe", "object", "embed", "i", "base":
			t.Errorf("a <%s>", n.Data)
		}
	}
	return text(root)
}

// failsSome is a store of which only every third listing of a namespace succeeds, and every third of something else.
type failsSome struct {
	bucket.Objects
	namespace bucket.Key
	lists     [2]atomic.Int64
}

func (f *failsSome) List(ctx context.Context, r bucket.ListRequest, fn func(bucket.Page) error) error {
	of := &f.lists[0]
	if r.Prefix == string(f.namespace) {
		of = &f.lists[1]
	}
	if of.Add(1)%3 != 0 {
		return bucket.ErrThrottled
	}
	return f.Objects.List(ctx, r, fn)
}

// TestListingsFailSomeOfTheTime: whoever asks while listings fail gets a whole page or a problem, and never one that says that
// nothing runs.
func TestListingsFailSomeOfTheTime(t *testing.T) {
	s := newSite(t)
	const items = 1500
	for i := range items {
		s.put(fmt.Sprintf("_active_runs/default/k%d_%d", i, start.Unix()), "")
	}
	s.serveStore(&failsSome{Objects: s.mem, namespace: "_active_runs/default/"})
	var whole, none atomic.Int64
	look := func() {
		a := s.get("/")
		switch {
		case a.status == http.StatusOK && strings.Contains(a.body, fmt.Sprintf(">8 of %d running</h1>", items)):
			whole.Add(1)
		case a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "What is running is not known"):
			none.Add(1)
		default:
			t.Errorf("%d: %s", a.status, a.body)
		}
		body := strings.ReplaceAll(a.body, fmt.Sprintf("%d running", items), "") // the headline, and the timeline
		if strings.Contains(body, "Nothing running") || strings.Contains(body, "0 running") || strings.Contains(body, ">0 of") {
			t.Errorf("a page says that nothing runs: %s", a.body)
		}
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			// Those who ask at once share a listing. Who asks again after a failure waits for another one, so that somebody has waited
			// for the first, which fails, and everybody for the third, or one after it.
			for range 3 {
				look()
			}
		})
	}
	wg.Wait()
	if whole.Load() < 50 || none.Load() == 0 {
		t.Errorf("%d whole pages, %d without a view: the test shows nothing", whole.Load(), none.Load())
	}
}
