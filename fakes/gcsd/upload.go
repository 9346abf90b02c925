package gcsd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A session is a resumable upload on its way. Conditions are held against the object when it begins and when it ends.
type session struct {
	meta       metadata
	conditions conditions
	body       []byte
	done       *object
}

// uploadOf tells the kind of an upload and the name that it is for, where it says.
func uploadOf(r *http.Request, q url.Values, body []byte) (Op, string) {
	name := q.Get("name")
	switch {
	case q.Get("uploadType") == "resumable" && q.Get("upload_id") != "":
		return Chunk, name
	case q.Get("uploadType") == "resumable":
		return Begin, name
	case r.Method != http.MethodPost:
		return Other, name
	}
	if name == "" {
		name = named(r, body)
	}
	return Insert, name
}

// named is the name in the metadata with which a multipart body begins.
func named(r *http.Request, body []byte) string {
	var meta metadata
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	if first, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).NextRawPart(); err == nil {
		json.NewDecoder(first).Decode(&meta)
	}
	return meta.Name
}

func (s *Server) insert(st *store, r *request) (*answer, *failure) {
	c, f := fromQuery(r.Query)
	if f != nil {
		return nil, f
	}
	meta := metadata{ContentType: r.http.Header.Get("Content-Type")}
	body := r.body
	switch kind := r.Query.Get("uploadType"); kind {
	case "media":
	case "multipart":
		var err error
		if meta, body, err = parts(r.http, r.body); err != nil {
			return nil, fail(400, "badContent", "Malformed multipart body: "+err.Error())
		}
	default:
		return nil, fail(400, "invalid", "unknown uploadType "+kind)
	}
	return s.saved(st, r, meta, body, c)
}

func (s *Server) saved(st *store, r *request, meta metadata, body []byte, c conditions) (*answer, *failure) {
	if name := r.Query.Get("name"); name != "" {
		meta.Name = name
	}
	o, f := s.save(st, meta, body, c)
	if f != nil {
		return nil, f
	}
	return jsonAnswer(s.resource(r.Bucket, o)), nil
}

// parts reads "multipart/related": the metadata, then the body.
func parts(r *http.Request, body []byte) (metadata, []byte, error) {
	var meta metadata
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/related" {
		return meta, nil, fmt.Errorf("content type %q", r.Header.Get("Content-Type"))
	}
	mr := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	first, err := mr.NextRawPart()
	if err != nil {
		return meta, nil, err
	}
	if err := json.NewDecoder(first).Decode(&meta); err != nil {
		return meta, nil, err
	}
	second, err := mr.NextRawPart()
	if err != nil {
		return meta, nil, err
	}
	if meta.ContentType == "" {
		meta.ContentType = second.Header.Get("Content-Type")
	}
	media, err := io.ReadAll(second)
	if err != nil {
		return meta, nil, err
	}
	if _, err := mr.NextRawPart(); err != io.EOF {
		return meta, nil, fmt.Errorf("no end after two parts: %w", err)
	}
	return meta, media, nil
}

func (s *Server) begin(st *store, r *request) (*answer, *failure) {
	c, f := fromQuery(r.Query)
	if f != nil {
		return nil, f
	}
	ses := &session{conditions: c}
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &ses.meta); err != nil {
			return nil, fail(400, "parseError", "Parse Error")
		}
	}
	if name := r.Query.Get("name"); name != "" {
		ses.meta.Name = name
	}
	if ses.meta.ContentType == "" {
		ses.meta.ContentType = r.http.Header.Get("X-Upload-Content-Type")
	}
	if f := checkName(ses.meta.Name); f != nil {
		return nil, f
	}
	if f := c.of(s.opts.Lies, s.opts.Lies.WriteIgnoresConditions).check(st.get(ses.meta.Name)).forWrite(); f != nil {
		return nil, f
	}
	id := fmt.Sprintf("session-%d", s.nextGeneration())
	s.sessions[id] = ses
	a := &answer{200, http.Header{}, nil}
	q := url.Values{"uploadType": {"resumable"}, "name": {ses.meta.Name}, "upload_id": {id}}
	a.set("Location", s.http.URL+"/upload/storage/v1/b/"+url.PathEscape(r.Bucket)+"/o?"+q.Encode())
	return a, nil
}

// chunk takes the next bytes, or those that it already has; a client that was not answered sends them again.
func (s *Server) chunk(st *store, r *request) (*answer, *failure) {
	ses := s.sessions[r.Query.Get("upload_id")]
	if ses == nil {
		return nil, fail(404, "notFound", "No such upload session")
	}
	if r.http.Method == http.MethodDelete {
		delete(s.sessions, r.Query.Get("upload_id"))
		return &answer{code: 499, header: http.Header{}}, nil
	}
	if ses.done != nil {
		return jsonAnswer(s.resource(r.Bucket, ses.done)), nil
	}
	first, total, f := contentRange(r.http.Header.Get("Content-Range"))
	if f != nil {
		return nil, f
	}
	if first >= 0 {
		if first > len(ses.body) || first+len(r.body) < len(ses.body) {
			return nil, fail(503, "backendError", "The chunk does not begin where the last one ended.")
		}
		ses.body = append(ses.body[:first], r.body...)
	}
	if total < 0 || len(ses.body) < total {
		return incomplete(r, len(ses.body)), nil
	}
	if sum, ok := strings.CutPrefix(r.http.Header.Get("X-Goog-Hash"), "crc32c="); ok {
		ses.meta.CRC32C = sum
	}
	o, f := s.save(st, ses.meta, ses.body, ses.conditions)
	if f != nil {
		return nil, f
	}
	ses.done = o
	return jsonAnswer(s.resource(r.Bucket, o)), nil
}

// incomplete is the service's 308, which is no redirect; clients that know this ask for another way to say it.
func incomplete(r *request, have int) *answer {
	a := &answer{308, http.Header{}, nil}
	if r.http.Header.Get("X-GUploader-No-308") == "yes" {
		a.code = 200
		a.set("X-Http-Status-Code-Override", "308")
	}
	if have > 0 {
		a.set("Range", fmt.Sprintf("bytes=0-%d", have-1))
	}
	return a
}

// contentRange reads "bytes first-last/total", each of both sides may be "*"; -1 stands for that.
func contentRange(text string) (first, total int, f *failure) {
	bad := fail(400, "invalid", "Invalid Content-Range "+strconv.Quote(text))
	text, ok := strings.CutPrefix(text, "bytes ")
	span, size, slash := strings.Cut(text, "/")
	if !ok || !slash {
		return 0, 0, bad
	}
	first, total = -1, -1
	var err error
	if span != "*" {
		from, _, _ := strings.Cut(span, "-")
		if first, err = strconv.Atoi(from); err != nil {
			return 0, 0, bad
		}
	}
	if size != "*" {
		if total, err = strconv.Atoi(size); err != nil {
			return 0, 0, bad
		}
	}
	return first, total, nil
}
