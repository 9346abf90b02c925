package blobindex_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/prune/janitor"
)

// This file holds the index to what misbehaves: resolvers, clocks, stores that do not list as they say.

// TestResolver_Undefined: a state that there is not, a panic, NaN and negative costs are nothing that an item could die
// of.
func TestResolver_Undefined(t *testing.T) {
	nan := math.NaN()
	for name, fn := range map[string]func(blobindex.Target) (blobindex.Status, error){
		"undefined state": func(blobindex.Target) (blobindex.Status, error) { return blobindex.Status{State: 99}, nil },
		"NaN": func(blobindex.Target) (blobindex.Status, error) {
			return blobindex.Status{State: blobindex.Running, Progress: &nan}, nil
		},
		"panic": func(blobindex.Target) (blobindex.Status, error) { panic("a bug") },
	} {
		w := newWorld(t)
		sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
		defer sweeper.Close()
		n := w.team(nil, blobindex.Options{Resolver: &resolverFunc{cost: 1, fn: fn}, Sweeper: sweeper})
		id := w.id("a", 0)
		register(t, n, id)
		v := mustCards(t, n, blobindex.CardsRequest{})
		if len(v.Cards) != 1 || v.Cards[0].Progress != nil {
			t.Errorf("%s: %+v", name, v.Cards)
		}
		if e, err := n.Explain(t.Context(), id); err != nil || !e.Shown {
			t.Errorf("%s: explained as %+v %v", name, e, err)
		}
		if err := sweeper.Idle(t.Context()); err != nil || len(w.keys()) != 1 {
			t.Errorf("%s: left %q %v", name, w.keys(), err)
		}
	}
	if blobindex.RunState(99).Over() || blobindex.RunState(99).String() != "RunState(99)" {
		t.Error("an undefined state counts as over")
	}
}

// A hanging resolver ignores its context.
type hanging struct{ release chan struct{} }

func (h hanging) MaxRequests(blobindex.Target) int { return 1 }

func (h hanging) Resolve(context.Context, blobindex.Target) (blobindex.Status, error) {
	<-h.release
	return blobindex.Status{State: blobindex.Gone}, nil
}

// TestResolver_Hangs: a view waits for a resolver no longer than five seconds, and shows the item as unknown.
func TestResolver_Hangs(t *testing.T) {
	w := newWorld(t)
	id := w.id("a", 0)
	register(t, w.team(nil, blobindex.Options{}), id)
	synctest.Test(t, func(t *testing.T) {
		h := hanging{make(chan struct{})}
		defer close(h.release)
		began := time.Now()
		v := mustCards(t, w.team(nil, blobindex.Options{Resolver: h}), blobindex.CardsRequest{})
		if len(v.Cards) != 1 || v.Cards[0].State != "unknown" || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), v.Cards)
		}
	})
}

// TestP3_WrongClock: a key that was named, or stored, while a clock was far ahead hides no other item, and nothing of its
// sub-key is deleted.
func TestP3_WrongClock(t *testing.T) { onStores(t) }

func checkP3WrongClock(t *testing.T, s *site) {
	for _, what := range []string{"marker", "heartbeat", "tombstone"} {
		t.Run(what, func(t *testing.T) {
			w := s.world(t)
			x := w.index(nil, blobindex.Options{})
			n := space(t, x, "team")
			older, ghost := w.id("h", -10*time.Minute), w.id("h", -5*time.Minute)
			register(t, n, older)
			name := ghost.String()
			jump := 3 * time.Hour
			switch what {
			case "marker":
				ghost = w.id("h", jump)
				name = ghost.String()
			case "heartbeat":
				name += fmt.Sprintf("~%d", w.store.Now().Add(jump).UnixMilli())
			case "tombstone":
				name += "~done"
			}
			back := s.world(t) // the same bucket, when the clock is right again
			w.store.Advance(jump)
			w.put("_active_runs/team/"+name, "")
			back.objects, back.t = w.objects, t
			objects := fakes.NewFaulty(t, w.objects, fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.ShiftNow(-jump)})
			y, err := blobindex.New(objects, blobindex.Config{}, &blobindex.Options{Now: back.host.Now})
			if err != nil {
				t.Fatal(err)
			}
			if got := cardIDs(mustCards(t, space(t, y, "team"), blobindex.CardsRequest{})); !slices.Contains(got, older.String()) {
				t.Errorf("%s is hidden: shown are %v", older, got)
			}
			if r, err := janitor.New(y, nil).Run(t.Context(), nil); err != nil || len(r.Deleted) > 0 {
				t.Errorf("deleted %v %v", r.Deleted, err)
			}
		})
	}
}

// A liar lists what it is told, page by page, and calls it sorted.
type liar struct {
	bucket.Objects
	pages [][]string
	now   time.Time
	stuck bool // it ignores After
}

func (l liar) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	for _, keys := range l.pages {
		p := bucket.Page{Now: l.now, Sorted: true}
		for _, k := range keys {
			if l.stuck || bucket.Key(k) > req.After {
				p.Objects = append(p.Objects, bucket.Object{Key: bucket.Key(k), StoreTime: l.now.Add(-3 * time.Hour)})
			}
		}
		if err := fn(p); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// TestScan_OutOfOrder: a store that calls its listing sorted, and is wrong, is found out, and nothing is deleted.
func TestScan_OutOfOrder(t *testing.T) {
	w := newWorld(t)
	id := w.id("h", -3*time.Hour)
	x := w.index(liar{now: w.store.Now(), pages: [][]string{
		{"_active_runs/a/" + id.String()}, {"_active_runs/b/" + id.String()},
		{fmt.Sprintf("_active_runs/a/%s~%d", id, w.store.Now().UnixMilli())},
	}}, blobindex.Options{})
	if r, err := janitor.New(x, nil).Run(t.Context(), nil); !errors.Is(err, blobindex.ErrIncomplete) || len(r.Deleted) > 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// TestNamespaces_IgnoredAfter: a store that lists keys before the one to start after does not keep the search going.
func TestNamespaces_IgnoredAfter(t *testing.T) {
	w := newWorld(t)
	x := w.index(liar{now: w.store.Now(), stuck: true, pages: [][]string{{"_active_runs/a/x", "_active_runs/b/x"}}}, blobindex.Options{})
	if names, _, err := x.Namespaces(t.Context()); !errors.Is(err, blobindex.ErrIncomplete) {
		t.Errorf("%q %v", names, err)
	}
}

// TestScan_SlowFirstPage: of a namespace whose first page was asked for too long ago nothing is judged, even if its keys
// came quickly then: a store may have read its names long before.
func TestScan_SlowFirstPage(t *testing.T) {
	w := newWorld(t)
	for i := range 1000 {
		w.put(fmt.Sprintf("_active_runs/a/k%04d_%d", i, w.store.Now().Unix()), "")
	}
	w.put("_active_runs/b/x_"+fmt.Sprint(w.store.Now().Unix()), "")
	var judged []string
	x := w.index(&slowPages{Objects: w.objects, each: func() { w.host.Advance(90 * time.Second) }}, blobindex.Options{})
	stats, err := x.Scan(t.Context(), func(s *blobindex.Snapshot) error {
		judged = append(judged, s.Namespace().Name())
		return nil
	})
	if err != nil || len(judged) != 0 || !slices.Equal(stats.Slow, []string{"a", "b"}) {
		t.Errorf("judged %v, slow %v, %v", judged, stats.Slow, err)
	}
}

// slowPages takes its time for each page.
type slowPages struct {
	bucket.Objects
	each func()
}

func (s *slowPages) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return s.Objects.List(ctx, req, func(p bucket.Page) error {
		s.each()
		return fn(p)
	})
}

// TestDead_TwoReaders: what one reader finds to be dead while another one lists is not forgotten by the other.
func TestDead_TwoReaders(t *testing.T) {
	w := newWorld(t)
	a, b := w.id("a", -time.Minute), w.id("b", 0)
	register(t, w.team(nil, blobindex.Options{}), a, b)
	r := overs(a)
	var n *blobindex.Namespace
	var once sync.Once
	inner := r.fn
	r.fn = func(target blobindex.Target) (blobindex.Status, error) {
		if target.ID.String() == b.String() {
			once.Do(func() { mustCards(t, n, blobindex.CardsRequest{Subkey: "a"}) }) // it finds a dead
		}
		return inner(target)
	}
	n = w.team(nil, blobindex.Options{Resolver: r})
	mustCards(t, n, blobindex.CardsRequest{Subkey: "b"})
	r.mu.Lock()
	r.calls = nil
	r.mu.Unlock()
	mustCards(t, n, blobindex.CardsRequest{})
	if slices.Contains(r.calls, a.String()) {
		t.Errorf("the dead one was asked about again: %v", r.calls)
	}
}

// TestHeartbeat_HostBehind: a host behind the one that minted the id names its heartbeat by the id's time.
func TestHeartbeat_HostBehind(t *testing.T) { onStores(t) }

func checkHeartbeatHostBehind(t *testing.T, s *site) {
	w := s.world(t)
	id := w.id("a", 30*time.Second)
	if b, err := w.team(nil, blobindex.Options{}).Heartbeat(t.Context(), id); err != nil || !b.At.Equal(id.Time()) {
		t.Errorf("%+v %v", b, err)
	}
}

// TestPass_MaxDeletes: a pass stops at its bound, tells what is left, and the next one goes on.
func TestPass_MaxDeletes(t *testing.T) { onStores(t) }

func checkPassMaxDeletes(t *testing.T, s *site) {
	w := s.world(t)
	for i := range 25 {
		w.put(fmt.Sprintf("_active_runs/team/k%02d_%d", i, w.store.Now().Unix()), "")
	}
	w.advance(3 * time.Hour)
	x := w.index(nil, blobindex.Options{})
	for i, left := range []int{15, 5, 0} {
		r, err := janitor.New(x, nil).Run(t.Context(), &janitor.RunOptions{MaxDeletes: 10})
		if err != nil || r.Left != left || len(w.keys()) != left {
			t.Errorf("pass %d: %+v %v, %d keys", i+1, r, err, len(w.keys()))
		}
	}
}

// TestPlanLife: a plan that was made too long ago is not carried out, by a pass or by a sweeper.
func TestPlanLife(t *testing.T) {
	w := newWorld(t)
	for i := range 1500 {
		w.put(fmt.Sprintf("_active_runs/team/k%04d_%d", i, w.store.Now().Unix()), "")
	}
	w.advance(3 * time.Hour)
	slow := fakes.NewFaulty(t, w.objects, fakes.Fault{Op: fakes.Delete, Every: true, Kind: fakes.After("a long pause", func() {
		w.host.Advance(blobindex.PlanLife + time.Second)
	})})
	r, err := janitor.New(w.index(slow, blobindex.Options{}), nil).Run(t.Context(), nil)
	if err != nil || r.Deleted["stale"] != 1000 || r.Left != 500 {
		t.Errorf("%+v %v", r, err)
	}
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
	defer sweeper.Close()
	for i := range 1500 {
		w.put(fmt.Sprintf("_active_runs/team/k%04d_%d", i, w.store.Now().Add(-3*time.Hour).Unix()), "")
	}
	w.advance(3 * time.Hour)
	wantCards(t, w.team(slow, blobindex.Options{Sweeper: sweeper}))
	if err := sweeper.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := sweeper.Stats(); s.Deleted != 1000 || s.Dropped != 500 {
		t.Errorf("%+v", s)
	}
}

// TestCards_OwnerOfMany: looking for an owner among many items without labels takes few walks.
func TestCards_OwnerOfMany(t *testing.T) {
	w := newWorld(t)
	for i := range 5000 {
		w.put(fmt.Sprintf("_active_runs/team/k%04d_%d", i, w.store.Now().Unix()), "")
	}
	r := &resolverFunc{fn: func(blobindex.Target) (blobindex.Status, error) {
		return blobindex.Status{State: blobindex.Running, Owner: "ann"}, nil
	}}
	v := mustCards(t, w.team(nil, blobindex.Options{Resolver: r}), blobindex.CardsRequest{Owner: "bob", Limit: 1})
	if len(v.Cards) != 0 || v.Counts.Live != 0 || len(r.calls) != 5000 {
		t.Errorf("%+v after %d calls", v.Counts, len(r.calls))
	}
}

// TestExplain_Future: right after a registration that was refused by its clock, explain says so, and names the key.
func TestExplain_Future(t *testing.T) { onStores(t) }

func checkExplainFuture(t *testing.T, s *site) {
	w := s.world(t)
	id := w.id("a", 2*time.Minute)
	n := w.team(nil, blobindex.Options{})
	if _, err := n.Register(t.Context(), id, nil); !errors.Is(err, blobindex.ErrClock) {
		t.Fatal(err)
	}
	e, err := n.Explain(t.Context(), id)
	if err != nil || e.Shown || e.Rule != blobindex.RuleFuture || !strings.HasSuffix(e.Key, "/"+id.String()) ||
		e.ChangesAt == nil || !e.ChangesAt.Equal(w.store.Now().Add(2*time.Hour)) {
		t.Errorf("%+v %v", e, err)
	}
}

// TestExplain_WhenItShows: a run that two live newer ones hide, and that was heard of after both, shows when the later of
// them goes stale; one that was heard of before does not.
func TestExplain_WhenItShows(t *testing.T) { onStores(t) }

func checkExplainWhenItShows(t *testing.T, s *site) {
	w := s.world(t)
	n := w.team(nil, blobindex.Options{})
	quiet, going, second, third := w.id("h", -4*time.Minute), w.id("h", -3*time.Minute), w.id("h", -2*time.Minute), w.id("h", -time.Minute)
	register(t, n, quiet, going, third)
	w.advance(time.Second)
	for _, id := range []itemid.ID{second, third} {
		w.advance(time.Second)
		if _, err := n.Heartbeat(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	until := w.store.Now().Add(2 * time.Hour)
	w.advance(time.Second)
	if _, err := n.Heartbeat(t.Context(), going); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[itemid.ID]*time.Time{going: &until, quiet: nil} {
		e, err := n.Explain(t.Context(), id)
		if err != nil || e.Rule != blobindex.RuleSuperseded || (want == nil) != (e.ChangesAt == nil) ||
			want != nil && !e.ChangesAt.Equal(*want) {
			t.Errorf("%s: %+v %v, want %v", id, e, err, want)
		}
	}
	w.advance(until.Sub(w.store.Now()) + time.Millisecond)
	wantCards(t, n, going)
}
