package blobindex_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/resolve"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/prune/janitor"
	"github.com/google/go-cmp/cmp"
)

// TestCards_Filters: by sub-key before the cap, by owner after resolving.
func TestCards_Filters(t *testing.T) { onStores(t) }

func checkCardsFilters(t *testing.T, s *site) {
	w := s.world(t)
	n := w.team(nil, blobindex.Options{Resolver: resolve.NewMarker(w.objects)})
	var bobs []string
	for i := range 30 {
		owner := "ann"
		id := w.id(fmt.Sprintf("k%02d", i), -time.Duration(i)*time.Second)
		if i%3 == 0 {
			owner = "bob"
			bobs = append(bobs, id.String())
		}
		if _, err := n.Register(t.Context(), id, blobindex.Labels{"owner": owner, "title": "T"}); err != nil {
			t.Fatal(err)
		}
	}
	v := mustCards(t, n, blobindex.CardsRequest{Owner: "bob", Limit: 4})
	if !slices.Equal(cardIDs(v), bobs[:4]) || v.Cards[0].Title != "T" {
		t.Errorf("bob's newest: %v, want %v", cardIDs(v), bobs[:4])
	}
	if c := v.Counts; c.Live != c.Shown+c.BeyondCap+c.Unresolved || c.Shown != 4 {
		t.Errorf("counts %+v", c)
	}
	v = mustCards(t, n, blobindex.CardsRequest{Subkey: "k29"})
	if len(v.Cards) != 1 || v.Cards[0].Subkey != "k29" || v.Counts.Live != 1 || v.Cost.Get != 1 {
		t.Errorf("by sub-key: %+v", v)
	}
	for _, bad := range []int{-1, blobindex.MaxCards + 1} {
		if _, err := n.Cards(t.Context(), blobindex.CardsRequest{Limit: bad}); !errors.Is(err, blobindex.ErrRequest) {
			t.Errorf("limit %d: %v", bad, err)
		}
	}
}

// TestCards_DeadUncovers: the newest run is dead; the older one that goes on shows in its place, and the one that was
// last heard of before does not.
func TestCards_DeadUncovers(t *testing.T) { onStores(t) }

func checkCardsDeadUncovers(t *testing.T, s *site) {
	w := s.world(t)
	older, going, dead := w.id("h", -3*time.Minute), w.id("h", -2*time.Minute), w.id("h", 0)
	n := w.team(nil, blobindex.Options{Resolver: overs(dead)})
	register(t, n, older, going, dead)
	wantCards(t, n)
	w.advance(time.Second)
	if _, err := n.Heartbeat(t.Context(), going); err != nil {
		t.Fatal(err)
	}
	wantCards(t, n, going)
	for _, tc := range []struct {
		id   itemid.ID
		rule blobindex.Rule
		get  int // it asks down to the first live one
	}{{older, blobindex.RuleSuperseded, 2}, {going, blobindex.RuleLive, 2}, {dead, blobindex.RuleDead, 1}} {
		e, err := w.team(nil, blobindex.Options{Resolver: overs(dead)}).Explain(t.Context(), tc.id)
		if err != nil || e.Rule != tc.rule || e.Shown != (tc.rule == blobindex.RuleLive) || e.Cost.Get != tc.get {
			t.Errorf("%+v %v, want %+v", e, err, tc)
		}
	}
}

// TestExplain: each rule names its key, its clock, and when the answer changes.
func TestExplain(t *testing.T) { onStores(t) }

func checkExplain(t *testing.T, s *site) {
	w := s.world(t)
	n := w.team(nil, blobindex.Options{})
	live, late, stale, done, old, renewed := w.id("live", 0), w.id("late", 0), w.id("stale", -119*time.Minute), w.id("done", 0),
		w.id("re", -time.Minute), w.id("re", 0)
	register(t, n, live, late, stale, done, old, renewed)
	w.advance(time.Second)
	beat, err := n.Heartbeat(t.Context(), late)
	if err != nil {
		t.Fatal(err)
	}
	fin, err := n.Finish(t.Context(), done, blobindex.Failed)
	if err != nil {
		t.Fatal(err)
	}
	w.advance(4 * time.Minute)
	key := func(id itemid.ID, signal string) string { return "_active_runs/team/" + id.String() + signal }
	for _, tc := range []struct {
		id      itemid.ID
		rule    blobindex.Rule
		shown   bool
		key     string
		changes time.Time // zero: it does not by itself
	}{
		{live, blobindex.RuleLive, true, key(live, ""), live.Time().Add(2 * time.Hour)},
		{late, blobindex.RuleLate, true, key(late, fmt.Sprintf("~%d", beat.At.UnixMilli())), beat.At.Add(2 * time.Hour)},
		{stale, blobindex.RuleStale, false, key(stale, ""), time.Time{}},
		{done, blobindex.RuleFinished, false, key(done, "~failed"), fin.Stored.Add(2*time.Hour + 2*time.Minute)},
		{old, blobindex.RuleSuperseded, false, key(renewed, ""), time.Time{}},
		{w.id("never", 0), blobindex.RuleAbsent, false, "", time.Time{}},
	} {
		e, err := n.Explain(t.Context(), tc.id)
		if err != nil {
			t.Fatal(err)
		}
		changes := time.Time{}
		if e.ChangesAt != nil {
			changes = *e.ChangesAt
		}
		if e.Rule != tc.rule || e.Shown != tc.shown || e.Key != tc.key || !changes.Equal(tc.changes) ||
			e.Clock != blobindex.StoreClock || !e.AsOf.Equal(w.store.Now()) || e.Reason == "" || e.Changes == "" {
			t.Errorf("%s: %+v\nwant %+v", tc.id, e, tc)
		}
	}
}

// TestRecent: finished items, last ended first; a late heartbeat does not bring one back, and is swept.
func TestRecent(t *testing.T) { onStores(t) }

func checkRecent(t *testing.T, s *site) {
	w := s.world(t)
	x := w.index(nil, blobindex.Options{})
	n := space(t, x, "team")
	a, b := w.id("a", 0), w.id("b", 0)
	register(t, n, a, b)
	for i, id := range []itemid.ID{b, a} {
		w.advance(time.Second)
		if _, err := n.Finish(t.Context(), id, []blobindex.Outcome{blobindex.Done, blobindex.Cancelled}[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Heartbeat(t.Context(), a); !errors.Is(err, blobindex.ErrFinished) {
		t.Errorf("a heartbeat after finishing: %v", err)
	}
	if _, err := w.team(nil, blobindex.Options{}).Heartbeat(t.Context(), a); err != nil { // another process
		t.Fatal(err)
	}
	got, err := n.Recent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []blobindex.Ended{
		{ID: a.String(), Subkey: "a", Outcome: blobindex.Cancelled, StartedAt: a.Time(), EndedAt: w.store.Now()},
		{ID: b.String(), Subkey: "b", Outcome: blobindex.Done, StartedAt: b.Time(), EndedAt: w.store.Now().Add(-time.Second)},
	}
	if diff := cmp.Diff(want, got.Items); diff != "" || got.Cost.List != 1 || got.Clock != blobindex.StoreClock {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
	if v := mustCards(t, n, blobindex.CardsRequest{Recent: 1}); !cmp.Equal(v.Recent, want[:1]) || v.Cost.List != 1 {
		t.Errorf("beside the cards: %+v", v)
	}
	wantCards(t, n)
	if r, err := janitor.New(x, nil).Run(t.Context(), nil); err != nil || r.Deleted["finished"] != 1 {
		t.Errorf("%+v %v", r, err)
	}
	w.advance(2*time.Hour + 2*time.Minute)
	if r, err := janitor.New(x, nil).Run(t.Context(), nil); err != nil || r.Deleted["old_tombstone"] != 1 {
		t.Errorf("b's tombstone is past its time, a's is not: %+v %v", r, err)
	}
}

// TestNamespaces takes one LIST for each on a store that lists in order.
func TestNamespaces(t *testing.T) { onStores(t) }

func checkNamespaces(t *testing.T, s *site) {
	w := s.world(t)
	w.fill(w.stored(2500, "big"))
	for _, key := range []string{"big-x/a_1700000000", "big/~/x", "a/b_1700000000", "_/x", "_indexd/x", "plain", "~bad/x"} {
		w.put("_active_runs/"+key, "")
	}
	count := fakes.NewCounter(w.objects)
	names, cost, err := w.index(count, blobindex.Options{}).Namespaces(t.Context())
	if err != nil || !slices.Equal(names, []string{"a", "big", "big-x"}) {
		t.Errorf("%q %v", names, err)
	}
	if got := count.Snapshot().List; got > 5 || cost != (blobindex.Cost{List: got}) {
		t.Errorf("it took %d LISTs, and tells %+v", got, cost)
	}
}

// TestFlatIndex has its items right below the prefix, and one namespace that is called "_".
func TestFlatIndex(t *testing.T) { onStores(t) }

func checkFlatIndex(t *testing.T, s *site) {
	w := s.world(t)
	x, err := blobindex.New(w.objects, blobindex.Config{Prefix: "runs", Flat: true}, &blobindex.Options{Now: w.host.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Namespace("team"); !errors.Is(err, blobindex.ErrName) {
		t.Errorf("a namespace of a flat index: %v", err)
	}
	n := space(t, x, "_")
	id := w.id("a", 0)
	register(t, n, id)
	w.put("runs/team/"+id.String(), "")
	wantCards(t, n, id)
	if keys := w.keys(); keys[0] != "runs/"+id.String() {
		t.Errorf("keys %q", keys)
	}
	w.advance(3 * time.Hour)
	if r, err := janitor.New(x, nil).Run(t.Context(), nil); err != nil || r.Deleted["stale"] != 1 || r.Foreign != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

// TestListing_TooLong: a listing that took longer than the rules allow is incomplete, whatever it held.
func TestListing_TooLong(t *testing.T) { onStores(t) }

func checkListingTooLong(t *testing.T, s *site) {
	w := s.world(t)
	n0 := w.team(nil, blobindex.Options{})
	register(t, n0, w.id("a", 0))
	slow := fakes.NewFaulty(t, w.objects, fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.After("two minutes", func() {
		w.host.Advance(2*time.Minute + 1)
	})})
	x := w.index(slow, blobindex.Options{})
	if _, err := space(t, x, "team").List(t.Context()); !errors.Is(err, blobindex.ErrIncomplete) {
		t.Errorf("List: %v", err)
	}
	stats, err := x.Scan(t.Context(), func(*blobindex.Snapshot) error {
		t.Error("a namespace was judged")
		return nil
	})
	if err != nil || !slices.Equal(stats.Slow, []string{"team"}) {
		t.Errorf("Scan: %+v %v", stats, err)
	}
}

// TestStaleView_Cancelled: a viewer that hangs up marks nothing stale for the others.
func TestStaleView_Cancelled(t *testing.T) {
	w := newWorld(t)
	n := w.team(nil, blobindex.Options{})
	mustCards(t, n, blobindex.CardsRequest{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Cards(ctx, blobindex.CardsRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestLabels: what cannot be stored is refused before anything is written.
func TestLabels(t *testing.T) { onStores(t) }

func checkLabels(t *testing.T, s *site) {
	w := s.world(t)
	n := w.team(nil, blobindex.Options{})
	for name, bad := range map[string]blobindex.Labels{
		"oversize": {"title": strings.Repeat("x", 1100)}, "unnamed": {"": "x"}, "control": {"title": "a\nb"},
		"invalid UTF-8": {"title": "\xff"},
	} {
		if _, err := n.Register(t.Context(), w.id("a", 0), bad); !errors.Is(err, blobindex.ErrLabels) ||
			errors.Is(err, blobindex.ErrLabelsTooLarge) != (name == "oversize") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(w.keys()) != 0 {
		t.Errorf("written: %q", w.keys())
	}
	id := w.id("a", 0)
	if _, err := n.Register(t.Context(), id, blobindex.Labels{"title": "T"}); err != nil {
		t.Fatal(err)
	}
	if o, err := w.objects.Head(t.Context(), bucket.Key("_active_runs/team/"+id.String())); err != nil || o.Size != int64(len(`{"title":"T"}`)) {
		t.Errorf("%+v %v", o, err)
	}
}

// TestMint_Resolution: of one sub-key the ids ascend, also where the clock moves by less than an id can tell, and a clock
// that was ahead for a while does not keep later ids there.
func TestMint_Resolution(t *testing.T) {
	for _, g := range []itemid.Grammar{itemid.Epoch, itemid.SubkeyULID, itemid.SubkeyUUIDv7} {
		now := time.Unix(1_800_000_000, 0)
		x, err := blobindex.New(membucket.New(nil), blobindex.Config{Rules: prune.Rules{Grammar: g}},
			&blobindex.Options{Now: func() time.Time { now = now.Add(100 * time.Microsecond); return now }})
		if err != nil {
			t.Fatal(err)
		}
		var last itemid.ID
		for i := range 2000 {
			id, err := x.Mint("h")
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && id.Compare(last) <= 0 {
				t.Fatalf("%v: %s does not come after %s", g, id, last)
			}
			last = id
		}
		now = now.Add(3 * time.Hour)
		if _, err := x.Mint("h"); err != nil {
			t.Fatal(err)
		}
		now = now.Add(-3 * time.Hour)
		if id, err := x.Mint("h"); err != nil || id.Time().Sub(now) > time.Minute {
			t.Errorf("%v: after a jump and back: %s, now %v, %v", g, id, now, err)
		}
	}
}

// TestMint: ids of one Index ascend, also when the clock stands still or is corrected backwards.
func TestMint(t *testing.T) {
	w := newWorld(t)
	w.host.Advance(50 * time.Second)
	x := w.index(nil, blobindex.Options{})
	var last itemid.ID
	for i := range 5 {
		id, err := x.Mint("h")
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && id.Compare(last) <= 0 {
			t.Errorf("%s does not come after %s", id, last)
		}
		register(t, space(t, x, "team"), id)
		last = id
	}
}

// TestFinish_ExactKeys: an id that begins like another one's: finishing it touches none of the other's keys.
func TestFinish_ExactKeys(t *testing.T) { onStores(t) }

func checkFinishExactKeys(t *testing.T, s *site) {
	w := s.world(t)
	n := w.team(nil, blobindex.Options{})
	short, err := itemid.Epoch.Parse(fmt.Sprintf("a_%d", w.store.Now().Unix()))
	if err != nil {
		t.Fatal(err)
	}
	long, err := itemid.Epoch.Parse(short.String() + "123")
	if err != nil {
		t.Fatal(err)
	}
	register(t, n, short, long)
	w.advance(time.Second)
	for _, id := range []itemid.ID{short, long} {
		if _, err := n.Heartbeat(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	w.put("_active_runs/team/"+short.String()+"~x", "")
	f, err := n.Finish(t.Context(), short, blobindex.Done)
	if err != nil || f.Removed != 2 || f.Cleanup != nil {
		t.Errorf("%+v %v", f, err)
	}
	wantCards(t, n, long)
	if len(w.keys()) != 4 { // the tombstone, the foreign key, the other one's marker and heartbeat
		t.Errorf("left %q", w.keys())
	}
}
