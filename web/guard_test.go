package web_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
	"github.com/blobindex/indexd/web/auth"
)

// guards gives a site authentication, by a token for each name with those grants. What is named "expired" has expired.
func guards(t *testing.T, who map[string][]auth.Grant, change ...func(*auth.Config)) (tokens map[string]string, opt func(*web.Options)) {
	t.Helper()
	tokens = make(map[string]string)
	var cfg auth.Config
	for _, name := range slices.Sorted(maps.Keys(who)) {
		tokens[name] = auth.Mint()
		token := auth.Token{Name: name, Hash: auth.HashOf(tokens[name]), Grants: who[name]}
		if name == "expired" {
			token.Expires = start
		}
		cfg.Tokens = append(cfg.Tokens, token)
	}
	cfg.Rate = auth.Rate{PerSecond: 1e6, FailuresPerMinute: 1e6}
	for _, f := range change {
		f(&cfg)
	}
	return tokens, func(o *web.Options) {
		gate, err := auth.New(cfg, &auth.Options{Now: o.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(gate.Close)
		o.Auth = gate
	}
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

func all(r auth.Role) []auth.Grant {
	return []auth.Grant{{Role: r, Index: auth.All, Namespace: auth.All}}
}

// routes are those of the site's server.
func (s *site) routes() (all [][2]string) {
	s.t.Helper()
	h, ok := s.server.Config.Handler.(*web.Server)
	if !ok {
		s.t.Fatalf("the site serves a %T", s.server.Config.Handler)
	}
	for _, r := range h.Routes() {
		all = append(all, [2]string{r.Method, r.Path})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return strings.Compare(a[1]+a[0], b[1]+b[0]) })
	if len(all) < 30 {
		s.t.Fatalf("only %d routes: the test looks at the wrong place", len(all))
	}
	return all
}

// An aim is what a request names.
type aim struct{ index, namespace, name, id, key string }

// target is the path of a route that names an aim. A route with a parameter that is not known here fails the test.
func (a aim) target(t *testing.T, method, route string) string {
	t.Helper()
	var path strings.Builder
	for _, part := range strings.Split(route, "/")[1:] {
		value, known := map[string]string{
			":index": a.index, ":namespace": a.namespace, ":name": a.name, ":id": a.id, ":key": a.key, ":asset": "app.js",
		}[part]
		switch {
		case known:
			part = url.PathEscape(value)
		case strings.HasPrefix(part, ":"), strings.Contains(part, "*"):
			t.Fatalf("%s has a parameter %s: say what it names", route, part)
		}
		path.WriteString("/" + part)
	}
	query := url.Values{}
	switch {
	case strings.HasSuffix(route, "/prune"):
		query.Set("namespace", a.namespace)
	case route == "/":
		query = url.Values{"index": {a.index}, "namespace": {a.namespace}}
	case route == "/manifests", route == "/snapshots":
		query = url.Values{"namespace": {a.namespace}, "name": {a.name}}
	}
	if len(query) > 0 {
		path.WriteString("?" + query.Encode())
	}
	return path.String()
}

// lockedText is a log that may be read while it is written.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedText) Reset() { l.take() }

func (l *lockedText) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// walls are who may not do what, over a site with everything in the namespace team, and nothing anywhere else.
type walls struct {
	*site
	tokens map[string]string
	log    *lockedText
	seen   chan web.Request // as metrics are told of requests
	there  aim
	absent []aim
}

func newWalls(t *testing.T) *walls {
	t.Helper()
	admin := func(index string, namespaces ...string) (all []auth.Grant) {
		for _, n := range namespaces {
			all = append(all, auth.Grant{Role: auth.Admin, Index: index, Namespace: n})
		}
		return all
	}
	w := &walls{log: &lockedText{}, seen: make(chan web.Request, 10_000)}
	tokens, opt := guards(t, map[string][]auth.Grant{
		"root": all(auth.Admin), "reader": all(auth.Reader), "producer": all(auth.Producer), "janitor": all(auth.Janitor),
		"expired": all(auth.Admin), "neighbour": admin(auth.All, "team2", "tea", "TEAM", "team_", "2"),
		"elsewhere": append(admin("ulids", "team"), admin("runnin", "team")...),
		"nobody":    {{Role: auth.Admin, Index: "ulids", Namespace: "void2"}},
	})
	w.tokens = tokens
	w.site = newSite(t, opt, func(o *web.Options) {
		o.Log = slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Observe = func(r web.Request) { w.seen <- r }
	})
	root := bearer(tokens["root"])
	added := w.upload("PUT", models+"/"+w.id("x"), append(root, create...), file("f", "body")).want(http.StatusCreated)
	w.publish(twoRows, append(root, "If-None-Match", "*")...).want(http.StatusCreated)
	w.put("_active_runs/team/"+w.id("x"), "")
	key := decode[api.Change](added).Entry.Blobs[0].Key
	w.there = aim{"running", "team", "models", w.id("x"), key}
	w.absent = []aim{
		{"running", "team", "models", w.id("absent"), key}, {"running", "team", "absent", w.id("x"), key},
		{"running", "absent", "models", w.id("x"), key}, {"absent", "team", "models", w.id("x"), key},
		{"absent", "absent", "absent", w.id("absent"), "ABSENT"},
	}
	w.reset()
	return w
}

func (w *walls) reset() {
	w.count.Reset()
	w.docs.reset()
	w.log.take()
	for len(w.seen) > 0 {
		<-w.seen
	}
}

// openRoutes are the routes that ask nothing of their callers. Whoever adds one says so here.
var openRoutes = []string{
	"GET /healthz", "GET /readyz", "GET /openapi.yaml", "GET /ui/:asset", "GET /signin", "POST /signin", "POST /signout",
}

func reading(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

func TestEveryRouteSaysWhoMay(t *testing.T) {
	w := newWalls(t)
	var opened []string
	for _, r := range w.routes() {
		if !web.InTable(r[0], r[1]) {
			t.Errorf("nothing says who may %s %s", r[0], r[1])
		}
		if name := reading(r[0]) + " " + r[1]; web.MayAnybody(r[0], r[1]) && !slices.Contains(opened, name) {
			opened = append(opened, name)
		}
	}
	slices.Sort(opened)
	if diff := cmp.Diff(slices.Sorted(slices.Values(openRoutes)), opened); diff != "" {
		t.Errorf("open to anybody: %s", diff)
	}
	if web.InTable("GET", "/v1/new") || web.InTable("PATCH", "/v1/indexes") {
		t.Error("a route that there is not is in the table")
	}
}

// TestP12_NoWayIn: every route × method × kind of bad token × what is there and what is not: 401, or the way to the form, the
// same for all, and nothing is asked of the store.
func TestP12_NoWayIn(t *testing.T) {
	w := newWalls(t)
	headers := map[string][]string{
		"none": nil, "unknown": bearer(auth.Mint()), "expired": bearer(w.tokens["expired"]), "a jwt": bearer("eyJhbGciOiJub25lIn0.e30."),
		"empty": {"Authorization", ""}, "no token": {"Authorization", "Bearer"}, "basic": {"Authorization", "Basic cm9vdDp4"},
		"two words": bearer(w.tokens["root"] + " x"), "no scheme": {"Authorization", w.tokens["root"]},
		"a cookie": {"Cookie", "indexd=" + auth.Mint(), "Sec-Fetch-Site", "same-origin"}, "another cookie": {"Cookie", "session=" + w.tokens["root"]},
		"the cookie of https": {"Cookie", "__Host-indexd=" + w.tokens["root"]}, "part": bearer(w.tokens["root"][:58]),
		"in capitals": bearer(strings.ToUpper(w.tokens["root"])), "long": bearer(strings.Repeat("a", auth.MaxToken+1)),
		"a hash": bearer(auth.HashOf(w.tokens["root"]).String()),
	}
	for _, r := range w.routes() {
		method, route := r[0], r[1]
		if web.MayAnybody(method, route) {
			continue
		}
		for kind, header := range headers {
			var first *answer
			for _, at := range append([]aim{w.there}, w.absent...) {
				target := at.target(t, method, route)
				a := w.ask(method, target, header)
				page := route == "/" || route == "/manifests" || route == "/snapshots"
				switch {
				case page:
					if want := "/signin?return=" + url.QueryEscape(target); a.status != http.StatusSeeOther || a.header.Get("Location") != want {
						t.Errorf("%s %s, %s: %d to %q", method, target, kind, a.status, a.header.Get("Location"))
					}
					a.header.Del("Location")
				case a.status != http.StatusUnauthorized || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), `Bearer realm="indexd"`):
					t.Errorf("%s %s, %s: %d %v", method, target, kind, a.status, a.header)
				case method != http.MethodHead:
					a.problem(http.StatusUnauthorized, "unauthenticated")
				}
				w.same(&first, a, method+" "+target+", "+kind)
			}
		}
		w.nothingTold()
	}
}

// TestP12_Walls: every route × method × {another namespace, a lesser role, no role on the index} × what is there and what is
// not: one and the same 403, and nothing is asked of the store.
func TestP12_Walls(t *testing.T) {
	w := newWalls(t)
	asked := 0
	for _, r := range w.routes() {
		method, route := r[0], r[1]
		if web.MayAnybody(method, route) || route == "/v1/indexes" {
			continue
		}
		who := []string{"nobody"}
		if strings.Contains(route, ":index") || route == "/" {
			who = append(who, "elsewhere")
		}
		if !strings.HasSuffix(route, "/namespaces") { // of which everybody sees their own
			who = append(who, "neighbour")
		}
		switch {
		case route == "/metrics":
			who = append(who, "reader", "producer", "janitor", "elsewhere")
		case strings.HasSuffix(route, "/prune"):
			who = append(who, "reader", "producer")
		case reading(method) != http.MethodGet:
			who = append(who, "reader", "janitor")
		}
		for _, name := range who {
			var first *answer
			for _, at := range append([]aim{w.there}, w.absent...) {
				if name == "nobody" && strings.HasSuffix(route, "/namespaces") && at.index == "ulids" {
					continue
				}
				target := at.target(t, method, route)
				a := w.ask(method, target, bearer(w.tokens[name]))
				if a.status != http.StatusForbidden {
					t.Errorf("%s %s by %s: %d %s", method, target, name, a.status, a.body)
				}
				w.same(&first, a, method+" "+target+" by "+name)
				asked++
			}
		}
		w.nothingTold()
	}
	if asked < 400 {
		t.Errorf("only %d requests", asked)
	}
	// And who may, may: else all of this would hold of a server that lets nobody do anything.
	for _, r := range w.routes() {
		if strings.HasSuffix(r[1], "/events") && r[0] == http.MethodGet {
			w.stream(w.there.target(t, r[0], r[1]), bearer(w.tokens["root"])...).close() // which is open until it is closed
			continue
		}
		if a := w.ask(r[0], w.there.target(t, r[0], r[1]), bearer(w.tokens["root"])); a.status == http.StatusUnauthorized ||
			a.status == http.StatusForbidden || a.status == http.StatusSeeOther && strings.HasPrefix(r[1], "/v1") {
			t.Errorf("%s %s by who may do everything: %d %s", r[0], r[1], a.status, a.body)
		}
	}
}

// ask sends a request with a body that nobody may read, and follows no redirect.
func (w *walls) ask(method, target string, header []string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+target, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if method == http.MethodPost || method == http.MethodPut {
		req, err = http.NewRequestWithContext(w.t.Context(), method, w.server.URL+target, strings.NewReader(`{"subkey":"secret"}`))
		if err != nil {
			w.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return w.still(req)
}

// still is send, with redirects as answers.
func (s *site) still(req *http.Request) answer {
	s.t.Helper()
	client := *s.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	whole := s.client
	s.client = &client
	defer func() { s.client = whole }()
	return s.send(req)
}

// same fails the test unless an answer is like the first one, down to the last byte.
func (w *walls) same(first **answer, a answer, what string) {
	w.t.Helper()
	for _, name := range []string{"Date", "X-Request-Id"} {
		a.header.Del(name)
	}
	if *first == nil {
		*first = &a
		return
	}
	if a.status != (*first).status || a.body != (*first).body {
		w.t.Errorf("%s: %d %s\nand not %d %s", what, a.status, a.body, (*first).status, (*first).body)
	}
	if diff := cmp.Diff((*first).header, a.header); diff != "" {
		w.t.Errorf("%s: %s", what, diff)
	}
}

// nothingTold fails the test if the store was asked for anything, or the log names anything.
func (w *walls) nothingTold() {
	w.t.Helper()
	w.wantAll(fakes.Counts{}, 0, 0)
	if len(w.seen) == 0 {
		w.t.Error("no request was observed: the test looks at the wrong place")
	}
	for len(w.seen) > 0 {
		if r := <-w.seen; r.Route != "" && r.Status != http.StatusSeeOther {
			w.t.Errorf("metrics are told of %s, which was refused with %d", r.Route, r.Status)
		}
	}
	log := w.log.take()
	for _, line := range strings.Split(log, "\n") {
		line = strings.NewReplacer(`"principal":"elsewhere"`, "", "/namespaces", "", "manifests", "", ":namespace", "").Replace(line)
		for _, name := range []string{"team", "absent", "models", "running", w.there.id, w.there.key, "secret", "return"} {
			if strings.Contains(line, name) {
				w.t.Errorf("the log tells of %s: %s", name, line)
			}
		}
	}
	w.noTokens(log)
}

func (w *walls) noTokens(log string) {
	w.t.Helper()
	for name, token := range w.tokens {
		if strings.Contains(log, token[7:20]) || strings.Contains(log, strings.ToUpper(token[7:20])) ||
			strings.Contains(log, auth.HashOf(token).String()) {
			w.t.Errorf("the log has the token of %s: %s", name, log)
		}
	}
}

// TestP12_OwnNamespaces: what there is to see is told of one's own grants, with no request of the store.
func TestP12_OwnNamespaces(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{
		"root": all(auth.Reader),
		"team": {{Role: auth.Producer, Index: "running", Namespace: "team"}, {Role: auth.Reader, Index: "running", Namespace: "new"}},
		"flat": {{Role: auth.Reader, Index: "flat", Namespace: "_"}},
		"both": {{Role: auth.Reader, Index: auth.All, Namespace: "team2"}, {Role: auth.Reader, Index: "ulids", Namespace: auth.All}},
	})
	s := newSite(t, opt)
	for _, n := range []string{"team", "team2", "xanadu"} {
		s.put("_active_runs/"+n+"/"+s.id("x"), "")
	}
	indexes := func(who string) (names []string) {
		for _, x := range decode[api.Indexes](s.do("GET", "/v1/indexes", "", bearer(tokens[who])...).want(http.StatusOK)).Indexes {
			names = append(names, x.Name)
		}
		return names
	}
	for who, want := range map[string][]string{
		"root": {"running", "flat", "ulids"}, "team": {"running"}, "flat": {"flat"}, "both": {"running", "ulids"},
	} {
		if diff := cmp.Diff(want, indexes(who)); diff != "" {
			t.Errorf("%s: %s", who, diff)
		}
	}
	s.wantRequests(fakes.Counts{})
	for _, c := range []struct {
		who, index string
		want       []string
	}{{"team", "running", []string{"new", "team"}}, {"both", "running", []string{"team2"}}, {"flat", "flat", []string{"_"}}} {
		a := s.do("GET", "/v1/indexes/"+c.index+"/namespaces", "", bearer(tokens[c.who])...).want(http.StatusOK)
		if diff := cmp.Diff(c.want, decode[api.Namespaces](a).Namespaces); diff != "" {
			t.Errorf("%s: %s", c.who, diff)
		}
		if got := a.header.Values("Vary"); !slices.Contains(got, "Authorization, Cookie") {
			t.Errorf("Vary: %q", got)
		}
	}
	s.wantRequests(fakes.Counts{})
	if got := decode[api.Namespaces](s.do("GET", "/v1/indexes/running/namespaces", "", bearer(tokens["root"])...)).Namespaces; len(got) != 3 {
		t.Errorf("who may see all sees %q", got)
	}
	// The page's pickers, of what is there and of a problem.
	s.do("GET", "/", "", bearer(tokens["root"])...).want(http.StatusOK) // all names are known to the server now
	for _, path := range []string{"/", "/?index=running&namespace=team", "/?index=flat", "/?index=running&namespace=xanadu", "/?index=nope"} {
		a := s.do("GET", path, "", bearer(tokens["team"])...)
		if want := map[bool]int{true: 200, false: 403}[path == "/" || strings.HasSuffix(path, "=team")]; a.status != want {
			t.Errorf("%s: %d", path, a.status)
		}
		for _, name := range []string{"xanadu", "team2", "ulids", "flat", "nope"} {
			if strings.Contains(a.body, name) {
				t.Errorf("%s tells of %s: %s", path, name, a.body)
			}
		}
	}
	s.count.Reset()
	s.do("GET", "/?x=1", "").want(http.StatusBadRequest)
	if a := s.do("GET", "/?index=running&x=1", ""); strings.Contains(a.body, ">running<") || a.body != s.do("GET", "/?index=nope&x=1", "").body {
		t.Errorf("who is not signed in is told of indexes: %s", a.body)
	}
	s.wantRequests(fakes.Counts{})
}

// TestP12_Prune: a pass over a whole index is for who may prune all of it.
func TestP12_Prune(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{
		"team": {{Role: auth.Janitor, Index: "running", Namespace: "team"}}, "all": {{Role: auth.Janitor, Index: "running", Namespace: auth.All}},
	})
	s := newSite(t, opt)
	for path, want := range map[string][2]int{
		pruning: {403, 200}, pruning + "?namespace=team": {200, 200}, pruning + "?namespace=team2": {403, 200},
		pruning + "?dry_run=true": {403, 200}, "/v1/indexes/flat/prune": {403, 403},
	} {
		for i, who := range []string{"team", "all"} {
			if a := s.do("POST", path, "", bearer(tokens[who])...); a.status != want[i] {
				t.Errorf("%s by %s: %d %s", path, who, a.status, a.body)
			}
		}
	}
}

// TestCase_C10_Neighbours: namespaces of which one's name begins the other's, and an id that looks like a way out.
func TestCase_C10_Neighbours(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{
		"team": {{Role: auth.Producer, Index: "running", Namespace: "team"}},
	})
	s := newSite(t, opt)
	at := fmt.Sprint(start.Unix())
	s.put("_active_runs/team2/x_"+at, "")
	s.put("_active_runs/team/2/x_"+at, "") // a nested key of nobody
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/indexes/running/team2/cards", 403}, {"GET", "/v1/indexes/running/team/items/2%2Fx_" + at + "/explain", 400},
		{"PUT", "/v1/indexes/running/team/items/2%2Fx_" + at, 400}, {"PUT", "/v1/indexes/running/team2/items/x_" + at, 403},
		{"DELETE", "/v1/indexes/running/team/items/..%2F..%2Fteam2%2Fx_" + at, 400},
		{"GET", "/v1/indexes/running/team%2F..%2Fteam2/cards", 400}, {"GET", "/v1/indexes/running/team%2Fcards", 404},
		{"GET", "/v1/indexes/running/%74eam2/cards", 403}, {"GET", "/v1/indexes/running/team%32/cards", 403},
		{"GET", "/v1/indexes/running/%2574eam/cards", 400}, {"GET", "/v1/indexes/running/*/cards", 400},
		{"GET", "/v1/indexes/*/team/cards", 400}, {"GET", "/v1/indexes/running/TEAM/cards", 403},
		{"GET", "/v1/manifests/team2/models/entries", 403}, {"GET", "/v1/manifests/*/models/entries", 400},
		{"GET", "/?namespace=team2", 403}, {"GET", "/?namespace=*", 403}, {"POST", pruning + "?namespace=*", 403},
	} {
		a := s.do(c.method, c.path, "", bearer(tokens["team"])...)
		if a.status != c.status || strings.Contains(a.body, "x_"+at) {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	s.wantRequests(fakes.Counts{})
	s.do("GET", "/v1/indexes/running/%74eam/cards", "", bearer(tokens["team"])...).want(http.StatusOK)
}

// TestCase_C54_Guarded: names that are none are refused for what they are, whoever asks, and nothing else is told.
func TestCase_C54_Guarded(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{
		"team": {{Role: auth.Admin, Index: "running", Namespace: "team"}}, "root": all(auth.Admin),
	})
	s := newSite(t, opt)
	for _, who := range []string{"team", "root", ""} {
		header := ""
		if who != "" {
			header = "Authorization: Bearer " + tokens[who] + "\r\n"
		}
		for _, b := range badNames {
			for _, request := range []string{
				"GET /v1/indexes/running/%s/cards", "POST /v1/indexes/running/%s/items", "GET /v1/indexes/%s/team/cards",
				"GET /v1/indexes/%s/namespaces", "GET /v1/manifests/%s/models/entries", "POST /v1/indexes/%s/prune",
			} {
				line := strings.Replace(request, "%s", b, 1)
				res := s.raw(line + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n" + header + "\r\n")
				// "_" is a name of a namespace, of another index.
				ok := res.StatusCode == http.StatusBadRequest || b == "_" && res.StatusCode == http.StatusForbidden ||
					who == "" && res.StatusCode == http.StatusUnauthorized
				if !ok || res.Header.Get("Location") != "" {
					t.Errorf("%s by %q: %d to %q", line, who, res.StatusCode, res.Header.Get("Location"))
				}
			}
		}
	}
	s.wantRequests(fakes.Counts{})
}

// TestAuth_EndsWithTheToken: what a route does is over when the token is.
func TestAuth_EndsWithTheToken(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"short": all(auth.Reader)}, func(c *auth.Config) {
		c.Tokens[0].Expires = start.Add(30 * time.Millisecond)
	})
	s := newSite(t, opt)
	s.faults.Plan(fakes.Fault{Op: fakes.List, Kind: fakes.Hang()})
	a := s.do("GET", ns+"/cards", "", bearer(tokens["short"])...)
	a.problem(http.StatusUnauthorized, "unauthenticated")
	s.clock.advance(time.Second)
	a = s.do("GET", ns+"/cards", "", bearer(tokens["short"])...)
	if p := a.problem(http.StatusUnauthorized, "unauthenticated"); !strings.Contains(p.Detail, "expired") {
		t.Errorf("%+v", p)
	}
}

func TestAuth_Rates(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"a": all(auth.Reader), "b": all(auth.Reader)}, func(c *auth.Config) {
		c.Rate = auth.Rate{PerSecond: 1, Burst: 3, FailuresPerMinute: 2}
	})
	s := newSite(t, opt)
	for range 3 {
		s.do("GET", "/v1/indexes", "", bearer(tokens["a"])...).want(http.StatusOK)
	}
	a := s.do("GET", "/v1/indexes", "", bearer(tokens["a"])...)
	a.problem(http.StatusTooManyRequests, "rate_limited")
	if a.header.Get("Retry-After") != "1" || a.header.Get("WWW-Authenticate") != "" {
		t.Errorf("%v", a.header)
	}
	s.do("GET", "/v1/indexes", "", bearer(tokens["b"])...).want(http.StatusOK)
	if page := s.do("GET", "/?index=running", "", bearer(tokens["a"])...).want(http.StatusTooManyRequests); strings.Contains(page.body, "<script>") ||
		!strings.Contains(page.body, "rate_limited") {
		t.Errorf("%s", page.body)
	}
	s.clock.advance(time.Second)
	s.do("GET", "/v1/indexes", "", bearer(tokens["a"])...).want(http.StatusOK)
	// Guesses: who has a token is not locked out by them.
	for _, status := range []int{401, 401, 429, 429} {
		s.do("GET", "/v1/indexes", "", bearer(auth.Mint())...).want(status)
	}
	s.clock.advance(3 * time.Second)
	s.do("GET", "/v1/indexes", "", bearer(tokens["a"])...).want(http.StatusOK)
	s.do("GET", "/v1/indexes", "", bearer(auth.Mint())...).want(http.StatusTooManyRequests)
	s.clock.advance(27 * time.Second)
	s.do("GET", "/v1/indexes", "", bearer(auth.Mint())...).want(http.StatusUnauthorized)
}

// TestAuth_Audit: one line for each mutation, whoever was let, and nothing in it that is nobody's business.
func TestAuth_Audit(t *testing.T) {
	var log lockedText
	tokens, opt := guards(t, map[string][]auth.Grant{
		"ci": {{Role: auth.Producer, Index: "running", Namespace: "team"}},
	})
	s := newSite(t, opt, func(o *web.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	audit := func(a answer) string {
		var lines []string
		for _, line := range strings.Split(log.take(), "\n") {
			if strings.Contains(line, "hush") || strings.Contains(line, tokens["ci"][7:]) {
				t.Errorf("the log repeats a secret: %s", line)
			}
			if strings.Contains(line, "msg=audit") {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			return ""
		}
		_, line, _ := strings.Cut(lines[0], "msg=audit ")
		id := "request_id=" + a.header.Get("X-Request-Id") + " "
		if len(lines) > 1 || !strings.Contains(line, id) {
			t.Errorf("%d lines, or no %s: %q", len(lines), id, lines)
		}
		return strings.Replace(line, id, "", 1)
	}
	ci, id := bearer(tokens["ci"]), s.id("x")
	const where = "route=/v1/indexes/:index/:namespace/items"
	a := s.do("PUT", ns+"/items/"+id, `{"title":"hush"}`, ci...).want(http.StatusCreated)
	if got, want := audit(a), "principal=ci method=PUT "+where+"/:id index=running namespace=team id="+id+" status=201"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	a = s.do("POST", ns+"/items", `{"subkey":"y","labels":{"k":"hush"}}`, ci...).want(http.StatusCreated)
	minted := decode[api.Registered](a).Id
	if got, want := audit(a), "principal=ci method=POST "+where+" index=running namespace=team id="+minted+" status=201"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	a = s.do("DELETE", ns+"/items/"+id+"?outcome=hush", "", ci...).want(http.StatusBadRequest)
	if got, want := audit(a), "principal=ci method=DELETE "+where+"/:id index=running namespace=team id="+id+" status=400"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	a = s.do("DELETE", "/v1/indexes/running/hush/items/"+id, "", ci...).want(http.StatusForbidden)
	if got, want := audit(a), "principal=ci method=DELETE "+where+"/:id status=403"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	a = s.do("PUT", ns+"/items/"+strings.Repeat("x", 20_000), "", ci...).want(http.StatusBadRequest)
	if got := audit(a); !strings.Contains(got, strings.Repeat("x", 200)+"… status=400") || len(got) > 500 {
		t.Errorf("of a long id: %d bytes, %.300s", len(got), got)
	}
	if got := audit(s.do("GET", ns+"/cards?subkey=hush", "", ci...).want(http.StatusOK)); got != "" {
		t.Errorf("reading is told: %s", got)
	}
	if got := audit(s.do("PUT", ns+"/items/"+id, "", "Authorization", "Bearer hush").want(http.StatusUnauthorized)); got != "" {
		t.Errorf("who did nothing is told: %s", got)
	}
	s.do("GET", ns+"/cards?token="+tokens["ci"], "").problem(http.StatusBadRequest, "bad_request")
	s.do("GET", "/?access_token="+tokens["ci"], "").want(http.StatusBadRequest)
	s.do("POST", ns+"/items?access_token="+tokens["ci"], `{"subkey":"y"}`).problem(http.StatusBadRequest, "bad_request")
	audit(answer{})
}
