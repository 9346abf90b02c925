package lease_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/cas/lease"
)

// A shifter is a host's clock that a test sets.
type shifter struct {
	mu      sync.Mutex    // guards what follows
	wall    time.Duration // ahead of the bubble's
	running time.Duration
}

func (s *shifter) clock() lease.Clock {
	began := time.Now()
	return lease.Clock{
		Wall: func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return time.Now().Add(s.wall)
		},
		Running: func() time.Duration {
			s.mu.Lock()
			defer s.mu.Unlock()
			return time.Since(began) + s.running
		},
	}
}

func (s *shifter) set(wall, running time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wall, s.running = wall, running
}

// TestCase_C18_Suspend: the host sleeps for longer than the TTL, and its running clock with it. The first check afterwards
// fails, before any timer has fired.
func TestCase_C18_Suspend(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		host := new(shifter)
		p := s.process(lease.Operator, &lease.Options{Clock: host.clock()})
		h := p.acquire(1, nil)
		time.Sleep(time.Minute + 5*time.Second)
		ctx, cancel := h.Context(t.Context())
		defer cancel()
		wantHeld(t, h)
		host.set(lease.DefaultTTL-5*time.Second-1, 0)
		wantHeld(t, h)
		host.set(lease.DefaultTTL-5*time.Second, 0)
		if ctx.Err() != nil {
			t.Error("the context ended before the check")
		}
		wantLost(t, h)
		<-ctx.Done()
	})
	inBubble(t, func(t *testing.T, s site) { // nobody checks: the next renewal does, instead of saving
		host := new(shifter)
		p := s.process(lease.Operator, &lease.Options{Clock: host.clock()})
		h := p.acquire(1, nil)
		ctx, cancel := h.Context(t.Context())
		defer cancel()
		wantHeld(t, h)
		p.reset()
		host.set(lease.DefaultTTL, 0)
		time.Sleep(lease.DefaultTTL / 3)
		synctest.Wait()
		if _, saves := p.reset(); ctx.Err() == nil || len(saves) > 0 {
			t.Errorf("the context: %v, after %d saves", ctx.Err(), len(saves))
		}
	})
}

// TestLease_ClockSteps: the wall clock of the holder is set back: the running clock says how long it can be trusted. It is set
// forward, by more than the TTL: that may have been a suspend, and the lease is lost.
func TestLease_ClockSteps(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, 90 * time.Second, time.Hour} {
		inBubble(t, func(t *testing.T, s site) {
			host := new(shifter)
			p, two := s.process(lease.Operator, &lease.Options{Clock: host.clock()}), s.process(lease.Operator, nil)
			h := p.acquire(1, nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			host.set(step, 0)
			if step > 0 {
				wantLost(t, h)
				within(t, two.after(2, lease.AcquireOptions{}), patience)
				return
			}
			time.Sleep(time.Minute)
			wantHeld(t, h)
			two.refused(nil)
			p.set(true)
			host.set(2*step, 0)
			ctx, cancel := h.Context(t.Context())
			defer cancel()
			began := time.Now()
			<-ctx.Done()
			if d := time.Since(began); d != lease.DefaultTTL {
				t.Errorf("the context ended %v after the last renewal", d)
			}
			within(t, two.after(2, lease.AcquireOptions{}), lease.Margin)
		})
	}
}

// TestP10_ClocksApart: the wall clock of one of the two is wrong from the beginning, or is set while they go on. Who waits gets
// the lease when TTL and Margin are over by the store, and no sooner; who holds it keeps it.
func TestP10_ClocksApart(t *testing.T) {
	for _, apart := range []time.Duration{-time.Hour, 90 * time.Second, time.Hour} {
		for _, whose := range []string{"holder", "waiter", "waiter, later"} {
			t.Run(fmt.Sprint(apart, " ", whose), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s site) {
					one, other := new(shifter), new(shifter)
					switch whose {
					case "holder":
						one.set(apart, 0)
					case "waiter":
						other.set(apart, 0)
					}
					p := s.process(lease.Operator, &lease.Options{Clock: one.clock()})
					two := s.process(lease.Scheduler, &lease.Options{Clock: other.clock()})
					h := p.acquire(1, nil)
					two.refused(nil)
					if whose == "waiter, later" {
						time.AfterFunc(time.Minute, func() { other.set(apart, 0) })
					}
					for range 60 {
						two.refused(&lease.AcquireOptions{Wait: 3 * time.Second})
						wantHeld(t, h)
					}
					p.set(true)
					within(t, two.after(2, lease.AcquireOptions{}), patience)
					wantLost(t, h)
				})
			})
		}
	}
}

// TestLease_StoreClockSetBack: by what the store tells, the document is not old enough for an hour. It was watched for longer
// than it has to be, and is taken.
func TestLease_StoreClockSetBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p, two := s.process(lease.Operator, nil), s.process(lease.Scheduler, nil)
		p.acquire(1, nil)
		p.set(true)
		two.shifted = -time.Hour
		within(t, two.after(2, lease.AcquireOptions{}), patience)
	})
}

// TestLease_NoStoreTime: a store that tells no time is watched, on the watcher's own running clock.
func TestLease_NoStoreTime(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p, two := s.process(lease.Operator, nil), s.process(lease.Scheduler, nil)
		p.timeless, two.timeless = true, true
		h := p.acquire(1, nil)
		time.Sleep(time.Minute + time.Second)
		wantHeld(t, h)
		p.set(true)
		time.Sleep(time.Hour) // which nobody has seen
		if st := two.refused(nil); !st.Expires.IsZero() || st.Within != patience+1 || st.Since.IsZero() {
			t.Errorf("%+v, want it to be watched for %v", st, patience)
		}
		time.Sleep(10 * time.Second) // it counts what was seen before, whoever asked
		if st, err := two.Status(t.Context()); err != nil || st.Within != patience-10*time.Second+1 {
			t.Errorf("%+v, %v", st, err)
		}
		within(t, two.after(2, lease.AcquireOptions{})+10*time.Second, patience)
		wantLost(t, h)
	})
	inBubble(t, func(t *testing.T, s site) { // each renewal begins the watch anew
		p, two := s.process(lease.Operator, nil), s.process(lease.Scheduler, nil)
		two.timeless = true
		h := p.acquire(1, nil)
		two.refused(&lease.AcquireOptions{Wait: 10 * time.Minute})
		wantHeld(t, h)
	})
	for _, step := range []time.Duration{-time.Hour, 90 * time.Second, time.Hour} {
		inBubble(t, func(t *testing.T, s site) { // the watcher's wall clock says nothing
			host := new(shifter)
			p, two := s.process(lease.Operator, nil), s.process(lease.Scheduler, &lease.Options{Clock: host.clock()})
			two.timeless = true
			p.acquire(1, nil)
			two.refused(nil)
			host.set(step, 0)
			two.refused(nil)
			p.set(true)
			within(t, two.after(2, lease.AcquireOptions{}), patience)
		})
	}
}

// TestLease_SlowAcquisition: what an acquisition that took long has got is trusted from when its save was begun, and renewed a
// third of the TTL after that, too.
func TestLease_SlowAcquisition(t *testing.T) {
	for _, took := range []time.Duration{5 * time.Second, 25 * time.Second, time.Minute} {
		inBubble(t, func(t *testing.T, s site) {
			p := s.process(lease.Operator, nil)
			p.first(func() { time.Sleep(took) })
			h, err := p.Acquire(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release(t.Context())
			if took >= lease.DefaultTTL {
				wantLost(t, h)
				return
			}
			p.reset()
			began, pause := time.Now(), max(lease.DefaultTTL/3-took, 2*time.Second)
			time.Sleep(pause)
			wantHeld(t, h)
			if _, saves := p.reset(); len(saves) != 1 || saves[0].Sub(began) != pause {
				t.Errorf("after it took %v there were renewals at %v, want one, after %v", took, saves, pause)
			}
		})
	}
	inBubble(t, func(t *testing.T, s site) { // a renewal, too
		p := s.process(lease.Operator, nil)
		h := p.acquire(1, nil)
		wantHeld(t, h)
		ctx, cancel := h.Context(t.Context())
		defer cancel()
		began := time.Now()
		p.first(func() { time.Sleep(4 * time.Second) })
		time.Sleep(lease.DefaultTTL/3 + 5*time.Second)
		wantHeld(t, h)
		p.set(true)
		<-ctx.Done()
		if d := time.Since(began); d != lease.DefaultTTL/3+lease.DefaultTTL {
			t.Errorf("after one renewal that took long it ended after %v", d)
		}
	})
}
