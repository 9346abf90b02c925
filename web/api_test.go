package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

func cost(list, get int) func(*web.Options) {
	return func(o *web.Options) {
		o.Prices = web.Prices{ListPer1000: float64(list) / 1000, GetPer1000: float64(get) / 10000}
	}
}

func TestOneItemFromRegisterToRecent(t *testing.T) {
	s := newSite(t, cost(5, 4))
	id := s.id("9f3c")
	a := s.do("PUT", ns+"/items/"+id, `{"title":"Nightly","owner":"mara","url":"https://ci/7"}`).want(http.StatusCreated)
	s.wantRequests(fakes.Counts{Put: 1})
	want := api.Registered{Id: id, Subkey: "9f3c", StartedAt: start, StoredAt: &start}
	if diff := cmp.Diff(want, decode[api.Registered](a)); diff != "" {
		t.Error(diff)
	}
	if got := a.header.Get("Location"); got != ns+"/items/"+id {
		t.Errorf("Location %q", got)
	}

	s.clock.advance(time.Minute)
	s.do("POST", a.header.Get("Location")+"/heartbeat", "").want(http.StatusNoContent)
	s.wantRequests(fakes.Counts{Put: 1})

	a = s.get(ns + "/cards").want(http.StatusOK)
	s.wantRequests(fakes.Counts{List: 1, Open: 1})
	cards := api.Cards{
		Cards: []api.Card{{
			Id: id, Subkey: "9f3c", State: "running", StartedAt: start, LastSeenAt: start.Add(time.Minute),
			Title: "Nightly", Owner: "mara", Url: "https://ci/7",
		}},
		Counts: api.Counts{Live: 1, Shown: 1}, Complete: true,
	}
	if diff := cmp.Diff(cards, decode[api.Cards](a)); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"Indexd-As-Of": "2026-03-01T12:01:00Z", "Indexd-Clock": "store", "Indexd-Cost": "list=1, get=1, usd=0.0000054",
		"Cache-Control": "no-cache", "Content-Type": "application/json",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	items := decode[api.Items](s.get(ns + "/items").want(http.StatusOK))
	s.wantRequests(fakes.Counts{List: 1})
	if diff := cmp.Diff(api.Items{Items: []api.Item{{
		Id: id, Subkey: "9f3c", StartedAt: start, LastSeenAt: start.Add(time.Minute),
	}}}, items); diff != "" {
		t.Error(diff)
	}

	e := decode[api.Explanation](s.get(ns + "/items/" + id + "/explain").want(http.StatusOK))
	s.wantRequests(fakes.Counts{List: 1, Open: 1})
	if e.Id != id || !e.Shown || e.Rule != "live" || e.ChangesAt == nil || e.Clock != "store" {
		t.Errorf("%+v", e)
	}

	s.clock.advance(time.Minute)
	s.do("DELETE", ns+"/items/"+id+"?outcome=failed", "").want(http.StatusNoContent)
	s.wantRequests(fakes.Counts{Put: 1, List: 1, Delete: 1, DeleteKeys: 2})
	s.do("DELETE", ns+"/items/"+id+"?outcome=failed", "").want(http.StatusNoContent) // it was gone
	s.count.Reset()

	recent := decode[api.Recent](s.get(ns + "/recent").want(http.StatusOK))
	s.wantRequests(fakes.Counts{List: 1})
	if diff := cmp.Diff(api.Recent{Items: []api.Ended{{
		Id: id, Subkey: "9f3c", Outcome: "failed", StartedAt: start, EndedAt: start.Add(2 * time.Minute),
	}}}, recent); diff != "" {
		t.Error(diff)
	}
	if got := decode[api.Cards](s.get(ns + "/cards")); len(got.Cards) != 0 || !got.Complete {
		t.Errorf("cards after the finish: %+v", got)
	}
}

func TestIndexesAndNamespaces(t *testing.T) {
	s := newSite(t)
	got := decode[api.Indexes](s.get("/v1/indexes").want(http.StatusOK))
	s.wantRequests(fakes.Counts{})
	want := api.Indexes{Indexes: []api.IndexRules{
		{Name: "running", Grammar: "epoch", TtlSeconds: 7200, LateAfterSeconds: 180, SkewSeconds: 60},
		{Name: "flat", Flat: true, Grammar: "epoch", TtlSeconds: 7200, LateAfterSeconds: 180, SkewSeconds: 60},
		{Name: "ulids", Grammar: "ulid", TtlSeconds: 7200, LateAfterSeconds: 180, SkewSeconds: 60},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if a := s.get("/v1/indexes/running/namespaces").want(http.StatusOK); strings.TrimSpace(a.body) != `{"namespaces":[]}` {
		t.Error(a.body)
	}
	for _, path := range []string{
		ns + "/items/" + s.id("x"), "/v1/indexes/running/Team/items/" + s.id("X"), "/v1/indexes/running/namespaces/items/" + s.id("y"), "/v1/indexes/flat/_/items/" + s.id("z"),
	} {
		s.do("PUT", path, "").want(http.StatusCreated)
	}
	names := decode[api.Namespaces](s.get("/v1/indexes/running/namespaces")).Namespaces
	if diff := cmp.Diff([]string{"Team", "namespaces", "team"}, names); diff != "" {
		t.Error(diff)
	}
	if names := decode[api.Namespaces](s.get("/v1/indexes/flat/namespaces")).Namespaces; !slices.Equal(names, []string{"_"}) {
		t.Errorf("namespaces of the flat index: %q", names)
	}
	for _, path := range []string{
		ns + "/cards", "/v1/indexes/running/Team/cards", "/v1/indexes/running/namespaces/cards", "/v1/indexes/flat/_/cards",
	} {
		if got := decode[api.Cards](s.get(path).want(http.StatusOK)); len(got.Cards) != 1 {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestPagesOfAListAreDisjointAndComplete(t *testing.T) {
	s := newSite(t)
	var want []string
	for i := range 25 {
		s.clock.advance(time.Duration(i%2) * time.Second) // two of each time: ties go by id
		id := s.id(fmt.Sprintf("k%02d", i))
		s.do("PUT", ns+"/items/"+id, "").want(http.StatusCreated)
		want = append(want, id)
	}
	pages := func(path string, limit int, between func()) (ids []string) {
		cursor := ""
		for {
			a := s.get(fmt.Sprintf("%s?limit=%d%s", path, limit, cursor)).want(http.StatusOK)
			page := decode[api.Items](a)
			if len(page.Items) > limit || len(page.Items) == 0 {
				t.Fatalf("%d items on a page of %d", len(page.Items), limit)
			}
			for _, it := range page.Items {
				ids = append(ids, it.Id)
			}
			if page.Next == nil {
				return ids
			}
			if len(ids) > 2*len(want) {
				t.Fatalf("the pages of %d do not end: %q", limit, ids)
			}
			cursor = "&cursor=" + url.QueryEscape(*page.Next)
			between()
		}
	}
	all := decode[api.Items](s.get(ns + "/items")).Items
	var order []string
	for _, it := range all {
		order = append(order, it.Id)
	}
	if len(order) != len(want) {
		t.Fatalf("%d items, want %d", len(order), len(want))
	}
	for _, limit := range []int{1, 4, 24, 25, 26} {
		if diff := cmp.Diff(order, pages(ns+"/items", limit, func() {})); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	// What was newer than a page when it was made, or went away, shifts no later page.
	s.clock.advance(time.Second)
	n := 0
	got := pages(ns+"/items", 5, func() {
		s.do("PUT", ns+"/items/"+s.id(fmt.Sprintf("new%d", n)), "").want(http.StatusCreated)
		s.do("DELETE", ns+"/items/"+order[n], "").want(http.StatusNoContent) // it was on the first page
		n++
	})
	if diff := cmp.Diff(order, got); diff != "" {
		t.Error(diff)
	}
	for _, id := range order[n:] {
		s.clock.advance(time.Millisecond * time.Duration(len(id)%2))
		s.do("DELETE", ns+"/items/"+id, "").want(http.StatusNoContent)
	}
	order = order[:0]
	for _, e := range decode[api.Recent](s.get(ns + "/recent")).Items {
		order = append(order, e.Id)
	}
	if len(order) != len(want) {
		t.Fatalf("%d finished, want %d", len(order), len(want))
	}
	for _, limit := range []int{1, 7, 25} {
		if diff := cmp.Diff(order, pages(ns+"/recent", limit, func() {})); diff != "" {
			t.Errorf("recent, limit %d: %s", limit, diff)
		}
	}
}

func TestCardsFilters(t *testing.T) {
	s := newSite(t)
	for i, owner := range []string{"mara", "jonas", "mara"} {
		s.do("PUT", ns+"/items/"+s.id(fmt.Sprintf("k%d", i)), `{"owner":"`+owner+`"}`).want(http.StatusCreated)
	}
	if got := s.get(ns + "/cards?limit=2").header.Get("Indexd-Cost"); got != "list=1, get=2, usd=0" {
		t.Error(got)
	}
	for query, want := range map[string]int{"": 3, "?limit=1": 1, "?owner=mara": 2, "?owner=mara&limit=1": 1, "?subkey=k1": 1} {
		if got := decode[api.Cards](s.get(ns + "/cards" + query).want(http.StatusOK)); len(got.Cards) != want {
			t.Errorf("%s: %d cards, want %d", query, len(got.Cards), want)
		}
	}
}

func TestTimesBeyondRFC3339AreStillAnswers(t *testing.T) {
	s := newSite(t)
	e := decode[api.Explanation](s.get("/v1/indexes/ulids/team/items/7ZZZZZZZZZZZZZZZZZZZZZZZZZ/explain").want(http.StatusOK))
	if e.StartedAt.Year() != 9999 || e.Rule != "absent" {
		t.Errorf("%+v", e)
	}
}

func TestMintedItems(t *testing.T) {
	s := newSite(t)
	a := s.do("POST", ns+"/items", `{"subkey":"a b/c","labels":{"title":"T"}}`)
	a.problem(http.StatusBadRequest, "invalid_id")
	s.wantRequests(fakes.Counts{})
	a = s.do("POST", ns+"/items", `{"subkey":"a b","labels":{"title":"T"}}`).want(http.StatusCreated)
	s.wantRequests(fakes.Counts{Put: 1})
	got := decode[api.Registered](a)
	if got.Subkey != "a b" || a.header.Get("Location") != ns+"/items/"+url.PathEscape(got.Id) {
		t.Errorf("%+v at %s", got, a.header.Get("Location"))
	}
	s.do("DELETE", a.header.Get("Location"), "").want(http.StatusNoContent)
	if got := decode[api.Recent](s.get(ns + "/recent")).Items; len(got) != 1 {
		t.Errorf("the location is not the item's: %+v", got)
	}
	s.do("POST", "/v1/indexes/ulids/team/items", "").want(http.StatusCreated)
	s.do("POST", "/v1/indexes/ulids/team/items", `{"subkey":"x"}`).problem(http.StatusBadRequest, "invalid_id")
}

func TestIdempotencyKeys(t *testing.T) {
	s := newSite(t)
	post := func(key, body string) answer {
		return s.do("POST", ns+"/items", body, "Idempotency-Key", key)
	}
	first := post("k1", `{"subkey":"a"}`).want(http.StatusCreated)
	if again := post("k1", `{ "subkey" : "a" }`).want(http.StatusCreated); again.body != first.body {
		t.Errorf("a repetition answers %s after %s", again.body, first.body)
	}
	s.wantRequests(fakes.Counts{Put: 1})
	post("k1", `{"subkey":"b"}`).problem(http.StatusUnprocessableEntity, "idempotency")
	if other := post("k2", `{"subkey":"a"}`).want(http.StatusCreated); other.body == first.body {
		t.Error("another key got the same id")
	}
	s.do("POST", "/v1/indexes/running/other/items", `{"subkey":"b"}`, "Idempotency-Key", "k1").want(http.StatusCreated)
	s.clock.advance(10 * time.Minute)
	if later := post("k1", `{"subkey":"b"}`).want(http.StatusCreated); later.body == first.body {
		t.Error("the key is still remembered")
	}
	post(strings.Repeat("k", 201), "").problem(http.StatusBadRequest, "bad_request")
	post("a b", "").problem(http.StatusBadRequest, "bad_request")
	post("", "").problem(http.StatusBadRequest, "bad_request")

	// After an unknown outcome the repetition registers the same item, and no second one.
	s.faults.Plan(fakes.Fault{Op: fakes.Put, Kind: fakes.AppliedThenLost(nil)})
	post("k3", `{"subkey":"c"}`).problem(http.StatusServiceUnavailable, "unknown")
	post("k3", `{"subkey":"c"}`).want(http.StatusCreated)
	n := 0
	for _, it := range decode[api.Items](s.get(ns + "/items")).Items {
		if it.Subkey == "c" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d items of one key", n)
	}
}

func TestRevalidation(t *testing.T) {
	s := newSite(t)
	id := s.id("x")
	s.do("PUT", ns+"/items/"+id, "").want(http.StatusCreated)
	for _, path := range []string{
		ns + "/cards", ns + "/items", ns + "/recent", "/v1/indexes", "/v1/indexes/running/namespaces", "/openapi.yaml",
		"/ui/app.css", "/ui/app.js", "/ui/icon.svg",
	} {
		a := s.get(path).want(http.StatusOK)
		tag := a.header.Get("Etag")
		if len(tag) < 10 || tag[0] != '"' {
			t.Errorf("%s: no strong ETag: %q", path, tag)
		}
		s.clock.advance(time.Second) // an answer's instant is in a header: its tag holds
		for _, match := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			b := s.do("GET", path, "", "If-None-Match", match).want(http.StatusNotModified)
			if b.body != "" || b.header.Get("Etag") != tag {
				t.Errorf("%s: 304 with %q, %v", path, b.body, b.header)
			}
		}
		s.do("GET", path, "", "If-None-Match", `"other"`).want(http.StatusOK)
		head := s.do("HEAD", path, "").want(http.StatusOK)
		if head.header.Get("Etag") != tag || head.header.Get("Content-Length") != fmt.Sprint(len(a.body)) {
			t.Errorf("HEAD %s: %v", path, head.header)
		}
	}
	tag := s.get(ns + "/cards").header.Get("Etag")
	s.do("POST", ns+"/items/"+id+"/heartbeat", "").want(http.StatusNoContent)
	if s.do("GET", ns+"/cards", "", "If-None-Match", tag).want(http.StatusOK).header.Get("Etag") == tag {
		t.Error("the tag holds though the card has changed")
	}
}

// An explanation tells of its instant, in its body: there is nothing to revalidate.
func TestExplanationsAreOfTheirInstant(t *testing.T) {
	s := newSite(t)
	path := ns + "/items/" + s.id("x") + "/explain"
	a := s.get(path).want(http.StatusOK)
	if a.header.Get("Etag") != "" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", a.header)
	}
	e := decode[api.Explanation](a)
	if !e.AsOf.Equal(start) || e.Clock != "store" || a.header.Get("Indexd-As-Of") != "2026-03-01T12:00:00Z" {
		t.Errorf("%+v, %v", e, a.header)
	}
	s.do("GET", path, "", "If-None-Match", "*").want(http.StatusOK)
}

func TestExplanationsOfFutureItems(t *testing.T) {
	s := newSite(t)
	id := "x_1772370000" // an hour ahead
	s.put("_active_runs/team/"+id, "")
	if e := decode[api.Explanation](s.get(ns + "/items/" + id + "/explain").want(http.StatusOK)); e.Rule != "future" || e.Shown {
		t.Errorf("%+v", e)
	}
}

// paths fills in the parameters of a path of the description, so that what it names is there.
func (s *site) paths() *strings.Replacer {
	added := s.upload("PUT", models+"/"+s.id("x"), create, file("f", "body")).want(http.StatusCreated)
	s.publish(twoRows, "If-None-Match", "*").want(http.StatusCreated)
	return strings.NewReplacer("{index}", "running", "{namespace}", "team", "{id}", s.id("x"), "{name}", "models",
		"{key}", decode[api.Change](added).Entry.Blobs[0].Key)
}

func TestMethods(t *testing.T) {
	s := newSite(t)
	paths := s.paths()
	for path, item := range description(t).Paths.Map() {
		want := []string{"OPTIONS"}
		for method := range item.Operations() {
			want = append(want, method)
			if method == "GET" && !endless(path) {
				want = append(want, "HEAD")
			}
		}
		slices.Sort(want)
		options := s.do("OPTIONS", paths.Replace(path), "").want(http.StatusNoContent)
		refused := s.do("PATCH", paths.Replace(path), "")
		refused.problem(http.StatusMethodNotAllowed, "method")
		for _, a := range []answer{options, refused} {
			got := strings.Split(a.header.Get("Allow"), ", ")
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s allows %q, want %q", path, got, want)
			}
		}
	}
}

// endless is for streams of events.
func endless(path string) bool { return strings.HasSuffix(path, "/events") }

func TestEveryGetAnswersHead(t *testing.T) {
	s := newSite(t)
	paths := s.paths()
	for path, item := range description(t).Paths.Map() {
		if item.Get == nil || endless(path) {
			continue
		}
		path = paths.Replace(path)
		head, get := s.do("HEAD", path, "").want(http.StatusOK), s.get(path).want(http.StatusOK)
		if head.header.Get("Content-Length") != fmt.Sprint(len(get.body)) {
			t.Errorf("HEAD %s: Content-Length %s of %d", path, head.header.Get("Content-Length"), len(get.body))
		}
	}
}

func TestQueriesAreThoseOfTheDescription(t *testing.T) {
	s := newSite(t)
	paths := s.paths()
	for path, item := range description(t).Paths.Map() {
		for method, op := range item.Operations() {
			target := paths.Replace(path)
			s.do(method, target+"?nonsense=1", "").want(http.StatusBadRequest)
			for _, p := range op.Parameters {
				if p.Value.In != "query" {
					continue
				}
				if strings.HasSuffix(path, "cards") && p.Value.Schema.Value.Default != nil {
					t.Errorf("%s: a default of %s, which the server's configuration decides", path, p.Value.Name)
				}
				value := map[string]string{"outcome": "done", "index": "running", "allow_empty": "true"}[p.Value.Name]
				var header []string
				body := ""
				switch {
				case p.Value.Name == "allow_empty":
					body, header = twoRows, rowsHeader("If-Match", s.get(listings).header.Get("Etag"))
				case p.Value.Name == "cursor" && strings.HasSuffix(path, "rows"):
					value = *decode[api.SnapshotRows](s.get(listings + "/rows?limit=1")).Next
				case p.Value.Schema.Value.Type.Is("boolean"):
					value = "true"
					for _, wrong := range []string{"", "1", "True", "yes", "tru"} {
						s.do(method, target+"?"+p.Value.Name+"="+wrong, "").want(http.StatusBadRequest)
					}
				case p.Value.Name == "cursor":
					value = "OWYzY18xNzAwMDAwMDAw" // 9f3c_1700000000
					if strings.HasSuffix(path, "recent") {
						value = "MTcwMCA5ZjNjXzE3MDAwMDAwMDA" // 1700 9f3c_1700000000
					}
				case p.Value.Schema.Value.Type.Is("integer"):
					value = fmt.Sprint(int(*p.Value.Schema.Value.Max))
					for _, wrong := range []string{"0", "-1", "", "x", "1e1", "+1", "01", value + "0"} {
						s.do(method, target+"?"+p.Value.Name+"="+url.QueryEscape(wrong), "").want(http.StatusBadRequest)
					}
				case value == "":
					value = "abc"
				}
				if endless(path) {
					s.stream(target + "?" + p.Value.Name + "=" + value).next()
				} else if a := s.do(method, target+"?"+p.Value.Name+"="+value, body, header...); a.status >= 400 {
					t.Errorf("%s %s refuses its %s: %s", method, path, p.Value.Name, a.body)
				}
				s.do(method, target+"?"+p.Value.Name+"="+value+"&"+p.Value.Name+"="+value, "").want(http.StatusBadRequest)
				s.do(method, target+"?"+p.Value.Name+"=%00", "").want(http.StatusBadRequest)
			}
		}
	}
}
