package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/web/api"
)

// Limits of the form of an upload.
const (
	maxFiles    = 1000
	maxFileName = 255 // bytes
)

// CreateEntry is POST …/entries: for each file one PUT and one HEAD, one GET, one PUT, and deletes.
func (s *Server) CreateEntry(ctx context.Context, r api.CreateEntryRequestObject) (api.CreateEntryResponseObject, error) {
	// Minted here, so that it can be told when the outcome is unknown.
	id := strings.ToLower(rand.Text())
	added, err := s.addEntry(ctx, entryPlace{r.Namespace, r.Name, id}, r.Params.IfMatch, r.Params.IfNoneMatch, r.Body)
	if err != nil {
		return nil, err
	}
	return api.CreateEntry201JSONResponse{AddedJSONResponse: added}, nil
}

// AddEntry is PUT …/entries/{id}; it takes what CreateEntry does.
func (s *Server) AddEntry(ctx context.Context, r api.AddEntryRequestObject) (api.AddEntryResponseObject, error) {
	added, err := s.addEntry(ctx, entryPlace{r.Namespace, r.Name, r.Id}, r.Params.IfMatch, r.Params.IfNoneMatch, r.Body)
	if err != nil {
		return nil, err
	}
	return api.AddEntry201JSONResponse{AddedJSONResponse: added}, nil
}

type entryPlace struct{ namespace, name, id string }

func (p entryPlace) path() string { return entryPath(p.namespace, p.name, p.id) }

// addEntry adds what a form brings. What it refuses before the first file is uploaded, it refuses without a request of the
// store.
func (s *Server) addEntry(ctx context.Context, at entryPlace, ifMatch, ifNoneMatch *string, body *multipart.Reader) (
	api.AddedJSONResponse, error) {
	var none api.AddedJSONResponse
	b, err := s.shelf.openEntry(at.namespace, at.name, at.id)
	if err != nil {
		return none, err
	}
	want, err := readPrecondition(ifMatch, ifNoneMatch)
	if err != nil {
		return none, err
	}
	f := &form{body: body, names: make(map[string]bool)}
	req, err := f.begin()
	if err != nil {
		return none, err
	}
	req.ID, req.Tag, req.Absent, req.Create = at.id, want.tag, want.absent, want.absent
	if err := req.Check(); err != nil {
		return none, badRequest("The dedupe_key is more than 1,000 bytes, or no UTF-8; nothing was done.", "Send another one.")
	}
	c, err := b.Add(ctx, req)
	if err != nil {
		return none, b.notAdded(ctx, err, f, want, at)
	}
	s.leftFiles(ctx, c)
	tag, path := etag(c.State), at.path()
	return api.AddedJSONResponse{Body: change(c), Headers: api.AddedResponseHeaders{ETag: &tag, Location: &path}}, nil
}

// notAdded says why, and whether it may have been added all the same. A body that is to blame has ended before the save.
func (b *book) notAdded(ctx context.Context, err error, f *form, want precondition, at entryPlace) error {
	if f.err != nil {
		return f.err
	}
	did := adds
	if want.absent {
		did = creates
	}
	p := b.refused(ctx, err, did)
	if p.code == codeUnknown {
		p.location = at.path()
		p.detail = fmt.Sprintf("The store did not say whether it took the change: the entry %s may have been added.", at.id)
		p.action = "GET it at the path in Location before you repeat the upload. Under the same id it is never added twice."
	}
	return p
}

// A form is the body of an upload on its way: its fields, and then one file after the other.
type form struct {
	body  *multipart.Reader
	names map[string]bool // of files that have been seen
	err   error           // why the body cannot be used, a problem
}

// errStreamed: a body that has passed by was asked for again.
var errStreamed = errors.New("web: a streamed file can be read only once")

// begin reads up to the first file. Its error is a problem.
func (f *form) begin() (manifest.AddRequest, error) {
	req := manifest.AddRequest{More: f.file}
	seen := map[string]bool{}
	for {
		part, err := f.part()
		if err == io.EOF {
			return req, badForm("it has no file")
		}
		if err != nil {
			return req, err
		}
		name := part.FormName()
		switch {
		case name == "file":
			first, err := f.source(part)
			req.Sources = []manifest.Source{first}
			return req, err
		case name != "dedupe_key" && name != "meta":
			return req, badForm("it has a field that is not known here; dedupe_key, meta and file are")
		case seen[name]:
			return req, badForm("it has " + name + " twice")
		}
		seen[name] = true
		text, err := io.ReadAll(io.LimitReader(part, maxBody+1))
		if err != nil {
			return req, f.broken(err)
		}
		if len(text) > maxBody {
			return req, longField(name)
		}
		if name == "dedupe_key" {
			req.DedupeKey = string(text)
		} else if req.Meta, err = readMeta(text); err != nil {
			return req, err
		}
	}
}

func longField(name string) error {
	return &problem{
		status: http.StatusRequestEntityTooLarge, code: codeTooLarge,
		detail: fmt.Sprintf("The field %s of the form is longer than %d bytes; nothing was done.", name, maxBody),
		action: "Shorten it, or send what it tells as a file of the entry.",
	}
}

func readMeta(text []byte) (meta map[string]string, err error) {
	if _, err := scanJSON(text); err != nil {
		return nil, badForm("of its meta, " + err.Error())
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, badForm("its meta has a member that is no text")
	}
	return meta, nil
}

// file is the next file, for AddRequest.More; io.EOF after the last one.
func (f *form) file() (manifest.Source, error) {
	part, err := f.part()
	switch {
	case err != nil:
		return manifest.Source{}, err
	case part.FormName() != "file":
		f.err = badForm("a field follows a file, or is not known here; send the fields first, then the files")
	case len(f.names) == maxFiles:
		f.err = badForm(fmt.Sprintf("it has more than %d files", maxFiles))
	default:
		return f.source(part)
	}
	return manifest.Source{}, f.err
}

// part returns the next part; io.EOF itself after the last, if the body ends there as it should.
func (f *form) part() (*multipart.Part, error) {
	part, err := f.body.NextRawPart()
	if err == nil {
		switch strings.ToLower(part.Header.Get("Content-Transfer-Encoding")) {
		case "", "binary", "8bit", "7bit":
			return part, nil
		}
		f.err = badForm("a part of it is encoded; send files as they are")
		return nil, f.err
	}
	if err != io.EOF { // which, wrapped, means that the form has no end
		return nil, f.broken(err)
	}
	// What follows the last boundary is nothing: else the body was cut, or is longer than its form.
	if _, err := f.body.NextRawPart(); !errors.Is(err, io.EOF) {
		return nil, f.broken(err)
	}
	return nil, io.EOF
}

// A formBody is the body of an upload. One that ends without the boundary that closes a form was cut: multipart.Reader
// takes the end behind any boundary for the end of the form, and the files that follow would be missing in silence.
type formBody struct {
	io.ReadCloser
	closing []byte // what ends a form, but for a line break
	tail    []byte // the last that was read
}

func newFormBody(r *http.Request) *formBody {
	// A body that is no form, or has no boundary, is refused by MultipartReader.
	_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return &formBody{ReadCloser: r.Body, closing: []byte("--" + params["boundary"] + "--")}
}

func (b *formBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	most := len(b.closing) + len("\r\n")
	b.tail = append(b.tail, p[max(0, n-most):n]...)
	b.tail = append(b.tail[:0], b.tail[max(0, len(b.tail)-most):]...)
	if err == io.EOF && !bytes.HasSuffix(bytes.TrimRight(b.tail, "\r\n"), b.closing) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// source checks the name of a file. Its error is a problem.
func (f *form) source(part *multipart.Part) (manifest.Source, error) {
	name := part.FileName()
	switch {
	case name == "" || name == "." || name == ".." || len(name) > maxFileName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unicode.IsControl(r) }):
		f.err = badForm(fmt.Sprintf("a file has no filename of 1 to %d bytes of UTF-8 without control characters", maxFileName))
	case f.names[name]:
		f.err = badForm("two files have the same filename")
	}
	if f.err != nil {
		return manifest.Source{}, f.err
	}
	f.names[name] = true
	passed := false
	return manifest.Source{Name: name, Open: func() (io.ReadCloser, error) {
		if passed {
			return nil, errStreamed
		}
		passed = true
		return &fileBody{f, part}, nil
	}}, nil
}

// A fileBody is the body of one file. What ends it before its end is the client's fault, and is told so.
type fileBody struct {
	form *form
	part *multipart.Part
}

func (b *fileBody) Read(p []byte) (int, error) {
	n, err := b.part.Read(p)
	if err != nil && err != io.EOF {
		err = b.form.broken(err)
	}
	return n, err
}

// Close leaves the part to whoever asks for the next one.
func (b *fileBody) Close() error { return nil }

// broken tells why the body could not be read, and remembers it.
func (f *form) broken(err error) error {
	_, over := errors.AsType[*http.MaxBytesError](err)
	switch {
	case over, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		f.err = bodyProblem(err)
	default:
		f.err = badForm("it is no form that can be read")
	}
	return f.err
}

func badForm(what string) error {
	return badRequest("The form cannot be used: "+what+"; nothing was added.",
		"GET /openapi.yaml describes the form of an upload.")
}
