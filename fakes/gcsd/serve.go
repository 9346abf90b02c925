package gcsd

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/blobindex/indexd/fakes/internal/wire"
)

// A failure is an error answer.
type failure struct {
	code    int
	reason  string
	message string
}

func fail(code int, reason, message string) *failure { return &failure{code, reason, message} }

// An answer is held back until all faults have had their turn.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

func (a *answer) set(key, value string) {
	if value != "" {
		a.header.Set(key, value)
	}
}

// A request on its way through the server, with its body read.
type request struct {
	Request
	http *http.Request
	body []byte
}

// head is how much of a request's body is read before it is known what befalls it.
const head = 64 << 10

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, head))
	req := &request{Request: identify(r, body), http: r}
	s.mu.Lock()
	s.requests = append(s.requests, req.Request)
	kind := s.strike(req.Request)
	s.mu.Unlock()
	if kind.partly {
		wire.Sever(w, kind.cut == reset)
		return
	}
	if len(body) == head && err == nil {
		var rest []byte
		rest, err = io.ReadAll(r.Body)
		body = append(body, rest...)
	}
	req.body = body
	// A body that breaks off is a request that was never made.
	if err != nil && !(s.opts.Lies.GoesByBoundary && req.Op == Insert) {
		return
	}
	if kind.before != nil {
		kind.before()
	}
	wire.Wait(kind.delay, s.quit)
	if kind.later != nil {
		s.postpone(req, kind.later)
	}
	a := &answer{code: 200, header: http.Header{}}
	if !kind.refuse {
		a = s.answer(req)
	}
	if kind.after != nil {
		kind.after()
	}
	if kind.status != 0 {
		message := "a planned fault"
		if kind.repeat {
			message = fmt.Sprint(r.Header)
		}
		a = s.failed(req, fail(kind.status, kind.reason, message))
	}
	if kind.rewrite != nil {
		a.body = kind.rewrite(a.body)
	}
	s.send(w, r, a, kind)
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, a *answer, kind Kind) {
	if how := kind.cut; how == closed || how == reset {
		wire.Sever(w, how == reset)
		return
	}
	h := w.Header()
	for key, values := range a.header {
		h[key] = values
	}
	h["Date"] = nil
	if !s.opts.Lies.NoDate {
		h.Set("Date", s.now().Format(http.TimeFormat))
	}
	if a.code != http.StatusNoContent && a.code != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.code)
	if r.Method == http.MethodHead {
		return
	}
	if kind.cut == half {
		w.Write(a.body[:len(a.body)/2])
		http.NewResponseController(w).Flush()
		if kind.stall == nil {
			panic(http.ErrAbortHandler)
		}
		<-kind.stall
		a.body = a.body[len(a.body)/2:]
	}
	w.Write(a.body)
}

// identify reads kind, bucket and name off the path as it was sent: a decoded one no longer tells slashes apart.
func identify(r *http.Request, body []byte) Request {
	req := Request{Op: Other, Query: r.URL.Query(), Header: r.Header.Clone()}
	sent := r.URL.EscapedPath()
	upload := strings.HasPrefix(sent, "/upload/")
	rest, isJSON := strings.CutPrefix(strings.TrimPrefix(sent, "/upload"), "/storage/v1/b/")
	if !isJSON {
		rest = strings.TrimPrefix(sent, "/")
	}
	segment, rest, _ := strings.Cut(rest, "/")
	req.Bucket, _ = url.PathUnescape(segment)
	if !isJSON {
		req.Name, _ = url.PathUnescape(rest)
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			req.Op = XMLRead
		}
		return req
	}
	kind, name, named := strings.Cut(rest, "/")
	if kind != "o" {
		return req
	}
	req.Name, _ = url.PathUnescape(name)
	switch {
	case upload && !named:
		req.Op, req.Name = uploadOf(r, req.Query, body)
	case !named && r.Method == http.MethodGet:
		req.Op = List
	case named && r.Method == http.MethodGet && req.Query.Get("alt") == "media":
		req.Op = Download
	case named && r.Method == http.MethodGet:
		req.Op = Get
	case named && r.Method == http.MethodDelete:
		req.Op = Delete
	case named && r.Method == http.MethodPatch:
		req.Op = Patch
	}
	return req
}

func (s *Server) answer(r *request) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, f := s.carryOut(r)
	if f != nil {
		return s.failed(r, f)
	}
	return a
}

// carryOut does what is asked. Under mu.
func (s *Server) carryOut(r *request) (*answer, *failure) {
	if s.opts.Token != "" && r.http.Header.Get("Authorization") != "Bearer "+s.opts.Token {
		return nil, fail(401, "authError", "Invalid Credentials")
	}
	if s.opts.Deny != nil && s.opts.Deny(r.Request) {
		return nil, fail(403, "forbidden", fmt.Sprintf("The caller does not have permission to %s.", r.Op))
	}
	st := s.buckets[r.Bucket]
	if st == nil && s.opts.Lies.AutoCreateBucket && r.Op != Other {
		st = newStore()
		s.buckets[r.Bucket] = st
	}
	if st == nil {
		return nil, fail(404, "notFound", "The specified bucket does not exist.")
	}
	if !utf8.ValidString(r.Name) {
		return nil, fail(400, "invalid", "Disallowed unicode characters present in object name")
	}
	if clean := wire.Cleaned(r.Name); s.opts.Lies.RedirectsPaths && r.Op != Insert && r.Op != List && clean != r.Name {
		a := &answer{308, http.Header{}, nil}
		a.set("Location", "/storage/v1/b/"+url.PathEscape(r.Bucket)+"/o/"+url.PathEscape(clean))
		return a, nil
	}
	do := map[Op]func(*store, *request) (*answer, *failure){
		List: s.list, Get: s.get, Download: s.download, XMLRead: s.download, Insert: s.insert, Begin: s.begin,
		Chunk: s.chunk, Patch: s.patch, Delete: s.delete,
	}[r.Op]
	switch {
	case do != nil:
		return do(st, r)
	case r.http.Method == http.MethodGet && r.http.URL.Path == "/storage/v1/b/"+r.Bucket:
		return jsonAnswer(map[string]any{"kind": "storage#bucket", "name": r.Bucket, "id": r.Bucket}), nil
	}
	return nil, fail(501, "notImplemented", "gcsd does not do this")
}

func jsonAnswer(v any) *answer {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return &answer{200, http.Header{"Content-Type": {"application/json; charset=UTF-8"}}, body}
}

// failed words an error as the API does by which it was asked.
func (s *Server) failed(r *request, f *failure) *answer {
	a := &answer{code: f.code, header: http.Header{}}
	switch {
	case f.code == 304 || s.opts.Lies.BareErrors:
	case r.Op == Download: // bodies have plain errors
		a.set("Content-Type", "text/html; charset=UTF-8")
		a.body = []byte(f.message)
	case r.Op == XMLRead:
		a.set("Content-Type", "application/xml; charset=UTF-8")
		var text bytes.Buffer
		xml.EscapeText(&text, []byte(f.message))
		a.body = fmt.Appendf(nil, "<?xml version='1.0' encoding='UTF-8'?><Error><Code>%s</Code><Message>%s</Message></Error>", f.reason, &text)
	default:
		a = jsonAnswer(map[string]any{"error": map[string]any{
			"code": f.code, "message": f.message,
			"errors": []any{map[string]any{"domain": "global", "reason": f.reason, "message": f.message}},
		}})
		a.code = f.code
	}
	return a
}
