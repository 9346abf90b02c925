package live

import (
	"context"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

// Cards returns the newest live items of the shared view. The Cost is what this call had to wait for: the listing, where there
// was none young enough, and what was resolved for it. The slices must not be changed. Errors: those of Namespace.Cards,
// ErrClosed, ErrTooMany.
func (h *Hub) Cards(ctx context.Context, n *blobindex.Namespace, req blobindex.CardsRequest) (blobindex.View, error) {
	req, err := n.Check(req)
	if err != nil {
		return blobindex.View{}, err
	}
	v, err := h.use(n)
	if err != nil {
		return blobindex.View{}, err
	}
	defer v.leave()
	listing, err := v.refresh(ctx)
	if err != nil {
		return blobindex.View{}, err
	}
	out, err := v.cards(ctx, v.read(), req)
	out.Cost.List += listing.List
	out.Cost.Get += listing.Get
	return out, err
}

// List returns the live items of the shared view. Cost and errors are as for Cards; a last good view is not told from one of
// now but by its instant.
func (h *Hub) List(ctx context.Context, n *blobindex.Namespace) (blobindex.Listing, error) {
	r, cost, err := h.reading(ctx, n)
	if err != nil {
		return blobindex.Listing{}, err
	}
	l := r.snapshot.List()
	l.Cost = cost
	return l, nil
}

// Recent returns the finished items of the shared view, as List does.
func (h *Hub) Recent(ctx context.Context, n *blobindex.Namespace) (blobindex.RecentListing, error) {
	r, cost, err := h.reading(ctx, n)
	if err != nil {
		return blobindex.RecentListing{}, err
	}
	l := r.snapshot.Recent()
	l.Cost = cost
	return l, nil
}

// reading is for what cannot say that it is stale: while the view is, the error is why.
func (h *Hub) reading(ctx context.Context, n *blobindex.Namespace) (reading, blobindex.Cost, error) {
	v, err := h.use(n)
	if err != nil {
		return reading{}, blobindex.Cost{}, err
	}
	defer v.leave()
	cost, err := v.refresh(ctx)
	if err != nil {
		return reading{}, cost, err
	}
	r := v.read()
	return r, cost, r.cause
}

// A reading is what a view shows at one time.
type reading struct {
	snapshot *blobindex.Snapshot
	version  uint64
	cause    error
	since    time.Time
}

// read works out what the view shows, with all that was acknowledged before. There must have been a good listing.
func (v *view) read() reading {
	v.mu.Lock()
	acks := v.acks // what is acknowledged from here on may come faster than it can be worked out
	v.mu.Unlock()
	if r, ok := v.peek(acks); ok {
		return r
	}
	v.judging.Lock() // who waits here is served by one judgement
	defer v.judging.Unlock()
	for {
		if r, ok := v.peek(acks); ok {
			return r
		}
		v.judge()
	}
}

// peek returns what was worked out last, if the last good listing and so many acknowledgements are in it.
func (v *view) peek(acks uint64) (reading, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ok := v.shown.base == v.base && v.shown.acks >= acks
	return reading{v.shown.snapshot, v.version, v.cause, v.since}, ok
}

// The longest pause after a judgement, and how many times as long as that it is: a namespace so large that judging it takes a
// while is not judged anew for each of many writes.
const (
	longestPause = time.Second
	pauseFactor  = 3
)

func (v *view) judge() {
	v.mu.Lock()
	next := shown{base: v.base, acks: v.acks}
	keys := make([]blobindex.Written, 0, len(v.overlay))
	for _, o := range v.overlay {
		keys = append(keys, o.key)
	}
	last := v.shown
	v.mu.Unlock()
	began := time.Now()
	next.snapshot = next.base
	if len(keys) > 0 {
		if last.base == next.base {
			next.base.Follow(last.snapshot) // what was resolved since then
		}
		next.base.Settle() // nobody else reads it
		next.snapshot = next.base.With(keys)
	}
	now := time.Now()
	next.resume = now.Add(min(pauseFactor*now.Sub(began), longestPause))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.base == next.base {
		v.shown = next
		v.version++
		clear(v.looked) // they hold on to what was shown before
	}
}

// A looked view is the answer to a request, while nothing changes.
type looked struct {
	snapshot *blobindex.Snapshot
	buried   uint64
	view     blobindex.View
}

// cards is Snapshot.Cards of a reading, marked as stale if it is, and remembered for who asks for the same.
func (v *view) cards(ctx context.Context, r reading, req blobindex.CardsRequest) (blobindex.View, error) {
	buried := r.snapshot.Buried()
	v.mu.Lock()
	l, ok := v.looked[req]
	v.mu.Unlock()
	out := l.view
	if !ok || l.snapshot != r.snapshot || l.buried != buried {
		var err error
		if out, err = r.snapshot.Cards(ctx, req); err != nil {
			return out, err
		}
		v.remember(req, looked{r.snapshot, r.snapshot.Buried(), out})
	} else {
		out.Cost = blobindex.Cost{}
	}
	if r.cause != nil {
		out.Complete, out.StaleSince, out.Cause = false, r.since, r.cause
	}
	return out, nil
}

// remember keeps the answer to a request.
func (v *view) remember(req blobindex.CardsRequest, l looked) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if l.snapshot != v.shown.snapshot {
		return
	}
	if _, ok := v.looked[req]; !ok && len(v.looked) >= v.h.opt.MaxShapes {
		clear(v.looked)
	}
	v.looked[req] = l
	if v.streams > 0 {
		v.stir() // what was found to be over is over for the streams as well
	}
}
