package explore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/fakes/explore"
)

// refused explores a scenario that must fail with those words.
func refused(t *testing.T, words string, s explore.Scenario) error {
	t.Helper()
	s.Name = t.Name()
	_, err := explore.Search(t, s)
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Fatalf("want a failure that says %q, got %v", words, err)
	}
	return err
}

func one(run func(context.Context, *explore.Env) error) []explore.Actor {
	return []explore.Actor{{Name: "one", Run: run}}
}

func TestMemoryAcrossRunsIsFoundOut(t *testing.T) {
	var calls atomic.Int64
	err := refused(t, "told the same, does", explore.Scenario{Actors: []explore.Actor{points("other", 2), {
		Name: "one", Run: func(ctx context.Context, env *explore.Env) error {
			env.Point("first")
			_, err := env.Objects().Put(ctx, bucket.Key(fmt.Sprint("k", calls.Add(1))), nil)
			return err
		},
	}}})
	if !errors.Is(err, explore.ErrNotDeterministic) || !strings.Contains(err.Error(), `put "k`) {
		t.Errorf("got %v", err)
	}
}

// What two actors share in memory shows as well, since it is no answer. One run at a time: runs at once would share it
// too.
func TestMemoryAcrossActorsIsFoundOut(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	var shared atomic.Bool
	err := refused(t, "not deterministic", explore.Scenario{Actors: []explore.Actor{
		{Name: "writer", Run: func(_ context.Context, env *explore.Env) error {
			shared.Store(false)
			env.Point("before")
			shared.Store(true)
			return nil
		}},
		{Name: "reader", Run: func(_ context.Context, env *explore.Env) error {
			env.Point("before")
			env.Log(shared.Load())
			return nil
		}},
	}})
	if !errors.Is(err, explore.ErrNotDeterministic) {
		t.Errorf("got %v", err)
	}
}

func TestEqualPendingRequestsAreRefused(t *testing.T) {
	refused(t, "two equal requests pending", explore.Scenario{Actors: one(func(_ context.Context, env *explore.Env) error {
		var both sync.WaitGroup
		both.Go(func() { env.Now() })
		both.Go(func() { env.Now() })
		both.Wait()
		return nil
	})})
}

func TestStuckActorIsRefused(t *testing.T) {
	refused(t, "stuck", explore.Scenario{Actors: one(func(ctx context.Context, env *explore.Env) error {
		env.Point("before")
		<-ctx.Done()
		return nil
	})})
}

func TestPanicOfAnActorIsAFailure(t *testing.T) {
	err := refused(t, "actor one panicked: boom", explore.Scenario{Actors: one(
		func(_ context.Context, env *explore.Env) error {
			env.Point("before")
			panic("boom")
		})})
	if !strings.Contains(err.Error(), `replay: "0k"`) {
		t.Errorf("no replay string: %v", err)
	}
}

func TestRequestAfterRunIsRefused(t *testing.T) {
	refused(t, "after its Run had returned", explore.Scenario{Actors: one(
		func(_ context.Context, env *explore.Env) error {
			go env.Point("leaked")
			return nil
		})})
}

func TestTooManyStatesFail(t *testing.T) {
	s := explore.Scenario{MaxStates: 8, Actors: []explore.Actor{points("m", 2), points("n", 2)}}
	if err := refused(t, "more than 8 states", s); !errors.Is(err, explore.ErrTooManyStates) {
		t.Errorf("got %v", err)
	}
	s.MaxStates = 9
	explore.Run(t, s)
}

func TestInvariantSeesEveryState(t *testing.T) {
	calls := 0
	s := explore.Scenario{Name: "invariant", Actors: []explore.Actor{points("m", 2), points("n", 3)},
		Invariant: func(*explore.Final) error { calls++; return nil }}
	if result := explore.Run(t, s); calls != result.States {
		t.Errorf("called %d times for %v", calls, result)
	}
	s.Actors = append(s.Actors, registrar("a"))
	s.Invariant = func(f *explore.Final) error {
		if len(f.Objects) > 0 && len(f.Actor("a").Log) == 0 {
			return errors.New("stored and not yet told")
		}
		return nil
	}
	explore.Run(t, s)
	s.Faults = explore.AppliedLost
	refused(t, "stored and not yet told", s)
}

func TestReplayRefusesWhatDoesNotFit(t *testing.T) {
	for _, schedule := range []string{"", "0k", "0k-1k"} {
		if err := explore.Replay(t, sharedList(), schedule); err != nil {
			t.Errorf("%q, the start of a schedule: %v", schedule, err)
		}
	}
	for schedule, words := range map[string]string{
		"0":           "is no step",
		"0x":          "is no step",
		"k":           "is no step",
		"0:0k":        "is no step",
		"00k":         "is no step",
		"0k--1k":      "no step at all",
		"3k":          "no request 3k",
		"9k":          "no request 9k",
		"0:1k":        "no request 0:1k",
		"0l":          "no fault",
		"0k-0k-0k-1k": "does not fit the scenario at step 3",
	} {
		if err := explore.Replay(t, sharedList(), schedule); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: want an error that says %q, got %v", schedule, words, err)
		}
	}
}

// A timer fires when nothing is pending, and the time that has passed belongs to the state.
func TestTimersFireBetweenRequests(t *testing.T) {
	waits := func(d time.Duration) func(context.Context, *explore.Env) error {
		return func(ctx context.Context, env *explore.Env) error {
			began := time.Now()
			env.Point("going to sleep")
			time.Sleep(d)
			env.Point("awake")
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			<-ctx.Done()
			_, err := env.Objects().Put(ctx, "k", nil)
			env.Log(time.Since(began), err)
			return nil
		}
	}
	s := explore.Scenario{
		Name:   "timers",
		Actors: []explore.Actor{{Name: "a", Run: waits(time.Hour)}, {Name: "b", Run: waits(2 * time.Hour)}},
		Faults: explore.Crashes,
		Check: func(f *explore.Final) error {
			for i, want := range []string{"1h1m0s context deadline exceeded", "2h1m0s context deadline exceeded"} {
				if a := f.Actors[i]; !a.Crashed && a.Log[0] != want {
					return fmt.Errorf("actor %s: %q", a.Name, a.Log)
				}
			}
			return nil
		},
	}
	merged := explore.Run(t, s)
	s.Unmerged = true
	if whole := explore.Run(t, s); merged.States != whole.States {
		t.Errorf("merged %v, unmerged %v", merged, whole)
	}
}

// A request that its own context abandons is gone; a crashed actor runs no further, whatever its timers do, and its
// context is not cancelled.
func TestAbandonedRequestsAndTheCrashed(t *testing.T) {
	explore.Run(t, explore.Scenario{
		Name: "abandoned",
		Actors: one(func(ctx context.Context, env *explore.Env) error {
			short, cancel := context.WithCancel(ctx)
			defer cancel()
			var other sync.WaitGroup
			other.Go(func() {
				_, err := env.Objects().Put(short, "abandoned", nil)
				env.Log(errors.Is(err, context.Canceled), ctx.Err())
			})
			env.Point("cancelling")
			cancel()
			other.Wait()
			env.Point("last")
			return nil
		}),
		Faults: explore.Crashes,
		Check: func(f *explore.Final) error {
			a := f.Actors[0]
			for _, line := range a.Log {
				if !strings.HasSuffix(line, "<nil>") {
					return errors.New("the context of the actor is cancelled")
				}
			}
			_, stored := f.Object("abandoned")
			if a.Done && (len(a.Log) != 1 || stored == strings.HasPrefix(a.Log[0], "true")) {
				return fmt.Errorf("stored %v, log %q", stored, a.Log)
			}
			if a.Crashed == (len(f.Struck) == 0) || a.Crashed && a.Done {
				return fmt.Errorf("crashed %v, done %v, struck %v", a.Crashed, a.Done, f.Struck)
			}
			return nil
		},
	})
}

// An actor that repeats for ever, crashed or not, does not keep the search from ending.
func TestEndlessRetryUnwinds(t *testing.T) {
	result := explore.Run(t, explore.Scenario{
		Name: "endless",
		Actors: one(func(ctx context.Context, env *explore.Env) error {
			for {
				if _, err := env.Objects().Put(context.WithoutCancel(ctx), "k", nil); err == nil {
					return nil
				}
			}
		}),
		Faults:    explore.AllFaults,
		MaxFaults: 2,
	})
	if result.States < 10 {
		t.Errorf("got %v", result)
	}
}
