package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/web/api"
)

// Manifests says where the manifests of a server are.
type Manifests struct {
	Store manifest.Store
	// Usable is asked before the first change, until it has returned nil, whether the store keeps the conditions of writes;
	// nil: it is known to. Nothing has been read of an upload by then.
	Usable func(context.Context) error
	// MaxUpload is the most bytes that one upload may have; default DefaultMaxUpload.
	MaxUpload int64
}

// DefaultMaxUpload is 5 GiB.
const DefaultMaxUpload = 5 << 30

// Routes of manifests.
const (
	manifestRoot = "/v1/manifests/"
	entriesRoute = manifestRoot + ":namespace/:name/entries"
	entryRoute   = entriesRoute + "/:id"
	blobRoute    = entryRoute + "/blobs/:key"
)

// maxShelf is how many manifests are remembered. One that was forgotten can no longer be seen to go back to an older state.
const maxShelf = 1000

// A shelf is the manifests that were asked for. It is safe for concurrent use.
type shelf struct {
	Manifests
	now   func() time.Time
	sound atomic.Bool // Usable has returned nil

	mu    sync.Mutex
	known map[string]*book // by namespace/name
}

// A book is one manifest.
type book struct {
	*manifest.Manifest
	shelf           *shelf
	namespace, name string
}

// newShelf returns nil where there are no manifests.
func newShelf(m *Manifests, now func() time.Time) *shelf {
	if m == nil {
		return nil
	}
	s := &shelf{Manifests: *m, now: now, known: make(map[string]*book)}
	if s.MaxUpload <= 0 {
		s.MaxUpload = DefaultMaxUpload
	}
	return s
}

// A trialError is why it is not known that the store keeps the conditions of writes.
type trialError struct{ error }

func (e *trialError) Unwrap() error { return e.error }

func (s *shelf) usable(ctx context.Context) error {
	if s.Usable == nil || s.sound.Load() {
		return nil
	}
	if err := s.Usable(ctx); err != nil {
		return &trialError{err}
	}
	s.sound.Store(true)
	return nil
}

// open returns a manifest. It makes no request; its error is a problem.
func (s *shelf) open(namespace, name string) (*book, error) {
	if s == nil {
		return nil, &problem{
			status: http.StatusNotImplemented, code: codeUnsupported,
			detail: "This server keeps no manifests.", action: "Ask one that was started by \"indexd serve\".",
		}
	}
	m, err := manifest.New(s.Store, namespace, name, &manifest.Options{Usable: s.usable, Doc: &cas.Options{Now: s.now}})
	if err != nil {
		return nil, manifestProblem(err, looks)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	title := namespace + "/" + name
	if b := s.known[title]; b != nil {
		return b, nil
	}
	for other := range s.known {
		if len(s.known) < maxShelf {
			break
		}
		delete(s.known, other)
	}
	b := &book{m, s, namespace, name}
	s.known[title] = b
	return b, nil
}

// openEntry checks the id of an entry as well.
func (s *shelf) openEntry(namespace, name, id string) (*book, error) {
	b, err := s.open(namespace, name)
	if err != nil {
		return nil, err
	}
	if err := manifest.CheckID(id); err != nil {
		return nil, entryIDProblem(err)
	}
	return b, nil
}

// load returns the manifest as it is, and its ETag. Its error is a problem.
func (b *book) load(ctx context.Context) (manifest.State, string, error) {
	s, err := b.Load(ctx)
	if err != nil {
		return s, "", b.refused(ctx, err, looks)
	}
	return s, etag(s), nil
}

// etag is the tag of a state as it crosses the wire. Of our own tags escaping changes nothing; a nonce of somebody else's
// may be any text.
func etag(s manifest.State) string { return `"` + url.PathEscape(s.Tag) + `"` }

// refused is manifestProblem, but says of a manifest that is absent what is there in its place: an absent bucket, and a
// list that something else has deleted, must not look like one that never was.
func (b *book) refused(ctx context.Context, err error, did act) *problem {
	if !errors.Is(err, cas.ErrNotExist) || errors.Is(err, manifest.ErrUpload) || errors.Is(err, manifest.ErrMissing) ||
		errors.Is(err, cas.ErrUnknown) || did == creates {
		return manifestProblem(err, did)
	}
	if did == adds {
		// The upload has found the bucket, and the files that are there may be its own.
		p := changed("There is no such manifest; nothing was added.", err)
		p.action = "Adding with If-None-Match: * makes it. If there was one, something else deleted its list: restore that " +
			"from a backup."
		return p
	}
	left, listing := b.left(ctx)
	if listing != nil {
		return manifestProblem(listing, did)
	}
	p := &problem{
		status: http.StatusNotFound, code: codeNotFound, cause: err, detail: "There is no such manifest.",
		action: "Check its namespace and name; adding an entry with If-None-Match: * makes it.",
	}
	if did != looks {
		p = changed("There is no such manifest; nothing was changed.", err)
	}
	if left {
		p.detail = "The manifest has no list, but there are files of it."
		p.action = "If there was a list, something else deleted it: restore it from a backup. Else a first upload did not " +
			"end, and the next one, with If-None-Match: *, makes the list."
	}
	return p
}

// left reports whether there are files of a manifest that has no list.
func (b *book) left(ctx context.Context) (found bool, err error) {
	enough := errors.New("enough")
	root := manifest.Root + b.namespace + "/" + b.name + "/"
	err = b.shelf.Store.List(ctx, bucket.ListRequest{Prefix: root}, func(p bucket.Page) error {
		if len(p.Objects) == 0 {
			return nil
		}
		found = true
		return enough
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return found, err
}

// find returns an entry of a state. Its error is a problem.
func find(s manifest.State, id string) (manifest.Entry, error) {
	i := slices.IndexFunc(s.Entries, func(e manifest.Entry) bool { return e.ID == id })
	if i < 0 {
		return manifest.Entry{}, manifestProblem(manifest.ErrNoEntry, looks)
	}
	return s.Entries[i], nil
}

// ListEntries is GET …/entries: one GET.
func (s *Server) ListEntries(ctx context.Context, r api.ListEntriesRequestObject) (api.ListEntriesResponseObject, error) {
	b, err := s.shelf.open(r.Namespace, r.Name)
	if err != nil {
		return nil, err
	}
	state, tag, err := b.load(ctx)
	if err != nil {
		return nil, err
	}
	return api.ListEntries200JSONResponse{
		Body: api.Entries{Entries: entries(state.Entries)}, Headers: api.ListEntries200ResponseHeaders{ETag: &tag},
	}, nil
}

// GetEntry is GET …/entries/{id}: one GET.
func (s *Server) GetEntry(ctx context.Context, r api.GetEntryRequestObject) (api.GetEntryResponseObject, error) {
	b, err := s.shelf.openEntry(r.Namespace, r.Name, r.Id)
	if err != nil {
		return nil, err
	}
	state, tag, err := b.load(ctx)
	if err != nil {
		return nil, err
	}
	e, err := find(state, r.Id)
	if err != nil {
		return nil, err
	}
	return api.GetEntry200JSONResponse{Body: entry(e), Headers: api.GetEntry200ResponseHeaders{ETag: &tag}}, nil
}

// RemoveEntry is DELETE …/entries/{id}: one GET, one PUT, and deletes.
func (s *Server) RemoveEntry(ctx context.Context, r api.RemoveEntryRequestObject) (api.RemoveEntryResponseObject, error) {
	b, err := s.shelf.openEntry(r.Namespace, r.Name, r.Id)
	if err != nil {
		return nil, err
	}
	want, err := readPrecondition(r.Params.IfMatch, r.Params.IfNoneMatch)
	if err != nil {
		return nil, err
	}
	if want.absent {
		return nil, badRequest("Nothing can be taken out of a manifest that is not there; nothing was done.",
			"Send If-Match with the ETag of the manifest, or If-Match: *.")
	}
	c, err := b.Remove(ctx, r.Id, want.tag)
	if err != nil {
		return nil, b.refused(ctx, err, removes)
	}
	s.leftFiles(ctx, c)
	tag := etag(c.State)
	return api.RemoveEntry200JSONResponse{Body: change(c), Headers: api.RemoveEntry200ResponseHeaders{ETag: &tag}}, nil
}

// leftFiles logs what could not be deleted; the next change of the manifest does.
func (s *Server) leftFiles(ctx context.Context, c manifest.Change) {
	if c.Left != nil {
		s.log.WarnContext(ctx, "files of a manifest were left for the next change", "error", c.Left)
	}
}

func change(c manifest.Change) api.Change {
	return api.Change{Entry: entry(c.Entry), Displaced: entries(c.Displaced)}
}

func entries(all []manifest.Entry) []api.Entry {
	out := make([]api.Entry, len(all))
	for i, e := range all {
		out[i] = entry(e)
	}
	return out
}

func entry(e manifest.Entry) api.Entry {
	out := api.Entry{
		Id: e.ID, DedupeKey: e.DedupeKey, Blobs: make([]api.Blob, len(e.Blobs)), Size: e.Size, Digest: e.Digest,
		AddedAt: instant(e.AddedAt), Meta: e.Meta,
	}
	if out.Meta == nil {
		out.Meta = map[string]string{}
	}
	for i, b := range e.Blobs {
		out.Blobs[i] = api.Blob{Key: b.Key, Name: b.Name, Size: b.Size, Digest: b.Digest}
	}
	return out
}

func entriesPath(namespace, name string) string {
	return manifestRoot + url.PathEscape(namespace) + "/" + url.PathEscape(name) + "/entries"
}

func entryPath(namespace, name, id string) string {
	return entriesPath(namespace, name) + "/" + url.PathEscape(id)
}

// A precondition is the state that a change is to be made on.
type precondition struct {
	absent bool   // the manifest is to be created
	tag    string // empty: any state
}

// readPrecondition reads If-Match and If-None-Match as RFC 9110, section 13.1, has them; of tags it takes one.
func readPrecondition(ifMatch, ifNoneMatch *string) (precondition, error) {
	const action = "Send If-Match with the ETag of the manifest, If-Match: *, or, to create it, If-None-Match: *."
	switch {
	case ifMatch == nil && ifNoneMatch == nil:
		return precondition{}, &problem{
			status: http.StatusPreconditionRequired, code: codePrecondition,
			detail: "The request does not say which state of the manifest it is to change; nothing was done.", action: action,
		}
	case ifMatch != nil && ifNoneMatch != nil:
		return precondition{}, badRequest("The request has both If-Match and If-None-Match; nothing was done.", action)
	case ifNoneMatch != nil:
		if strings.TrimSpace(*ifNoneMatch) != "*" {
			return precondition{}, badRequest("If-None-Match is not *, which is all that a change takes; nothing was done.", action)
		}
		return precondition{absent: true}, nil
	case strings.TrimSpace(*ifMatch) == "*":
		return precondition{}, nil
	}
	strong, ok := strongTags(*ifMatch)
	switch {
	case !ok:
		return precondition{}, badRequest("If-Match is neither * nor a list of entity tags; nothing was done.", action)
	case len(strong) > 1:
		return precondition{}, badRequest("If-Match names more than one state, and one is taken here; nothing was done.", action)
	case len(strong) == 0:
		return precondition{}, changed("If-Match names no state by a strong tag; nothing was changed.", nil)
	}
	tag, err := url.PathUnescape(strong[0])
	if err != nil || tag == "" || url.PathEscape(tag) != strong[0] {
		return precondition{}, changed("If-Match names no state that there ever was; nothing was changed.", err)
	}
	return precondition{tag: tag}, nil
}

// strongTags returns the strong ones of a list of entity tags, without their quotes, and whether it is such a list.
func strongTags(list string) (strong []string, ok bool) {
	for {
		list = strings.TrimLeft(list, " \t,")
		if list == "" {
			return strong, ok
		}
		opaque, weak := strings.CutPrefix(list, "W/")
		if opaque, ok = strings.CutPrefix(opaque, `"`); !ok {
			return nil, false
		}
		tag, rest, closed := strings.Cut(opaque, `"`)
		rest = strings.TrimLeft(rest, " \t")
		if !closed || rest != "" && rest[0] != ',' {
			return nil, false
		}
		if !weak && !slices.Contains(strong, tag) {
			strong = append(strong, tag)
		}
		list = rest
	}
}
