package lease_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
)

// TestBreak: the holder finds out at its next renewal, the next acquisition waits for its TTL and Margin, whatever its own is.
func TestBreak(t *testing.T) {
	for _, ttl := range []time.Duration{lease.MinTTL, 2 * time.Minute} {
		inBubble(t, func(t *testing.T, s site) {
			p, two := s.process(lease.Scheduler, &lease.Options{TTL: ttl}), s.process(lease.Operator, nil)
			release(t, p.acquire(1, nil))
			h := p.acquire(2, &lease.AcquireOptions{Reason: "pass"})
			time.Sleep(ttl/2 + time.Second/2)
			two.reset()
			st, err := two.Break(t.Context(), 2)
			if loads, saves := two.reset(); err != nil || loads != 1 || len(saves) != 1 {
				t.Fatalf("Break: %v after %d loads and %d saves", err, loads, len(saves))
			}
			if st.Term != 2 || st.Class != "" || st.Reason != "broken" || st.Within != ttl+lease.Margin+1 {
				t.Errorf("Break: %+v", st)
			}
			if st := two.refused(nil); !st.Expires.Equal(time.Now().Add(ttl+lease.Margin)) || st.Term != 2 || st.Class != "" {
				t.Errorf("%+v", st)
			}
			ctx, cancel := h.Context(t.Context())
			defer cancel()
			began := time.Now()
			<-ctx.Done()
			if d := time.Since(began); d >= ttl/3 {
				t.Errorf("the holder found out after %v", d)
			}
			wantLost(t, h)
			if err := context.Cause(ctx); !errors.Is(err, lease.ErrBroken) {
				t.Errorf("the holder was told %v", err)
			}
			release(t, h)
			found := time.Since(began)
			within(t, found+two.after(3, lease.AcquireOptions{}), ttl+lease.Margin)
		})
	}
}

// TestBreak_Term: only the term that was seen is broken, and only if it is held.
func TestBreak_Term(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p, two := s.process(lease.Scheduler, nil), s.process(lease.Operator, nil)
		refused := func(term uint64, seen uint64) {
			t.Helper()
			was := s.body()
			st, err := two.Break(t.Context(), term)
			if !errors.Is(err, lease.ErrTerm) || st.Name != "running" || st.Term != seen || s.body() != was {
				t.Errorf("breaking term %d: %+v, %v", term, st, err)
			}
		}
		refused(0, 0)
		refused(1, 0)
		h := p.acquire(1, nil)
		refused(0, 1)
		refused(2, 1)
		release(t, h)
		refused(1, 1)
		h = p.acquire(2, nil)
		refused(1, 2)
		wantHeld(t, h)
		two.first(func() { release(t, h) })
		if _, err := two.Break(t.Context(), 2); !errors.Is(err, cas.ErrConflict) {
			t.Errorf("it changed meanwhile: %v", err)
		}
		if _, err := two.Break(t.Context(), 2); !errors.Is(err, lease.ErrTerm) {
			t.Errorf("it was released: %v", err)
		}
		p.acquire(3, nil)
	})
}

// TestBreak_Released: a broken holder that lets go of it does not cut the wait short.
func TestBreak_Released(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p, two := s.process(lease.Scheduler, nil), s.process(lease.Operator, nil)
		h := p.acquire(1, nil)
		if _, err := two.Break(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		wantHeld(t, h) // it does not know
		release(t, h)
		within(t, two.after(2, lease.AcquireOptions{}), patience)
	})
}

// TestLease_Deleted: nobody can know that there was a document. The holder finds out at its next renewal, does not create it
// again, and leaves alone what is there then.
func TestLease_Deleted(t *testing.T) {
	for _, taken := range []bool{false, true} {
		inBubble(t, func(t *testing.T, s site) {
			p, two := s.process(lease.Scheduler, nil), s.process(lease.Operator, nil)
			release(t, p.acquire(1, nil))
			h := p.acquire(2, nil)
			s.remove()
			if taken {
				two.acquire(1, nil)
			}
			time.Sleep(lease.DefaultTTL / 3)
			synctest.Wait()
			wantLost(t, h)
			release(t, h)
			if !taken && s.body() != "" {
				t.Errorf("it is there again: %s", s.body())
			}
			if got := two.refusedOrFree(); got != taken {
				t.Errorf("it is held: %t", got)
			}
		})
		inBubble(t, func(t *testing.T, s site) { // and when it lets go of it before it has found out
			p, two := s.process(lease.Scheduler, nil), s.process(lease.Operator, nil)
			h := p.acquire(1, nil)
			s.remove()
			if taken {
				two.acquire(1, nil)
			}
			release(t, h)
			if got := two.refusedOrFree(); got != taken {
				t.Errorf("released, it is held: %t", got)
			}
		})
	}
}

// refusedOrFree tells whether the lease is held.
func (p process) refusedOrFree() bool {
	p.t.Helper()
	st, err := p.Status(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return st.Class != ""
}

// TestP10_DeletedAndKnown: a term is known from elsewhere, so that the document was deleted: the lease is waited for, and its
// next term is greater.
func TestP10_DeletedAndKnown(t *testing.T) {
	for _, ttl := range []time.Duration{lease.MinTTL, lease.DefaultTTL, 2 * time.Minute} {
		inBubble(t, func(t *testing.T, s site) {
			p, two := s.process(lease.Scheduler, nil), s.process(lease.Operator, &lease.Options{TTL: ttl})
			for term := range uint64(6) {
				release(t, p.acquire(term+1, nil))
			}
			h := p.acquire(7, nil)
			s.remove()
			two.reset()
			st := two.refused(&lease.AcquireOptions{After: 7})
			if loads, saves := two.reset(); loads != 1 || len(saves) != 1 {
				t.Errorf("%d loads and %d saves", loads, len(saves))
			}
			want := max(ttl, lease.DefaultTTL) + lease.Margin
			if st.Term != 7 || st.Class != "" || st.Within != want+1 || st.Reason == "" {
				t.Errorf("%+v", st)
			}
			if got := s.payload(); got.Term != 7 || got.Class != "" || got.Opens != want.Milliseconds() {
				t.Errorf("the document has %+v", got)
			}
			within(t, two.after(8, lease.AcquireOptions{After: 7}), want)
			wantLost(t, h)
		})
	}
}

// TestLease_After: a known term that is not greater than the document's changes nothing; one that nobody can follow on is an
// error, and nothing is stored.
func TestLease_After(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p := s.process(lease.Scheduler, nil)
		release(t, p.acquire(1, nil))
		release(t, p.acquire(2, &lease.AcquireOptions{After: 0}))
		release(t, p.acquire(3, &lease.AcquireOptions{After: 1}))
		release(t, p.acquire(4, &lease.AcquireOptions{After: 3}))
		was := s.body()
		for _, after := range []uint64{math.MaxUint64 - 1, math.MaxUint64} {
			if _, err := p.Acquire(t.Context(), &lease.AcquireOptions{After: after}); err == nil || errors.Is(err, lease.ErrHeld) {
				t.Errorf("after %d: %v", after, err)
			}
		}
		if s.body() != was {
			t.Errorf("it is %s now", s.body())
		}
		// The document was deleted, and somebody who did not know has it: so did the holder before.
		s.remove()
		h := p.acquire(1, nil)
		two := s.process(lease.Operator, nil)
		within(t, two.after(6, lease.AcquireOptions{After: 5}), patience)
		wantLost(t, h)
	})
}

// TestOutpaced: another term was found elsewhere. The lease is let go of, and has to be waited for; its next term is greater
// than both.
func TestOutpaced(t *testing.T) {
	for _, c := range []struct {
		ttl  time.Duration
		term uint64
		next uint64
	}{{lease.MinTTL, 9, 10}, {2 * time.Minute, 2, 3}, {lease.DefaultTTL, 1, 3}} {
		inBubble(t, func(t *testing.T, s site) {
			p, two := s.process(lease.Scheduler, &lease.Options{TTL: c.ttl}), s.process(lease.Operator, nil)
			release(t, p.acquire(1, nil))
			h := p.acquire(2, nil)
			p.reset()
			if err := h.Outpaced(t.Context(), c.term); err != nil {
				t.Fatal(err)
			}
			wantLost(t, h)
			release(t, h)
			if loads, saves := p.reset(); loads != 0 || len(saves) != 1 {
				t.Errorf("%d loads and %d saves", loads, len(saves))
			}
			if st := two.refused(nil); st.Class != "" || st.Term != c.next-1 {
				t.Errorf("%+v", st)
			}
			within(t, two.after(c.next, lease.AcquireOptions{}), max(c.ttl, lease.DefaultTTL)+lease.Margin)
		})
	}
	inBubble(t, func(t *testing.T, s site) { // a term that cannot be: nobody acquires any more, and is told why
		p := s.process(lease.Scheduler, nil)
		if err := p.acquire(1, nil).Outpaced(t.Context(), math.MaxUint64); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := p.Acquire(t.Context(), nil); err == nil || errors.Is(err, cas.ErrCorrupt) || errors.Is(err, lease.ErrHeld) {
			t.Errorf("Acquire: %v", err)
		}
	})
	inBubble(t, func(t *testing.T, s site) { // who has lost it leaves it alone
		p, two := s.process(lease.Scheduler, nil), s.process(lease.Operator, nil)
		h, err := p.Try(t.Context(), lease.AcquireOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(patience + 1)
		two.acquire(2, nil)
		if err := h.Outpaced(t.Context(), 5); err != nil || s.payload().Term != 2 || s.payload().Class != lease.Operator {
			t.Errorf("%v, and it is %+v", err, s.payload())
		}
	})
}
