package nginx

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A site is indexd by one of its ways: through nginx, or directly.
type site struct {
	t      *testing.T
	name   string
	url    string // without a slash at the end
	addr   string // to be dialed
	token  string // empty: none is sent
	secure *tls.Config
	client *http.Client
}

func newSite(t *testing.T, p *program, name, url, addr string, secure *tls.Config) *site {
	t.Helper()
	s := &site{t: t, name: name, url: url, addr: addr, token: p.token, secure: secure}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		TLSClientConfig: secure, ForceAttemptHTTP2: true,
		DisableCompression: true, // the tests look at what is compressed
	}
	s.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return s
}

// An answer is one that has come as a whole.
type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   string
}

func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %.300s", a.what, a.status, status, a.body)
	}
	return a
}

func (s *site) request(ctx context.Context, method, path, body string, header ...string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

func (s *site) do(method, path, body string, header ...string) answer {
	s.t.Helper()
	res, err := s.client.Do(s.request(s.t.Context(), method, path, body, header...))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.read(method+" "+path, res)
}

func (s *site) read(what string, res *http.Response) answer {
	s.t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("%s by %s: %v", what, s.name, err)
	}
	return answer{s.t, what + " by " + s.name, res.StatusCode, res.Header, string(body)}
}

// raw sends a path byte by byte as it is, which clients do not do.
func (s *site) raw(method, path string) answer {
	s.t.Helper()
	conn, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.addr)
	if err == nil && s.secure != nil {
		conn = tls.Client(conn, s.secure)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_, host, _ := strings.Cut(s.url, "://")
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n"+
		"Content-Length: 0\r\n\r\n", method, path, host, s.token); err != nil {
		s.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatalf("%s %s by %s: %v", method, path, s.name, err)
	}
	return s.read(method+" "+path, res)
}

// upload adds an entry with one file to a manifest.
func (s *site) upload(path, file string) answer {
	s.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "weights")
	if err == nil {
		_, err = io.WriteString(part, file)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do("PUT", path, form.String(), "Content-Type", w.FormDataContentType(), "If-None-Match", "*")
}
