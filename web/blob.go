package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/web/api"
)

// GetBlob is GET …/entries/{id}/blobs/{key}: two GET.
func (s *Server) GetBlob(ctx context.Context, r api.GetBlobRequestObject) (api.GetBlobResponseObject, error) {
	b, err := s.shelf.openEntry(r.Namespace, r.Name, r.Id)
	if err != nil {
		return nil, err
	}
	if err := manifest.CheckKey(r.Key); err != nil {
		return nil, &problem{
			status: http.StatusBadRequest, code: codeInvalidID, cause: err,
			detail: "The key of the file cannot be used.", action: "Take it from the blobs of the entry.",
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	// The store has so long for each thing that it is asked for; the client may take its time.
	watch := time.AfterFunc(s.opt.Timeout, cancel)
	body, blob, err := b.fetch(ctx, r)
	watch.Stop()
	if err != nil {
		cancel()
		return nil, err
	}
	if body == nil {
		cancel()
		tag := blobTag(blob)
		return blobKept{api.GetBlob304Response{Headers: api.GetBlob304ResponseHeaders{ETag: &tag}}}, nil
	}
	return &blobAnswer{
		body: body, blob: blob, sum: sha256.New(), end: cancel, watch: func() { watch.Reset(s.opt.Timeout) }, rest: watch.Stop,
	}, nil
}

// fetch opens a blob; the body is nil if the client has it. Its error is a problem.
func (b *book) fetch(ctx context.Context, r api.GetBlobRequestObject) (io.ReadCloser, manifest.Blob, error) {
	blob, err := b.blob(ctx, r)
	if err != nil {
		return nil, blob, err
	}
	if r.Params.IfNoneMatch != nil && matches([]string{*r.Params.IfNoneMatch}, blobTag(blob)) {
		return nil, blob, nil
	}
	body, err := b.Open(ctx, blob)
	if errors.Is(err, manifest.ErrMissing) {
		// An entry that was removed meanwhile is no loss.
		if _, gone := b.blob(ctx, r); gone != nil {
			return nil, blob, gone
		}
	}
	if err != nil {
		return nil, blob, manifestProblem(err, looks)
	}
	return body, blob, nil
}

// blob finds one in the list. Its error is a problem.
func (b *book) blob(ctx context.Context, r api.GetBlobRequestObject) (manifest.Blob, error) {
	state, _, err := b.load(ctx)
	if err != nil {
		return manifest.Blob{}, err
	}
	e, err := find(state, r.Id)
	if err != nil {
		return manifest.Blob{}, err
	}
	i := slices.IndexFunc(e.Blobs, func(b manifest.Blob) bool { return b.Key == r.Key })
	if i < 0 {
		return manifest.Blob{}, &problem{
			status: http.StatusNotFound, code: codeNotFound,
			detail: "The entry has no such file.", action: "GET the entry: its blobs tell their keys.",
		}
	}
	if _, ok := digestSum(e.Blobs[i].Digest); !ok || e.Blobs[i].Size < 0 {
		return manifest.Blob{}, corruptManifest(fmt.Errorf("the blob %q has no digest, or no size", r.Key))
	}
	return e.Blobs[i], nil
}

// digestSum reads "sha256:" and 64 hexadecimal digits.
func digestSum(digest string) ([]byte, bool) {
	text, ok := strings.CutPrefix(digest, "sha256:")
	sum, err := hex.DecodeString(text)
	return sum, ok && err == nil && len(sum) == sha256.Size
}

// A blobKept tells a client that has a blob that it may keep it, as the answer with the body would (RFC 9110, section 15.4.5).
type blobKept struct{ api.GetBlob304Response }

func (a blobKept) VisitGetBlobResponse(w http.ResponseWriter) error {
	w.Header().Set("Cache-Control", "no-cache")
	return a.GetBlob304Response.VisitGetBlobResponse(w)
}

func blobTag(b manifest.Blob) string { return `"` + b.Digest + `"` }

// blobChunk is how much of a blob is held at a time. The last of it is sent only when all of it was found to be as it should
// be, so that a client never gets a wrong body whole.
const blobChunk = 64 << 10

// A blobAnswer streams a blob.
type blobAnswer struct {
	body  io.ReadCloser
	blob  manifest.Blob
	sum   hash.Hash
	read  int64
	watch func()      // the store is waited for
	rest  func() bool // and no longer
	end   func()
}

// VisitGetBlobResponse writes the answer. Its error is a problem; after the first bytes it leaves the answer short of its
// Content-Length, which every client sees.
func (a *blobAnswer) VisitGetBlobResponse(w http.ResponseWriter) error {
	defer a.end()
	defer a.body.Close()
	buf := make([]byte, min(blobChunk, max(a.blob.Size, 1)))
	for begun := false; !begun || a.read < a.blob.Size; begun = true {
		chunk, err := a.next(buf)
		if err != nil {
			return err
		}
		if !begun {
			a.header(w.Header())
			w.WriteHeader(http.StatusOK)
		}
		if len(chunk) == 0 {
			continue
		}
		if _, err := w.Write(chunk); err != nil {
			return notTaken(err)
		}
	}
	return nil
}

// next reads the next chunk; with the last one it checks that the body is the one that was added.
func (a *blobAnswer) next(buf []byte) ([]byte, error) {
	a.watch()
	defer a.rest()
	chunk := buf[:min(int64(len(buf)), a.blob.Size-a.read)]
	n, err := io.ReadFull(a.body, chunk)
	a.read += int64(n)
	a.sum.Write(chunk[:n])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, a.corrupt("it ends after %d of %d bytes", a.read, a.blob.Size)
	case err != nil:
		return nil, storeAway(err)
	case a.read < a.blob.Size:
		return chunk, nil
	}
	switch more, err := io.ReadFull(a.body, make([]byte, 1)); {
	case more > 0:
		return nil, a.corrupt("it has more than %d bytes", a.blob.Size)
	case !errors.Is(err, io.EOF):
		return nil, storeAway(err)
	}
	if got := "sha256:" + hex.EncodeToString(a.sum.Sum(nil)); got != a.blob.Digest {
		return nil, a.corrupt("its digest is %s", got)
	}
	return chunk, nil
}

func (a *blobAnswer) corrupt(format string, args ...any) error {
	return &problem{
		status: http.StatusInternalServerError, code: codeBlobCorrupt,
		detail: "The file in the store is not as it was added.", action: "Add the entry anew, or remove it.",
		cause: fmt.Errorf("the blob %q of a manifest: %s", a.blob.Key, fmt.Sprintf(format, args...)),
	}
}

func (a *blobAnswer) header(h http.Header) {
	sum, _ := digestSum(a.blob.Digest)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(a.blob.Size, 10))
	h.Set("Content-Disposition", disposition(a.blob.Name))
	h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	h.Set("ETag", blobTag(a.blob))
	h.Set("Cache-Control", "no-cache")
}

// disposition lets a browser save a file under its name, whatever that is: no part of it is taken for a path.
func disposition(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "\uFFFD"))
	if d := mime.FormatMediaType("attachment", map[string]string{"filename": name}); d != "" {
		return d
	}
	return "attachment"
}
