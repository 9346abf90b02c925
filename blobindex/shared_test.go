package blobindex_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

func mustSnapshot(t testing.TB, n *blobindex.Namespace) *blobindex.Snapshot {
	t.Helper()
	s, err := n.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func snapshotCards(t testing.TB, s *blobindex.Snapshot, req blobindex.CardsRequest) blobindex.View {
	t.Helper()
	v, err := s.Cards(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSnapshot_Shared: many read one snapshot at once, and each item is asked about once.
func TestSnapshot_Shared(t *testing.T) {
	w := newWorld(t)
	dead := w.id("s03", -3*time.Second)
	resolver := overs(dead)
	n := w.team(nil, blobindex.Options{Resolver: resolver})
	for i := range 20 {
		if i == 3 {
			register(t, n, dead)
			continue
		}
		register(t, n, w.id(fmt.Sprintf("s%02d", i), -time.Duration(i)*time.Second))
	}
	s := mustSnapshot(t, n)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			v := snapshotCards(t, s, blobindex.CardsRequest{Limit: 5 + i%3*5})
			if len(v.Cards) != 5+i%3*5 || slices.Contains(cardIDs(v), dead.String()) || v.Counts.Live != 19 {
				t.Errorf("%d of %+v", len(v.Cards), v.Counts)
			}
			if l := s.List(); len(l.Items) < 19 || len(s.Recent().Items) != 0 {
				t.Errorf("%d items", len(l.Items))
			}
			s.Plan()
		})
	}
	wg.Wait()
	if got := len(resolver.calls); got != 16 {
		t.Errorf("16 items were asked about %d times", got)
	}
	if s.Buried() != 1 || s.Counts().Live != 19 {
		t.Errorf("%d buried, %+v", s.Buried(), s.Counts())
	}
}

// TestSnapshot_Follow: what was resolved serves the next snapshots while no key of the item changes, for 15 s.
func TestSnapshot_Follow(t *testing.T) {
	w := newWorld(t)
	a, b, dead := w.id("a", 0), w.id("b", 0), w.id("c", 0)
	resolver := overs(dead)
	n := w.team(nil, blobindex.Options{Resolver: resolver})
	register(t, n, a, b, dead)
	first := mustSnapshot(t, n)
	snapshotCards(t, first, blobindex.CardsRequest{})
	asks := func(earlier *blobindex.Snapshot, want ...string) *blobindex.Snapshot {
		t.Helper()
		resolver.calls = nil
		s := mustSnapshot(t, n)
		s.Follow(earlier)
		if v := snapshotCards(t, s, blobindex.CardsRequest{}); len(v.Cards) != 2 || v.Counts.Live != 2 || v.Cost.Get != len(want) {
			t.Errorf("%+v", v)
		}
		slices.Sort(resolver.calls)
		if !slices.Equal(resolver.calls, want) {
			t.Errorf("asked about %v, want %v", resolver.calls, want)
		}
		return s
	}
	w.advance(14 * time.Second)
	second := asks(first)
	if _, err := n.Heartbeat(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	third := asks(second, a.String())
	w.advance(time.Second)
	asks(third, b.String()) // of a was asked a second ago
	// Final states are final, whatever the index remembers.
	other := mustSnapshot(t, w.team(nil, blobindex.Options{Resolver: overs()}))
	other.Follow(first)
	if v := snapshotCards(t, other, blobindex.CardsRequest{}); len(v.Cards) != 2 || other.Buried() != 1 {
		t.Errorf("what is over shows again: %+v", v)
	}
}

// TestSnapshot_FollowFailed: who failed to answer is asked again after the next listing.
func TestSnapshot_FollowFailed(t *testing.T) {
	w := newWorld(t)
	resolver := &resolverFunc{cost: 1, fn: func(blobindex.Target) (blobindex.Status, error) {
		return blobindex.Status{}, context.DeadlineExceeded
	}}
	n := w.team(nil, blobindex.Options{Resolver: resolver})
	register(t, n, w.id("a", 0))
	first := mustSnapshot(t, n)
	snapshotCards(t, first, blobindex.CardsRequest{})
	snapshotCards(t, first, blobindex.CardsRequest{Limit: 1})
	snapshotCards(t, first.With(nil), blobindex.CardsRequest{})
	if len(resolver.calls) != 1 {
		t.Errorf("of one listing it was asked %d times", len(resolver.calls))
	}
	second := mustSnapshot(t, n)
	second.Follow(first)
	snapshotCards(t, second, blobindex.CardsRequest{})
	if len(resolver.calls) != 2 {
		t.Errorf("of two listings it was asked %d times", len(resolver.calls))
	}
}

// TestSnapshot_With: keys that were acknowledged after a listing are judged as if it had held them, at the latest instant, and
// nothing is deleted by that.
func TestSnapshot_With(t *testing.T) {
	w := newWorld(t)
	sweeper := blobindex.NewSweeper(nil)
	defer sweeper.Close()
	n := w.team(nil, blobindex.Options{Sweeper: sweeper})
	a, old := w.id("a", 0), w.id("old", -3*time.Hour)
	w.put("_active_runs/team/"+old.String(), "")
	for i := range 5000 { // more than is held in one piece
		w.put(fmt.Sprintf("_active_runs/team/foreign%d", i), "")
	}
	first, err := n.Register(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := mustSnapshot(t, n)
	w.advance(time.Minute)
	again, err := n.Register(t.Context(), a, nil) // stored later than it is listed
	if err != nil {
		t.Fatal(err)
	}
	b := w.id("b", 0)
	reg, err := n.Register(t.Context(), b, blobindex.Labels{"title": "B"})
	if err != nil {
		t.Fatal(err)
	}
	w.advance(time.Minute)
	beat, err := n.Heartbeat(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	keys := []blobindex.Written{first.Written(n), again.Written(n), reg.Written(n), beat.Written(n, b)}
	over := s.With(keys)
	truth := mustSnapshot(t, n)
	if !over.AsOf.Equal(beat.Stored) || !over.AsOf.Equal(truth.AsOf) || reg.Size == 0 {
		t.Errorf("it is of %v, want %v", over.AsOf, truth.AsOf)
	}
	same := func(got, want *blobindex.Snapshot) {
		t.Helper()
		g, x := got.List(), want.List()
		if !slices.Equal(g.Items, x.Items) || !slices.Equal(got.Recent().Items, want.Recent().Items) || got.Counts() != want.Counts() {
			t.Errorf("it says\n%+v %+v\nwant\n%+v %+v", g.Items, got.Counts(), x.Items, want.Counts())
		}
	}
	same(over, truth)
	if plan := over.Plan(); len(plan) != 0 {
		t.Errorf("it plans %v", plan)
	}
	if err := sweeper.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.advance(5 * time.Minute) // late, if the marker counted twice
	beaten, err := n.Finish(t.Context(), b, blobindex.Failed)
	if err != nil {
		t.Fatal(err)
	}
	keys = append(keys, beaten.Written(n, b))
	truth = mustSnapshot(t, n)
	if it := truth.List().Items; len(it) != 1 || it[0].Late {
		t.Fatalf("%+v", it)
	}
	same(s.With(keys[:2]).With(keys[2:]), truth)
	if s.Counts().Live != 1 || len(s.List().Items) != 1 || !s.SameKeys(s.With(keys)) || s.SameKeys(truth) {
		t.Error("the snapshot itself has changed")
	}
}

// TestSnapshot_With_Apart: what is laid over a snapshot twice is apart.
func TestSnapshot_With_Apart(t *testing.T) {
	w := newWorld(t)
	n := w.team(nil, blobindex.Options{})
	register(t, n, w.id("a", 0))
	s := mustSnapshot(t, n)
	var over []*blobindex.Snapshot
	for _, subkey := range []string{"b", "c"} {
		reg, err := n.Register(t.Context(), w.id(subkey, 0), nil)
		if err != nil {
			t.Fatal(err)
		}
		over = append(over, s.With([]blobindex.Written{reg.Written(n)}))
	}
	for i, want := range []string{"b", "c"} {
		if l := over[i].List().Items; len(l) != 2 || l[0].Subkey != want || l[1].Subkey != "a" {
			t.Errorf("with %s it says %+v", want, l)
		}
	}
	if l := s.List().Items; len(l) != 1 {
		t.Errorf("%+v", l)
	}
}

// TestSnapshot_With_NothingIsSwept: what is over by an overlaid snapshot alone is told to no sweeper.
func TestSnapshot_With_NothingIsSwept(t *testing.T) {
	w := newWorld(t)
	sweeper := blobindex.NewSweeper(nil)
	defer sweeper.Close()
	n := w.team(nil, blobindex.Options{Sweeper: sweeper})
	register(t, n, w.id("old", 0))
	s := mustSnapshot(t, n)
	w.advance(2*time.Hour + time.Minute)
	reg, err := n.Register(t.Context(), w.id("new", 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	over := s.With([]blobindex.Written{reg.Written(n)})
	if over.Counts().Stale != 1 {
		t.Fatalf("%+v", over.Counts())
	}
	over.List()
	over.Settle()
	if err := sweeper.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(w.keys()); got != 2 {
		t.Errorf("%d keys are left", got)
	}
	s = mustSnapshot(t, n)
	s.Settle()
	if err := sweeper.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(w.keys()); got != 1 {
		t.Errorf("%d keys are left when it was listed", got)
	}
}
