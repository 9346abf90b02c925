package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/web/auth"
	"github.com/labstack/echo/v4"
)

// Routes that package api has no types for.
const (
	eventsRoute  = namespaceRoute + "/events"
	metricsRoute = "/metrics"
	signInPage   = "/signin"
	signOutRoute = "/signout"
)

// An access is what a route asks of its caller, where there is authentication. allow gets what the request names, before
// anything is asked of the store or of what is kept of it; its error is a problem.
type access struct {
	open  bool // nothing
	page  bool // it is for people: who is not signed in is led to where they can
	allow func(s *Server, c echo.Context, p *auth.Principal) error
}

// accessTo is the one table of what routes ask for. New refuses a route that is not in it.
func accessTo(method, route string) (access, bool) {
	switch method + " " + route {
	case "GET /healthz", "GET /readyz", "GET /openapi.yaml", "GET /ui/:asset", "GET " + signInPage, "POST " + signInPage,
		"POST " + signOutRoute:
		// The first two are for who watches the process, and tell no more than how it does; the rest is in the source.
		return access{open: true}, true
	case "GET /v1/indexes":
		return access{allow: anybody}, true
	case "GET /v1/indexes/:index/namespaces":
		return access{allow: toIndex}, true
	case "GET " + namespaceRoute + "/items", "GET " + namespaceRoute + "/cards", "GET " + namespaceRoute + "/recent",
		"GET " + eventsRoute, "GET " + namespaceRoute + "/items/:id/explain":
		return access{allow: toNamespace(auth.Read)}, true
	case "POST " + namespaceRoute + "/items", "PUT " + namespaceRoute + "/items/:id", "DELETE " + namespaceRoute + "/items/:id",
		"POST " + namespaceRoute + "/items/:id/heartbeat":
		return access{allow: toNamespace(auth.Write)}, true
	case "POST " + pruneRoute:
		return access{allow: toPrune}, true
	case "GET " + entriesRoute, "GET " + entryRoute, "GET " + blobRoute, "GET " + snapshotRoute, "GET " + rowsRoute:
		return access{allow: toDocuments(auth.Read)}, true
	case "POST " + entriesRoute, "PUT " + entryRoute, "DELETE " + entryRoute, "POST " + rowsRoute:
		return access{allow: toDocuments(auth.Write)}, true
	case "GET /":
		return access{page: true, allow: toPage}, true
	case "GET " + manifestPage, "GET " + snapshotPage:
		return access{page: true, allow: toDocumentPage}, true
	case "GET " + metricsRoute:
		return access{allow: toServer}, true
	}
	return access{}, false
}

// checkAccess returns an error unless all routes are in the table.
func (s *Server) checkAccess() error {
	for _, r := range s.echo.Routes() {
		if _, ok := accessTo(reading(r.Method), r.Path); !ok {
			return fmt.Errorf("web: nothing says who may %s %s", r.Method, r.Path)
		}
	}
	return nil
}

// reading is GET for HEAD too.
func reading(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

// forbidden is one and the same for whatever the caller may not do, be it there or not.
func forbidden() *problem {
	return &problem{
		status: http.StatusForbidden, code: codeForbidden,
		detail: "The grants of this token do not cover what was asked for.",
		action: "GET /v1/indexes tells what they cover; who runs the server can give others.",
	}
}

func permit(ok bool) error {
	if !ok {
		return forbidden()
	}
	return nil
}

func anybody(*Server, echo.Context, *auth.Principal) error { return nil }

func toNamespace(a auth.Action) func(*Server, echo.Context, *auth.Principal) error {
	return func(_ *Server, c echo.Context, p *auth.Principal) error {
		index, err := pathName(c, "index")
		if err != nil {
			return err
		}
		namespace, err := pathName(c, "namespace")
		if err != nil {
			return err
		}
		return permit(p.May(a, index, namespace))
	}
}

func toIndex(_ *Server, c echo.Context, p *auth.Principal) error {
	index, err := pathName(c, "index")
	if err != nil {
		return err
	}
	return permit(readsSome(p, index))
}

func readsSome(p *auth.Principal, index string) bool {
	names, all := p.Namespaces(auth.Read, index)
	return all || len(names) > 0
}

func toPrune(_ *Server, c echo.Context, p *auth.Principal) error {
	index, err := pathName(c, "index")
	if err != nil {
		return err
	}
	return permit(p.May(auth.Prune, index, cmp.Or(c.QueryParam("namespace"), auth.All)))
}

// toDocuments is access to manifests and snapshots, which belong to no index.
func toDocuments(a auth.Action) func(*Server, echo.Context, *auth.Principal) error {
	return func(_ *Server, c echo.Context, p *auth.Principal) error {
		namespace, err := pathName(c, "namespace")
		if err != nil {
			return err
		}
		return permit(p.May(a, auth.AnyIndex, namespace))
	}
}

// toPage: without an index and a namespace the page shows what the caller may see.
func toPage(s *Server, c echo.Context, p *auth.Principal) error {
	index, namespace := c.QueryParam("index"), c.QueryParam("namespace")
	if index == "" {
		if index = s.firstOf(p); index == "" {
			return forbidden()
		}
	}
	if namespace == "" {
		return permit(readsSome(p, index))
	}
	return permit(p.May(auth.Read, index, namespace))
}

// toDocumentPage: without a namespace the page only asks for one.
func toDocumentPage(_ *Server, c echo.Context, p *auth.Principal) error {
	namespace := c.QueryParam("namespace")
	return permit(namespace == "" || p.May(auth.Read, auth.AnyIndex, namespace))
}

func toServer(_ *Server, _ echo.Context, p *auth.Principal) error {
	return permit(p.May(auth.Operate, auth.All, auth.All))
}

// pathName is a name in the path, decoded once, as the generated code decodes it. What no index and no namespace can be called
// is refused here: what it is compared with must be names.
func pathName(c echo.Context, param string) (string, error) {
	name, err := url.PathUnescape(c.Param(param))
	if err != nil {
		return "", badRequest("A name in the path is not percent-encoded as it should be.", "Encode each byte of it once.")
	}
	if err := blobindex.CheckName(name); err != nil && (param != "namespace" || name != blobindex.FlatNamespace) {
		return "", storeProblem(err, reads)
	}
	return name, nil
}

// namesFor returns the namespaces of an index that a principal may read; or all, if there are no others. It asks nothing of the
// store: how long that takes, and what it costs, would tell of the others.
func namesFor(p *auth.Principal, x *blobindex.Index) (names []string, all bool) {
	names, all = p.Namespaces(auth.Read, x.Name())
	if all {
		return nil, true
	}
	return slices.DeleteFunc(names, func(n string) bool { _, err := x.Namespace(n); return err != nil }), false
}

// seen is namesFor the caller: without authentication everybody sees all, with it, who has not been asked for it sees nothing.
func (s *Server) seen(ctx context.Context, x *blobindex.Index) (names []string, all bool) {
	if s.opt.Auth == nil {
		return nil, true
	}
	p := caller(ctx)
	if p == nil {
		return nil, false
	}
	return namesFor(p, x)
}

// visible returns the indexes of which the caller may see something.
func (s *Server) visible(ctx context.Context) []*blobindex.Index {
	return slices.DeleteFunc(slices.Clone(s.order), func(x *blobindex.Index) bool {
		names, all := s.seen(ctx, x)
		return !all && len(names) == 0
	})
}

// first is the name of the first of those; empty if there are none.
func (s *Server) first(ctx context.Context) string {
	if all := s.visible(ctx); len(all) > 0 {
		return all[0].Name()
	}
	return ""
}

func (s *Server) firstOf(p *auth.Principal) string { return s.first(asCaller(context.Background(), p)) }

// sees reports whether the caller may read a namespace.
func (s *Server) sees(ctx context.Context, x *blobindex.Index, namespace string) bool {
	names, all := s.seen(ctx, x)
	return all || slices.Contains(names, namespace)
}
