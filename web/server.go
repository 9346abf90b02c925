package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/prune/janitor"
	"github.com/blobindex/indexd/web/api"
	"github.com/blobindex/indexd/web/auth"
	"github.com/labstack/echo/v4"
)

// Options of New; nil and zero fields mean the defaults.
type Options struct {
	// Live is how namespaces are shared among those who look at them; nil means the defaults. Encode is the server's own, and Log
	// is, where there is none, that of these Options.
	Live *live.Options
	// Prices are what the store charges; zero where requests are free.
	Prices Prices
	// Notice is a line of plain text for the page; nil, or an empty answer, shows none. It must not block.
	Notice func() string
	// Manifests are what the routes of manifests work on; nil: they answer that there are none.
	Manifests *Manifests
	// Prune makes a pass over an index; nil: that route answers that there are none. It ends soon after its context does.
	Prune func(context.Context, *blobindex.Index, *janitor.RunOptions) (janitor.Report, error)
	// Snapshots are what the routes of snapshots work on; nil: they answer that there are none.
	Snapshots *Snapshots
	// Auth tells who asks; nil: everybody who can reach the server may do everything, so that it must listen on loopback alone,
	// and it answers under a loopback name only.
	Auth *auth.Gate
	// PublicURL is the origin under which people reach the server through a proxy; empty: the one that requests name. It is
	// for servers with Auth.
	PublicURL string
	// Origins are those of pages that may use the API beside our own; each as browsers send it.
	Origins []string
	// Timeout is the longest that a request may take, but for passes and the time in which files stream; default 60 s. What
	// writes a marker takes 10 s at the most: its client is at work, and has better things to do than to wait for a store that
	// hangs.
	Timeout time.Duration
	// Now is the host's clock, default time.Now.
	Now func() time.Time
	// Log takes one line for each request, and the errors behind 5xx answers, with the id of the request and without what its
	// client has chosen; default: nothing is logged.
	Log *slog.Logger
	// Checks are what /readyz tells of beside the bucket.
	Checks []Check
	// Metrics answers GET /metrics; nil: nothing is there.
	Metrics http.Handler
	// Observe, if set, is called with each request that was answered. It must not block.
	Observe func(Request)
}

// Prices are list prices in US dollars for 1,000 requests.
type Prices struct {
	ListPer1000, GetPer1000 float64
}

// usd is the price of a cost, rounded to 10 decimal places, so that a sum does not show how floating point adds.
func (p Prices) usd(c blobindex.Cost) float64 {
	sum := (float64(c.List)*p.ListPer1000 + float64(c.Get)*p.GetPer1000) / 1000
	return math.Round(sum*1e10) / 1e10
}

const defaultTimeout = 60 * time.Second

// A Server answers the requests of package api and shows the page. It is safe for concurrent use. Its goroutines are those of
// the views that somebody looks at, which Close ends, and of checks that somebody has asked for, which end within 5 s.
type Server struct {
	echo    *echo.Echo
	opt     Options
	log     *slog.Logger // Options.Log, for what is done for a request
	order   []*blobindex.Index
	indexes map[string]*blobindex.Index
	checks  []*checker
	keys    keyMemory
	names   nameCache
	bodies  bodyMemory
	secured http.Header // of every answer
	hub     *live.Hub
	shares  *streamShares
	shelf   *shelf   // nil: there are no manifests
	gallery *gallery // nil: there are no snapshots

	draining   atomic.Bool
	askedReady atomic.Int64 // when /readyz was asked for the last time, in nanoseconds since 1970; 0: never
}

var (
	_ http.Handler              = (*Server)(nil)
	_ api.StrictServerInterface = (*Server)(nil)
)

// New returns a server of the indexes, the one that the page shows first at the front; their names differ. ready says
// whether the bucket can be listed: /readyz calls it as it does Options.Checks, of which it is the first, needed and called
// "store". New makes no request of the store.
func New(indexes []*blobindex.Index, ready func(context.Context) error, opt *Options) (*Server, error) {
	if len(indexes) == 0 {
		return nil, errors.New("web: no index to serve")
	}
	if ready == nil {
		return nil, errors.New("web: nothing says whether the bucket can be listed")
	}
	s := &Server{
		echo: echo.New(), order: slices.Clone(indexes), indexes: make(map[string]*blobindex.Index),
	}
	if opt != nil {
		s.opt = *opt
	}
	if !(s.opt.Prices.ListPer1000 >= 0 && s.opt.Prices.GetPer1000 >= 0) {
		return nil, fmt.Errorf("web: prices of %v are no prices", s.opt.Prices)
	}
	if s.opt.PublicURL != "" {
		if err := CheckOrigin(s.opt.PublicURL); err != nil {
			return nil, fmt.Errorf("web: the public URL: %w", err)
		}
		if s.opt.Auth == nil {
			return nil, errors.New("web: a public URL without authentication would let everybody in")
		}
	}
	for _, o := range s.opt.Origins {
		if err := CheckOrigin(o); err != nil {
			return nil, fmt.Errorf("web: the origins: %w", err)
		}
	}
	for _, x := range indexes {
		if s.indexes[x.Name()] != nil {
			return nil, fmt.Errorf("web: two indexes are called %q", x.Name())
		}
		s.indexes[x.Name()] = x
	}
	if s.opt.Timeout <= 0 {
		s.opt.Timeout = defaultTimeout
	}
	if s.opt.Now == nil {
		s.opt.Now = time.Now
	}
	if s.opt.Log == nil {
		s.opt.Log = slog.New(slog.DiscardHandler)
	}
	s.log = slog.New(requestLog{s.opt.Log.Handler()})
	store := Check{storeCheck, true, func(ctx context.Context) (string, error) { return "", ready(ctx) }}
	for _, c := range append([]Check{store}, s.opt.Checks...) {
		if c.Name == "" || c.Do == nil {
			return nil, errors.New("web: a check has no name, or does nothing")
		}
		s.checks = append(s.checks, &checker{Check: c, s: s})
	}
	s.secured = secure()
	sharing := s.sharing()
	s.hub, s.shares = live.New(sharing), newStreamShares(sharing)
	s.shelf = newShelf(s.opt.Manifests, s.opt.Now)
	s.gallery = newGallery(s.opt.Snapshots, s.opt.Now)
	s.route()
	if err := s.checkAccess(); err != nil {
		return nil, err
	}
	return s, nil
}

// Views tell about the views that somebody looks at.
func (s *Server) Views() []live.Stats { return s.hub.Stats() }

// EndStreams ends the streams of events, and opens no other; their clients connect again, elsewhere or when the server is back.
// It is for the beginning of a shutdown, since http.Server.Shutdown waits for whoever is being answered.
func (s *Server) EndStreams() { s.hub.EndStreams() }

// Close ends the streams and whatever goes on for them, and waits for it. Requests that come later are refused, if they need a
// view. It may be called again.
func (s *Server) Close() { s.hub.Close() }

func (s *Server) route() {
	e := s.echo
	e.HTTPErrorHandler = s.refuse
	e.Binder = binder{}
	// In this order: what is logged includes what is refused, and a panic anywhere below is an answer.
	e.Pre(s.observe, s.recover, s.edge)
	e.Use(keepQuiet, checkQuery, s.guard)
	r := router{e, s}
	api.RegisterHandlers(r, api.NewStrictHandler(s, nil))
	e.GET(eventsRoute, s.events, lasting) // whose answer to HEAD would have no end either
	r.GET("/", s.page)
	r.GET(manifestPage, s.manifestPage)
	r.GET(snapshotPage, s.snapshotPage)
	r.GET("/ui/:asset", asset)
	r.GET(signInPage, s.signInForm)
	r.POST(signInPage, s.signIn)
	r.POST(signOutRoute, s.signOut)
	r.GET("/openapi.yaml", description)
	r.GET(metricsRoute, s.metrics)
}

// A router puts around each handler what most routes want: Options.Timeout, and for GET an answer that is whole; around
// those of files that stream, and of passes, what these want. A route that wants neither is registered with the Echo itself.
type router struct {
	*echo.Echo
	s *Server
}

// GET registers the handler for HEAD as well; net/http drops the body then.
func (r router) GET(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	switch path {
	case blobRoute:
		m = append(m, streamedOut)
	default:
		m = append(m, whole(!momentary(path)), r.s.limited(r.s.opt.Timeout))
	}
	r.Echo.HEAD(path, h, m...)
	return r.Echo.GET(path, h, m...)
}

func (r router) POST(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	switch path {
	case entriesRoute:
		return r.Echo.POST(path, h, append(m, r.s.streamedIn)...)
	case pruneRoute:
		return r.Echo.POST(path, h, append(m, patient)...)
	case rowsRoute:
		return r.Echo.POST(path, h, append(m, ndjson, r.s.streamedIn)...)
	}
	return r.Echo.POST(path, h, append(m, r.s.limit(path))...)
}

func (r router) PUT(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	if path == entryRoute {
		return r.Echo.PUT(path, h, append(m, r.s.streamedIn)...)
	}
	return r.Echo.PUT(path, h, append(m, r.s.limit(path))...)
}

func (r router) DELETE(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	return r.Echo.DELETE(path, h, append(m, r.s.limit(path))...)
}

// momentary reports whether the answers of a GET route tell of their own instant: nothing of them may be kept.
func momentary(route string) bool {
	switch route {
	case "/", manifestPage, snapshotPage, signInPage, "/healthz", "/readyz", metricsRoute, namespaceRoute + "/items/:id/explain":
		return true
	}
	return false
}

// get reports whether a request reads, by GET or by HEAD.
func get(c echo.Context) bool {
	return c.Request().Method == http.MethodGet || c.Request().Method == http.MethodHead
}

// ServeHTTP answers one request. The router and the generated code take the path as it was sent and decode each
// segment once; without a RawPath they would take the decoded one, in which nobody can tell "%2F" from "/".
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		w.Header().Set("Connection", "close") // after this answer, not in the middle of the next request
	}
	s.echo.ServeHTTP(w, withRawPath(r))
}

func withRawPath(r *http.Request) *http.Request {
	u, raw := *r.URL, *r
	u.RawPath = r.URL.EscapedPath()
	raw.URL = &u
	return &raw
}

func description(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", api.Description)
}
