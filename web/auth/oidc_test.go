package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/blobindex/indexd/web/auth"
)

// An issuer is one of OpenID Connect on a loopback address.
type issuer struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	asked    int                                           // for the keys
	trouble  func(http.ResponseWriter, *http.Request) bool // answers in the place of the issuer, if it says so
	describe map[string]any
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t}
	i.server = httptest.NewServer(http.HandlerFunc(i.answer))
	t.Cleanup(i.server.Close)
	i.describe = map[string]any{
		"issuer": i.server.URL, "jwks_uri": i.server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
	}
	return i
}

func (i *issuer) answer(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.trouble != nil && i.trouble(w, r) {
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(i.describe)
	case "/keys":
		i.asked++
		set := jose.JSONWebKeySet{}
		for _, k := range i.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		json.NewEncoder(w).Encode(set)
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) set(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

func (i *issuer) requests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// rotate makes a new key the only one.
func (i *issuer) rotate(id string) jose.JSONWebKey {
	i.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: id, Algorithm: "ES256", Use: "sig"}
	i.set(func() { i.keys = []jose.JSONWebKey{key} })
	return key
}

func (i *issuer) config() auth.Config {
	return auth.Config{OIDC: &auth.OIDC{Issuer: i.server.URL, Audience: "indexd", Grants: []auth.ClaimGrant{
		{"groups", "team-a", auth.Grant{Role: auth.Producer, Index: "running", Namespace: "team"}},
		{"role", "ops", auth.Grant{Role: auth.Admin, Index: "*", Namespace: "*"}},
	}}}
}

type claims map[string]any

// sign makes a JWT of claims that are good but for the changes; nil takes one away.
func (i *issuer) sign(key jose.JSONWebKey, change claims) string {
	i.t.Helper()
	all := claims{
		"iss": i.server.URL, "aud": []string{"other", "indexd"}, "sub": "alice", "exp": start.Add(time.Hour).Unix(),
		"iat": start.Unix(), "groups": []string{"team-a", "x"},
	}
	for name, v := range change {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	return i.signAs(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, all)
}

func (i *issuer) signAs(key jose.SigningKey, all claims) string {
	i.t.Helper()
	payload, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		i.t.Fatal(err)
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

func TestOIDC(t *testing.T) {
	i, c := newIssuer(t), newClock()
	key := i.rotate("k1")
	cfg := i.config()
	cfg.Rate.FailuresPerMinute = 1 // of which there are none
	g := gate(t, c, cfg)
	p, err := g.Authenticate(t.Context(), peer, i.sign(key, nil))
	if err != nil || p.Name != "alice" || p.Issuer != i.server.URL || !p.Expires.Equal(start.Add(time.Hour)) ||
		!p.May(auth.Write, "running", "team") || p.May(auth.Read, "running", "team2") {
		t.Fatalf("%+v, %v", p, err)
	}
	for name, change := range map[string]claims{
		"audience alone": {"aud": "indexd"}, "a role": {"role": "ops"}, "not before now": {"nbf": start.Unix()},
		"a clock ahead": {"nbf": start.Add(time.Minute).Unix()}, "no groups": {"groups": nil}, "groups of numbers": {"groups": []any{1, nil, "x"}},
		"a number": {"groups": 7}, "another type": {"groups": map[string]string{"team-a": "team-a"}}, "parts of a group": {"groups": []string{"team-", "team-ab", "TEAM-A"}},
	} {
		p, err := g.Authenticate(t.Context(), peer, i.sign(key, change))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := p.May(auth.Read, "running", "team"), change["groups"] == nil && name != "no groups"; got != want {
			t.Errorf("%s: may read: %v", name, got)
		}
		if p.May(auth.Operate, "*", "*") != (name == "a role") {
			t.Errorf("%s: is an admin", name)
		}
	}
	if n := i.requests(); n != 1 {
		t.Errorf("the keys were asked for %d times", n)
	}
}

func TestOIDC_Refuses(t *testing.T) {
	i, c := newIssuer(t), newClock()
	key := i.rotate("k1")
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey := jose.JSONWebKey{Key: strong, KeyID: "r1", Algorithm: "RS256", Use: "sig"}
	enc := key
	enc.KeyID, enc.Use = "enc", "enc"
	i.set(func() { i.keys = append(i.keys, rsaKey, enc) })
	stranger := key
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger.Key = private
	g := gate(t, c, i.config())
	if _, err := g.Authenticate(t.Context(), peer, i.sign(rsaKey, nil)); err != nil {
		t.Fatal(err)
	}
	good := i.sign(key, nil)
	parts := strings.Split(good, ".")
	text := base64.RawURLEncoding.EncodeToString
	der, err := x509.MarshalPKIXPublicKey(strong.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	valid := claims{"iss": i.server.URL, "aud": "indexd", "sub": "mallory", "exp": start.Add(time.Hour).Unix(), "groups": "team-a"}
	hmac := func(secret []byte) string {
		return i.signAs(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: "r1"}}, valid)
	}
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"expired":                      {i.sign(key, claims{"exp": start.Add(-time.Second).Unix()}), auth.ErrExpired},
		"expired, by a stranger":       {i.sign(stranger, claims{"exp": start.Add(-time.Second).Unix()}), auth.ErrToken},
		"without an end":               {i.sign(key, claims{"exp": nil}), auth.ErrExpired},
		"not yet valid":                {i.sign(key, claims{"nbf": start.Add(61 * time.Second).Unix()}), auth.ErrToken},
		"for nobody":                   {i.sign(key, claims{"aud": nil}), auth.ErrToken},
		"for another service":          {i.sign(key, claims{"aud": "other"}), auth.ErrToken},
		"for one whose name begins so": {i.sign(key, claims{"aud": "indexd2"}), auth.ErrToken},
		"of another issuer":            {i.sign(key, claims{"iss": "https://evil.example"}), auth.ErrToken},
		"of the issuer with /":         {i.sign(key, claims{"iss": i.server.URL + "/"}), auth.ErrToken},
		"of nobody":                    {i.sign(key, claims{"sub": nil}), auth.ErrToken},
		"of a long name":               {i.sign(key, claims{"sub": strings.Repeat("a", 201)}), auth.ErrToken},
		"of a name with lines":         {i.sign(key, claims{"sub": "a\nmsg=audit"}), auth.ErrToken},
		"by a stranger":                {i.sign(stranger, nil), auth.ErrToken},
		"by a key for secrets":         {i.sign(enc, nil), auth.ErrToken},
		"unsigned":                     {text([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", auth.ErrToken},
		"unsigned, in capitals":        {text([]byte(`{"alg":"NONE"}`)) + "." + parts[1] + "." + parts[2], auth.ErrToken},
		"its key is in it": {func() string {
			return text([]byte(fmt.Sprintf(`{"alg":"ES256","jwk":%s}`, must(stranger.Public().MarshalJSON())))) + "." + parts[1] + "." + parts[2]
		}(), auth.ErrToken},
		"HS256 with the public key":         {hmac(public), auth.ErrToken},
		"HS256 with the public key in DER":  {hmac(der), auth.ErrToken},
		"HS256 with an empty key":           {hmac(make([]byte, 32)), auth.ErrToken},
		"RS256 with the id of an ES256 key": {i.sign(jose.JSONWebKey{Key: strong, KeyID: "k1", Algorithm: "RS256"}, nil), auth.ErrToken},
		"an algorithm that is not taken":    {i.sign(jose.JSONWebKey{Key: strong, KeyID: "r1", Algorithm: "PS256"}, nil), auth.ErrToken},
		"cut":                               {good[:len(good)-4], auth.ErrToken},
		"without a signature":               {parts[0] + "." + parts[1] + ".", auth.ErrToken},
		"with other claims":                 {parts[0] + "." + text(must(json.Marshal(valid))) + "." + parts[2], auth.ErrToken},
		"two dots":                          {"..", auth.ErrToken},
	} {
		if p, err := g.Authenticate(t.Context(), "198.51.100.1:"+name, c.token); err != c.want || p != nil {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if n := i.requests(); n > 2 {
		t.Errorf("the keys were asked for %d times", n)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestOIDC_Rotation: a new key is found when it comes, and one that was withdrawn is gone in ten minutes.
func TestOIDC_Rotation(t *testing.T) {
	i, c := newIssuer(t), newClock()
	old := i.rotate("k1")
	g := gate(t, c, i.config())
	first := i.sign(old, nil)
	ask := func(token string, want error) {
		t.Helper()
		if _, err := g.Authenticate(t.Context(), peer, token); err != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	ask(first, nil)
	c.advance(time.Minute)
	next := i.rotate("k2")
	ask(first, nil) // nobody has asked for the keys since
	ask(i.sign(next, nil), nil)
	if n := i.requests(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	ask(i.sign(old, claims{"jti": "1"}), auth.ErrToken)
	c.advance(5 * time.Minute)
	ask(first, auth.ErrToken) // which was remembered that long
	// A key that is withdrawn, and no other one comes: within ten minutes and the next request.
	later := i.sign(next, claims{"exp": start.Add(10 * time.Hour).Unix()})
	ask(later, nil)
	i.rotate("k3")
	c.advance(10 * time.Minute)
	g.Authenticate(t.Context(), peer, later)
	for !g.KeysRead().Equal(c.now()) && t.Context().Err() == nil {
		runtime.Gosched() // they are read beside the requests that the old ones still do for
	}
	c.advance(5 * time.Minute)
	ask(later, auth.ErrToken)
}

// TestOIDC_Floods: keys that somebody invents cause one request in ten seconds, however many come at once.
func TestOIDC_Floods(t *testing.T) {
	i, c := newIssuer(t), newClock()
	key := i.rotate("k1")
	cfg := i.config()
	cfg.Rate.FailuresPerMinute = 1e6
	g := gate(t, c, cfg)
	var wg sync.WaitGroup
	for n := range 200 {
		wg.Go(func() {
			stranger := key
			if n%2 == 0 {
				stranger.KeyID = fmt.Sprint("invented", n)
				stranger.Algorithm = "ES256"
			}
			token := i.sign(stranger, claims{"jti": fmt.Sprint(n)})
			if _, err := g.Authenticate(t.Context(), peer, token); (err == nil) != (n%2 == 1) {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	wg.Wait()
	if n := i.requests(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	for range 5 {
		c.advance(10 * time.Second)
		for n := range 20 {
			stranger := key
			stranger.KeyID = fmt.Sprint("late", n)
			if _, err := g.Authenticate(t.Context(), peer, i.sign(stranger, nil)); err != auth.ErrToken {
				t.Errorf("%v", err)
			}
		}
	}
	if n := i.requests(); n != 6 {
		t.Errorf("asked %d times", n)
	}
}

// TestOIDC_Failures: whoever fails until no more failures are let pass, be it with what looks like a JWT, keeps nobody behind
// the same proxy from showing a good one for the first time.
func TestOIDC_Failures(t *testing.T) {
	i, c := newIssuer(t), newClock()
	key := i.rotate("k1")
	cfg := i.config()
	cfg.Rate.FailuresPerMinute = 3
	g := gate(t, c, cfg)
	good := i.sign(key, nil)
	forged := good[:strings.LastIndex(good, ".")+1] + strings.Repeat("A", 86)
	var limit *auth.LimitError
	for n, token := range []string{forged, auth.Mint(), "a.b.c", forged, auth.Mint(), "a.b.c"} {
		if _, err := g.Authenticate(t.Context(), peer, token); n < 3 && err != auth.ErrToken || n >= 3 && !errors.As(err, &limit) {
			t.Errorf("failure %d: %v", n, err)
		}
	}
	if _, err := g.Authenticate(t.Context(), peer, good); err != nil {
		t.Errorf("a good JWT: %v", err)
	}
}

// TestOIDC_Down: an issuer that is down stops nobody who has a static token, and its last keys hold for an hour.
func TestOIDC_Down(t *testing.T) {
	i, c, token := newIssuer(t), newClock(), auth.Mint()
	key := i.rotate("k1")
	cfg := i.config()
	cfg.Tokens = []auth.Token{{"static", auth.HashOf(token), time.Time{}, []auth.Grant{{auth.Reader, "*", "*"}}}}
	g := gate(t, c, cfg)
	long := i.sign(key, claims{"exp": start.Add(10 * time.Hour).Unix()})
	ask := func(token string, want error) {
		t.Helper()
		if _, err := g.Authenticate(t.Context(), peer, token); err != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if g.IssuerErr() != nil {
		t.Error(g.IssuerErr())
	}
	down := 0
	for _, trouble := range []func(http.ResponseWriter, *http.Request) bool{
		func(w http.ResponseWriter, _ *http.Request) bool { down++; w.WriteHeader(500); return true },
		func(w http.ResponseWriter, _ *http.Request) bool { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) bool {
			io.WriteString(w, `{"issuer":"https://evil.example"}`)
			return true
		},
		func(w http.ResponseWriter, r *http.Request) bool {
			if elsewhere, ok := strings.CutPrefix(r.URL.Path, "/elsewhere"); ok {
				r.URL.Path = elsewhere
				return false
			}
			http.Redirect(w, r, "/elsewhere"+r.URL.Path, http.StatusFound)
			return true
		},
		func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/keys" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"keys":[`+string(must(key.Public().MarshalJSON()))+strings.Repeat(" ", 2<<20)+`]}`) // more than an issuer has to say
			return true
		},
		func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/keys" {
				return false
			}
			io.WriteString(w, `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"k1"},{"kty":"new"},7]}`)
			return true
		},
	} {
		i.set(func() { i.trouble = trouble })
		ask(long, auth.ErrIssuer)
		ask(long, auth.ErrIssuer) // without asking: it has failed just now
		ask(token, nil)
		if g.IssuerErr() == nil {
			t.Error("nothing tells of it")
		}
		c.advance(10 * time.Second)
	}
	if down != 1 {
		t.Errorf("a dead issuer was asked %d times", down)
	}
	i.set(func() { i.trouble = nil; i.describe["jwks_uri"] = "http://evil.example/keys" })
	ask(long, auth.ErrIssuer)
	i.set(func() { i.describe["jwks_uri"] = i.server.URL + "/keys" })
	c.advance(10 * time.Second)
	ask(long, nil)
	if g.IssuerErr() != nil {
		t.Error(g.IssuerErr())
	}
	i.set(func() {
		i.trouble = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }
	})
	c.advance(59 * time.Minute)
	ask(long, nil)
	c.advance(6 * time.Minute)
	ask(long, auth.ErrIssuer)
	ask(token, nil)
}

// TestOIDC_Hangs: who does not wait any longer is not held, and the others get their answer.
func TestOIDC_Hangs(t *testing.T) {
	i, c := newIssuer(t), newClock()
	key := i.rotate("k1")
	g := gate(t, c, i.config())
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	handler := i.server.Config.Handler
	i.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		handler.ServeHTTP(w, r)
	})
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := g.Authenticate(ctx, peer, i.sign(key, nil))
		first <- err
	}()
	<-arrived
	leave()
	if err := <-first; !errors.Is(err, auth.ErrIssuer) {
		t.Errorf("%v", err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := g.Authenticate(t.Context(), peer, i.sign(key, nil))
		second <- err
	}()
	close(release)
	if err := <-second; err != nil {
		t.Errorf("%v", err)
	}
	if n := i.requests(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestOIDC_CloseEnds: closing a gate ends what it asks.
func TestOIDC_CloseEnds(t *testing.T) {
	i := newIssuer(t)
	key := i.rotate("k1")
	g, err := auth.New(i.config(), &auth.Options{Now: newClock().now})
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	i.server.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	done := make(chan error, 1)
	go func() {
		_, err := g.Authenticate(t.Context(), peer, i.sign(key, nil))
		done <- err
	}()
	<-arrived
	g.Close()
	if err := <-done; !errors.Is(err, auth.ErrIssuer) {
		t.Error(err)
	}
}

// FuzzJWT: whatever comes is refused, and asks the issuer for nothing that is not its own.
func FuzzJWT(f *testing.F) {
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.AA")
	f.Add("..")
	g, err := auth.New(auth.Config{OIDC: &auth.OIDC{Issuer: "http://127.0.0.1:1", Audience: "a", Grants: []auth.ClaimGrant{
		{"groups", "a", auth.Grant{Role: auth.Reader, Index: "*", Namespace: "*"}},
	}}, Rate: auth.Rate{FailuresPerMinute: 1e9}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(g.Close)
	f.Fuzz(func(t *testing.T, token string) {
		if p, err := g.Authenticate(t.Context(), peer, token); p != nil || err == nil {
			t.Errorf("%q is %v", token, p)
		}
	})
}
