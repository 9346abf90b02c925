package web

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/web/ui"
	"github.com/labstack/echo/v4"
)

// pageRecent is how many finished items the page shows.
const pageRecent = 8

// page is GET /. What it shows of what is running is the view that the API shows, at the same instant.
func (s *Server) page(c echo.Context) error {
	ctx := c.Request().Context()
	namespace := c.QueryParam("namespace")
	x, err := s.index(cmp.Or(c.QueryParam("index"), s.first(ctx)))
	if err != nil {
		return err
	}
	if namespace != "" {
		if _, err := x.Namespace(namespace); err != nil {
			return storeProblem(err, reads) // before anything is asked of the store
		}
	}
	names, cost := s.namespaces(ctx, x)
	n, err := x.Namespace(cmp.Or(namespace, firstNamespace(x, names)))
	if err != nil {
		return storeProblem(err, reads)
	}
	if !s.sees(ctx, x, n.Name()) {
		return forbidden()
	}
	v, err := s.cards(ctx, n, blobindex.CardsRequest{Recent: pageRecent})
	if err != nil {
		return err
	}
	p := s.frame(ctx, x, n.Name(), names)
	p.View = s.view(x, n, v, cost)
	p.View.Base = s.ownOrigin(c.Request())
	return render(c, http.StatusOK, p)
}

// namespaces are those of the picker; the page does without rather than fail.
func (s *Server) namespaces(ctx context.Context, x *blobindex.Index) ([]string, blobindex.Cost) {
	if names, all := s.seen(ctx, x); !all {
		return names, blobindex.Cost{}
	}
	names, cost, err := s.names.list(ctx, x, s.opt.Now())
	if err != nil {
		s.log.WarnContext(ctx, "listing the namespaces for the page failed", "index", x.Name(), "error", err)
	}
	return names, cost
}

const defaultNamespace = "default"

func firstNamespace(x *blobindex.Index, names []string) string {
	switch {
	case x.Flat():
		return blobindex.FlatNamespace
	case len(names) == 0 || slices.Contains(names, defaultNamespace):
		return defaultNamespace
	}
	return names[0]
}

// frame is what stands around a view, or around a problem. x may be nil.
func (s *Server) frame(ctx context.Context, x *blobindex.Index, namespace string, names []string) ui.Page {
	p := ui.Page{Namespace: namespace, Account: account(ctx)}
	for _, one := range s.visible(ctx) {
		p.Indexes = append(p.Indexes, one.Name())
	}
	if x != nil {
		p.Index, p.Flat = x.Name(), x.Flat()
		p.Namespaces = names
		if namespace != "" && !slices.Contains(names, namespace) {
			p.Namespaces = append([]string{namespace}, names...)
			slices.Sort(p.Namespaces)
		}
	}
	if s.opt.Notice != nil && len(p.Indexes) == len(s.order) { // it may name any of them
		p.Notice = s.opt.Notice()
	}
	return p
}

// problemPage shows a problem to people. What is running is not known then, and the page says so.
func (s *Server) problemPage(c echo.Context, p *problem) error {
	var page ui.Page
	action, ctx := p.action, c.Request().Context()
	visible := s.visible(ctx)
	x := s.indexes[cmp.Or(c.QueryParam("index"), s.first(ctx))]
	switch {
	case len(visible) == 0, p.status == http.StatusForbidden, p.status == http.StatusTooManyRequests:
		page = s.frame(ctx, nil, "", nil) // which names were asked for must make no difference
	case !slices.Contains(visible, x):
		page = s.frame(ctx, nil, "", nil)
		action = "Choose an index above."
	default:
		namespace := c.QueryParam("namespace")
		if _, err := x.Namespace(namespace); err != nil {
			namespace = "" // nothing that is no name is repeated
		}
		names, all := s.seen(ctx, x)
		if all {
			names = s.names.last(x) // without asking the store, which may be the problem
		}
		if !s.sees(ctx, x, namespace) {
			namespace = ""
		}
		page = s.frame(ctx, x, namespace, names)
	}
	page.Problem = p.shown()
	page.Problem.Action = action
	return render(c, p.status, page)
}

// account is what the page calls who is signed in.
func account(ctx context.Context) string {
	if p := caller(ctx); p != nil {
		return p.Name
	}
	return ""
}

func (p *problem) shown() *ui.Problem {
	return &ui.Problem{
		Title: http.StatusText(p.status), Status: p.status, Code: p.code, Detail: p.detail, Action: p.action, Retry: p.retry,
	}
}

const htmlType = "text/html; charset=utf-8"

func render(c echo.Context, status int, p ui.Page) error {
	var buf bytes.Buffer
	if err := ui.Render(&buf, p); err != nil {
		return internal(err)
	}
	return c.Blob(status, htmlType, buf.Bytes())
}

// view is what the page shows of a blobindex.View; names is what finding the namespaces took.
func (s *Server) view(x *blobindex.Index, n *blobindex.Namespace, v blobindex.View, names blobindex.Cost) *ui.View {
	path := namespacePath(x.Name(), n.Name())
	out := &ui.View{
		Live: v.Counts.Live, Shown: v.Counts.Shown, AsOf: v.AsOf, Now: v.AsOf, HostClock: v.Clock == blobindex.HostClock,
		Stale: !v.Complete, StaleSince: v.StaleSince, Facts: facts(v.Counts, x.Rules().TTL),
		API: path, Manifests: s.shelf != nil, Snapshots: s.gallery != nil,
	}
	if now, _ := x.StoreNow(); out.Stale && now.After(v.AsOf) {
		out.Now = now // ages go on while the store is away
	}
	for _, c := range cardsBody(v).Cards {
		out.Cards = append(out.Cards, ui.Card{
			ID: c.Id, Title: cmp.Or(c.Title, c.Subkey), Owner: c.Owner, URL: c.Url, State: string(c.State), Late: c.Late,
			Started: c.StartedAt, LastSeen: c.LastSeenAt, Progress: c.Progress,
			ExplainURL: itemPath(x.Name(), n.Name(), c.Id) + "/explain",
		})
	}
	for _, e := range v.Recent {
		out.Recent = append(out.Recent, ui.Ended{
			ID: e.ID, Subkey: e.Subkey, Outcome: string(e.Outcome), Took: e.EndedAt.Sub(e.StartedAt), Ended: e.EndedAt,
			ExplainURL: itemPath(x.Name(), n.Name(), e.ID) + "/explain",
		})
	}
	cost := v.Cost
	cost.List += names.List
	out.Cost = fmt.Sprintf("%d LIST", cost.List)
	if cost.Get > 0 {
		out.Cost += fmt.Sprintf(" + %d GET", cost.Get)
	}
	out.Price = "$" + usd(s.opt.Prices.usd(cost))
	return out
}

// facts are the counts that are not zero, in words, but for those that the headline tells.
func facts(c blobindex.Counts, ttl time.Duration) []ui.Fact {
	var out []ui.Fact
	add := func(n int, name, one, many, help string) {
		text := many
		if n == 1 {
			text = one
		}
		if n > 0 {
			out = append(out, ui.Fact{Name: name, Count: strconv.Itoa(n), Text: text, Help: help})
		}
	}
	add(c.Unresolved, "unresolved", "not looked up", "not looked up",
		"Running as far as the list tells. The request budget of one view was spent before their state was asked for.")
	add(c.Superseded, "superseded", "replaced by a newer run", "replaced by newer runs",
		"Older runs of a sub-key that runs again. Only the newest run of a sub-key is shown.")
	add(c.Stale, "stale", "silent too long", "silent too long",
		"Neither started nor heard of within "+span(ttl)+". They count as over, and their keys are cleaned up.")
	add(c.BornLate, "born_late", "registered late", "registered late",
		"Registered long after the time in their id: a late registration, or a host whose clock is behind.")
	add(c.Foreign, "foreign", "key that is no item", "keys that are no items",
		"Objects under this namespace with another kind of name, or dated in the future. They are never shown.")
	return out
}

// span writes a duration without the zeros that time.Duration ends in: "2h", not "2h0m0s".
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-len("0s")]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-len("0m")]
	}
	return s
}

// asset is GET /ui/{asset}.
func asset(c echo.Context) error {
	a, ok := ui.Asset(c.Param("asset"))
	if !ok {
		return echo.ErrNotFound
	}
	return c.Blob(http.StatusOK, a.Type, a.Body)
}
