package web_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/auth"
)

// browse sends a form as a browser does from a page of ours, or a GET where there is none.
func (s *site) browse(path string, form url.Values, header ...string) answer {
	s.t.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
		header = append([]string{"Origin", s.server.URL, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/x-www-form-urlencoded"},
			header...)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	return s.still(req)
}

// cookie is the one cookie that an answer sets.
func (a answer) cookie() *http.Cookie {
	a.t.Helper()
	res := http.Response{Header: a.header}
	if len(res.Cookies()) != 1 {
		a.t.Fatalf("%d: cookies %q; %s", a.status, a.header.Values("Set-Cookie"), a.body)
	}
	return res.Cookies()[0]
}

func TestSignIn(t *testing.T) {
	var log lockedText
	tokens, opt := guards(t, map[string][]auth.Grant{
		"root": all(auth.Admin), "short": all(auth.Reader), "expired": all(auth.Reader),
	}, func(c *auth.Config) { c.Tokens[2].Expires = start.Add(time.Hour) })
	s := newSite(t, opt, func(o *web.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	form := s.browse("/signin?return=%2F%3Findex%3Drunning", nil).want(http.StatusOK)
	checkMarkup(t, form.body)
	if !strings.Contains(form.body, `name="return" value="/?index=running"`) || form.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", form.header, form.body)
	}
	back := "/?index=running"
	a := s.browse("/signin", url.Values{"token": {" " + tokens["root"] + "\r\n"}, "return": {back}}).want(http.StatusSeeOther)
	c := a.cookie()
	if a.header.Get("Location") != back || c.Name != "indexd" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" ||
		c.Domain != "" || c.Secure || c.MaxAge != 0 || c.Value != tokens["root"] {
		t.Errorf("%v", a.header)
	}
	if !strings.Contains(log.take(), "msg=audit") {
		t.Error("signing in is not told")
	}
	cookie := []string{"Cookie", c.Name + "=" + c.Value}
	page := s.browse(back, nil, cookie...).want(http.StatusOK)
	if !strings.Contains(page.body, `<form class="account" action="/signout" method="post"><bdi>root</bdi>`) {
		t.Errorf("%s", page.body)
	}
	checkMarkup(t, page.body)
	for _, path := range []string{"/manifests", "/snapshots"} {
		if p := s.browse(path, nil, cookie...).want(http.StatusOK); !strings.Contains(p.body, `action="/signout"`) {
			t.Errorf("%s: %s", path, p.body)
		}
	}
	s.do("GET", ns+"/cards", "", cookie...).want(http.StatusOK)
	if c := s.browse("/signin", url.Values{"token": {tokens["short"]}}).want(http.StatusSeeOther).cookie(); c.MaxAge != 3600 {
		t.Errorf("it lives for %d s", c.MaxAge)
	}
	s.clock.advance(2 * time.Hour)
	s.browse("/", nil, "Cookie", "indexd="+tokens["short"]).want(http.StatusSeeOther)
	out := s.browse("/signout", url.Values{}, cookie...).want(http.StatusSeeOther)
	if c := out.cookie(); c.Name != "indexd" || c.MaxAge != -1 || c.Value != "" || out.header.Get("Location") != "/signin" {
		t.Errorf("%v", out.header)
	}
	for name, token := range tokens {
		if strings.Contains(log.take(), token[7:]) {
			t.Errorf("the log has the token of %s", name)
		}
	}
}

// TestSignIn_Refused: the form again, which says what was wrong, and no cookie.
func TestSignIn_Refused(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"root": all(auth.Admin), "expired": all(auth.Reader)})
	s := newSite(t, opt)
	for token, says := range map[string]string{
		"": "not known here", auth.Mint(): "not known here", "<b>x</b>": "not known here", tokens["expired"]: "expired",
		strings.Repeat("a", 5000): "not known here", tokens["root"] + tokens["root"]: "not known here",
	} {
		a := s.browse("/signin", url.Values{"token": {token}, "return": {"/manifests"}}).want(http.StatusUnauthorized)
		if !strings.Contains(a.body, says) || len(a.header.Values("Set-Cookie")) > 0 || token != "" && strings.Contains(a.body, token) ||
			!strings.Contains(a.body, `value="/manifests"`) || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%.20q: %v %s", token, a.header, a.body)
		}
	}
	s.browse("/signin", url.Values{"token": {strings.Repeat("a", 9000)}}).problem(http.StatusRequestEntityTooLarge, "too_large")
	s.do("POST", "/signin", `{"token":"x"}`).problem(http.StatusUnsupportedMediaType, "media_type")
	s.wantRequests(fakes.Counts{})
}

// TestSignIn_WayBack: a link to the form leads nowhere but to pages of ours.
func TestSignIn_WayBack(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"root": all(auth.Admin)})
	s := newSite(t, opt)
	for given, want := range map[string]string{
		"": "/", "/": "/", "/?namespace=team": "/?namespace=team", "/manifests?name=a&namespace=b": "/manifests?name=a&namespace=b",
		"/snapshots": "/snapshots", "https://evil.example/": "/", "//evil.example/": "/", `/\evil.example`: "/", `\\evil.example`: "/",
		"/v1/indexes": "/", "/signin": "/", "/signout": "/", "javascript:alert(1)": "/", "/%2Fevil.example": "/", "/\t/evil.example": "/",
		"https:/": "/", "/?a=b\r\nSet-Cookie: x=y": "/", "/#x": "/", "http:/manifests": "/", "/ui/app.js": "/", "///evil.example": "/",
	} {
		a := s.browse("/signin", url.Values{"token": {tokens["root"]}, "return": {given}}).want(http.StatusSeeOther)
		if got := a.header.Get("Location"); got != want {
			t.Errorf("%q leads to %q, want %q", given, got, want)
		}
		if u := "/signin?return=" + url.QueryEscape(given); given != "" && !strings.ContainsAny(given, "\r\n\t") {
			if f := s.browse(u, nil).want(http.StatusOK); strings.Contains(f.body, "evil") {
				t.Errorf("%q: %s", given, f.body)
			}
		}
	}
}

// TestSignIn_Forged: what a browser adds by itself counts only on requests from our own pages.
func TestSignIn_Forged(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"root": all(auth.Admin)})
	s := newSite(t, opt, func(o *web.Options) { o.Origins = []string{"https://portal.example"} })
	own, cookie, token := s.server.URL, []string{"Cookie", "indexd=" + tokens["root"]}, bearer(tokens["root"])
	for _, c := range []struct {
		header                 []string
		byCookie, byToken, get int
	}{
		{[]string{"Origin", own}, 201, 201, 200},
		{[]string{"Sec-Fetch-Site", "same-origin"}, 201, 201, 200},
		{nil, 403, 201, 200}, // no browser of today
		{[]string{"Sec-Fetch-Site", "none"}, 403, 201, 200},
		{[]string{"Origin", "null"}, 403, 403, 401},
		{[]string{"Origin", "https://evil.example"}, 403, 403, 401},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403, 403, 200},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403, 403, 200},
		{[]string{"Origin", "https://portal.example"}, 401, 201, 401},
		{[]string{"Origin", "https://portal.example", "Sec-Fetch-Site", "cross-site"}, 401, 201, 401},
		{[]string{"Origin", "https://portal.example:443"}, 403, 403, 401},
		{[]string{"Origin", "http://portal.example"}, 403, 403, 401},
		{[]string{"Origin", "https://portal.example.evil.example"}, 403, 403, 401},
	} {
		path := ns + "/items/" + s.id("x")
		for i, a := range []answer{
			s.do("PUT", path, "", append(c.header, cookie...)...), s.do("PUT", path, "", append(c.header, token...)...),
			s.do("GET", ns+"/items", "", append(c.header, cookie...)...),
		} {
			if want := []int{c.byCookie, c.byToken, c.get}[i]; a.status != want {
				t.Errorf("%q (%d): %d, want %d: %s", c.header, i, a.status, want, a.body)
			}
		}
	}
	for _, path := range []string{"/signin", "/signout"} {
		for _, origin := range []string{"https://portal.example", "null", "https://evil.example"} {
			a := s.browse(path, url.Values{"token": {tokens["root"]}}, "Origin", origin)
			if a.problem(http.StatusForbidden, "origin"); len(a.header.Values("Set-Cookie")) > 0 {
				t.Errorf("%s from %s: %v", path, origin, a.header)
			}
		}
	}
	if a := s.do("PUT", ns+"/items/"+s.id("x"), "", cookie...); !strings.Contains(a.body, "Authorization: Bearer TOKEN") {
		t.Errorf("a program that sends a cookie is told %s", a.body)
	}
	// Two of the name: one was put there by somebody else.
	s.do("GET", ns+"/items", "", "Cookie", "indexd="+tokens["root"]+"; indexd=x").want(http.StatusUnauthorized)
	// A header that is none of ours is not made good by a cookie.
	s.do("GET", ns+"/items", "", "Cookie", "indexd="+tokens["root"], "Authorization", "Basic x").want(http.StatusUnauthorized)
}

// TestPublicURL: under the public name everything is https, for the browser; under another one nothing is answered but health.
func TestPublicURL(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"root": all(auth.Admin)})
	s := newSite(t, opt, func(o *web.Options) { o.PublicURL = "https://indexd.example" })
	for _, host := range []string{"indexd.example", "INDEXD.example", "indexd.example:443"} {
		a := s.browse("/signin", url.Values{"token": {tokens["root"]}}, "Host", host, "Origin", "https://indexd.example").want(http.StatusSeeOther)
		if c := a.cookie(); c.Name != "__Host-indexd" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
			t.Errorf("%v", a.header)
		}
		s.browse("/", nil, "Host", host, "Cookie", "__Host-indexd="+tokens["root"]).want(http.StatusOK)
		s.browse("/", nil, "Host", host, "Cookie", "indexd="+tokens["root"]).want(http.StatusSeeOther)
	}
	page := s.browse("/", nil, "Host", "indexd.example", "Cookie", "__Host-indexd="+tokens["root"])
	if !strings.Contains(page.body, "curl -X POST https://indexd.example/v1/") {
		t.Errorf("%s", page.body)
	}
	s.browse("/signin", url.Values{"token": {tokens["root"]}}, "Host", "indexd.example", "Origin", "http://indexd.example").
		problem(http.StatusForbidden, "origin")
	// This host itself, as for who looks why the proxy does not work.
	if c := s.browse("/signin", url.Values{"token": {tokens["root"]}}).want(http.StatusSeeOther).cookie(); c.Name != "indexd" || c.Secure {
		t.Errorf("%v", c)
	}
	for _, host := range []string{"evil.example", "indexd.example:8443", "indexd.example.evil.example", "10.0.0.1:8080"} {
		s.do("GET", "/v1/indexes", "", append(bearer(tokens["root"]), "Host", host)...).problem(http.StatusForbidden, "host")
		s.do("GET", "/healthz", "", "Host", host).want(http.StatusOK)
	}
}

// TestAnyHost: with tokens a server may be reached under any name.
func TestAnyHost(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"root": all(auth.Admin)})
	s := newSite(t, opt)
	for _, host := range []string{"indexd.example", "10.0.0.1:8080", "[2001:db8::1]:8080"} {
		s.do("GET", "/v1/indexes", "", append(bearer(tokens["root"]), "Host", host)...).want(http.StatusOK)
		s.do("GET", "/v1/indexes", "", "Host", host).want(http.StatusUnauthorized)
	}
}

// TestSignIn_OverTLS: a server that speaks https itself knows that it does.
func TestSignIn_OverTLS(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"root": all(auth.Admin)})
	s := newSite(t, opt)
	server := httptest.NewTLSServer(s.server.Config.Handler)
	defer server.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/signin",
		strings.NewReader(url.Values{"token": {tokens["root"]}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", server.URL)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := res.Header.Get("Set-Cookie"); !strings.HasPrefix(got, "__Host-indexd=") || !strings.Contains(got, "; Secure") {
		t.Errorf("%d: %q", res.StatusCode, got)
	}
}

// TestNoAuth_SignIn: a server without authentication says so.
func TestNoAuth_SignIn(t *testing.T) {
	s := newSite(t)
	if a := s.get("/signin?return=/manifests").want(http.StatusOK); !strings.Contains(a.body, "asks nobody") ||
		!strings.Contains(a.body, `href="/manifests"`) {
		t.Errorf("%s", a.body)
	}
	s.browse("/signin", url.Values{"token": {"x"}}).problem(http.StatusNotFound, "not_found")
	s.browse("/signout", url.Values{}).problem(http.StatusNotFound, "not_found")
}

func TestCORS(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"root": all(auth.Admin)})
	s := newSite(t, opt, func(o *web.Options) { o.Origins = []string{"https://portal.example", "http://localhost:3000"} })
	asks := []string{"Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "authorization,content-type"}
	item := ns + "/items/" + s.id("x")
	for _, origin := range []string{"https://portal.example", "http://localhost:3000"} {
		a := s.do("OPTIONS", item, "", append(asks, "Origin", origin)...).want(http.StatusNoContent)
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "", "Access-Control-Max-Age": "600", "Vary": "Origin",
			"Access-Control-Allow-Methods": "GET, HEAD, PUT, POST, DELETE",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", origin, name, got)
			}
		}
		if got := a.header.Get("Access-Control-Allow-Headers"); !strings.Contains(got, "Authorization") || !strings.Contains(got, "If-Match") {
			t.Errorf("allowed: %q", got)
		}
		a = s.do("PUT", item, "", append(bearer(tokens["root"]), "Origin", origin)...).want(http.StatusCreated)
		if got := a.header.Get("Access-Control-Expose-Headers"); a.header.Get("Access-Control-Allow-Origin") != origin ||
			!strings.Contains(got, "ETag") || !strings.Contains(got, "Retry-After") || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%v", a.header)
		}
		// A page has to be able to read why it was refused.
		if a := s.do("GET", ns+"/cards", "", "Origin", origin).want(http.StatusUnauthorized); a.header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("%v", a.header)
		}
	}
	s.count.Reset()
	for _, origin := range []string{"https://evil.example", "null", "https://portal.example/", "HTTPS://PORTAL.EXAMPLE", "*", ""} {
		for _, a := range []answer{
			s.do("OPTIONS", item, "", append(asks, "Origin", origin)...), s.do("GET", "/v1/indexes", "", append(bearer(tokens["root"]), "Origin", origin)...),
		} {
			for name := range a.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%q: %s: %q", origin, name, a.header[name])
				}
			}
			if !strings.Contains(strings.Join(a.header.Values("Vary"), ", "), "Origin") {
				t.Errorf("%q: Vary is %q", origin, a.header.Values("Vary"))
			}
		}
	}
	for _, path := range []string{"/", "/signin", "/ui/app.js", "/healthz"} { // no use to them
		if a := s.browse(path, nil, "Origin", "https://portal.example"); a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	s.wantRequests(fakes.Counts{})
}

func TestCheckOrigin(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://portal.example": true, "http://localhost:3000": true, "https://portal.example:8443": true, "http://[::1]:3000": true,
		"https://portal.example/": false, "https://portal.example:443": false, "http://x:80": false, "https://Portal.example": false,
		"*": false, "https://*.example": false, "null": false, "": false, "portal.example": false, "ftp://x": false, "https://": false,
		"https://u@x": false, "https://x?y": false, "https://x#y": false, "https://x/y": false,
	} {
		if err := web.CheckOrigin(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNewRefuses_Auth(t *testing.T) {
	x, err := blobindex.New(nil, blobindex.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, guarded := guards(t, map[string][]auth.Grant{"root": all(auth.Admin)})
	with := func(f func(*web.Options)) *web.Options {
		opt := &web.Options{Now: time.Now}
		guarded(opt)
		f(opt)
		return opt
	}
	for name, opt := range map[string]*web.Options{
		"a public URL without tokens": {PublicURL: "https://indexd.example"},
		"a public path":               with(func(o *web.Options) { o.PublicURL = "https://indexd.example/x" }),
		"a pattern of origins":        with(func(o *web.Options) { o.Origins = []string{"https://*.example"} }),
	} {
		if _, err := web.New([]*blobindex.Index{x}, always, opt); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestCase_C58_Guarded: who is not let in is answered before a body is read, and cannot hold anything open with one.
func TestCase_C58_Guarded(t *testing.T) {
	tokens, opt := guards(t, map[string][]auth.Grant{"root": all(auth.Admin), "reader": all(auth.Reader)})
	s := newSite(t, opt)
	many := `{"labels":{` + strings.Repeat(`"k":"v",`, 1e6) + `"k":"v"}}`
	for who, status := range map[string]int{"": 401, "Authorization: Bearer " + tokens["reader"] + "\r\n": 403} {
		for _, path := range []string{"POST " + ns + "/items", "PUT " + ns + "/items/" + s.id("x"), "POST " + models, "POST " + listings + "/rows"} {
			head := path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + who
			// Of these no byte of the body ever comes.
			for _, size := range []string{"Content-Length: 8000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"} {
				if res := s.raw(head + size); res.StatusCode != status {
					t.Errorf("%s, %.30q: %d, want %d", path, size, res.StatusCode, status)
				}
			}
			got := s.chunks(head+"Transfer-Encoding: chunked\r\n\r\n", func(c net.Conn) {
				for range 1 << 16 {
					if _, err := io.WriteString(c, "400\r\n"+strings.Repeat("x", 1024)+"\r\n"); err != nil {
						return
					}
				}
			})
			if got != 0 && got != status {
				t.Errorf("endless chunks to %s: %d", path, got)
			}
		}
	}
	head := "PUT " + ns + "/items/" + s.id("x") + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer " +
		tokens["root"] + "\r\n"
	for _, size := range []int{1 << 30, len(many)} {
		if res := s.raw(head + sized(size)); res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%d bytes: %d", size, res.StatusCode)
		}
	}
	s.wantAll(fakes.Counts{}, 0, 0)
	// A byte at a time: the whole request has one time to come in, however it trickles.
	s.serve(s.server.Config.Handler, func(server *http.Server) { server.ReadTimeout = 50 * time.Millisecond })
	for _, request := range []string{head, "POST /signin HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"} {
		conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			if _, err := io.WriteString(conn, request+"Content-Length: 8000\r\n\r\n"); err != nil {
				return
			}
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for range 8000 { // forty seconds, if nobody ends it
				<-tick.C
				if _, err := conn.Write([]byte(" ")); err != nil {
					return
				}
			}
		}()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && res.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%.20s: %d", request, res.StatusCode)
		}
		conn.Close()
		<-sent
	}
	s.wantAll(fakes.Counts{}, 0, 0)
}
