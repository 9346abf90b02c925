package web

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/web/ui"
	"github.com/labstack/echo/v4"
)

const manifestPage = "/manifests"

// pageEntries is how many entries the page shows, the newest of all.
const pageEntries = 500

// manifestPage is GET /manifests: one GET of the store, or none where no manifest is named.
func (s *Server) manifestPage(c echo.Context) error {
	p := ui.ManifestPage{
		Namespace: c.QueryParam("namespace"), Name: c.QueryParam("name"), Account: account(c.Request().Context()),
	}
	for _, given := range []string{p.Namespace, p.Name} {
		if err := blobindex.CheckName(given); given != "" && err != nil {
			return manifestProblem(err, looks)
		}
	}
	if p.Namespace == "" || p.Name == "" {
		return renderManifest(c, http.StatusOK, p)
	}
	b, err := s.shelf.open(p.Namespace, p.Name)
	if err != nil {
		return err
	}
	state, _, err := b.load(c.Request().Context())
	if err != nil {
		return err
	}
	p.Manifest = s.manifestView(b, state)
	return renderManifest(c, http.StatusOK, p)
}

func (s *Server) manifestView(b *book, state manifest.State) *ui.Manifest {
	m := &ui.Manifest{Total: len(state.Entries), Now: s.opt.Now(), API: entriesPath(b.namespace, b.name)}
	first := max(0, m.Total-pageEntries)
	for i, e := range state.Entries {
		m.Bytes += e.Size
		if i < first {
			continue
		}
		path := entryPath(b.namespace, b.name, e.ID)
		shown := ui.Entry{
			Place: i + 1, ID: e.ID, DedupeKey: e.DedupeKey, Size: e.Size, Digest: e.Digest, Added: instant(e.AddedAt), URL: path,
		}
		for _, name := range slices.Sorted(maps.Keys(e.Meta)) {
			shown.Meta = append(shown.Meta, ui.Pair{Name: name, Text: e.Meta[name]})
		}
		for _, f := range e.Blobs {
			shown.Files = append(shown.Files, ui.Download{
				Name: f.Name, Size: f.Size, Digest: f.Digest, URL: path + "/blobs/" + url.PathEscape(f.Key),
			})
		}
		m.Entries = append(m.Entries, shown)
	}
	return m
}

// manifestProblemPage shows a problem to people.
func (s *Server) manifestProblemPage(c echo.Context, p *problem) error {
	page := ui.ManifestPage{
		Namespace: c.QueryParam("namespace"), Name: c.QueryParam("name"), Problem: p.shown(),
		Account: account(c.Request().Context()),
	}
	if p.status == http.StatusForbidden || blobindex.CheckName(page.Namespace) != nil || blobindex.CheckName(page.Name) != nil {
		page.Namespace, page.Name = "", "" // nothing that is no name is repeated
	}
	return renderManifest(c, p.status, page)
}

func renderManifest(c echo.Context, status int, p ui.ManifestPage) error {
	var buf bytes.Buffer
	if err := ui.RenderManifest(&buf, p); err != nil {
		return internal(err)
	}
	return c.Blob(status, htmlType, buf.Bytes())
}
