package lease_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
)

// TestLease_Requests: 1 GET and 1 PUT to acquire, 1 PUT for each renewal, 1 PUT to release; 1 GET for who is too late.
func TestLease_Requests(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p, other := s.process(lease.Operator, nil), s.process(lease.Scheduler, nil)
		want := func(who process, what string, loads, saves int) {
			t.Helper()
			if l, v := who.reset(); l != loads || len(v) != saves {
				t.Errorf("%s: %d loads and %d saves, want %d and %d", what, l, len(v), loads, saves)
			}
		}
		for term := range uint64(3) {
			h := p.acquire(term+1, nil)
			want(p, "acquiring", 1, 1)
			other.refused(nil)
			want(other, "too late", 1, 0)
			time.Sleep(time.Minute + time.Second)
			synctest.Wait()
			want(p, "a minute", 0, 6)
			release(t, h)
			want(p, "releasing", 0, 1)
		}
		if _, err := p.Status(t.Context()); err != nil {
			t.Error(err)
		}
		want(p, "a look", 1, 0)
	})
}

// TestLease_Pace: renewals are a third of the TTL apart, and two seconds at least, whatever becomes of them.
func TestLease_Pace(t *testing.T) {
	for _, ttl := range []time.Duration{lease.MinTTL, lease.DefaultTTL, lease.MaxTTL} {
		inBubble(t, func(t *testing.T, s site) {
			p := s.process(lease.Operator, &lease.Options{TTL: ttl})
			h := p.acquire(1, nil)
			time.Sleep(10*ttl + time.Second)
			wantHeld(t, h)
			_, saves := p.reset()
			if len(saves) != 31 {
				t.Errorf("TTL %v: %d saves in ten of it, want 31", ttl, len(saves))
			}
			for i := range saves[1:] {
				if d := saves[i+1].Sub(saves[i]); d != ttl/3 {
					t.Errorf("TTL %v: a renewal after %v", ttl, d)
				}
			}
		})
	}
	inBubble(t, func(t *testing.T, s site) {
		p := s.process(lease.Operator, nil)
		h := p.acquire(1, nil)
		p.meet(slices.Repeat([]fate{denied}, 1000)...)
		time.Sleep(lease.DefaultTTL)
		synctest.Wait()
		wantLost(t, h)
		_, saves := p.reset()
		for i := range saves[1:] {
			if d := saves[i+1].Sub(saves[i]); d < 2*time.Second {
				t.Errorf("after a renewal that failed another one after %v", d)
			}
		}
		if len(saves) != 11 {
			t.Errorf("%d saves, want one and 10 renewals that failed", len(saves))
		}
	})
}

// TestLease_LostAnswers: whatever becomes of the answer to the acquisition, to a renewal and to the release, it is carried out
// once, and found out; also where the store asks for slower writes (C12).
func TestLease_LostAnswers(t *testing.T) {
	for _, fate := range []fate{lostBefore, lostAfter, late, slow} {
		for _, exists := range []bool{false, true} {
			inBubble(t, func(t *testing.T, s site) {
				p, term := s.process(lease.Operator, nil), uint64(1)
				if exists {
					release(t, p.acquire(1, nil))
					term++
				}
				p.meet(fate)
				h := p.acquire(term, nil)
				p.meet(fate)
				time.Sleep(lease.DefaultTTL * 10)
				wantHeld(t, h)
				p.meet(fate)
				release(t, h)
				p.land()
				if got := s.payload(); got.Term != term || got.Class != "" || got.Opens != 0 {
					t.Errorf("fate %d: released, it is %+v", fate, got)
				}
				s.process(lease.Scheduler, nil).acquire(term+1, nil)
			})
		}
	}
}

// TestLease_NeverAnswered: an acquisition that nobody answers is unknown, and blocks for TTL and Margin at most. The next one
// is of a greater term.
func TestLease_NeverAnswered(t *testing.T) {
	for _, fate := range []fate{hangs, hangsAfter, hangsLate} {
		inBubble(t, func(t *testing.T, s site) {
			p := s.process(lease.Operator, nil)
			release(t, p.acquire(1, nil))
			p.meet(fate)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			if h, err := p.Acquire(ctx, nil); !errors.Is(err, cas.ErrUnknown) || errors.Is(err, lease.ErrHeld) {
				t.Fatalf("%v, %v, want ErrUnknown", h, err)
			}
			took := time.Since(began)
			if took > 3*time.Second {
				t.Errorf("it ended %v after it began", took)
			}
			p.land()
			if fate == hangs {
				p.acquire(2, nil)
				return
			}
			landed := time.Duration(0)
			if fate == hangsAfter {
				landed = took
			}
			within(t, p.after(3, lease.AcquireOptions{})+landed, patience)
		})
	}
}

// TestLease_Down: a store that answers nothing any more. The context ends TTL after the last renewal was begun, and nobody has
// to look for that.
func TestLease_Down(t *testing.T) {
	for _, since := range []time.Duration{0, 9 * time.Second, 15 * time.Second, time.Hour} {
		inBubble(t, func(t *testing.T, s site) {
			p := s.process(lease.Operator, nil)
			h := p.acquire(1, nil)
			time.Sleep(since)
			synctest.Wait()
			p.set(true)
			ctx, cancel := h.Context(t.Context())
			defer cancel()
			began := time.Now()
			<-ctx.Done()
			if got, want := time.Since(began), lease.DefaultTTL-since%(lease.DefaultTTL/3); got != want {
				t.Errorf("after %v the context ended after %v, want %v", since, got, want)
			}
			wantLost(t, h)
			p.reset()
			if err := h.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
			if loads, saves := p.reset(); loads+len(saves) > 0 {
				t.Error("it was lost, and released with a request")
			}
		})
	}
}

// TestLease_Interrupted: an acquisition that is told to stop while its save is on the way lets go of what it got.
func TestLease_Interrupted(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p := s.process(lease.Operator, nil)
		release(t, p.acquire(1, nil))
		p.meet(tardy)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if h, err := p.Acquire(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cas.ErrUnknown) || errors.Is(err, lease.ErrHeld) {
			t.Fatalf("%v, %v", h, err)
		}
		s.process(lease.Scheduler, nil).acquire(3, nil)
	})
}

// TestLease_Outage: a renewal that is not answered, a store that answers nothing for two fifths of a TTL, or that refuses
// everything for half of it, is survived. A renewal that was cut off may land at any time.
func TestLease_Outage(t *testing.T) {
	for _, fate := range []fate{hangs, hangsAfter, hangsLate} {
		inBubble(t, func(t *testing.T, s site) {
			p := s.process(lease.Operator, nil)
			h := p.acquire(1, nil)
			for range 5 {
				p.meet(fate)
				time.Sleep(time.Minute)
				wantHeld(t, h)
			}
			release(t, h)
			s.process(lease.Scheduler, nil).acquire(2, nil)
		})
	}
	inBubble(t, func(t *testing.T, s site) {
		p := s.process(lease.Operator, nil)
		h := p.acquire(1, nil)
		for i := range 20 {
			p.set(true)
			time.Sleep(lease.DefaultTTL * 2 / 5)
			p.set(false)
			time.Sleep(lease.DefaultTTL + time.Duration(i)*time.Second)
			wantHeld(t, h)
		}
		for i := range 20 {
			p.meet(slices.Repeat([]fate{denied}, 8)...) // two seconds apart
			time.Sleep(lease.DefaultTTL + time.Duration(i)*time.Second)
			wantHeld(t, h)
		}
	})
}

// TestCase_C21_Killed: a holder that is gone is waited for until its TTL, whatever the waiter's is, and Margin are over, and no
// longer than a poll more.
func TestCase_C21_Killed(t *testing.T) {
	for _, ttl := range []time.Duration{lease.MinTTL, lease.DefaultTTL, 5 * time.Minute} {
		inBubble(t, func(t *testing.T, s site) {
			dead, p := s.process(lease.Scheduler, &lease.Options{TTL: ttl}), s.process(lease.Operator, nil)
			h := dead.acquire(1, nil)
			time.Sleep(ttl*7/3 + time.Second)
			synctest.Wait()
			dead.set(true)
			st := p.refused(nil)
			if want := time.Now().Add(ttl + lease.Margin - time.Second); !st.Expires.Equal(want) || st.Class != lease.Scheduler {
				t.Errorf("TTL %v: %+v, want it to open at %v", ttl, st, want)
			}
			within(t, p.after(2, lease.AcquireOptions{}), ttl+lease.Margin-time.Second)
			wantLost(t, h)
		})
	}
}

// TestCase_C19_SomebodyElses: who was overtaken lets go of nothing, at once, with a pause before its save, or twice.
func TestCase_C19_SomebodyElses(t *testing.T) {
	for _, paused := range []bool{false, true} {
		inBubble(t, func(t *testing.T, s site) {
			one, two := s.process(lease.Operator, nil), s.process(lease.Operator, nil)
			dead, err := one.Try(t.Context(), lease.AcquireOptions{}) // renews nothing, as if it was stopped
			if err != nil {
				t.Fatal(err)
			}
			if paused {
				one.first(func() { time.Sleep(patience + time.Second); two.acquire(2, nil) })
			} else {
				time.Sleep(patience + time.Second)
				two.acquire(2, nil)
			}
			for range 2 {
				if err := dead.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
			wantLost(t, dead)
			if got := s.payload(); got.Term != 2 || got.Class != lease.Operator {
				t.Errorf("it is %+v", got)
			}
			s.process(lease.Scheduler, nil).refused(nil)
		})
	}
}

// TestRelease_Twice: the second time changes nothing and says what the first did, also at once with it.
func TestRelease_Twice(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p, two := s.process(lease.Operator, nil), s.process(lease.Scheduler, nil)
		h := p.acquire(1, nil)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if err := h.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
			})
		}
		all.Wait()
		wantLost(t, h)
		two.acquire(2, nil)
		release(t, h)
		if got := s.payload(); got.Term != 2 || got.Class != lease.Scheduler {
			t.Errorf("released again, it is %+v", got)
		}
	})
	inBubble(t, func(t *testing.T, s site) {
		p := s.process(lease.Operator, nil)
		h := p.acquire(1, nil)
		p.meet(denied)
		for range 2 {
			if err := h.Release(t.Context()); !errors.Is(err, cas.ErrDenied) {
				t.Errorf("Release: %v, want ErrDenied", err)
			}
		}
		wantLost(t, h)
		within(t, s.process(lease.Operator, nil).after(2, lease.AcquireOptions{}), patience)
	})
}

// TestRelease_WhileRenewing: a renewal that hangs is cut off, whatever becomes of it, and the lease is free at once.
func TestRelease_WhileRenewing(t *testing.T) {
	for _, fate := range []fate{hangs, hangsAfter, hangsLate} {
		inBubble(t, func(t *testing.T, s site) {
			p := s.process(lease.Operator, nil)
			h := p.acquire(1, nil)
			p.meet(fate)
			time.Sleep(lease.DefaultTTL/3 + time.Second)
			synctest.Wait()
			began := time.Now()
			release(t, h)
			if d := time.Since(began); d > time.Second {
				t.Errorf("fate %d: releasing took %v", fate, d)
			}
			p.land()
			s.process(lease.Scheduler, nil).acquire(2, nil)
		})
	}
}

// TestRelease_Ends with its context, and others wait.
func TestRelease_Ends(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p := s.process(lease.Operator, nil)
		h := p.acquire(1, nil)
		p.set(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Release: %v", err)
		}
		wantLost(t, h)
		within(t, s.process(lease.Operator, nil).after(2, lease.AcquireOptions{})+time.Second, patience)
	})
}

// TestAcquire_Wait: who waits gets it a poll after it is free, or is told who has it when the wait is over.
func TestAcquire_Wait(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p, two := s.process(lease.Operator, nil), s.process(lease.Operator, nil)
		h := p.acquire(1, &lease.AcquireOptions{Reason: "pass"})
		for _, wait := range []time.Duration{0, time.Second, time.Minute} {
			began := time.Now()
			two.reset()
			st := two.refused(&lease.AcquireOptions{Wait: wait})
			if loads, saves := two.reset(); loads != 1+int((wait+lease.Poll-1)/lease.Poll) || len(saves) > 0 {
				t.Errorf("waiting for %v took %d loads and %d saves", wait, loads, len(saves))
			}
			if d := time.Since(began); d != wait || st.Reason != "pass" {
				t.Errorf("waited for %v for %+v, want %v", d, st, wait)
			}
		}
		time.AfterFunc(time.Minute+time.Second, func() { release(t, h) })
		within(t, two.after(2, lease.AcquireOptions{}), time.Minute+time.Second-1)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := p.Acquire(ctx, &lease.AcquireOptions{Wait: time.Hour})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrHeld) {
			t.Errorf("ended: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(time.Minute-time.Second, func() { two.set(true) })
		_, err = two.Acquire(ctx, &lease.AcquireOptions{Wait: time.Hour})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrHeld) {
			t.Errorf("ended within a look: %v", err)
		}
		two.set(false)
	})
}

// TestAcquire_Overtaken: somebody is faster between the look and the save. If they are gone again, it is tried again.
func TestAcquire_Overtaken(t *testing.T) {
	for _, fate := range []fate{fine, lostAfter} {
		inBubble(t, func(t *testing.T, s site) {
			p, two := s.process(lease.Operator, nil), s.process(lease.Scheduler, nil)
			release(t, p.acquire(1, nil))
			two.first(func() { p.acquire(2, nil) })
			if st := two.refused(nil); st.Class != lease.Operator || st.Term != 2 {
				t.Errorf("%+v", st)
			}
		})
		inBubble(t, func(t *testing.T, s site) {
			p, two := s.process(lease.Operator, nil), s.process(lease.Scheduler, nil)
			two.first(func() {
				h := p.acquire(1, nil)
				p.meet(fate)
				release(t, h)
			})
			two.acquire(2, nil)
		})
	}
}

// TestCase_C21_Disappears: the document is deleted between the look and the save. That is nobody's lease.
func TestCase_C21_Disappears(t *testing.T) {
	for _, held := range []bool{false, true} {
		inBubble(t, func(t *testing.T, s site) {
			p, two := s.process(lease.Operator, nil), s.process(lease.Scheduler, nil)
			release(t, p.acquire(1, nil))
			two.first(func() {
				if held {
					p.acquire(2, nil)
				}
				s.remove()
			})
			two.acquire(1, nil)
		})
	}
	inBubble(t, func(t *testing.T, s site) { // also where a known term says that it was deleted before
		p := s.process(lease.Scheduler, nil)
		release(t, p.acquire(1, nil))
		p.first(s.remove)
		within(t, p.after(6, lease.AcquireOptions{After: 5}), patience)
	})
}

// TestP10_Race: of many who want it at once, over and over, one has it at a time, and each term is had once, in order.
func TestP10_Race(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		var mu sync.Mutex
		var terms []uint64
		holders := 0
		var all sync.WaitGroup
		for range 5 {
			p := s.process(lease.Operator, nil)
			all.Go(func() {
				for range 10 {
					h, err := p.Acquire(t.Context(), &lease.AcquireOptions{Wait: time.Hour})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					terms = append(terms, h.Term())
					if holders++; holders != 1 {
						t.Errorf("%d holders", holders)
					}
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					holders--
					mu.Unlock()
					if err := h.Release(t.Context()); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second)
				}
			})
		}
		all.Wait()
		for i, term := range terms {
			if term != uint64(i+1) {
				t.Fatalf("the terms were %d", terms)
			}
		}
		if len(terms) != 50 {
			t.Errorf("%d terms", len(terms))
		}
	})
}

// TestHeld_Context ends with its parent, when it is let go of, and with the lease; one that is asked for later has ended.
func TestHeld_Context(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p := s.process(lease.Operator, nil)
		h := p.acquire(1, nil)
		parent, end := context.WithCancelCause(t.Context())
		one, cancelOne := h.Context(parent)
		defer cancelOne()
		two, cancelTwo := h.Context(t.Context())
		three, cancelThree := h.Context(context.WithValue(t.Context(), fine, "kept"))
		defer cancelThree()
		over := errors.New("over")
		end(over)
		cancelTwo()
		synctest.Wait()
		if context.Cause(one) != over || !errors.Is(two.Err(), context.Canceled) || three.Err() != nil || three.Value(fine) != "kept" {
			t.Errorf("%v, %v, %v", context.Cause(one), two.Err(), three.Err())
		}
		release(t, h)
		synctest.Wait()
		if !errors.Is(context.Cause(three), lease.ErrLost) || three.Err() != context.Canceled {
			t.Errorf("released: %v, %v", three.Err(), context.Cause(three))
		}
		wantLost(t, h)
	})
}

// TestAcquire_Nowhere: what there is to create the document in is missing. That is no lease that is held.
func TestAcquire_Nowhere(t *testing.T) {
	l, err := lease.New(nowhere{}, "running", lease.Operator, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []uint64{0, 7} {
		_, err := l.Acquire(t.Context(), &lease.AcquireOptions{After: after})
		if !errors.Is(err, cas.ErrNotExist) || errors.Is(err, lease.ErrHeld) {
			t.Errorf("Acquire: %v, want ErrNotExist", err)
		}
	}
}

// nowhere is a bucket that does not exist.
type nowhere struct{}

func (nowhere) Load(context.Context, bucket.Key) (cas.Object, error) {
	return cas.Object{}, cas.ErrNotExist
}

func (nowhere) Save(context.Context, bucket.Key, []byte, cas.Precondition) (cas.Version, error) {
	return "", cas.ErrNotExist
}
