package janitor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune/janitor"
)

// A looping is a Loop at work, with what it said and when it told.
type looping struct {
	stop  func() // and wait for its end
	began time.Time

	mu   sync.Mutex // guards what follows
	log  bytes.Buffer
	told []time.Time
	errs []error
}

// Write takes the log.
func (l *looping) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(text)
}

// passes are when each was told of.
func (l *looping) passes() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.told)
}

func (l *looping) logged() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// loop begins one in the bubble.
func (w *world) loop(on *wire, opts janitor.Options, every time.Duration) *looping {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	l := &looping{began: time.Now()}
	opts.Class, opts.Log = lease.Scheduler, slog.New(slog.NewTextHandler(l, nil))
	j := w.janitor(on, opts)
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.Loop(ctx, &janitor.LoopOptions{Every: every, Told: func(r janitor.Report, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.told, l.errs = append(l.told, time.Now()), append(l.errs, err)
		}})
	}()
	l.stop = func() { cancel(); <-done }
	w.t.Cleanup(cancel)
	return l
}

// pauses are those before each pass, but for the first one.
func (l *looping) pauses() (all []time.Duration) {
	told := l.passes()
	for i := 1; i < len(told); i++ {
		all = append(all, told[i].Sub(told[i-1]))
	}
	return all
}

// said counts the lines of the log that hold the text.
func (l *looping) said(text string) (n int) {
	for line := range strings.Lines(l.logged()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestLoop_Pace: the first pass comes within Every, at another time each, and then one each Every, give or take a tenth.
func TestLoop_Pace(t *testing.T) {
	inBubble(t, func(w *world) {
		firsts := map[time.Duration]bool{}
		for range 5 {
			l := w.loop(nil, janitor.Options{}, 0)
			time.Sleep(2 * time.Hour)
			l.stop()
			if first := l.passes()[0].Sub(l.began); first >= janitor.DefaultEvery {
				w.t.Errorf("the first pass came after %v", first)
			}
			firsts[l.passes()[0].Sub(l.began)] = true
			spread := map[time.Duration]bool{}
			for _, p := range l.pauses() {
				if spread[p] = true; p < 270*time.Second || p > 330*time.Second {
					w.t.Errorf("a pause of %v", p)
				}
			}
			if len(spread) < 10 || l.logged() != "" {
				w.t.Errorf("pauses %v, log %s", l.pauses(), l.logged())
			}
		}
		if len(firsts) < 3 {
			w.t.Errorf("the first passes come after %v", firsts)
		}
	})
}

// TestLoop_Held: beside a holder it defers, says so without a name of anybody, and changes nothing, not its own pace either.
func TestLoop_Held(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		var failing setting[error]
		failing.set(errors.New("away"))
		on := w.wire()
		on.strike = func(_ int, r request) fate {
			if r.op == "list" {
				return fate{refuse: failing.get()}
			}
			return fate{}
		}
		l := w.loop(on, janitor.Options{}, time.Minute)
		time.Sleep(3*time.Minute + 40*time.Second) // of passes at 0..1, +1, +2: three at the most that fail
		synctest.Wait()
		failed, before := len(l.passes()), w.checkpoint()
		release := w.acquire()
		time.Sleep(20 * time.Minute)
		held := l.said("msg=lease_held")
		if n := len(l.passes()) - failed; held != n || n < 2 || w.checkpoint().Term != before.Term {
			w.t.Errorf("%d passes, said %d times; %+v", n, held, w.checkpoint())
		}
		for _, p := range l.pauses()[failed:] { // as it was before
			if limit := time.Minute << (failed - 1); p > limit+limit/10 || p < limit-limit/10 {
				w.t.Errorf("a pause of %v after %d failures", p, failed)
			}
		}
		for _, word := range []string{"index=running", "class=scheduler", "since=", "expires="} {
			if l.said(word) < held {
				w.t.Errorf("%q is not in %s", word, l.logged())
			}
		}
		if n := l.said("pass_failed"); n != failed {
			w.t.Errorf("%d passes failed: %s", n, l.logged())
		}
		release()
		failing.set(nil)
		time.Sleep(20 * time.Minute)
		l.stop()
		if n := w.markers(); n["team"] != 1 {
			w.t.Errorf("left %v", n)
		}
	})
}

// TestLoop_Unguarded: that passes go without a lease, and that they have one again, is said once.
func TestLoop_Unguarded(t *testing.T) {
	inBubble(t, func(w *world) {
		var usable setting[error]
		usable.set(fmt.Errorf("request 17: %w", bucket.ErrUnsupported))
		l := w.loop(nil, janitor.Options{Usable: func(context.Context) error { return usable.get() }}, time.Minute)
		time.Sleep(10 * time.Minute)
		usable.set(fmt.Errorf("request 18: %w", bucket.ErrUnsupported))
		time.Sleep(10 * time.Minute)
		if l.said("lease_unavailable") != 1 || l.said("request 17") != 1 || l.said("lease_available") != 0 {
			w.t.Errorf("log %s", l.logged())
		}
		usable.set(nil)
		time.Sleep(10 * time.Minute)
		usable.set(bucket.ErrDenied)
		time.Sleep(10 * time.Minute)
		l.stop()
		if l.said("lease_unavailable") != 2 || l.said("lease_available") != 1 || len(l.passes()) < 30 {
			w.t.Errorf("log %s", l.logged())
		}
	})
}

// TestLoop_Errors: passes that fail come twice as rarely each time, down to one an hour, are each logged, and at the old pace
// once they go well.
func TestLoop_Errors(t *testing.T) {
	inBubble(t, func(w *world) {
		var away setting[error]
		away.set(errors.New("the network is away"))
		l := w.loop(nil, janitor.Options{Usable: func(context.Context) error { return away.get() }}, 10*time.Minute)
		time.Sleep(8 * time.Hour)
		want := []time.Duration{10, 20, 40, 60, 60, 60, 60}
		for i, p := range l.pauses() {
			if limit := want[min(i, len(want)-1)] * time.Minute; p < limit-limit/10 || p > limit+limit/10 {
				w.t.Errorf("pause %d was %v, want %v", i, p, limit)
			}
		}
		failed := len(l.passes())
		if failed < 7 || l.said("pass_failed") != failed || l.said("the network is away") != failed {
			w.t.Errorf("%d passes; %s", failed, l.logged())
		}
		away.set(nil)
		time.Sleep(2 * time.Hour)
		l.stop()
		if p := l.pauses(); p[len(p)-1] > 11*time.Minute {
			w.t.Errorf("pauses %v", p)
		}
	})
}

// TestLoop_LongPace: a pace of more than an hour is not made faster by failures.
func TestLoop_LongPace(t *testing.T) {
	inBubble(t, func(w *world) {
		l := w.loop(nil, janitor.Options{Usable: func(context.Context) error { return errors.New("away") }}, 3*time.Hour)
		time.Sleep(24 * time.Hour)
		l.stop()
		for _, p := range l.pauses() {
			if p < 162*time.Minute || p > 198*time.Minute {
				w.t.Errorf("a pause of %v", p)
			}
		}
	})
}

// TestLoop_SomeKeys: keys that could not be deleted are said, and fail no pass.
func TestLoop_SomeKeys(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		on := w.wire()
		on.deny = denied("s000001")
		l := w.loop(on, janitor.Options{}, time.Minute)
		time.Sleep(150 * time.Second)
		l.stop()
		if l.said("some keys could not be deleted") == 0 || l.said("pass_failed") != 0 {
			w.t.Errorf("log %s", l.logged())
		}
	})
}

// TestLoop_Ends: it ends within a pass, with the lease let go of and nothing logged, and while it pauses.
func TestLoop_Ends(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(1, "team")
		on := w.wire()
		listing := make(chan struct{})
		ctx, cancel := context.WithCancel(w.t.Context())
		on.strike = at(1, "list", "", func() fate {
			close(listing)
			<-ctx.Done()
			return fate{refuse: ctx.Err()}
		})
		l := w.loop(on, janitor.Options{}, time.Minute)
		<-listing
		cancel()
		l.stop()
		w.wantFree()
		if len(l.errs) != 1 || l.errs[0] == nil || l.logged() != "" {
			w.t.Errorf("%v, %s", l.errs, l.logged())
		}
		l = w.loop(nil, janitor.Options{}, time.Minute)
		l.stop()
		if len(l.passes()) != 0 {
			w.t.Errorf("told %v", l.passes())
		}
	})
}
