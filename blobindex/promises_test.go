package blobindex_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/prune/janitor"
	"github.com/google/go-cmp/cmp"
)

// TestP1_RegisterIsOnePut: registering is one PUT of the item's own key, with no read, and two registrations at once
// leave two items. That nothing else makes an item disappear is searched exhaustively in explore_test.go.
func TestP1_RegisterIsOnePut(t *testing.T) { onStores(t) }

func checkP1RegisterIsOnePut(t *testing.T, s *site) {
	w := s.world(t)
	count := fakes.NewCounter(w.objects)
	n := w.team(count, blobindex.Options{})
	a, b := w.id("a", -time.Second), w.id("b", -time.Second)
	done := make(chan error, 2)
	for _, id := range []itemid.ID{a, b} {
		go func() {
			_, err := n.Register(t.Context(), id, nil)
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if got, want := count.Snapshot(), (fakes.Counts{Put: 2}); got != want {
		t.Errorf("two registrations took %+v, want %+v", got, want)
	}
	wantCards(t, w.team(nil, blobindex.Options{}), b, a)
	if got := w.keys(); len(got) != 2 || got[0] != "_active_runs/team/"+a.String() {
		t.Errorf("keys are %q", got)
	}
}

// TestP2_AgeNeedsNoResolve: what is past its TTL goes by its name alone; a resolver that is asked about it fails the
// test. No janitor runs.
func TestP2_AgeNeedsNoResolve(t *testing.T) { onStores(t) }

func checkP2AgeNeedsNoResolve(t *testing.T, s *site) {
	w := s.world(t)
	old := w.id("old", 0)
	r := &resolverFunc{cost: 1, fn: func(target blobindex.Target) (blobindex.Status, error) {
		if target.ID.String() == old.String() {
			t.Errorf("the resolver was asked about %s, which is past its TTL", target.ID)
		}
		return blobindex.Status{State: blobindex.Running}, nil
	}}
	n := w.team(nil, blobindex.Options{Resolver: r})
	register(t, n, old)
	w.advance(2*time.Hour + time.Millisecond)
	fresh := w.id("fresh", 0)
	register(t, n, fresh)
	wantCards(t, n, fresh)
	v := mustCards(t, n, blobindex.CardsRequest{})
	if v.Counts.Stale != 1 || v.Counts.Live != 1 || v.Cost != (blobindex.Cost{List: 1, Get: 1}) {
		t.Errorf("counts %+v cost %+v", v.Counts, v.Cost)
	}
	if len(w.keys()) != 2 {
		t.Errorf("reading deleted something: %q", w.keys())
	}
}

// TestP2_AtTheCutoff: at the TTL an item is still shown, past it it is not, in every way of reading, at one instant.
func TestP2_AtTheCutoff(t *testing.T) { onStores(t) }

func checkP2AtTheCutoff(t *testing.T, s *site) {
	for _, tc := range []struct {
		age   time.Duration
		shown int
	}{{2*time.Hour - time.Second, 1}, {2 * time.Hour, 1}, {2*time.Hour + time.Millisecond, 0}} {
		w := s.world(t)
		n := w.team(nil, blobindex.Options{})
		id := w.id("x", 0)
		register(t, n, id)
		w.advance(tc.age)
		list, err := n.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e, err := n.Explain(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if cards := mustCards(t, n, blobindex.CardsRequest{}); len(cards.Cards) != tc.shown || len(list.Items) != tc.shown ||
			e.Shown != (tc.shown == 1) {
			t.Errorf("at %v: %d cards, %d listed, explained as shown: %v; want %d", tc.age, len(cards.Cards),
				len(list.Items), e.Shown, tc.shown)
		}
	}
}

// TestP3_OnlyTheProvenDead: a resolver that fails, an unknown state, foreign keys and incomplete listings delete
// nothing; a dead item's delete touches no other key.
func TestP3_OnlyTheProvenDead(t *testing.T) { onStores(t) }

func checkP3OnlyTheProvenDead(t *testing.T, s *site) {
	w := s.world(t)
	dead, failing, unknown, run := w.id("a", -4*time.Minute), w.id("b", -3*time.Minute), w.id("c", -2*time.Minute), w.id("d", 0)
	panicking := w.id("e", -time.Minute)
	for _, key := range []string{"", dead.String() + "x", "sub/" + dead.String(), "garbage", run.String() + "~gone"} {
		w.place("_active_runs/team/"+key, "")
	}
	w.put("_active_runs/team2/"+dead.String(), "")
	r := overs(dead)
	run0 := r.fn
	r.fn = func(target blobindex.Target) (blobindex.Status, error) {
		switch target.ID.String() {
		case failing.String():
			return blobindex.Status{State: blobindex.FailedRun}, errors.New("the state store is down")
		case panicking.String():
			panic("a resolver with a bug")
		case unknown.String():
			return blobindex.Status{}, nil
		}
		return run0(target)
	}
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
	defer sweeper.Close()
	n := w.team(nil, blobindex.Options{Resolver: r, Sweeper: sweeper})
	register(t, n, dead, failing, unknown, panicking, run)
	before := w.keys()
	wantCards(t, n, run, panicking, unknown, failing)
	if err := sweeper.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(before, func(k string) bool { return k == "_active_runs/team/"+dead.String() })
	if diff := cmp.Diff(want, w.keys()); diff != "" {
		t.Errorf("after sweeping (-want +got):\n%s", diff)
	}
}

// TestCase_C04_ListingFails: a listing that fails at any page, is cut, or has no page is the last good view, marked stale, or
// an error if there is none; a pass deletes nothing.
func TestCase_C04_ListingFails(t *testing.T) { onStores(t) }

func checkC04ListingFails(t *testing.T, s *site) {
	w := s.world(t)
	w.fill(w.stored(2500, "team"))
	w.advance(3 * time.Hour)
	w.put("_active_runs/team/"+w.id("run", 0).String(), "")
	for page := 1; page <= 3; page++ {
		failing := fakes.FailPage(page, errors.New("the network went away"))
		for name, kind := range map[string]fakes.Kind{"fail": failing, "cut": fakes.CutPage(page, 10, nil)} {
			t.Run(fmt.Sprintf("%s page %d", name, page), func(t *testing.T) { failingList(t, w, kind) })
		}
	}
}

// failingList strikes the second to the fifth listing of a world of 2,501 keys, one of them live.
func failingList(t *testing.T, w *world, kind fakes.Kind) {
	planned := func(nth int) fakes.Fault { return fakes.Fault{Op: fakes.List, Nth: nth, Kind: kind} }
	faulty := fakes.NewFaulty(t, w.objects, planned(2), planned(3), planned(4), planned(5))
	n := w.team(faulty, blobindex.Options{})
	good := mustCards(t, n, blobindex.CardsRequest{})
	w.advance(time.Minute)
	stale := mustCards(t, n, blobindex.CardsRequest{})
	if stale.Complete || stale.Cause == nil || !stale.StaleSince.Equal(w.store.Now()) {
		t.Errorf("complete %v since %v cause %v", stale.Complete, stale.StaleSince, stale.Cause)
	}
	if diff := cmp.Diff(good.Cards, stale.Cards); diff != "" || stale.Counts != good.Counts || len(good.Cards) != 1 {
		t.Errorf("the stale view is not the last good one:\n%s", diff)
	}
	if _, err := n.Cards(t.Context(), blobindex.CardsRequest{Subkey: "other"}); err == nil {
		t.Error("a first view that could not be completed is no error")
	}
	if v, err := n.Cards(t.Context(), blobindex.CardsRequest{Limit: 3}); err != nil || v.Complete || len(v.Cards) != 1 {
		t.Errorf("a narrower view, of which the last good one holds all: %+v %v", v, err)
	}
	report, err := janitor.New(w.index(faulty, blobindex.Options{}), nil).Run(t.Context(), nil)
	if err == nil || len(report.Deleted) > 0 || len(w.keys()) != 2501 {
		t.Errorf("a pass over a failed listing: %v, deleted %v, %d keys left", err, report.Deleted, len(w.keys()))
	}
	if v := mustCards(t, n, blobindex.CardsRequest{}); !v.Complete || !v.StaleSince.IsZero() {
		t.Errorf("after a good listing the view is still stale")
	}
}

// TestP4_TheNewestOfAll: age, dedupe and sort run over the whole listing before the cap. The newest items sort last by
// key, and on the last page.
func TestP4_TheNewestOfAll(t *testing.T) { onStores(t) }

func checkP4TheNewestOfAll(t *testing.T, s *site) {
	w := s.world(t)
	var want, keys []string
	for i := range 2100 {
		id := w.id(fmt.Sprintf("k%04d", i), -time.Hour+time.Duration(i)*time.Second)
		keys = append(keys, "_active_runs/team/"+id.String())
		want = append(want, id.String())
	}
	w.fill(keys)
	slices.Reverse(want)
	v := mustCards(t, w.team(nil, blobindex.Options{}), blobindex.CardsRequest{})
	if diff := cmp.Diff(want[:8], cardIDs(v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v.Counts.Live != 2100 || v.Counts.Shown != 8 || v.Counts.BeyondCap != 2092 || v.Cost.List != 3 {
		t.Errorf("counts %+v cost %+v", v.Counts, v.Cost)
	}
}

// TestP5_BoundedCost: a view makes at most as many resolver requests as the budget has, and the dead do not eat it
// twice.
func TestP5_BoundedCost(t *testing.T) { onStores(t) }

func checkP5BoundedCost(t *testing.T, s *site) {
	w := s.world(t)
	var dead []itemid.ID
	for i := range 70 {
		dead = append(dead, w.id(fmt.Sprintf("d%02d", i), -time.Duration(i)*time.Second))
	}
	run := w.id("run", -time.Hour)
	r := overs(dead...)
	n := w.team(nil, blobindex.Options{Resolver: r, Budget: 64})
	register(t, n, append(dead, run)...)
	v := mustCards(t, n, blobindex.CardsRequest{})
	if len(r.calls) != 64 || v.Cost.Get != 64 || len(v.Cards) != 0 || v.Counts.Unresolved != 7 || v.Counts.Live != 7 {
		t.Errorf("first view: %d calls, cost %+v, %d cards, counts %+v", len(r.calls), v.Cost, len(v.Cards), v.Counts)
	}
	r.calls = nil
	v = mustCards(t, n, blobindex.CardsRequest{})
	if len(r.calls) != 7 || !slices.Equal(cardIDs(v), []string{run.String()}) {
		t.Errorf("second view: %d calls, cards %v", len(r.calls), cardIDs(v))
	}
	r.calls = nil
	mustCards(t, n, blobindex.CardsRequest{})
	if !slices.Equal(r.calls, []string{run.String()}) {
		t.Errorf("third view asked about %v", r.calls)
	}
}

// TestRequests counts what each operation may cost, as the store is asked; kernel_linux_test.go counts what is done.
func TestRequests(t *testing.T) { onStores(t) }

func checkRequests(t *testing.T, s *site) {
	w := s.world(t)
	count := fakes.NewCounter(w.objects)
	n := w.team(count, blobindex.Options{})
	took := func(what string, want fakes.Counts) {
		t.Helper()
		if got := count.Snapshot(); got != want {
			t.Errorf("%s took %+v, want %+v", what, got, want)
		}
		count.Reset()
	}
	id := w.id("a", 0)
	register(t, n, id)
	took("register", fakes.Counts{Put: 1})
	beat := func() blobindex.Beat {
		t.Helper()
		w.advance(time.Minute)
		b, err := n.Heartbeat(t.Context(), id)
		if err != nil || b.Cleanup != nil {
			t.Fatal(err, b.Cleanup)
		}
		return b
	}
	for range 4 {
		beat()
	}
	took("four heartbeats", fakes.Counts{Put: 4})
	if b := beat(); b.Removed != 1 {
		t.Errorf("the fifth heartbeat removed %d, want the first, of which a later one is older than two minutes", b.Removed)
	}
	took("a heartbeat with a needless one", fakes.Counts{Put: 1, Delete: 1, DeleteKeys: 1})
	f, err := n.Finish(t.Context(), id, blobindex.Done)
	if err != nil || f.Cleanup != nil || f.Removed != 5 {
		t.Fatalf("finish: %+v %v", f, err)
	}
	took("finish", fakes.Counts{Put: 1, List: 1, Delete: 1, DeleteKeys: 5})
	w.fill(w.stored(1500, "team"))
	w.advance(2*time.Hour + time.Second)
	live := w.id("b", 0)
	register(t, n, live)
	count.Reset()
	mustCards(t, n, blobindex.CardsRequest{})
	took("cards, cold, with 1,502 keys", fakes.Counts{List: 2})
	report, err := janitor.New(w.index(count, blobindex.Options{}), nil).Run(t.Context(), nil)
	if err != nil || report.Deleted["stale"] != 1500 {
		t.Fatalf("pass: %+v %v", report, err)
	}
	took("a pass with 1,500 stale", fakes.Counts{List: 2, Delete: 2, DeleteKeys: 1500})
	if keys := w.keys(); len(keys) != 2 {
		t.Errorf("left: %q", keys)
	}
}

// TestP3_NoClockNoDelete: where the store tells no time with a listing, readers sweep nothing and a pass deletes only
// if a fresh write shows that the clocks agree.
func TestP3_NoClockNoDelete(t *testing.T) { onStores(t) }

func checkP3NoClockNoDelete(t *testing.T, s *site) {
	for _, tc := range []struct {
		name    string
		mute    fakes.Op      // which calls tell no time
		host    time.Duration // the host's clock, from the store's
		deletes bool
	}{
		{"puts tell it, clocks agree", fakes.List, 30 * time.Second, true},
		{"puts tell it, host ahead", fakes.List, 90 * time.Second, false},
		{"puts tell it, host behind", fakes.List, -90 * time.Second, false},
		{"none at all", fakes.AnyOp, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := s.world(t)
			w.put("_active_runs/team/a_"+fmt.Sprint(w.store.Now().Unix()), "")
			w.advance(3 * time.Hour)
			w.host.Advance(tc.host)
			objects := fakes.NewFaulty(t, w.objects, fakes.Fault{Op: tc.mute, Every: true, Kind: fakes.NoTimes()})
			sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
			defer sweeper.Close()
			x := w.index(objects, blobindex.Options{Sweeper: sweeper})
			if v := mustCards(t, space(t, x, "team"), blobindex.CardsRequest{}); v.Clock != blobindex.HostClock || len(v.Cards) != 0 {
				t.Errorf("clock %v cards %v", v.Clock, v.Cards)
			}
			if err := sweeper.Idle(t.Context()); err != nil || len(w.keys()) != 1 {
				t.Errorf("a reader swept by the host's clock: %v %q", err, w.keys())
			}
			report, err := janitor.New(x, nil).Run(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(w.keys()) == 0; got != tc.deletes || (report.Withheld == "") != tc.deletes {
				t.Errorf("deleted: %v, want %v; withheld %q", got, tc.deletes, report.Withheld)
			}
		})
	}
}
