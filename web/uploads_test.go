package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

// tap shows a test what the store gets of each body, and keeps none of those that it takes.
type tap struct {
	bucket.Objects
	takes func(key bucket.Key, body io.Reader) (done bool, err error)
	sizes map[bucket.Key]int64
}

func (p *tap) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if done, err := p.takes(key, body); done || err != nil {
		return start, err
	}
	return p.Objects.Put(ctx, key, body)
}

func (p *tap) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	if n, ok := p.sizes[key]; ok {
		return bucket.Object{Key: key, Size: n}, nil
	}
	return p.Objects.Head(ctx, key)
}

// TestManifest_UploadsStream: the store has the beginning of a file before the client has sent its end, and of the second
// file before there is a third; no deadline of the server's is for the whole of it.
func TestManifest_UploadsStream(t *testing.T) {
	for _, request := range []string{"PUT " + models + "/x", "POST " + models} {
		method, path, _ := strings.Cut(request, " ")
		t.Run(method, func(t *testing.T) { uploadStreams(t, method, path) })
	}
}

func uploadStreams(t *testing.T, method, path string) {
	got := make(chan string)
	p := &tap{takes: func(key bucket.Key, body io.Reader) (bool, error) {
		r := bufio.NewReader(body)
		for {
			line, err := r.ReadString('\n')
			if err == io.EOF {
				return true, nil
			}
			if err != nil {
				return true, err
			}
			got <- line
		}
	}, sizes: map[bucket.Key]int64{}}
	s := newSite(t, func(o *web.Options) { o.Timeout = time.Nanosecond })
	p.Objects = s.docs.Objects
	s.docs.Objects = p
	s.faults.Plan(fakes.Fault{Op: fakes.Head, Every: true, Kind: fakes.NotApplied(bucket.ErrNotExist)})
	body, in := io.Pipe()
	form := multipart.NewWriter(in)
	req, err := http.NewRequestWithContext(t.Context(), method, s.server.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("If-None-Match", "*")
	answered := make(chan answer, 1)
	go func() { answered <- s.send(req) }()
	for _, name := range []string{"a", "b", "c"} {
		part, err := form.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			line := fmt.Sprintf("%s %d\n", name, i)
			// What multipart needs to see that this is no boundary.
			if _, err := io.WriteString(part, line+strings.Repeat(" ", 200)); err != nil {
				t.Fatal(err)
			}
			if at := strings.TrimLeft(<-got, " "); at != line {
				t.Errorf("the store has %q, want %q", at, line)
			}
		}
	}
	if err := errors.Join(form.Close(), in.Close()); err != nil {
		t.Fatal(err)
	}
	a := <-answered
	a.problem(http.StatusServiceUnavailable, "upload_failed") // nothing is there: this store keeps none of it
}

// TestManifest_UploadsTakeNoMemory: a body that is larger than what all of it takes.
func TestManifest_UploadsTakeNoMemory(t *testing.T) {
	const size = 256 << 20
	s := newSite(t)
	p := &tap{Objects: s.docs.Objects, sizes: map[bucket.Key]int64{}}
	p.takes = func(key bucket.Key, body io.Reader) (bool, error) {
		n, err := io.Copy(io.Discard, body)
		p.sizes[key] = n
		return true, err
	}
	s.docs.Objects = p
	const boundary = "b0undary"
	head := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
	body := io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, size), strings.NewReader("\r\n--"+boundary+"--\r\n"))
	req, err := http.NewRequestWithContext(t.Context(), "PUT", s.server.URL+models+"/x", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	req.Header.Set("If-None-Match", "*")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := s.send(req)
	runtime.ReadMemStats(&after)
	if e := decode[api.Change](a.want(http.StatusCreated)).Entry; e.Size != size {
		t.Errorf("%d bytes", e.Size)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > size/16 {
		t.Errorf("%d bytes of memory for an upload of %d", took, size)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

const rawBoundary = "xyz"

func rawFile(name, body string) string {
	return "--" + rawBoundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n" +
		body + "\r\n"
}

const (
	rawEnd  = "--" + rawBoundary + "--\r\n"
	rawHead = "PUT " + models + "/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nIf-None-Match: *\r\n" +
		"Content-Type: multipart/form-data; boundary=" + rawBoundary + "\r\n"
)

func sized(n int) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n", n) }

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// halfClose ends what the client sends, as one does that hangs up.
func halfClose(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }

// TestManifest_CutUploads: of a body that is cut anywhere, or that does not end with its form, nothing is added.
func TestManifest_CutUploads(t *testing.T) {
	s := newSite(t)
	whole := rawFile("a", strings.Repeat("a", 5000)) + rawFile("b", "") + rawEnd
	type cut struct {
		name, request string
		hangsUp       bool
	}
	var cuts []cut
	for n := 0; n < len(whole); n++ {
		if n > 90 && n < 5050 && n%500 != 0 {
			continue
		}
		cuts = append(cuts, cut{fmt.Sprintf("hung up after %d", n), sized(len(whole)) + whole[:n], true})
		if n < len(whole)-2 { // without its last line break the form is whole
			cuts = append(cuts, cut{fmt.Sprintf("ended after %d", n), sized(n) + whole[:n], false})
		}
		if n > 0 && n < len(whole)-2 {
			chunked := "Transfer-Encoding: chunked\r\n\r\n" + chunk(whole[:n])
			cuts = append(cuts, cut{fmt.Sprintf("chunks cut after %d", n), chunked, true},
				cut{fmt.Sprintf("chunks ended after %d", n), chunked + "0\r\n\r\n", false})
		}
	}
	chunked := "Transfer-Encoding: chunked\r\n\r\n" + chunk(whole)
	cuts = append(cuts,
		cut{"no last chunk", chunked, true}, cut{"half a last chunk", chunked + "0\r\n", true},
		cut{"half a chunk", chunked[:len(chunked)-9], true}, cut{"too long", sized(len(whole)+10) + whole + "0123456789", false},
		cut{"too short by its length", sized(len(whole)-5) + whole, false},
		cut{"more announced", sized(len(whole)+10) + whole, true},
	)
	for _, c := range cuts {
		then := func(net.Conn) {}
		if c.hangsUp {
			then = halfClose
		}
		res := s.raw(rawHead+c.request, then)
		// Who hangs up may be seen to have gone before the cut is.
		if res.StatusCode != http.StatusBadRequest && !(c.hangsUp && res.StatusCode == http.StatusServiceUnavailable) {
			b, _ := io.ReadAll(res.Body)
			t.Errorf("%s: %d %s", c.name, res.StatusCode, b)
		}
		res.Body.Close()
	}
	if _, saves := s.docs.reset(); saves != 0 {
		t.Fatalf("%d saves", saves)
	}
	for _, request := range []string{sized(len(whole)) + whole, sized(len(whole)-2) + whole[:len(whole)-2]} {
		s.serve(s.server.Config.Handler)
		res := s.raw(rawHead + request)
		if b, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusCreated {
			t.Errorf("%d %s", res.StatusCode, b)
		}
		s.do("DELETE", models+"/x", "", anyway...).want(http.StatusOK)
		for _, err := range s.mem.Delete(t.Context(), []bucket.Key{listKey}) {
			t.Error(err)
		}
	}
}

// TestManifest_LateUploads: a body that stalls is given up by the server's read timeout, and nothing is added.
func TestManifest_LateUploads(t *testing.T) {
	s := newSite(t)
	s.serve(s.server.Config.Handler, func(server *http.Server) { server.ReadTimeout = 30 * time.Millisecond })
	whole := rawFile("a", strings.Repeat("a", 5000)) + rawEnd
	for _, n := range []int{0, 50, 1000, len(whole) - len(rawEnd) - 2, len(whole) - 1} {
		res := s.raw(rawHead + sized(len(whole)) + whole[:n])
		if b, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(b), `"timeout"`) {
			t.Errorf("after %d bytes: %d %s", n, res.StatusCode, b)
		}
		res.Body.Close()
	}
	if _, saves := s.docs.reset(); saves != 0 {
		t.Fatalf("%d saves", saves)
	}
}

// TestManifest_LargeUploads: the limit is the server's; what is announced to be larger is not even begun.
func TestManifest_LargeUploads(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Manifests.MaxUpload = 20 << 10 })
	fits := strings.Repeat("x", 19<<10)
	s.upload("PUT", models+"/x", create, file("f", fits)).want(http.StatusCreated)
	s.count.Reset()
	s.docs.reset()
	p := s.upload("PUT", models+"/y", anyway, file("f", fits+fits)).problem(http.StatusRequestEntityTooLarge, "too_large")
	if !strings.Contains(p.Detail, "20480 bytes") {
		t.Errorf("%+v", p)
	}
	s.wantAll(fakes.Counts{}, 0, 0)
	flood := func(c net.Conn) {
		for range 1 << 10 { // until the server has had enough, at the latest
			if _, err := io.WriteString(c, chunk(fits)); err != nil {
				return
			}
		}
	}
	open := strings.TrimSuffix(rawFile("f", ""), "\r\n")
	head := strings.Replace(rawHead, "If-None-Match", "If-Match", 1) + "Transfer-Encoding: chunked\r\n\r\n"
	status := s.chunks(head+chunk(open), flood)
	if status != 0 && status != http.StatusRequestEntityTooLarge {
		t.Errorf("endless chunks: %d", status)
	}
	if _, saves := s.docs.reset(); saves != 0 {
		t.Errorf("%d saves", saves)
	}
	// Other bodies are as small as ever.
	s.do("DELETE", models+"/x", strings.Repeat(" ", 8<<10+1), anyway...).problem(http.StatusRequestEntityTooLarge, "too_large")
	s.do("PUT", ns+"/items/"+s.id("x"), strings.Repeat(" ", 8<<10+1)).problem(http.StatusRequestEntityTooLarge, "too_large")
}

// gated is a store whose files go on after their first bytes only when they are let to.
type gated struct {
	bucket.Objects
	goOn chan struct{}
	read atomic.Int64 // bytes
}

func (g *gated) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	body, err := g.Objects.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	return &gatedBody{body, ctx, 100 << 10, g}, nil
}

type gatedBody struct {
	io.ReadCloser
	ctx   context.Context
	first int
	of    *gated
}

func (b *gatedBody) Read(p []byte) (int, error) {
	if b.first == 0 {
		select {
		case <-b.of.goOn:
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	} else {
		p = p[:min(len(p), b.first)]
	}
	n, err := b.ReadCloser.Read(p)
	b.first = max(b.first-n, 0)
	b.of.read.Add(int64(n))
	return n, err
}

// TestManifest_DownloadsStream: a client has the beginning of a file before the store has given its end; a store that does
// not go on is given up, which leaves the answer short.
func TestManifest_DownloadsStream(t *testing.T) {
	const size = 300 << 10
	// begin asks for a file of a store that stops in the middle, unless it is open.
	begin := func(method string, timeout time.Duration, open bool) (io.Reader, *gated) {
		s := newSite(t, func(o *web.Options) { o.Timeout = timeout })
		e := s.entry("x", strings.Repeat("x", size))
		g := &gated{Objects: s.docs.Objects, goOn: make(chan struct{})}
		if open {
			close(g.goOn)
		}
		s.docs.Objects = g
		req, err := http.NewRequestWithContext(t.Context(), method, s.server.URL+blobPath(e, 0), nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res.Body, g
	}
	body, store := begin("GET", time.Minute, false)
	if n, err := io.ReadFull(body, make([]byte, 64<<10)); err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	close(store.goOn)
	if rest, err := io.ReadAll(body); err != nil || len(rest) != size-(64<<10) {
		t.Errorf("then %d bytes, %v", len(rest), err)
	}
	body, _ = begin("GET", 2*time.Second, false)
	if rest, err := io.ReadAll(body); !errors.Is(err, io.ErrUnexpectedEOF) || len(rest) >= size {
		t.Errorf("of a store that hangs %d bytes, %v", len(rest), err)
	}
	if _, store = begin("HEAD", time.Minute, true); store.read.Load() > 100<<10 {
		t.Errorf("%d bytes were read for HEAD", store.read.Load())
	}
}

// TestManifest_DownloadLeft: a client that goes away is no failure of the server's.
func TestManifest_DownloadLeft(t *testing.T) {
	logged := make(chan string, 100)
	s := newSite(t, func(o *web.Options) { o.Log = slog.New(slog.NewTextHandler(lines(logged), nil)) })
	long := strings.Repeat("x", 15<<20) // more than what lies between the two takes
	e := s.entry("x", long)
	s.put("_indexd/manifest/team/long/list", `{"format":"manifest/1","created":{"nonce":"a","at":"2026-01-01T00:00:00Z"},"seq":1,`+
		`"nonce":"a","recent":[],"payload":{"grace_ms":86400000,"reaping":[],"entries":[{"id":"x","dedupe_key":"","blobs":[{"key":"K",`+
		`"name":"f","size":1,"digest":""}],"size":1,"digest":"","added_at":"2026-01-01T00:00:00Z","meta":{"m":"`+long+`"}}]}}`)
	for _, path := range []string{blobPath(e, 0), "/v1/manifests/team/long/entries", "/manifests?namespace=team&name=long"} {
		for len(logged) > 0 {
			<-logged
		}
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", s.server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, res.Status)
		}
		leave()
		res.Body.Close()
		if line := <-logged; !strings.Contains(line, "level=INFO msg=request") {
			t.Errorf("%s: %s", path, line)
		}
	}
}

// lines takes what is logged.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}
