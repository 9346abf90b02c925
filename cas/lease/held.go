package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/blobindex/indexd/cas"
)

// A Held is a lease that we hold, or did. It is safe for concurrent use.
type Held struct {
	l       *Lease
	term    uint64
	ctx     context.Context
	lose    context.CancelCauseFunc
	ending  context.Context // over when somebody lets go of it
	letGo   context.CancelFunc
	running sync.WaitGroup // keep and watch
	once    sync.Once
	left    error // what the end came to; written in once

	// Of keep, and of end once that has returned.
	is   cas.State[record]
	open bool // the last save on it may or may not have been carried out

	mu   sync.Mutex // guards what follows
	from instant    // from when what is saved is trusted
}

// newHeld is what was saved by a save that was begun at from. Nothing renews it before begin.
func newHeld(l *Lease, s cas.State[record], from instant) *Held {
	h := &Held{l: l, term: s.Value.Term, is: s, from: from}
	h.ending, h.letGo = context.WithCancel(context.Background())
	h.ctx, h.lose = context.WithCancelCause(context.Background())
	return h
}

func (h *Held) begin() {
	h.running.Go(h.keep)
	h.running.Go(h.watch)
}

// Term is that of the acquisition.
func (h *Held) Term() uint64 { return h.term }

// Context returns one that ends with parent, and when the lease is lost, cannot be trusted any more, or is released; its
// cause is then ErrLost. The function lets go of it.
func (h *Held) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if err := h.Check(); err != nil {
		cancel(err) // and not a moment later, as below
	}
	stop := context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Check returns ErrLost if the lease is not ours any more, as far as is known, or cannot be trusted to be. Whatever only the
// holder should do is preceded by it: after the process was stopped for a while no timer has run yet.
func (h *Held) Check() error {
	if h.ctx.Err() != nil {
		return context.Cause(h.ctx)
	}
	if left := h.trust(); left <= 0 {
		h.lost(fmt.Errorf("it was not renewed within its TTL of %v", h.l.ttl))
		return context.Cause(h.ctx)
	}
	return nil
}

// trust is for how long from now what is saved is trusted.
func (h *Held) trust() time.Duration { return h.l.ttl - h.age() }

// age is how long ago the last save was begun.
func (h *Held) age() time.Duration {
	h.mu.Lock()
	from := h.from
	h.mu.Unlock()
	return h.l.clock.since(from)
}

func (h *Held) lost(why error) {
	h.lose(fmt.Errorf("%w: lease %q: %w", ErrLost, h.l.name, why))
}

// Release lets go of the lease, for anybody to acquire at once. It must be called on every path. If it fails, or ctx ends
// first, others wait until TTL and Margin are over. Where it was lost, nothing is done. Called again, it does nothing and
// returns the same.
func (h *Held) Release(ctx context.Context) error {
	return h.end(ctx, func(r record) record {
		return record{Term: r.Term, Since: r.Since}
	})
}

// Outpaced lets go of the lease where a term was found elsewhere that is not below its own, so that another holder may be at
// work: the next acquisition is of a greater term, and waits for TTL and Margin. It is instead of Release, which may follow.
func (h *Held) Outpaced(ctx context.Context, term uint64) error {
	return h.end(ctx, func(r record) record {
		opens := max(h.l.ttl, DefaultTTL) + Margin
		term = min(term, math.MaxUint64-1) // more cannot be stored; nobody will acquire it either way
		return record{Term: max(r.Term, term), Opens: opens.Milliseconds(), Since: r.Since, Reason: "another term was at work"}
	})
}

// end stops renewing and saves what the holder leaves behind. A crash before that leaves the lease as held, until its TTL and
// Margin are over.
func (h *Held) end(ctx context.Context, leave func(record) record) error {
	h.once.Do(func() {
		h.letGo()
		h.running.Wait()
		lost := h.ctx.Err() != nil
		h.lost(errors.New("it was released"))
		if lost {
			return // it is another's, or opens by itself
		}
		if _, err := h.save(ctx, leave); err != nil && !errors.Is(err, ErrLost) {
			h.left = fmt.Errorf("releasing lease %q: %w", h.l.name, err)
		}
	})
	return h.left
}

// keep renews until the lease is let go of or lost.
func (h *Held) keep() {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	defer context.AfterFunc(h.ending, cancel)()
	t := time.NewTimer(h.pause())
	defer t.Stop()
	for {
		select {
		case <-h.ending.Done():
			return
		case <-h.ctx.Done():
			return
		case <-t.C:
		}
		switch err := h.renew(ctx); {
		case err == nil:
			t.Reset(h.pause())
		case h.Check() != nil:
			return
		default:
			t.Reset(MinTTL / 3)
		}
	}
}

// pause is until the next renewal: a third of the TTL from when the last one was begun, as far as the store's pace allows.
func (h *Held) pause() time.Duration { return max(h.l.ttl/3-h.age(), MinTTL/3) }

// watch ends the context when the trust is over, whatever a renewal waits for.
func (h *Held) watch() {
	for h.Check() == nil {
		t := time.NewTimer(h.trust())
		select {
		case <-h.ending.Done():
		case <-h.ctx.Done():
		case <-t.C:
			continue
		}
		t.Stop()
		return
	}
}

// renew saves the document again. ErrLost: somebody else has.
func (h *Held) renew(ctx context.Context) error {
	if err := h.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, max(h.l.ttl/6, MinTTL/3)) // one that hangs leaves time for others
	defer cancel()
	from, err := h.save(ctx, func(r record) record { return r })
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from = from
	return nil
}

// save replaces the document while it is ours, and returns when that save was begun. ErrLost: it is not. A save of ours that
// was cut off may land in between, which looks like somebody else's; it is then built on.
func (h *Held) save(ctx context.Context, next func(record) record) (from instant, err error) {
	for n := 1; ; n++ {
		if err := h.settle(ctx); err != nil {
			return from, err
		}
		from = h.l.clock.now()
		s, err := h.l.doc.Replace(ctx, h.is, next(h.is.Value))
		if err == nil && s.Version != "" {
			h.is = s
			return from, nil
		}
		beaten := beaten(h.is, s, err)
		if h.open = true; err == nil {
			err = cas.ErrConflict // ours, and somebody's after it
		}
		if n == 3 || !beaten {
			return from, err
		}
	}
}

// settle finds out what became of a save whose outcome is open.
func (h *Held) settle(ctx context.Context) error {
	if !h.open {
		return nil
	}
	s, err := h.l.load(ctx)
	if err != nil {
		return err
	}
	if s.Created.Nonce != h.is.Created.Nonce || s.Value.Term != h.is.Value.Term || s.Value.Class == "" {
		why := errors.New("somebody else has changed it")
		if s.Created.Nonce == h.is.Created.Nonce && s.Value.Term == h.is.Value.Term && s.Value.Reason == brokenReason {
			why = ErrBroken
		}
		h.lost(why)
		return context.Cause(h.ctx)
	}
	// It is ours: of one incarnation, an acquisition's term is its alone.
	h.is, h.open = s, false
	return nil
}
