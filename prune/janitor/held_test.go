package janitor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/prune/janitor"
)

// TestP10_Held: beside a holder a pass lists nothing, and changes not one byte; it has the lease as soon as that is free, if it
// may wait for it.
func TestP10_Held(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		mustRun(w.t, w.janitor(nil, janitor.Options{}), &janitor.RunOptions{MaxDeletes: 1})
		release := w.acquire()
		before, on := w.all(), w.wire()
		j := w.janitor(on, janitor.Options{})
		r, err := j.Run(w.t.Context(), nil)
		var held *lease.HeldError
		if !errors.As(err, &held) || !errors.Is(err, lease.ErrHeld) || held.Status.Class != lease.Scheduler {
			w.t.Fatalf("%v", err)
		}
		wantText(w.t, err.Error(), "is held by a scheduler since", "(pass)", "opens at")
		if r.Term != 0 || r.Pages != 0 || len(r.Deleted) > 0 || r.Unguarded != "" || !r.AsOf.Equal(r.Ruling.AsOf) {
			w.t.Errorf("%+v", r)
		}
		if after := w.all(); after != before {
			w.t.Errorf("something changed:\n%s\nwas\n%s", after, before)
		}
		if n := on.count(); n["save"]+n["list"]+n["delete"]+n["put"] > 0 {
			w.t.Errorf("requests %v", on.requests())
		}

		time.AfterFunc(30*time.Second, release)
		if r := mustRun(w.t, j, &janitor.RunOptions{Wait: time.Minute}); r.Term != 3 || r.Deleted["stale"] != 2 {
			w.t.Errorf("%+v", r)
		}
		w.wantFree()
	})
}

// TestP10_OnePassAtATime: a pass that comes while another one is at work is told so, as often as it comes.
func TestP10_OnePassAtATime(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(2500, "team")
		two := w.janitor(nil, janitor.Options{Class: lease.Scheduler})
		busy := 0
		r := mustRun(w.t, w.janitor(nil, janitor.Options{}), &janitor.RunOptions{Progress: func(done, total int) {
			time.Sleep(20 * time.Second) // longer than a renewal, shorter than a TTL
			before := w.body(checkpointKey)
			if _, err := two.Run(w.t.Context(), nil); errors.Is(err, lease.ErrHeld) {
				busy++
			}
			if w.body(checkpointKey) != before {
				w.t.Error("the checkpoint has changed")
			}
		}})
		if busy != 3 || r.Term != 1 || r.Deleted["stale"] != 2500 || w.checkpoint().Term != 1 {
			w.t.Errorf("told %d times; %+v", busy, r)
		}
		if r := mustRun(w.t, two, nil); r.Term != 2 {
			w.t.Errorf("%+v", r)
		}
	})
}

// TestCase_C21_Takeover: who ends without letting go of the lease, at any of its requests, blocks nobody for longer than TTL
// and Margin; a later pass finds the rest, and the checkpoint whole.
func TestCase_C21_Takeover(t *testing.T) {
	inBubble(t, func(w *world) {
		on := w.wire()
		mustRun(w.t, w.janitor(on, janitor.Options{}), nil)
		requests := len(on.requests())
		for dies := 1; dies <= requests+1; dies++ { // one more: there will be deletes
			w.old(3, "team")
			on, gone := w.wire(), errors.New("the process is gone")
			on.strike = func(n int, _ request) fate {
				if n < dies {
					return fate{}
				}
				return fate{refuse: gone}
			}
			if r, err := w.janitor(on, janitor.Options{}).Run(w.t.Context(), nil); err == nil && dies < requests {
				w.t.Fatalf("it died at request %d and came to its end: %+v", dies, r)
			}
			from := time.Now()
			r := mustRun(w.t, w.janitor(nil, janitor.Options{}), &janitor.RunOptions{Wait: time.Minute})
			if took := time.Since(from); took > lease.DefaultTTL+lease.Margin+lease.Poll {
				w.t.Errorf("died at request %d: the next one waited for %v", dies, took)
			}
			if n := w.markers(); n["team"] != 1 || w.checkpoint().Term != r.Term || len(w.checkpoint().Namespaces) != 0 {
				w.t.Errorf("died at request %d: left %v, %+v", dies, n, w.checkpoint())
			}
			w.wantFree()
		}
	})
}

// TestCase_C21_Released: the lease is free after every error between acquiring and working, and after a panic.
func TestCase_C21_Released(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		broken := errors.New("broken")
		refuse := func() fate { return fate{refuse: broken} }
		for what, strike := range map[string]func(int, request) fate{
			"stamp": at(1, "save", checkpointKey, refuse), "page": at(1, "list", "", refuse), "end": at(2, "save", checkpointKey, refuse),
		} {
			on := w.wire()
			on.strike = strike
			r, err := w.janitor(on, janitor.Options{}).Run(w.t.Context(), nil)
			if !errors.Is(err, broken) || (sum(r.Deleted) > 0) != (what == "end" && r.Planned["stale"] > 0) {
				w.t.Errorf("%s: %v, deleted %v", what, err, r.Deleted)
			}
			w.wantFree()
		}
		w.old(1, "team")
		func() {
			defer func() { _ = recover() }()
			_, _ = w.janitor(nil, janitor.Options{}).Run(w.t.Context(), &janitor.RunOptions{Planned: func(blobindex.Deletion) { panic("a bug") }})
		}()
		w.wantFree()
	})
}

// TestP10_ConfiguredOtherwise: a process that was given other rules than are saved takes no lease.
func TestP10_ConfiguredOtherwise(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		open := func(rules prune.Rules) *janitor.Janitor {
			x, err := blobindex.New(w.Bucket, blobindex.Config{Rules: rules}, &blobindex.Options{
				Shared: &blobindex.Sharing{Store: w.Bucket, Save: true},
			})
			if err != nil {
				w.t.Fatal(err)
			}
			return janitor.New(x, &janitor.Options{Store: w.Bucket})
		}
		if r := mustRun(w.t, open(prune.Rules{}), &janitor.RunOptions{MaxDeletes: 1}); r.Term != 1 || r.Left != 2 {
			w.t.Fatalf("%+v", r)
		}
		before := w.all()
		r := mustRun(w.t, open(prune.Rules{TTL: time.Hour}), nil)
		if r.Withheld == "" || r.Term != 0 || w.all() != before {
			w.t.Errorf("%+v", r)
		}
	})
}

// dispossess ends the term of whoever holds the lease, and lets another process make a pass.
func (w *world) dispossess() janitor.Report {
	w.t.Helper()
	l := w.lease(w.Bucket)
	st, err := l.Status(w.t.Context())
	if err == nil {
		_, err = l.Break(w.t.Context(), st.Term)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return mustRun(w.t, w.janitor(nil, janitor.Options{}), &janitor.RunOptions{Wait: time.Minute})
}

// TestP10_Dispossessed: a holder that has lost its lease deletes nothing more, leaves the checkpoint and the lease as they are,
// and says so.
func TestP10_Dispossessed(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(2500, "team")
		on, after := w.wire(), ""
		r, err := w.janitor(on, janitor.Options{}).Run(w.t.Context(), &janitor.RunOptions{Progress: func(done, _ int) {
			if other := w.dispossess(); other.Term != 2 || other.Deleted["stale"] != 1500 {
				w.t.Errorf("%+v", other)
			}
			w.put("_active_runs/team/"+markerName(2000, time.Now()), "")
			after = w.all()
		}})
		if !errors.Is(err, lease.ErrLost) || r.Deleted["stale"] != 1000 || r.Left != 1500 {
			w.t.Errorf("%v, %+v", err, r)
		}
		wantText(w.t, fmt.Sprint(err), "the lease was lost after 1000 of 2500 keys", "proven to be over", "prune again")
		if on.count()["delete"] != 1 || w.all() != after {
			w.t.Errorf("something was changed after the loss: %v", on.requests())
		}
	})
}

// TestP10_DispossessedAtTheEnd: the last save of a holder that does not know yet conflicts, once another term has stamped the
// checkpoint.
func TestP10_DispossessedAtTheEnd(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		on := w.wire()
		on.strike = at(1, "delete", "", func() fate {
			w.plant(noted{Term: 2})
			return fate{}
		})
		r, err := w.janitor(on, janitor.Options{}).Run(w.t.Context(), nil)
		if !errors.Is(err, lease.ErrLost) || r.Deleted["stale"] != 3 {
			w.t.Errorf("%v, %+v", err, r)
		}
		wantText(w.t, fmt.Sprint(err), "the lease was lost after 3 of 3 keys", "somebody else has saved the checkpoint")
		if n := w.checkpoint(); n.Term != 2 || !n.PassedAt.IsZero() {
			w.t.Errorf("the checkpoint is %+v", n)
		}
	})
}

// TestP10_LostInAListing: a listing that hangs while the lease cannot be renewed is given up when that is not trusted any more.
func TestP10_LostInAListing(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		on, cut, from := w.wire(), setting[bool]{}, time.Now()
		on.strike = func(_ int, r request) fate {
			if cut.get() && r.op == "save" {
				return fate{refuse: errors.New("the network is away")}
			}
			return fate{}
		}
		on.listing = func(ctx context.Context) { cut.set(true); <-ctx.Done() }
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
		defer cancel()
		r, err := w.janitor(on, janitor.Options{}).Run(ctx, nil)
		if !errors.Is(err, lease.ErrLost) || time.Since(from) > lease.DefaultTTL || sum(r.Planned) > 0 {
			w.t.Errorf("%v after %v, %+v", err, time.Since(from), r)
		}
	})
}

// TestP10_StampRefused: a term that is not below ours stands in the checkpoint when we come to stamp it. Whoever is in it is
// waited for, and the next term is above it.
func TestP10_StampRefused(t *testing.T) {
	for name, term := range map[string]uint64{"equal": 1, "greater": 7} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.old(3, "team")
				on := w.wire()
				on.strike = at(1, "save", checkpointKey, func() fate { w.plant(noted{Term: term}); return fate{} })
				j := w.janitor(on, janitor.Options{})
				r, err := j.Run(w.t.Context(), nil)
				if !errors.Is(err, lease.ErrHeld) || r.Pages != 0 || w.checkpoint().Term != term {
					w.t.Fatalf("%v, %+v", err, r)
				}
				if r, err := j.Run(w.t.Context(), nil); !errors.Is(err, lease.ErrHeld) {
					w.t.Fatalf("%v, %+v", err, r)
				}
				time.Sleep(lease.DefaultTTL + lease.Margin + time.Second)
				if r := mustRun(w.t, j, nil); r.Term != term+1 || r.Deleted["stale"] != 3 || w.checkpoint().Term != term+1 {
					w.t.Errorf("%+v, %+v", r, w.checkpoint())
				}
			})
		})
	}
}

// TestP10_StampRefusedAndWaited: who may wait acquires again by itself.
func TestP10_StampRefusedAndWaited(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		on := w.wire()
		on.strike = at(1, "save", checkpointKey, func() fate { w.plant(noted{Term: 7}); return fate{} })
		if r := mustRun(w.t, w.janitor(on, janitor.Options{}), &janitor.RunOptions{Wait: time.Minute}); r.Term != 8 || r.Deleted["stale"] != 3 {
			w.t.Errorf("%+v", r)
		}
	})
}

// TestP10_StampMeetsAPredecessor: the checkpoint was saved by an earlier term, or deleted, after it was loaded; the stamp goes
// on top.
func TestP10_StampMeetsAPredecessor(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		release := w.acquire()
		release()
		kept := noted{Term: 1, Namespaces: map[string]notedNamespace{"other": {Failures: 3, RetryAt: time.Now().Add(time.Hour)}}}
		for what, change := range map[string]func(){
			"saved":   func() { w.plant(kept) },
			"deleted": func() { w.Delete(w.t.Context(), []bucket.Key{checkpointKey}) },
		} {
			on := w.wire()
			on.strike = at(1, "save", checkpointKey, func() fate { change(); return fate{} })
			if r := mustRun(w.t, w.janitor(on, janitor.Options{}), &janitor.RunOptions{Namespace: "team"}); r.Term == 0 {
				w.t.Errorf("%s: %+v", what, r)
			}
			if n := w.checkpoint(); (len(n.Namespaces) == 1) != (what == "saved") {
				w.t.Errorf("%s: %+v", what, n)
			}
			w.Delete(w.t.Context(), []bucket.Key{checkpointKey})
			w.plant(kept)
		}
	})
}

// TestP10_LeaseDeleted: where the lease's document was deleted, a term that the checkpoint knows of is waited for.
func TestP10_LeaseDeleted(t *testing.T) {
	inBubble(t, func(w *world) {
		j := w.janitor(nil, janitor.Options{})
		for range 3 {
			mustRun(w.t, j, nil)
		}
		w.Delete(w.t.Context(), []bucket.Key{leaseKey})
		fresh := w.janitor(nil, janitor.Options{})
		_, err := fresh.Run(w.t.Context(), nil)
		if !errors.Is(err, lease.ErrHeld) {
			w.t.Fatal(err)
		}
		wantText(w.t, err.Error(), "has to be waited for (its document was lost)")
		from := time.Now()
		if r := mustRun(w.t, fresh, &janitor.RunOptions{Wait: time.Minute}); r.Term != 4 || time.Since(from) < lease.DefaultTTL+lease.Margin {
			w.t.Errorf("%+v after %v", r, time.Since(from))
		}
	})
}

// TestCase_C18_Woken: a holder whose host slept, so that its running clock stood still and none of its timers ran, finds out at
// its first check.
func TestCase_C18_Woken(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(2500, "team")
		var slept setting[time.Duration]
		on := w.wire()
		j := w.janitor(on, janitor.Options{Clock: lease.Clock{
			Wall: func() time.Time { return time.Now().Add(slept.get()) }, Running: func() time.Duration { return 0 },
		}})
		r, err := j.Run(w.t.Context(), &janitor.RunOptions{Progress: func(int, int) { slept.set(2 * lease.DefaultTTL) }})
		if !errors.Is(err, lease.ErrLost) || r.Deleted["stale"] != 1000 || on.count()["delete"] != 1 {
			w.t.Errorf("%v, %+v", err, r)
		}
		if n := w.checkpoint(); n.Term != 1 || !n.PassedAt.IsZero() {
			w.t.Errorf("the checkpoint was saved: %+v", n)
		}
	})
}

// TestCase_C19_SomeoneElsesLease: a holder whose renewals fail, and whose lease was taken over, leaves the other one's alone.
func TestCase_C19_SomeoneElsesLease(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		on, cut := w.wire(), setting[bool]{}
		on.strike = func(_ int, r request) fate {
			if cut.get() && r.keys[0] == leaseKey {
				return fate{refuse: errors.New("the network is away")}
			}
			return fate{}
		}
		var release func()
		defer func() { release() }()
		before := ""
		r, err := w.janitor(on, janitor.Options{}).Run(w.t.Context(), &janitor.RunOptions{Planned: func(blobindex.Deletion) {
			if release == nil {
				cut.set(true)
				time.Sleep(lease.DefaultTTL + lease.Margin + time.Second)
				release = w.acquire()
				cut.set(false)
				before = w.body(leaseKey)
			}
		}})
		if !errors.Is(err, lease.ErrLost) || sum(r.Deleted) > 0 || w.body(leaseKey) != before {
			w.t.Errorf("%v, %+v; the lease is %s, was %s", err, r, w.body(leaseKey), before)
		}
		wantText(w.t, fmt.Sprint(err), "before anything was deleted")
	})
}

// TestCase_C12_SlowWrites: on a store that takes one write a second of each object a pass takes a few seconds, and lets go of
// its lease.
func TestCase_C12_SlowWrites(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		on, last := w.wire(), map[bucket.Key]time.Time{}
		refused := 0
		on.strike = func(_ int, r request) fate {
			if r.op != "save" {
				return fate{}
			}
			if time.Since(last[r.keys[0]]) < time.Second {
				refused++
				return fate{refuse: fmt.Errorf("slow down: %w", cas.ErrThrottled)}
			}
			last[r.keys[0]] = time.Now()
			return fate{}
		}
		j, from := w.janitor(on, janitor.Options{}), time.Now()
		for range 3 {
			mustRun(w.t, j, nil)
			w.wantFree()
		}
		if refused == 0 || time.Since(from) > 30*time.Second {
			w.t.Errorf("%d writes were refused, three passes took %v", refused, time.Since(from))
		}
	})
}

// TestP7_LostAnswers: at each request, its answer is lost, whether it was carried out or not. Nothing live goes, and the next
// pass is as if nothing had been.
func TestP7_LostAnswers(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team", "two")
		on := w.wire()
		mustRun(w.t, w.janitor(on, janitor.Options{}), nil)
		requests := on.requests()
		for _, applied := range []bool{false, true} {
			for n := range requests {
				w.old(3, "team", "two")
				on := w.wire()
				on.strike = func(at int, r request) fate {
					err := fmt.Errorf("the connection broke: %w", bucket.ErrUnknown)
					switch {
					case at != n+1:
						return fate{}
					case applied:
						return fate{lose: err}
					}
					return fate{refuse: err}
				}
				r, err := w.janitor(on, janitor.Options{}).Run(w.t.Context(), nil)
				writes := strings.HasPrefix(requests[n], "save") || strings.HasPrefix(requests[n], "delete")
				if (err == nil) != writes || !writes && sum(r.Deleted) > 0 {
					w.t.Errorf("%s, applied %v: %v, %+v", requests[n], applied, err, r)
				}
				w.wantFree()
				mustRun(w.t, w.janitor(nil, janitor.Options{}), &janitor.RunOptions{Full: true})
				if got := fmt.Sprint(w.markers()); got != "map[team:1 two:1]" || len(w.checkpoint().Namespaces) > 0 {
					w.t.Errorf("%s, applied %v: left %v, %+v", requests[n], applied, got, w.checkpoint())
				}
			}
		}
	})
}

// TestRun_Interrupted: a pass whose context ends lets go of its lease at once, says how far it came, and counts nothing against
// the namespaces of the keys that it did not reach.
func TestRun_Interrupted(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(2500, "team")
		for _, within := range []bool{false, true} { // a batch
			ctx, cancel := context.WithCancel(w.t.Context())
			on, from := w.wire(), time.Now()
			want := 1000
			if within {
				want = 0
				on.deny = func(bucket.Key) error { cancel(); return ctx.Err() }
			}
			r, err := w.janitor(on, janitor.Options{}).Run(ctx, &janitor.RunOptions{Progress: func(int, int) { cancel() }})
			if !errors.Is(err, context.Canceled) || errors.Is(err, lease.ErrLost) || sum(r.Deleted) != want || r.Failures != 0 ||
				r.Left != r.Planned["stale"]-want || time.Since(from) > 0 {
				w.t.Errorf("%v, %+v after %v", err, r, time.Since(from))
			}
			w.wantFree()
			if n := w.checkpoint(); !n.PassedAt.IsZero() || len(n.Namespaces) > 0 || n.Term != r.Term {
				w.t.Errorf("the checkpoint is %+v", n)
			}
		}
		if r := mustRun(w.t, w.janitor(nil, janitor.Options{}), nil); r.Deleted["stale"] != 1500 {
			w.t.Errorf("%+v", r)
		}
	})
}

// TestRun_Options: options that cannot be are an error of each pass, before anything is asked.
func TestRun_Options(t *testing.T) {
	inBubble(t, func(w *world) {
		on := w.wire()
		for _, opts := range []janitor.Options{{TTL: time.Second}, {Class: "janitor"}} {
			if _, err := w.janitor(on, opts).Run(w.t.Context(), nil); err == nil || len(on.requests()) > 0 {
				w.t.Errorf("%+v: %v, %v", opts, err, on.requests())
			}
		}
		opt := &janitor.RunOptions{Namespace: "a/b"}
		if _, err := w.janitor(on, janitor.Options{}).Run(w.t.Context(), opt); !errors.Is(err, blobindex.ErrName) || len(on.requests()) > 0 {
			w.t.Errorf("%v, %v", err, on.requests())
		}
	})
}

// TestRun_DryRun: a dry run needs no lease, and writes nothing beside a holder.
func TestRun_DryRun(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		defer w.acquire()()
		before, planned := w.all(), 0
		r := mustRun(w.t, w.janitor(nil, janitor.Options{}), &janitor.RunOptions{DryRun: true, Planned: func(blobindex.Deletion) { planned++ }})
		if planned != 3 || r.Term != 0 || r.Unguarded != "" || w.all() != before {
			w.t.Errorf("%d planned, %+v", planned, r)
		}
	})
}
