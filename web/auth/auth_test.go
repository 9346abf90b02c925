package auth_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/blobindex/indexd/web/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// A clock is the host's.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: start} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func gate(t *testing.T, c *clock, cfg auth.Config) *auth.Gate {
	t.Helper()
	g, err := auth.New(cfg, &auth.Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

const peer = "192.0.2.1:4000"

// TestRoles holds the table of what each role does to the documented one.
func TestRoles(t *testing.T) {
	for role, want := range map[auth.Role][4]bool{ // Read, Write, Prune, Operate
		auth.Reader: {true, false, false, false}, auth.Producer: {true, true, false, false}, auth.Janitor: {true, false, true, false},
		auth.Admin: {true, true, true, true}, "root": {}, "": {},
	} {
		p := auth.Principal{Grants: []auth.Grant{{Role: role, Index: "*", Namespace: "*"}}}
		for i, a := range []auth.Action{auth.Read, auth.Write, auth.Prune, auth.Operate} {
			if p.May(a, "running", "team") != want[i] {
				t.Errorf("%q, action %d: %v", role, a, !want[i])
			}
		}
		if p.May(0, "running", "team") || p.May(5, "running", "team") {
			t.Errorf("%q may do what is no action", role)
		}
	}
}

func TestGrants(t *testing.T) {
	p := auth.Principal{Grants: []auth.Grant{
		{auth.Producer, "running", "team"}, {auth.Reader, "*", "shared"}, {auth.Janitor, "builds", "*"},
	}}
	for _, c := range []struct {
		a                auth.Action
		index, namespace string
		want             bool
	}{
		{auth.Write, "running", "team", true}, {auth.Read, "running", "team", true}, {auth.Prune, "running", "team", false},
		{auth.Read, "running", "team2", false}, {auth.Read, "running", "tea", false}, {auth.Read, "running", "TEAM", false},
		{auth.Read, "running2", "team", false}, {auth.Read, "Running", "team", false}, {auth.Read, "running", "", false},
		{auth.Read, "nope", "shared", true}, {auth.Write, "running", "shared", false}, {auth.Read, "builds", "any", true},
		{auth.Prune, "builds", "*", true}, {auth.Prune, "running", "*", false}, {auth.Read, "*", "shared", true},
		{auth.Prune, "*", "*", false}, {auth.Write, auth.AnyIndex, "team", true}, {auth.Read, auth.AnyIndex, "team2", true},
		{auth.Write, auth.AnyIndex, "team2", false}, {auth.Read, "runnin", "team", false}, {auth.Operate, "*", "*", false},
	} {
		if got := p.May(c.a, c.index, c.namespace); got != c.want {
			t.Errorf("%d of %q/%q: %v", c.a, c.index, c.namespace, got)
		}
	}
	if names, all := p.Namespaces(auth.Read, "running"); all || !cmp.Equal(names, []string{"shared", "team"}) {
		t.Errorf("%q %v", names, all)
	}
	if names, all := p.Namespaces(auth.Read, "builds"); !all || names != nil {
		t.Errorf("%q %v", names, all)
	}
	if names, all := p.Namespaces(auth.Write, "builds"); all || names != nil {
		t.Errorf("%q %v", names, all)
	}
}

func TestGrant_Check(t *testing.T) {
	for _, g := range []auth.Grant{{auth.Reader, "running", "team"}, {auth.Admin, "*", "*"}, {auth.Reader, "flat", "_"}} {
		if err := g.Check(); err != nil {
			t.Errorf("%v: %v", g, err)
		}
	}
	for _, g := range []auth.Grant{
		{"", "running", "team"}, {"root", "running", "team"}, {auth.Reader, "", "team"}, {auth.Reader, "running", ""},
		{auth.Reader, "run*", "team"}, {auth.Reader, "running", "team*"}, {auth.Reader, "running", "a/b"}, {auth.Reader, "_", "team"},
		{auth.Reader, "running", ".."}, {auth.Reader, "**", "team"}, {auth.Reader, "running", "_indexd"}, {auth.Reader, "running", "team "},
	} {
		if err := g.Check(); err == nil {
			t.Errorf("%q passes", g)
		}
	}
}

func TestTokens(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		token := auth.Mint()
		if err := auth.CheckToken(token); err != nil || seen[token] || len(token) != 59 || !strings.HasPrefix(token, "indexd_") {
			t.Fatalf("%q: %v", token, err)
		}
		seen[token] = true
		h, err := auth.ParseHash(auth.HashOf(token).String())
		if err != nil || h != auth.HashOf(token) {
			t.Fatalf("%v: %v", h, err)
		}
		if _, err := auth.ParseHash(token); err == nil || strings.Contains(err.Error(), token[7:]) {
			t.Errorf("%v", err)
		}
	}
	last := "indexd_" + strings.Repeat("a", 51)
	for token, ok := range map[string]bool{
		last + "a": true, last + "q": true, last + "b": false, last: false, last + "aa": false, "indexd-" + last[7:] + "a": false, "": false,
		"INDEXD_" + last[7:] + "a": false, last + "A": false, last + "1": false, last + "\n": false,
	} {
		if err := auth.CheckToken(token); (err == nil) != ok {
			t.Errorf("%q: %v", token, err)
		}
	}
	for _, text := range []string{"", "ab", strings.Repeat("g", 64), strings.Repeat("a", 63), strings.Repeat("a", 66)} {
		if _, err := auth.ParseHash(text); err == nil {
			t.Errorf("%q is a hash", text)
		}
	}
}

func FuzzParseHash(f *testing.F) {
	f.Add(auth.HashOf("x").String())
	f.Add("indexd_a")
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := auth.ParseHash(text); err == nil && !strings.EqualFold(h.String(), text) {
			t.Errorf("%q is %s", text, h)
		}
		if auth.CheckToken(text) == nil {
			if len(text) != 59 {
				t.Errorf("%q is a token", text)
			}
			if _, err := auth.Bearer(http.Header{"Authorization": {"Bearer " + text}}); err != nil {
				t.Errorf("%q cannot be sent: %v", text, err)
			}
		}
	})
}

func TestBearer(t *testing.T) {
	for value, want := range map[string]string{
		"Bearer a.b-c_d~e+f/g=": "a.b-c_d~e+f/g=", "bearer x": "x", "BEARER  x": "x", "Bearer": "", "Bearer ": "", "Basic x": "", "x": "",
		"Bearer x y": "", "Bearer x,y": "", "": "", "Bearer \"x\"": "", "Bearer ü": "", "Bearerx": "", "Bearer " + strings.Repeat("a", auth.MaxToken+1): "",
	} {
		got, err := auth.Bearer(http.Header{"Authorization": {value}})
		if got != want || (err == nil) != (want != "") || err != nil && err != auth.ErrToken {
			t.Errorf("%.40q: %q, %v", value, got, err)
		}
	}
	if _, err := auth.Bearer(http.Header{}); err != auth.ErrNoToken {
		t.Error(err)
	}
	if _, err := auth.Bearer(http.Header{"Authorization": {"Bearer x", "Bearer x"}}); err != auth.ErrToken {
		t.Error(err)
	}
}

func TestStatic(t *testing.T) {
	c, tokens := newClock(), []string{auth.Mint(), auth.Mint(), auth.Mint()}
	grants := []auth.Grant{{auth.Reader, "*", "*"}}
	g := gate(t, c, auth.Config{Tokens: []auth.Token{
		{"first", auth.HashOf(tokens[0]), time.Time{}, grants}, {"second", auth.HashOf(tokens[1]), start.Add(time.Minute), grants},
		{"third", auth.HashOf(tokens[2]), time.Time{}, grants},
	}})
	for i, want := range []string{"first", "second", "third"} {
		p, err := g.Authenticate(t.Context(), peer, tokens[i])
		if err != nil || p.Name != want || p.Issuer != "" || p.Expires.IsZero() != (i != 1) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	for _, bad := range []string{auth.Mint(), tokens[0][:58], tokens[0] + "a", "", "x", auth.HashOf(tokens[0]).String(), tokens[0] + "\n"} {
		if p, err := g.Authenticate(t.Context(), peer, bad); err != auth.ErrToken || p != nil {
			t.Errorf("%q: %v, %v", bad, p, err)
		}
	}
	c.advance(time.Minute - 1)
	if _, err := g.Authenticate(t.Context(), peer, tokens[1]); err != nil {
		t.Error(err)
	}
	c.advance(1)
	if p, err := g.Authenticate(t.Context(), peer, tokens[1]); err != auth.ErrExpired || p != nil {
		t.Errorf("%v, %v", p, err)
	}
}

func TestNew_Refuses(t *testing.T) {
	grants := []auth.Grant{{auth.Reader, "*", "*"}}
	token := func(name string) auth.Token { return auth.Token{Name: name, Hash: auth.HashOf(name), Grants: grants} }
	issuer := func(f func(*auth.OIDC)) auth.Config {
		o := &auth.OIDC{Issuer: "https://id.example", Audience: "indexd", Grants: []auth.ClaimGrant{{"groups", "a", grants[0]}}}
		f(o)
		return auth.Config{OIDC: o}
	}
	for says, cfg := range map[string]auth.Config{
		"nobody could sign in": {}, "the name of a token": {Tokens: []auth.Token{token("")}},
		"no hash":           {Tokens: []auth.Token{{Name: "x", Grants: grants}}},
		"no grants":         {Tokens: []auth.Token{{Name: "x", Hash: auth.HashOf("x")}}},
		"grants[0]":         {Tokens: []auth.Token{{Name: "x", Hash: auth.HashOf("x"), Grants: []auth.Grant{{auth.Reader, "*", "a*"}}}}},
		"has this name":     {Tokens: []auth.Token{token("x"), {Name: "x", Hash: auth.HashOf("y"), Grants: grants}}},
		`hash of "x"`:       {Tokens: []auth.Token{token("x"), {Name: "y", Hash: auth.HashOf("x"), Grants: grants}}},
		"control":           {Tokens: []auth.Token{token("a\nb")}},
		"less than nothing": {Tokens: []auth.Token{token("x")}, Rate: auth.Rate{PerSecond: -1}},
		"the issuer":        issuer(func(o *auth.OIDC) { o.Issuer = "" }),
		"http://id.example": issuer(func(o *auth.OIDC) { o.Issuer = "http://id.example" }),
		"?x":                issuer(func(o *auth.OIDC) { o.Issuer = "https://id.example/?x" }),
		"no audience":       issuer(func(o *auth.OIDC) { o.Audience = "" }),
		`"none"`:            issuer(func(o *auth.OIDC) { o.Algorithms = []string{"RS256", "none"} }),
		`"HS256"`:           issuer(func(o *auth.OIDC) { o.Algorithms = []string{"HS256"} }),
		`"rs256"`:           issuer(func(o *auth.OIDC) { o.Algorithms = []string{"rs256"} }),
		"it has no grants":  issuer(func(o *auth.OIDC) { o.Grants = nil }),
		"no claim":          issuer(func(o *auth.OIDC) { o.Grants[0].Claim = "" }),
		"no role":           issuer(func(o *auth.OIDC) { o.Grants[0].Role = "" }),
	} {
		g, err := auth.New(cfg, nil)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		if g != nil {
			g.Close()
		}
	}
}

func TestRates(t *testing.T) {
	c, token := newClock(), auth.Mint()
	g := gate(t, c, auth.Config{
		Tokens: []auth.Token{{"x", auth.HashOf(token), time.Time{}, []auth.Grant{{auth.Reader, "*", "*"}}}},
		Rate:   auth.Rate{PerSecond: 2, Burst: 4, FailuresPerMinute: 6},
	})
	p, err := g.Authenticate(t.Context(), peer, token)
	if err != nil {
		t.Fatal(err)
	}
	admitted := func(n int) (ok int) {
		for range n {
			if g.Admit(p) == nil {
				ok++
			}
		}
		return ok
	}
	if got := admitted(10); got != 4 {
		t.Errorf("%d at once", got)
	}
	limit, ok := g.Admit(p).(*auth.LimitError)
	if !ok || limit.After != 500*time.Millisecond || limit.Guesses {
		t.Errorf("%+v", limit)
	}
	c.advance(time.Second)
	if got := admitted(10); got != 2 {
		t.Errorf("%d in a second", got)
	}
	// Failures, by address: the port is nobody, and a host of IPv6 has a whole network.
	for _, same := range [][]string{
		{"192.0.2.9:1", "192.0.2.9:2", "[::ffff:192.0.2.9]:3"}, {"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8:0:0:ffff::]:2"},
	} {
		failed := 0
		for i := range 12 {
			_, err := g.Authenticate(t.Context(), same[i%3], auth.Mint())
			if err == auth.ErrToken {
				failed++
			} else if l, ok := err.(*auth.LimitError); !ok || !l.Guesses || l.After != 10*time.Second {
				t.Errorf("%v", err)
			}
		}
		if failed != 6 {
			t.Errorf("%q: %d guesses", same, failed)
		}
		if _, err := g.Authenticate(t.Context(), same[0], token); err != nil {
			t.Errorf("who has a token is locked out: %v", err)
		}
	}
	if _, err := g.Authenticate(t.Context(), "[2001:db8:0:1::1]:1", auth.Mint()); err != auth.ErrToken {
		t.Errorf("another network: %v", err)
	}
}

// TestRates_Bounded: strangers fill no memory. A peer that was pushed out begins anew.
func TestRates_Bounded(t *testing.T) {
	g := gate(t, newClock(), auth.Config{
		Tokens: []auth.Token{{"x", auth.HashOf("x"), time.Time{}, []auth.Grant{{auth.Reader, "*", "*"}}}}, Rate: auth.Rate{FailuresPerMinute: 1},
	})
	for _, c := range []struct {
		peer string
		want bool
	}{{"a", true}, {"a", false}} {
		if _, err := g.Authenticate(t.Context(), c.peer, "y"); (err == auth.ErrToken) != c.want {
			t.Errorf("%v", err)
		}
	}
	for i := range auth.MaxKnown {
		g.Authenticate(t.Context(), "peer"+strings.Repeat("x", i%7)+time.Duration(i).String(), "y")
	}
	if n := g.Known(); n > auth.MaxKnown {
		t.Errorf("%d peers are known", n)
	}
	if _, err := g.Authenticate(t.Context(), "a", "y"); err != auth.ErrToken {
		t.Errorf("%v", err)
	}
}
