package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/prune"
)

// Stats are of one open view.
type Stats struct {
	Index, Namespace string
	// Counts are what the view counts, at the instant AsOf; zero, as are AsOf and Age, before the first good listing.
	Counts prune.Counts
	AsOf   time.Time
	Clock  blobindex.Clock
	// Age is how long ago the last good listing ended, by the host's clock.
	Age time.Duration
	// StaleSince is when the view became stale, zero if it is not; Cause is why.
	StaleSince time.Time
	Cause      error
	Streams    int
}

// Stats tell about the views that are open, by index and namespace. They make no request.
func (h *Hub) Stats() []Stats {
	h.mu.Lock()
	views := make([]*view, 0, len(h.views))
	for _, v := range h.views {
		views = append(views, v)
	}
	h.mu.Unlock()
	var out []Stats
	for _, v := range views {
		if s, ok := v.stats(); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Stats) int {
		return cmp.Or(strings.Compare(a.Index, b.Index), strings.Compare(a.Namespace, b.Namespace))
	})
	return out
}

// Streams is how many streams are open.
func (h *Hub) Streams() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams
}

func (v *view) stats() (s Stats, open bool) {
	v.mu.Lock()
	s = Stats{
		Index: v.n.Index().Name(), Namespace: v.n.Name(), StaleSince: v.since, Cause: v.cause, Streams: v.streams,
	}
	open, listed := v.open, v.base != nil
	if listed {
		s.Age = time.Since(v.listed)
	}
	v.mu.Unlock()
	if open && listed {
		r := v.read()
		s.Counts, s.AsOf, s.Clock = r.snapshot.Counts(), r.snapshot.AsOf, r.snapshot.Clock
		s.StaleSince, s.Cause = r.since, r.cause
	}
	return s, open
}

// A Happening is what an Observation tells of.
type Happening string

// What is observed.
const (
	Listed Happening = "listed" // a listing ended, well or not
	Opened Happening = "opened" // a stream
	Ended  Happening = "ended"  // a stream
	Slow   Happening = "slow"   // a stream that fell behind; it ends
)

// An Observation is something that happened to a view.
type Observation struct {
	Kind             Happening
	Index, Namespace string
	Err              error // of a listing
}

func (h *Hub) observe(v *view, o Observation) {
	o.Index, o.Namespace = v.n.Index().Name(), v.n.Name()
	h.opt.Observe(o)
}
