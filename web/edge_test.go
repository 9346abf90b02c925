package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

func TestHosts(t *testing.T) {
	s := newSite(t)
	for host, ok := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "127.0.0.1": true, "127.0.0.1:8080": true, "127.9.9.9:1": true,
		"[::1]": true, "[::1]:8080": true,
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"10.0.0.1": false, "0.0.0.0:8080": false, "[::]": false, "[::ffff:127.0.0.1]": false,
		"127.0.0.1:8080:8080": false, "127.1": false, "0x7f000001": false, "2130706433": false,
	} {
		for _, path := range []string{"/", "/v1/indexes", "/ui/app.js"} {
			a := s.do("GET", path, "", "Host", host)
			if ok {
				a.want(http.StatusOK)
			} else {
				a.problem(http.StatusForbidden, "host")
			}
		}
	}
}

func TestOrigins(t *testing.T) {
	s := newSite(t)
	own := s.server.URL
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"Origin", own, true}, {"Origin", "null", false}, {"Origin", "", false}, {"Origin", "http://evil.example", false},
		{"Origin", "http://127.0.0.1:1", false}, {"Origin", strings.Replace(own, "http:", "https:", 1), false},
		{"Origin", own + ".evil.example", false},
		{"Sec-Fetch-Site", "same-origin", true}, {"Sec-Fetch-Site", "none", true},
		{"Sec-Fetch-Site", "same-site", false}, {"Sec-Fetch-Site", "cross-site", false},
	} {
		s.count.Reset()
		item := ns + "/items/" + s.id("x")
		for method, path := range map[string]string{"PUT": item, "POST": ns + "/items", "DELETE": item} {
			body := ""
			if method == "POST" {
				body = `{"subkey":"x"}`
			}
			if a := s.do(method, path, body, c.name, c.value); c.ok && a.status >= 400 {
				t.Errorf("%s with %s: %q: %d %s", method, c.name, c.value, a.status, a.body)
			} else if !c.ok {
				a.problem(http.StatusForbidden, "origin")
			}
		}
		if !c.ok {
			s.wantRequests(fakes.Counts{})
		}
		s.do("GET", ns+"/cards", "", c.name, c.value).want(http.StatusOK)
	}
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/", "/?index=no", "/v1/indexes", "/nothing", ns + "/cards?x=1", "/ui/app.js", "/healthz"} {
		a := s.get(path)
		policy := a.header.Get("Content-Security-Policy")
		if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") {
			t.Errorf("%s: policy %q", path, policy)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if len(a.header.Values("Access-Control-Allow-Origin")) > 0 {
			t.Errorf("%s may be read by other sites", path)
		}
	}
}

func TestCheckLoopback(t *testing.T) {
	for addr, ok := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:0": true, "[::1]:8080": true, "127.4.5.6:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "example.com:80": false, "127.0.0.1": false, "": false,
		"192.168.0.1:80": false, "[::ffff:127.0.0.1]:80": false, "[::1%lo]:80": false,
	} {
		if err := web.CheckLoopback(addr); (err == nil) != ok || err != nil && !errors.Is(err, web.ErrNotLoopback) {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func TestServerHasLimits(t *testing.T) {
	s := web.NewHTTPServer(t.Context(), http.NotFoundHandler(), nil)
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= time.Minute || s.IdleTimeout <= 0 ||
		s.MaxHeaderBytes <= 0 || s.BaseContext(nil) != t.Context() {
		t.Errorf("%+v", s)
	}
}

func TestNewRefuses(t *testing.T) {
	x, err := blobindex.New(nil, blobindex.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	one := []*blobindex.Index{x}
	for name, c := range map[string]struct {
		indexes []*blobindex.Index
		ready   func(context.Context) error
		opt     *web.Options
	}{
		"no index":       {nil, always, nil},
		"no readiness":   {one, nil, nil},
		"two of a name":  {[]*blobindex.Index{x, x}, always, nil},
		"negative price": {one, always, &web.Options{Prices: web.Prices{ListPer1000: -1}}},
	} {
		if _, err := web.New(c.indexes, c.ready, c.opt); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := web.New(one, always, nil); err != nil {
		t.Error(err)
	}
}

// raw sends bytes as they are, and reads one answer.
func (s *site) raw(text string, more ...func(net.Conn)) *http.Response {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	for _, f := range more {
		f(conn)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestCase_C54_Traversal(t *testing.T) {
	s := newSite(t)
	bad := []string{
		"..%2f..%2fteam2%2fx", "..%2F..%2Fteam2%2Fx_1772366400", "%2e%2e%2f", "%2e%2e", "..", "%252e%252e%252f", "%252e", "%00../",
		"%00", "a//b", "//", "/", "", ".", "%2e", "a%0Ab", "a%0Ab_1772366400", "a%0D%0Ab_1772366400", "%ff", "%ff_1772366400",
		"%c0%af_1772366400", `\`, "%5c", "a%2fb_1772366400", "a%7e_1772366400", "x_1772366400%00", "../x_1772366400",
		"./x_1772366400",
	}
	for _, b := range bad {
		for _, request := range []string{
			"PUT " + ns + "/items/%s", "DELETE " + ns + "/items/%s", "POST " + ns + "/items/%s/heartbeat",
			"GET " + ns + "/items/%s/explain", "PUT /v1/indexes/flat/_/items/%s",
			"GET /v1/indexes/running/%s/cards", "POST /v1/indexes/running/%s/items", "GET /v1/indexes/%s/team/cards",
			"GET /v1/indexes/%s/namespaces",
		} {
			line := strings.Replace(request, "%s", b, 1)
			res := s.raw(line + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if res.StatusCode != http.StatusBadRequest || res.Header.Get("Location") != "" {
				t.Errorf("%s: %d to %q", line, res.StatusCode, res.Header.Get("Location"))
			}
		}
		res := s.raw("GET /?namespace=" + strings.ReplaceAll(b, `\`, "%5c") +
			" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
		if res.StatusCode != http.StatusBadRequest && b != "" {
			t.Errorf("page of %q: %d", b, res.StatusCode)
		}
	}
	s.wantRequests(fakes.Counts{})
}

// What no name may be, and of that what no id may be either.
var (
	badIDs = []string{
		"..%2f..%2fteam2%2fx", "%2e%2e%2f", "%2e%2e", "..", "%00../", "%00", "a//b", "//", "/", "", ".", "%2e", "%2ehidden",
		"a%0Ab", "a%0D%0Ab", "%ff", "%c0%af", "a%2fb", "../x", "./x", "%7f", "%c2%85", strings.Repeat("a", 201),
	}
	badNames = append([]string{
		"%252e%252e", "%252e", `\`, "%5c", "a%7e", "_", "_indexd", "a__0x2f", "%20", "-", strings.Repeat("a", 64), "%C3%BC",
	}, badIDs...)
)

// TestCase_C54_Manifests: the same of names, ids and keys of manifests, of which ids may hold more.
func TestCase_C54_Manifests(t *testing.T) {
	s := newSite(t)
	form := "Content-Type: multipart/form-data; boundary=" + rawBoundary + "\r\n"
	for _, b := range badNames {
		requests := []string{
			"GET /v1/manifests/%s/models/entries", "GET /v1/manifests/team/%s/entries", "HEAD /v1/manifests/team/%s/entries",
			"DELETE /v1/manifests/%s/models/entries/x", "PUT /v1/manifests/team/%s/entries/x", "POST /v1/manifests/%s/models/entries",
			"GET /v1/manifests/team/%s/entries/x/blobs/K", "GET " + models + "/x/blobs/%s",
		}
		if slices.Contains(badIDs, b) {
			requests = append(requests, "GET "+models+"/%s", "DELETE "+models+"/%s", "PUT "+models+"/%s", "GET "+models+"/%s/blobs/K")
		}
		for _, request := range requests {
			if b == strings.Repeat("a", 64) && strings.HasSuffix(request, "/blobs/%s") {
				continue // a key of that length may be one
			}
			line := strings.Replace(request, "%s", b, 1)
			body := rawFile("f", "body") + rawEnd
			res := s.raw(line + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nIf-Match: *\r\n" + form +
				sized(len(body)) + body)
			if res.StatusCode != http.StatusBadRequest || res.Header.Get("Location") != "" {
				t.Errorf("%s: %d to %q", line, res.StatusCode, res.Header.Get("Location"))
			}
		}
		if b == "" || strings.ContainsAny(b, `/\`) {
			continue
		}
		for _, query := range []string{"namespace=" + b + "&name=models", "namespace=team&name=" + b, "name=" + b} {
			if a := s.get("/manifests?" + query); a.status != http.StatusBadRequest {
				t.Errorf("the page of %s: %d", query, a.status)
			}
		}
	}
	s.wantAll(fakes.Counts{}, 0, 0)
	// What is usual is decoded once.
	for _, id := range []string{"%252e", "a%5cb", "a%7eb", "%20", "a+b", "a%26b%3fc%23d", "%3Cscript%3E"} {
		a := s.upload("PUT", models+"/"+id, s.whichever(), file("f", "body")).want(http.StatusCreated)
		want, err := url.PathUnescape(id)
		if err != nil {
			t.Fatal(err)
		}
		if e := decode[api.Entry](s.get(a.header.Get("Location"))); e.Id != want {
			t.Errorf("%s was added as %q", id, e.Id)
		}
		s.do("DELETE", models+"/"+id, "", anyway...).want(http.StatusOK)
	}
}

func TestCase_C58_Bodies(t *testing.T) {
	s := newSite(t)
	head := "PUT " + ns + "/items/" + s.id("x") + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	many := "[" + strings.Repeat("1,", 1e6) + "1]"
	flood := func(piece string) func(net.Conn) {
		return func(c net.Conn) {
			for range 1 << 16 { // until the server has had enough, at the latest
				if _, err := io.WriteString(c, piece); err != nil {
					return
				}
			}
		}
	}
	wait := func(res *http.Response, status int) {
		t.Helper()
		if res.StatusCode != status {
			b, _ := io.ReadAll(res.Body)
			t.Errorf("status %d, want %d: %s", res.StatusCode, status, b)
		}
	}
	wait(s.raw(head+"Content-Length: 1073741824\r\n\r\n{"), http.StatusRequestEntityTooLarge)
	wait(s.raw(fmt.Sprintf("%sContent-Length: %d\r\n\r\n", head, len(many))), http.StatusRequestEntityTooLarge)
	// The connection may be cut while chunks are still coming, before its answer is read: the body must be bounded then.
	a := s.chunks(head+"Transfer-Encoding: chunked\r\n\r\n", flood("400\r\n"+strings.Repeat(" ", 1024)+"\r\n"))
	if a != 0 && a != http.StatusRequestEntityTooLarge {
		t.Errorf("endless chunks: %d", a)
	}
	s.wantRequests(fakes.Counts{})
	// Exactly the cap is read; spaces alone are no JSON.
	s.do("PUT", ns+"/items/"+s.id("x"), strings.Repeat(" ", 8<<10)).problem(http.StatusBadRequest, "bad_request")
	s.do("PUT", ns+"/items/"+s.id("x"), "{}"+strings.Repeat(" ", 8<<10-2)).want(http.StatusCreated)
	s.count.Reset()

	// A body that does not come, in full: the server's read timeout ends it, and nothing is done.
	s.serve(s.server.Config.Handler, func(server *http.Server) { server.ReadTimeout = 30 * time.Millisecond })
	res := s.raw(head + "Content-Length: 20\r\n\r\n{\"a\":")
	wait(res, http.StatusRequestTimeout)
	if b, _ := io.ReadAll(res.Body); !strings.Contains(string(b), `"timeout"`) {
		t.Errorf("%s", b)
	}
	s.wantRequests(fakes.Counts{})
	// A token in a URL is no way in.
	s.get(ns+"/cards?token=abc").problem(http.StatusBadRequest, "bad_request")
}

// chunks is raw for an answer that may be lost with its connection: 0 then.
func (s *site) chunks(text string, more func(net.Conn)) int {
	conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() { defer close(sent); more(conn) }()
	defer func() { conn.Close(); <-sent }()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}
