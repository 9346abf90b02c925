package cas_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A virtual clock goes on when all who work by it wait, and then to the first moment that one of them waits for: as many
// writers as there are share one time, and none of them really waits.
type virtual struct {
	mu      sync.Mutex // guards all below
	time    time.Time
	working int
	waiting []sleeper
}

type sleeper struct {
	until time.Time
	wake  chan struct{}
}

func newVirtual(workers int) *virtual {
	return &virtual{time: time.Unix(1_800_000_000, 0), working: workers}
}

func (v *virtual) now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.time
}

func (v *virtual) wait(ctx context.Context, d time.Duration) error {
	v.mu.Lock()
	s := sleeper{v.time.Add(d), make(chan struct{})}
	v.waiting = append(v.waiting, s)
	v.rest()
	v.mu.Unlock()
	<-s.wake
	return ctx.Err()
}

// leave says that one of the workers is done.
func (v *virtual) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rest()
}

// rest takes one from the working, and wakes the first sleeper if that was the last one. Under mu.
func (v *virtual) rest() {
	if v.working--; v.working > 0 || len(v.waiting) == 0 {
		return
	}
	first := 0
	for i, s := range v.waiting {
		if s.until.Before(v.waiting[first].until) {
			first = i
		}
	}
	s := v.waiting[first]
	v.waiting = slices.Delete(v.waiting, first, first+1)
	v.time = s.until
	v.working++
	close(s.wake)
}

// TestCase_C12_OneWriteASecond: twenty writers of one document on a store that takes one write of it a second are all in
// it, once each.
func TestCase_C12_OneWriteASecond(t *testing.T) {
	const writers = 20
	for _, x := range []struct {
		name  string
		start starter
		lies  s3d.Lies
	}{
		{"s3 503", startS3, s3d.Lies{Pace: time.Second}},
		{"s3 429", startS3, s3d.Lies{Pace: time.Second, PaceIs429: true}},
		{"gcs 429", startGCS, s3d.Lies{}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			v := newVirtual(writers)
			f := x.start(t, conf{s3: s3d.Options{Now: v.now, Lies: x.lies}, gcs: gcsd.Options{Now: v.now}})
			begun := v.now()
			var all sync.WaitGroup
			for w := range writers {
				d := cas.NewDoc[list](f.dial(t, nil, ""), "doc", format, &cas.Options{Now: v.now, Wait: v.wait})
				all.Go(func() {
					defer v.leave()
					if _, err := d.Update(t.Context(), add(fmt.Sprint(w)), create); err != nil {
						t.Errorf("writer %d: %v", w, err)
					}
				})
			}
			all.Wait()
			s, err := cas.NewDoc[list](stored{f}, "doc", format, nil).Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for w := range writers {
				if n := count(s.Value.Names, fmt.Sprint(w)); n != 1 {
					t.Errorf("writer %d is there %d times", w, n)
				}
			}
			if len(s.Value.Names) != writers || s.Seq != writers {
				t.Errorf("%d names at seq %d", len(s.Value.Names), s.Seq)
			}
			if sent, took := len(puts(t, f)), v.now().Sub(begun); sent <= writers || took < (writers-1)*time.Second {
				t.Errorf("%d uploads in %v of the store's time: nothing was throttled", sent, took)
			}
		})
	}
}

// TestCase_C12_TheSameAgain: an answer that asks for slower writes is no loss. The same save is sent again under the same
// token, after more than a second, of which no two are alike.
func TestCase_C12_TheSameAgain(t *testing.T) {
	for name, x := range map[string]struct {
		kind  kind
		reads int // before each repetition: whether it has landed
	}{
		"429": {status(429, "TooManyRequests", "rateLimitExceeded"), 0},
		"503": {status(503, "SlowDown", "backendError"), 1},
	} {
		for _, exists := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/exists=%t", name, exists), func(t *testing.T) {
				onEach(t, conf{}, func(t *testing.T, f fake) {
					const times = 4
					want := begin(t, f, exists)
					for n := range times {
						f.strike(fault{method: "PUT", nth: n + 1, kind: x.kind})
					}
					ours := &adder{name: "ours"}
					var waited []time.Duration
					if _, err := open(f.dial(t, nil, ""), &waited).Update(t.Context(), ours.change, create); err != nil || ours.runs != 1 {
						t.Fatalf("%v, computed %d times", err, ours.runs)
					}
					same(t, f, times+1)
					if n := len(f.sent()) - times - 1; n != 1+times*x.reads {
						t.Errorf("%d reads", n)
					}
					for i, d := range waited {
						if d < time.Second || d > time.Minute || i > 0 && d == waited[i-1] {
							t.Errorf("it waited %v", waited)
						}
					}
					if len(waited) != times || waited[times-1] < 2*time.Second {
						t.Errorf("it waited %v: no longer than at first", waited)
					}
					holds(t, f, append(want, "ours"))
				})
			})
		}
	}
}

// TestCase_C12_UntilTheContextEnds: a store that never lets us through gives an error that says so, and nothing is applied.
// After 503 it is unknown as well: what is behind a proxy may have carried it out.
func TestCase_C12_UntilTheContextEnds(t *testing.T) {
	for name, x := range map[string]struct {
		kind kind
		open bool
	}{
		"429": {status(429, "TooManyRequests", "rateLimitExceeded"), false},
		"503": {status(503, "SlowDown", "backendError"), true},
	} {
		for _, waits := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d waits", name, waits), func(t *testing.T) {
				onEach(t, conf{}, func(t *testing.T, f fake) {
					want := begin(t, f, true)
					f.strike(fault{method: "PUT", every: true, kind: x.kind})
					ctx, cancel := context.WithCancel(t.Context())
					n := 0
					d := cas.NewDoc[list](f.dial(t, nil, ""), "doc", format, &cas.Options{
						Wait: func(ctx context.Context, _ time.Duration) error {
							if n++; n == waits {
								cancel()
							}
							return ctx.Err()
						}})
					_, err := d.Update(ctx, add("ours"), create)
					if !errors.Is(err, cas.ErrThrottled) || !errors.Is(err, context.Canceled) || errors.Is(err, cas.ErrUnknown) != x.open ||
						errors.Is(err, cas.ErrConflict) {
						t.Errorf("Update: %v", err)
					}
					same(t, f, waits)
					holds(t, f, want)
				})
			})
		}
	}
}
