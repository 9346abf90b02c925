package live

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

// Errors of a Hub; those of package blobindex come beside them.
var (
	// ErrClosed: the Hub is closed. Another one may answer.
	ErrClosed = errors.New("live: closed")
	// ErrSlow ends a stream that has fallen so far behind that events are lost; subscribe again.
	ErrSlow = errors.New("live: the stream fell behind")
	// ErrTooMany: as many views, shapes of one view, or streams as there may be are in use. It passes when some end.
	ErrTooMany = errors.New("live: too many views, shapes or streams at once")
)

// Options of New; nil and zero fields mean the defaults.
type Options struct {
	// MinInterval is the time from one listing of a view to the next while things change, default 2 s; MaxInterval the longest
	// one while nothing does, default 15 s.
	MinInterval, MaxInterval time.Duration
	// Hold is how long a read keeps its view open, default 15 s; Keep how long the state of a view that is not open is kept,
	// default 15 min.
	Hold, Keep time.Duration
	// ListTimeout bounds one listing, default 30 s. After one that took longer it doubles, up to the 2 min that a listing may
	// take at the most, until one is complete; one that takes long by nature is given three times as long as the last.
	ListTimeout time.Duration
	// Patience is how long who has a last good view waits for a listing before the view counts as stale, default 5 s, and at
	// least three times as long as the last one took.
	Patience time.Duration
	// Buffer is how many events of a shape are kept, default 256.
	Buffer int
	// MaxViews and MaxStreams are of the Hub, MaxShapes of a view; defaults 1024, 20,000 and 256.
	MaxViews, MaxStreams, MaxShapes int
	// Encode makes the bytes that Event.Data holds, once for each event of a shape, and for each whole view that a stream begins
	// with, once while it is current. With it, events are delivered without their View and Removed. It must not block.
	Encode func(Event) ([]byte, error)
	// Observe is told what happens, from any goroutine. It must not block, and not call the Hub.
	Observe func(Observation)
	// Log takes the errors of listings that viewers do not see; default: nothing is logged.
	Log *slog.Logger
}

// Defaults of Options.
const (
	DefaultMinInterval = 2 * time.Second
	DefaultMaxInterval = 15 * time.Second
	DefaultHold        = 15 * time.Second
	DefaultKeep        = 15 * time.Minute
	DefaultListTimeout = 30 * time.Second
	DefaultPatience    = 5 * time.Second
	DefaultBuffer      = 256
	DefaultMaxViews    = 1024
	DefaultMaxStreams  = 20_000
	DefaultMaxShapes   = 256
)

// longestListing is the longest time that a listing may take and still count.
const longestListing = 2 * time.Minute

func (o Options) withDefaults() Options {
	o.MinInterval = cmp.Or(max(0, o.MinInterval), DefaultMinInterval)
	o.MaxInterval = max(o.MinInterval, cmp.Or(max(0, o.MaxInterval), DefaultMaxInterval))
	o.Hold = cmp.Or(max(0, o.Hold), DefaultHold)
	o.Keep = cmp.Or(max(0, o.Keep), DefaultKeep)
	o.ListTimeout = cmp.Or(max(0, o.ListTimeout), DefaultListTimeout)
	o.Patience = cmp.Or(max(0, o.Patience), DefaultPatience)
	o.Buffer = cmp.Or(max(0, o.Buffer), DefaultBuffer)
	o.MaxViews = cmp.Or(max(0, o.MaxViews), DefaultMaxViews)
	o.MaxStreams = cmp.Or(max(0, o.MaxStreams), DefaultMaxStreams)
	o.MaxShapes = cmp.Or(max(0, o.MaxShapes), DefaultMaxShapes)
	if o.Observe == nil {
		o.Observe = func(Observation) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Hub holds the views of any number of indexes. It is safe for concurrent use. It owns a goroutine for each view, and one for
// each listing under way.
type Hub struct {
	opt  Options
	ctx  context.Context // ends with the Hub
	stop context.CancelFunc

	mu      sync.Mutex // taken before that of a view
	closed  bool
	views   map[viewKey]*view
	streams int

	goMu   sync.Mutex // taken after any other
	ending bool
	going  sync.WaitGroup

	streamsEnded atomic.Bool
}

type viewKey struct {
	index     *blobindex.Index
	namespace string
}

// New returns a Hub without a view. Close ends it.
func New(opt *Options) *Hub {
	if opt == nil {
		opt = &Options{}
	}
	h := &Hub{opt: opt.withDefaults(), views: make(map[viewKey]*view)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// Close ends the streams and listings and waits until nothing of the Hub goes on. Calls after it, and those that wait
// meanwhile, return ErrClosed. It may be called again.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	var views []*view
	for _, v := range h.views {
		views = append(views, v)
	}
	h.mu.Unlock()
	h.goMu.Lock()
	h.ending = true
	h.goMu.Unlock()
	h.stop()
	for _, v := range views {
		v.end(ErrClosed)
	}
	h.going.Wait()
}

// EndStreams ends the streams that are open with ErrClosed, and so it does those that are asked for from now on. Reads and
// writes go on.
func (h *Hub) EndStreams() {
	h.streamsEnded.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.views {
		v.endStreams(ErrClosed)
	}
}

// run starts a goroutine that Close waits for, unless the Hub is closed.
func (h *Hub) run(f func()) bool {
	h.goMu.Lock()
	defer h.goMu.Unlock()
	if h.ending {
		return false
	}
	h.going.Go(f)
	return true
}

// use returns the view of a namespace, open and in use until its leave is called.
func (h *Hub) use(n *blobindex.Namespace) (*view, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	key := viewKey{n.Index(), n.Name()}
	v := h.views[key]
	if v == nil {
		if len(h.views) >= h.opt.MaxViews && !h.evict() {
			return nil, ErrTooMany
		}
		v = newView(h, n)
		if !h.run(v.run) {
			return nil, ErrClosed
		}
		h.views[key] = v
	}
	v.enter()
	return v, nil
}

// find returns the view of a namespace, if there is one.
func (h *Hub) find(n *blobindex.Namespace) *view {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.views[viewKey{n.Index(), n.Name()}]
}

// evict drops the view that was left longest ago, of those that nobody uses; who comes back finds a new one, which is listed
// before it answers. The lock is held.
func (h *Hub) evict() bool {
	var oldest viewKey
	var left time.Time
	found := false
	for key, v := range h.views {
		if at, idle := v.idle(); idle && (!found || at.Before(left)) {
			oldest, left, found = key, at, true
		}
	}
	if found {
		close(h.views[oldest].dropped)
		delete(h.views, oldest)
	}
	return found
}

// drop removes a view that has been idle for as long as its state is kept.
func (h *Hub) drop(v *view) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !v.expired(time.Now()) {
		return false
	}
	if key := (viewKey{v.n.Index(), v.n.Name()}); h.views[key] == v {
		delete(h.views, key)
	}
	return true
}
