package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

// A listing is one that is under way for everybody.
type listing struct {
	began   time.Time
	acks    uint64 // what had been acknowledged when it began
	waiters int    // guarded by the view's mu
	cancel  context.CancelFunc
	done    chan struct{}
	// Set before done is closed.
	cost blobindex.Cost
	err  error
}

// list begins a listing. The lock is held.
func (v *view) list(now time.Time) *listing {
	ctx, cancel := context.WithTimeout(v.h.ctx, v.timeout)
	l := &listing{began: now, acks: v.acks, cancel: cancel, done: make(chan struct{})}
	started := v.h.run(func() {
		defer cancel()
		s, err := v.snapshot(ctx)
		v.finish(l, s, err, ctx.Err())
	})
	if !started {
		cancel()
		l.err = ErrClosed
		close(l.done)
		return l
	}
	v.listing = l
	return l
}

// finish takes the answer of a listing. What nobody waits for any more is not looked at.
func (v *view) finish(l *listing, s *blobindex.Snapshot, err, ended error) {
	v.mu.Lock()
	before := v.shown.snapshot
	v.mu.Unlock()
	if err == nil && before != nil {
		s.Follow(before)
	}
	v.mu.Lock()
	abandoned := v.listing != l
	now := time.Now()
	if !abandoned {
		v.listing = nil
		if err == nil {
			l.cost = s.Cost
			v.succeed(l, s, now)
		} else {
			l.err = err
			if v.ended != nil || v.h.ctx.Err() != nil {
				l.err = ErrClosed
			} else {
				v.retry(l, err, ended, now)
			}
		}
	}
	close(l.done)
	v.stir()
	v.mu.Unlock()
	if abandoned || errors.Is(l.err, ErrClosed) {
		return
	}
	if err != nil {
		v.h.opt.Log.Warn("listing failed", "index", v.n.Index().Name(), "namespace", v.n.Name(), "error", err)
	}
	v.h.observe(v, Observation{Kind: Listed, Err: err})
}

// succeed takes over a good listing. The lock is held.
func (v *view) succeed(l *listing, s *blobindex.Snapshot, now time.Time) {
	changed := v.base == nil || !v.base.SameKeys(s) || v.cause != nil
	if v.cause != nil {
		v.version++
	}
	v.base, v.cause, v.since = s, nil, time.Time{}
	v.listed, v.took = now, now.Sub(l.began)
	v.timeout = min(max(v.h.opt.ListTimeout, 3*v.took), max(longestListing, v.h.opt.ListTimeout))
	for name, o := range v.overlay {
		if o.ack <= l.acks {
			delete(v.overlay, name)
		}
	}
	if changed {
		v.interval = v.h.opt.MinInterval
	} else {
		v.interval = min(2*v.interval, v.h.opt.MaxInterval)
	}
	// One that takes longer than the interval leaves the store as long a pause.
	v.next = later(l.began.Add(v.interval), now.Add(min(v.took, v.interval)))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// retry takes note of a listing that failed. The lock is held.
func (v *view) retry(l *listing, err, ended error, now time.Time) {
	if errors.Is(ended, context.DeadlineExceeded) {
		v.timeout = min(2*v.timeout, max(longestListing, v.h.opt.ListTimeout))
	}
	failing := v.cause != nil && v.cause != errHanging
	v.fail(err)
	if !failing {
		v.interval = v.h.opt.MinInterval
	} else {
		v.interval = min(2*v.interval, max(v.h.opt.MinInterval, v.h.opt.MaxInterval/3)) // it may be back at any time
	}
	v.next = now.Add(v.interval)
}

// refresh waits until what there is is young enough, or stale. cost is that of the listing that it waited for.
func (v *view) refresh(ctx context.Context) (cost blobindex.Cost, err error) {
	v.mu.Lock()
	now := time.Now()
	switch {
	case v.ended != nil:
		defer v.mu.Unlock()
		return cost, v.ended
	case v.base != nil && v.listing != nil && v.cause == errHanging:
		defer v.mu.Unlock()
		return cost, nil // it would wait for the same listing in vain
	case v.listing == nil && now.Before(v.next):
		defer v.mu.Unlock()
		if v.base == nil {
			return cost, v.cause
		}
		return cost, nil
	}
	l := v.listing
	if l == nil {
		if l = v.list(now); v.listing != l {
			defer v.mu.Unlock()
			return cost, l.err
		}
	} else if v.base != nil && now.Before(v.next) {
		defer v.mu.Unlock()
		return cost, nil
	}
	l.waiters++
	var enough <-chan time.Time
	if v.base != nil {
		timer := time.NewTimer(l.began.Add(v.patience()).Sub(now))
		defer timer.Stop()
		enough = timer.C
	}
	v.stir()
	v.mu.Unlock()
	late := false
	select {
	case <-l.done:
	case <-enough:
		late = true
	case <-ctx.Done():
		err = fmt.Errorf("waiting for the listing of namespace %q: %w", v.n.Name(), ctx.Err())
	case <-v.h.ctx.Done():
		err = ErrClosed
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !late { // else it goes on for who comes next
		l.waiters--
	}
	v.abandon()
	switch {
	case err != nil:
		return cost, err
	case v.ended != nil:
		return cost, v.ended
	}
	select {
	case <-l.done:
		if l.err != nil && v.base == nil {
			return cost, l.err
		}
		return l.cost, nil
	default:
	}
	if v.listing == l && v.cause == nil {
		v.fail(errHanging)
	}
	return cost, nil
}

// abandon gives up a listing that nobody waits for. The lock is held.
func (v *view) abandon() {
	if l := v.listing; l != nil && l.waiters == 0 && v.streams == 0 {
		l.cancel()
		v.listing = nil
	}
}
