package web

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/web/api"
	"github.com/labstack/echo/v4"
)

// Snapshots says where the snapshots of a server are.
type Snapshots struct {
	Store snapshot.Store
	// Usable is asked before the first publication, until it has returned nil, whether the store keeps the conditions of
	// writes; nil: it is known to. Nothing has been read of a listing by then.
	Usable func(context.Context) error
	// MaxUpload is the most bytes that one listing may have; default DefaultMaxUpload.
	MaxUpload int64
}

// Routes of snapshots.
const (
	snapshotRoot  = "/v1/snapshots/"
	snapshotRoute = snapshotRoot + ":namespace/:name"
	rowsRoute     = snapshotRoute + "/rows"
)

// A gallery is the snapshots that were asked for. It is safe for concurrent use.
type gallery struct {
	Snapshots
	now   func() time.Time
	sound atomic.Bool // Usable has returned nil

	mu    sync.Mutex
	known map[string]*picture // by namespace/name
}

// A picture is one snapshot.
type picture struct {
	*snapshot.Snapshot
	gallery         *gallery
	namespace, name string
}

// newGallery returns nil where there are no snapshots.
func newGallery(s *Snapshots, now func() time.Time) *gallery {
	if s == nil {
		return nil
	}
	g := &gallery{Snapshots: *s, now: now, known: make(map[string]*picture)}
	if g.MaxUpload <= 0 {
		g.MaxUpload = DefaultMaxUpload
	}
	return g
}

func (g *gallery) usable(ctx context.Context) error {
	if g.Usable == nil || g.sound.Load() {
		return nil
	}
	if err := g.Usable(ctx); err != nil {
		return &trialError{err}
	}
	g.sound.Store(true)
	return nil
}

// open returns a snapshot. It makes no request; its error is a problem.
func (g *gallery) open(namespace, name string) (*picture, error) {
	if g == nil {
		return nil, &problem{
			status: http.StatusNotImplemented, code: codeUnsupported,
			detail: "This server keeps no snapshots.", action: "Ask one that was started by \"indexd serve\".",
		}
	}
	s, err := snapshot.New(g.Store, namespace, name, &snapshot.Options{
		Usable: g.usable, Doc: &cas.Options{Now: g.now}, Now: g.now,
	})
	if err != nil {
		return nil, snapshotProblem(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	title := namespace + "/" + name
	if p := g.known[title]; p != nil {
		return p, nil
	}
	// As of manifests, one that was forgotten can no longer be seen to go back.
	for other := range g.known {
		if len(g.known) < maxShelf {
			break
		}
		delete(g.known, other)
	}
	p := &picture{s, g, namespace, name}
	g.known[title] = p
	return p, nil
}

// publishedTag is the tag of a state as it crosses the wire.
func publishedTag(tag string) string { return `"` + url.PathEscape(tag) + `"` }

// GetSnapshot is GET …/{name}: one GET.
func (s *Server) GetSnapshot(ctx context.Context, r api.GetSnapshotRequestObject) (api.GetSnapshotResponseObject, error) {
	p, err := s.gallery.open(r.Namespace, r.Name)
	if err != nil {
		return nil, err
	}
	st, err := p.Status(ctx)
	if err != nil {
		return nil, p.refused(ctx, err)
	}
	tag := publishedTag(st.Tag)
	return api.GetSnapshot200JSONResponse{
		Body: snapshotStatus(st), Headers: api.GetSnapshot200ResponseHeaders{ETag: &tag},
	}, nil
}

func snapshotStatus(st snapshot.Status) api.SnapshotStatus {
	c := st.Current
	out := api.SnapshotStatus{
		Generation: int64(c.ID.Number), Id: c.ID.String(), Rows: c.Rows, Parts: c.Parts, Bytes: c.Bytes, Digest: c.Digest,
		Class: api.SnapshotStatusClass(c.Class), PublishedAt: instant(c.PublishedAt), GraceMs: st.Grace.Milliseconds(),
		Retired: []string{},
	}
	for _, id := range st.Retired {
		out.Retired = append(out.Retired, id.String())
	}
	return out
}

// ListRows is GET …/rows: three GET, and one for each part with rows of the page; one where the client has it.
func (s *Server) ListRows(ctx context.Context, r api.ListRowsRequestObject) (api.ListRowsResponseObject, error) {
	p, err := s.gallery.open(r.Namespace, r.Name)
	if err != nil {
		return nil, err
	}
	at, err := readRowCursor(r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	q := pageRequest{limit: defaultPage, after: at.path}
	if r.Params.Limit != nil {
		q.limit = *r.Params.Limit
	}
	if r.Params.Prefix != nil {
		q.prefix = *r.Params.Prefix
	}
	answer, err := p.list(ctx, r, at, q)
	for again := 0; again < rereads && r.Params.Cursor == nil && errors.Is(err, snapshot.ErrSwept); again++ {
		answer, err = p.list(ctx, r, at, q) // nobody has asked for that very generation
	}
	if err != nil {
		return nil, p.refused(ctx, err)
	}
	return answer, nil
}

// rereads is how often a reading begins again that a sweep ended.
const rereads = 3

func (p *picture) list(ctx context.Context, r api.ListRowsRequestObject, at rowCursor, q pageRequest) (
	api.ListRowsResponseObject, error) {
	st, err := p.Status(ctx)
	if err != nil {
		return nil, err
	}
	tag := publishedTag(st.Tag)
	if r.Params.IfNoneMatch != nil && matches([]string{*r.Params.IfNoneMatch}, tag) {
		return rowsKept{api.ListRows304Response{Headers: api.NotPublishedResponseHeaders{ETag: &tag}}}, nil
	}
	if r.Params.Cursor == nil {
		at.id = st.Current.ID
	}
	rows, more, err := p.page(ctx, at.id, q)
	if err != nil {
		return nil, err
	}
	out := api.SnapshotRows{Generation: int64(at.id.Number), Rows: make([]api.SnapshotRow, len(rows))}
	for i, r := range rows {
		out.Rows[i] = api.SnapshotRow{Path: r.Path, Size: r.Size, Mtime: r.MTime.UTC(), Digest: r.Digest}
	}
	if more {
		next := rowCursor{at.id, rows[len(rows)-1].Path}.String()
		out.Next = &next
	}
	return api.ListRows200JSONResponse{Body: out, Headers: api.ListRows200ResponseHeaders{ETag: &tag}}, nil
}

// A rowsKept tells a client that has a page that it may keep it, as the answer with the body would.
type rowsKept struct{ api.ListRows304Response }

func (a rowsKept) VisitListRowsResponse(w http.ResponseWriter) error {
	w.Header().Set("Cache-Control", "no-cache")
	return a.ListRows304Response.VisitListRowsResponse(w)
}

// A pageRequest says which rows of a generation.
type pageRequest struct {
	prefix, after string
	limit         int
}

// page returns rows of one generation. A part that is missing because the generation was swept meanwhile is no loss.
func (p *picture) page(ctx context.Context, id snapshot.ID, q pageRequest) ([]snapshot.Row, bool, error) {
	g, err := p.OpenID(ctx, id)
	if err != nil {
		return nil, false, err
	}
	rows, more, err := g.Page(ctx, q.prefix, q.after, q.limit)
	if errors.Is(err, snapshot.ErrMissing) {
		if st, loading := p.Status(ctx); loading == nil && st.Current.ID != id {
			err = &snapshot.SweptError{ID: id, Current: st.Current, Tag: st.Tag}
		}
	}
	return rows, more, err
}

// A rowCursor is a place in a generation: behind the row of a path.
type rowCursor struct {
	id   snapshot.ID
	path string
}

func (c rowCursor) String() string {
	return cursorText.EncodeToString([]byte(c.id.String() + "\n" + c.path))
}

func readRowCursor(text *string) (rowCursor, error) {
	place, err := readCursor(text)
	if err != nil || text == nil {
		return rowCursor{}, err
	}
	name, path, _ := strings.Cut(place, "\n")
	id, err := snapshot.ParseID(name)
	if err != nil || snapshot.CheckPath(path) != nil {
		return rowCursor{}, badCursor()
	}
	return rowCursor{id, path}, nil
}

// PublishRows is POST …/rows: two GET and one LIST if nothing has changed; else two GET, two LIST, three PUT, one PUT for each
// part, and deletes.
func (s *Server) PublishRows(ctx context.Context, r api.PublishRowsRequestObject) (api.PublishRowsResponseObject, error) {
	p, err := s.gallery.open(r.Namespace, r.Name)
	if err != nil {
		return nil, err
	}
	opts := &snapshot.PublishOptions{}
	if opts.Tag, err = readSeen(r.Params.IfMatch, r.Params.IfNoneMatch); err != nil {
		return nil, err
	}
	if a := r.Params.AllowEmpty; a != nil {
		if opts.AllowEmpty = *a == "true"; !opts.AllowEmpty && *a != "false" {
			return nil, badRequest("The parameter allow_empty is neither true nor false.", "Give one of them, or leave it out.")
		}
	}
	listing := &listing{body: r.Body}
	res, err := p.Publish(ctx, listing.walk, opts)
	switch {
	case err != nil:
		return nil, p.notPublished(ctx, err, listing)
	case res.Outcome == snapshot.Superseded:
		s.log.InfoContext(ctx, "snapshot_superseded", "namespace", p.namespace, "name", p.name, "class", string(snapshot.Operator),
			"generation", res.ID.Number, "pointer", res.Pointer.ID.Number)
		return nil, superseded(res)
	}
	if res.SweepErr != nil {
		s.log.WarnContext(ctx, "replaced generations of a snapshot were left for the next publication", "error", res.SweepErr)
	}
	tag, body := publishedTag(res.Tag), publication(res)
	if res.Outcome == snapshot.Unchanged {
		return api.PublishRows200JSONResponse{Body: body, Headers: api.PublishRows200ResponseHeaders{ETag: &tag}}, nil
	}
	s.log.InfoContext(ctx, "snapshot_published", "namespace", p.namespace, "name", p.name, "class", string(snapshot.Operator),
		"generation", res.Pointer.ID.Number, "rows", res.Pointer.Rows)
	return api.PublishRows201JSONResponse{Body: body, Headers: api.PublishRows201ResponseHeaders{ETag: &tag}}, nil
}

func publication(res snapshot.Result) api.SnapshotPublication {
	c := res.Pointer
	return api.SnapshotPublication{
		Outcome: api.SnapshotPublicationOutcome(res.Outcome),
		Current: api.SnapshotGeneration{
			Generation: int64(c.ID.Number), Id: c.ID.String(), Rows: c.Rows, Parts: c.Parts, Bytes: c.Bytes, Digest: c.Digest,
			Class: api.SnapshotGenerationClass(c.Class), PublishedAt: instant(c.PublishedAt),
		},
		Swept: api.SnapshotSwept{Generations: res.Swept.Generations, Objects: res.Swept.Keys, Kept: res.Swept.Kept},
	}
}

// readSeen reads what was published when the walk began. Any state will not do here: the listing might be older than it.
func readSeen(ifMatch, ifNoneMatch *string) (tag string, err error) {
	const action = "Read the ETag of the snapshot before the walk begins, and send it in If-Match; or If-None-Match: * if there " +
		"was no snapshot."
	switch {
	case ifMatch == nil && ifNoneMatch == nil:
		return "", &problem{
			status: http.StatusPreconditionRequired, code: codePrecondition,
			detail: "The request does not say what was published when its walk began; nothing was done.", action: action,
		}
	case ifMatch != nil && ifNoneMatch != nil:
		return "", badRequest("The request has both If-Match and If-None-Match; nothing was done.", action)
	case ifNoneMatch != nil:
		if strings.TrimSpace(*ifNoneMatch) != "*" {
			return "", badRequest("If-None-Match is not *, which is all that a publication takes; nothing was done.", action)
		}
		return snapshot.NoTag, nil
	case strings.TrimSpace(*ifMatch) == "*":
		return "", badRequest("If-Match is *, and a listing of files is made after one state that was published; nothing was done.",
			action)
	}
	strong, ok := strongTags(*ifMatch)
	if !ok || len(strong) != 1 {
		return "", badRequest("If-Match is not one strong entity tag; nothing was done.", action)
	}
	tag, err = url.PathUnescape(strong[0])
	if err != nil || tag == "" || tag == snapshot.NoTag {
		return "", badRequest("If-Match is no tag of a snapshot; nothing was done.", action)
	}
	return tag, nil
}

// A listing is a body on its way.
type listing struct {
	body io.Reader
	rows int64 // that were taken
	err  error // why the body could not be read
}

func (l *listing) walk(add func(snapshot.Row) error) error {
	return snapshot.NDJSON(l)(func(r snapshot.Row) error {
		err := add(r)
		if err == nil {
			l.rows++
		}
		return err
	})
}

func (l *listing) Read(p []byte) (int, error) {
	n, err := l.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}

// ndjson refuses bodies that are not declared as lines of JSON, before any of them is read.
func ndjson(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		kind, _, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
		if err != nil || kind != "application/x-ndjson" {
			return &problem{
				status: http.StatusUnsupportedMediaType, code: codeMediaType,
				detail: "The body is not declared as lines of JSON; nothing was done.",
				action: "Send it with Content-Type: application/x-ndjson.",
			}
		}
		return next(c)
	}
}
