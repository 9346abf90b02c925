package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/web/ui"
	"github.com/labstack/echo/v4"
)

const snapshotPage = "/snapshots"

// Bounds of the page.
const (
	pageNames = 500    // files and directories that it shows
	pageRows  = 10_000 // that are read at a time; directories are skipped from their first to the next
	pageReads = 20     // of those
)

// snapshotPage is GET /snapshots: three GET and some parts, or none where no snapshot is named.
func (s *Server) snapshotPage(c echo.Context) error {
	ctx := c.Request().Context()
	p := ui.SnapshotPage{
		Namespace: c.QueryParam("namespace"), Name: c.QueryParam("name"), Account: account(c.Request().Context()),
	}
	for _, given := range []string{p.Namespace, p.Name} {
		if err := blobindex.CheckName(given); given != "" && err != nil {
			return snapshotProblem(err)
		}
	}
	dir := c.QueryParam("path")
	if dir != "" && snapshot.CheckPath(dir) != nil {
		return badRequest("The path is none that a snapshot can have.", "Give segments joined by slashes, with none at the end.")
	}
	if p.Namespace == "" || p.Name == "" {
		return renderSnapshot(c, http.StatusOK, p)
	}
	pic, err := s.gallery.open(p.Namespace, p.Name)
	if err != nil {
		return err
	}
	st, d, err := pic.browse(ctx, dir)
	if err != nil {
		return pic.refused(ctx, err)
	}
	p.Snapshot = s.snapshotView(pic, st, d)
	return renderSnapshot(c, http.StatusOK, p)
}

// A folder is what is in one directory of a generation.
type folder struct {
	path    string // empty: the topmost one
	entries []ui.SnapshotEntry
	more    bool // than are shown
}

// browse reads a directory of the current generation; again, if that is swept meanwhile.
func (p *picture) browse(ctx context.Context, dir string) (st snapshot.Status, d folder, err error) {
	for range 1 + rereads {
		if st, err = p.Status(ctx); err != nil {
			return st, d, err
		}
		if d, err = p.folder(ctx, st.Current.ID, dir); !errors.Is(err, snapshot.ErrSwept) {
			break
		}
	}
	return st, d, err
}

func (p *picture) folder(ctx context.Context, id snapshot.ID, dir string) (folder, error) {
	d := folder{path: dir}
	q := pageRequest{limit: pageRows}
	if dir != "" {
		q.prefix = dir + "/"
	}
	for range pageReads {
		rows, more, err := p.page(ctx, id, q)
		if err != nil {
			return d, err
		}
		for _, r := range rows {
			name, _, below := strings.Cut(r.Path[len(q.prefix):], "/")
			q.after = r.Path
			if below {
				// No path has such a byte: what follows is what is not below that directory.
				q.after = q.prefix + name + "/\xff"
			}
			if n := len(d.entries); below && n > 0 && d.entries[n-1].Directory && d.entries[n-1].Name == name {
				continue
			}
			if len(d.entries) == pageNames {
				d.more = true
				return d, nil
			}
			e := ui.SnapshotEntry{Name: name, Directory: below}
			if !below {
				e.Size, e.Changed, e.Digest = r.Size, instant(r.MTime), r.Digest
			}
			d.entries = append(d.entries, e)
		}
		if !more {
			return d, nil
		}
	}
	d.more = true
	return d, nil
}

func (s *Server) snapshotView(p *picture, st snapshot.Status, d folder) *ui.Snapshot {
	c := st.Current
	v := &ui.Snapshot{
		Generation: c.ID.Number, Rows: c.Rows, Class: string(c.Class), Published: instant(c.PublishedAt), Digest: c.Digest,
		Path: d.path, Entries: d.entries, More: d.more, Now: s.opt.Now(), API: snapshotPath(p.namespace, p.name),
	}
	v.RowsAPI = v.API + "/rows"
	prefix := ""
	if d.path != "" {
		prefix = d.path + "/"
		v.RowsAPI += "?prefix=" + url.QueryEscape(prefix)
	}
	for i := range v.Entries {
		if v.Entries[i].Directory {
			v.Entries[i].URL = p.pageAt(prefix + v.Entries[i].Name)
		}
	}
	v.Above = append(v.Above, ui.Step{Name: p.name, URL: p.pageAt("")})
	for i, part := 0, ""; i < len(d.path); i += len(part) + 1 {
		part, _, _ = strings.Cut(d.path[i:], "/")
		v.Above = append(v.Above, ui.Step{Name: part, URL: p.pageAt(d.path[:i+len(part)])})
	}
	return v
}

// pageAt is the page of a directory.
func (p *picture) pageAt(dir string) string {
	q := url.Values{"namespace": {p.namespace}, "name": {p.name}}
	if dir != "" {
		q.Set("path", dir)
	}
	return snapshotPage + "?" + q.Encode()
}

func snapshotPath(namespace, name string) string {
	return snapshotRoot + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// snapshotProblemPage shows a problem to people.
func (s *Server) snapshotProblemPage(c echo.Context, p *problem) error {
	page := ui.SnapshotPage{
		Namespace: c.QueryParam("namespace"), Name: c.QueryParam("name"), Problem: p.shown(),
		Account: account(c.Request().Context()),
	}
	if p.status == http.StatusForbidden || blobindex.CheckName(page.Namespace) != nil || blobindex.CheckName(page.Name) != nil {
		page.Namespace, page.Name = "", "" // nothing that is no name is repeated
	}
	return renderSnapshot(c, p.status, page)
}

func renderSnapshot(c echo.Context, status int, p ui.SnapshotPage) error {
	var buf bytes.Buffer
	if err := ui.RenderSnapshot(&buf, p); err != nil {
		return internal(err)
	}
	return c.Blob(status, htmlType, buf.Bytes())
}
