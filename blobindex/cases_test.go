package blobindex_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/resolve"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/prune/janitor"
	"github.com/google/go-cmp/cmp"
)

// TestCase_C07_NoBoundary: whatever slashes the prefix is given with, the index is exactly the keys under it, and no
// delete leaves it.
func TestCase_C07_NoBoundary(t *testing.T) { onStores(t) }

func checkC07NoBoundary(t *testing.T, s *site) {
	for _, prefix := range []string{"act", "act/", "/act", "act//", "//act//"} {
		w := s.world(t)
		stale := "a_" + fmt.Sprint(w.store.Now().Add(-3*time.Hour).Unix())
		w.put("act/team/"+stale, "")
		var others []string
		for _, dir := range []string{"act2/team/", "act-old/team/", "ac/team/", "act/", "act", "act/team/sub/", "xact/team/"} {
			key := dir
			if dir != "act" {
				key += stale
			}
			if w.place(key, "") {
				others = append(others, key)
			}
		}
		w.advance(3 * time.Hour)
		x, err := blobindex.New(w.objects, blobindex.Config{Prefix: prefix}, &blobindex.Options{Now: w.host.Now})
		if err != nil {
			t.Fatalf("prefix %q: %v", prefix, err)
		}
		names, _, err := x.Namespaces(t.Context())
		if err != nil || !slices.Equal(names, []string{"team"}) {
			t.Errorf("prefix %q: namespaces %q %v", prefix, names, err)
		}
		report, err := janitor.New(x, nil).Run(t.Context(), nil)
		if err != nil || report.Deleted["stale"] != 1 {
			t.Errorf("prefix %q: %+v %v", prefix, report, err)
		}
		slices.Sort(others)
		if diff := cmp.Diff(others, w.keys()); diff != "" {
			t.Errorf("prefix %q: left (-want +got):\n%s", prefix, diff)
		}
		for _, key := range []bucket.Key{"act2/team/x", "act", "act/", "act/team", "act/team/", "act/team/a/b", "act//x", ""} {
			if errs := x.Delete(t.Context(), []blobindex.Deletion{{Key: key}}); len(errs) != 1 || !errors.Is(errs[0], blobindex.ErrOutside) {
				t.Errorf("prefix %q: deleting %q: %v", prefix, key, errs)
			}
		}
	}
}

// TestCase_C10_Overlap: prefixes of two indexes may not contain one another, and namespaces that begin alike are apart.
func TestCase_C10_Overlap(t *testing.T) { onStores(t) }

func checkC10Overlap(t *testing.T, s *site) {
	for _, bad := range [][]string{{"act", "act"}, {"act", "act/x"}, {"act/x/y", "b", "act/x"}} {
		if err := blobindex.CheckDisjoint(bad...); !errors.Is(err, blobindex.ErrName) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := blobindex.CheckDisjoint("act", "act2", "act-x", "b/act"); err != nil {
		t.Error(err)
	}
	w := s.world(t)
	x := w.index(nil, blobindex.Options{})
	id := w.id("a", 0)
	register(t, space(t, x, "team2"), id)
	wantCards(t, space(t, x, "team"))
	wantCards(t, space(t, x, "team2"), id)
}

// TestCase_C17_FromTheFuture: what is dated ahead of its own store time by more than the skew is foreign, never a card,
// and goes only when that store time is past the TTL.
func TestCase_C17_FromTheFuture(t *testing.T) { onStores(t) }

func checkC17FromTheFuture(t *testing.T, s *site) {
	w := s.world(t)
	sweep := w.index(nil, blobindex.Options{})
	n := space(t, sweep, "team")
	a, b, c, soon := w.id("a", -3*time.Minute), w.id("b", -2*time.Minute), w.id("c", -time.Minute), w.id("soon", 30*time.Second)
	for _, id := range []itemid.ID{a, b, c, soon, w.id("x", 2*time.Minute), w.id("y", 2*time.Hour), w.id("z", 24*3650*time.Hour)} {
		w.put("_active_runs/team/"+id.String(), "")
	}
	w.put("_active_runs/team/garbage", "")
	w.put(fmt.Sprintf("_active_runs/team/%s~%d", a, w.store.Now().Add(24*3650*time.Hour).UnixMilli()), "")
	v := mustCards(t, n, blobindex.CardsRequest{Limit: 4})
	if want := []string{soon.String(), c.String(), b.String(), a.String()}; !slices.Equal(cardIDs(v), want) {
		t.Errorf("cards %v, want %v", cardIDs(v), want)
	}
	if v.Counts.Foreign != 5 {
		t.Errorf("foreign %d, want 5", v.Counts.Foreign)
	}
	if r, err := janitor.New(sweep, nil).Run(t.Context(), nil); err != nil || len(r.Deleted) > 0 {
		t.Errorf("a pass on the day: %+v %v", r, err)
	}
	w.advance(2*time.Hour + time.Minute)
	r, err := janitor.New(sweep, nil).Run(t.Context(), nil)
	if want := map[string]int{"stale": 4, "future_dated": 4}; err != nil || !cmp.Equal(want, r.Deleted) {
		t.Errorf("deleted %v %v, want %v", r.Deleted, err, want)
	}
	if keys := w.keys(); !slices.Equal(keys, []string{"_active_runs/team/garbage"}) {
		t.Errorf("left %q", keys)
	}
}

// TestCase_C24_Unsorted: pages in any order give the same cards, and nothing stops early.
func TestCase_C24_Unsorted(t *testing.T) { onStores(t) }

func checkC24Unsorted(t *testing.T, s *site) {
	w := s.world(t)
	w.put("_active_runs/team0/old_"+fmt.Sprint(w.store.Now().Add(-3*time.Hour).Unix()), "")
	for i := range 2500 {
		w.advance(time.Second)
		w.put(fmt.Sprintf("_active_runs/team%d/k%04d_%d", i%3, i*7919%2500, w.store.Now().Unix()), "")
	}
	w.advance(2*time.Hour - 2000*time.Second)
	shuffled := fakes.NewFaulty(t, w.objects, fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.ShuffleObjects(7)})
	straight, mixed := w.index(nil, blobindex.Options{}), w.index(shuffled, blobindex.Options{})
	for i := range 3 {
		name := fmt.Sprintf("team%d", i)
		a, b := mustCards(t, space(t, straight, name), blobindex.CardsRequest{}), mustCards(t, space(t, mixed, name), blobindex.CardsRequest{})
		if diff := cmp.Diff(a.Cards, b.Cards); diff != "" || a.Counts != b.Counts {
			t.Errorf("%s: sorted against shuffled:\n%s\n%+v %+v", name, diff, a.Counts, b.Counts)
		}
	}
	names, _, err := mixed.Namespaces(t.Context())
	if err != nil || !slices.Equal(names, []string{"team0", "team1", "team2"}) {
		t.Errorf("namespaces %q %v", names, err)
	}
	plan := func(x *blobindex.Index) map[string]int {
		r, err := janitor.New(x, nil).Run(t.Context(), &janitor.RunOptions{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		return r.Planned
	}
	if a, b := plan(straight), plan(mixed); !cmp.Equal(a, b) || a["stale"] != 500 {
		t.Errorf("planned %v sorted, %v shuffled", a, b)
	}
}

// TestCase_C26_HostileKey: a key that is no item's, alone among ten good ones, is one foreign key and breaks nothing;
// registering refuses such an id. A store that cannot hold the key refuses it alone.
func TestCase_C26_HostileKey(t *testing.T) { onStores(t) }

func checkC26HostileKey(t *testing.T, s *site) {
	for _, bad := range []string{"\x01_1700000000", "a\n_1700000000", "a//b", "\xff_1700000000", "", "../x_1700000000",
		"a__0x2f__b_1700000000", ".a_1700000000", strings.Repeat("a", 300), "a_1700000000~", "a_1700000000~done~done",
		"a_1700000000~170000000000", "a_1700000000~DONE"} {
		w := s.world(t)
		n := w.team(nil, blobindex.Options{})
		for i := range 10 {
			register(t, n, w.id(fmt.Sprint("good", i), -time.Duration(i)*time.Second))
		}
		foreign := 0
		if w.place("_active_runs/team/"+bad, "") {
			foreign = 1
		}
		v := mustCards(t, n, blobindex.CardsRequest{Limit: 20})
		if len(v.Cards) != 10 || v.Counts.Foreign != foreign {
			t.Errorf("%q: %d cards, %d foreign", bad, len(v.Cards), v.Counts.Foreign)
		}
		if _, err := itemid.Epoch.Parse(bad); err == nil {
			t.Errorf("%q parses as an id", bad)
		}
	}
	n := s.world(t).team(nil, blobindex.Options{})
	if _, err := n.Register(t.Context(), itemid.ID{}, nil); !errors.Is(err, itemid.ErrInvalid) {
		t.Errorf("registering the zero id: %v", err)
	}
}

// TestCase_C27_Encoding: seven ids that clients like to mangle are seven items, byte for byte, in listing, resolving,
// finishing and deleting.
func TestCase_C27_Encoding(t *testing.T) { onStores(t) }

func checkC27Encoding(t *testing.T, s *site) {
	w := s.world(t)
	var asked []string
	r := &resolverFunc{fn: func(target blobindex.Target) (blobindex.Status, error) {
		asked = append(asked, string(target.Marker))
		return blobindex.Status{State: blobindex.Running}, nil
	}}
	n := w.team(nil, blobindex.Options{Resolver: r, Limits: blobindex.NewLimits(0, 1)})
	var ids []itemid.ID
	for i, sub := range []string{"a+b", "a b", "a%2Bb", "a%252F", "a&b", "a?x", "a#y"} {
		ids = append(ids, w.id(sub, -time.Duration(i)*time.Second))
	}
	register(t, n, ids...)
	wantCards(t, n, ids...)
	if len(asked) != 7 {
		t.Errorf("resolved %q", asked)
	}
	for i, id := range ids {
		if !slices.Contains(asked, "_active_runs/team/"+id.String()) {
			t.Errorf("%q was not resolved by its own key", id)
		}
		if f, err := n.Finish(t.Context(), id, blobindex.Done); err != nil || f.Removed != 1 || f.Cleanup != nil {
			t.Errorf("finishing %q: %+v %v", id, f, err)
		}
		wantCards(t, n, ids[i+1:]...)
	}
}

// refuse keeps each delete of the given keys from the store.
func refuse(keys map[bucket.Key]bool) fakes.Fault {
	match := fakes.Where("refused keys", func(k bucket.Key) bool { return keys[k] })
	return fakes.Fault{Op: fakes.Delete, Key: match, Every: true, Kind: fakes.NotApplied(bucket.ErrDenied)}
}

// TestCase_C34_PerKeyErrors: of ten deletes three are refused: seven and three, the rest of the batch is done, and the
// stale ones stay hidden.
func TestCase_C34_PerKeyErrors(t *testing.T) { onStores(t) }

func checkC34PerKeyErrors(t *testing.T, s *site) {
	w := s.world(t)
	refused := map[bucket.Key]bool{}
	for i := range 10 {
		key := fmt.Sprintf("_active_runs/team/k%d_%d", i, w.store.Now().Unix())
		w.put(key, "")
		if i%4 == 0 {
			refused[bucket.Key(key)] = true
		}
	}
	w.advance(3 * time.Hour)
	faulty := fakes.NewFaulty(t, w.objects, refuse(refused))
	report, err := janitor.New(w.index(faulty, blobindex.Options{}), nil).Run(t.Context(), nil)
	if err != nil || report.Deleted["stale"] != 7 || report.Failures != 3 || len(report.Failed) != 3 {
		t.Fatalf("pass: %+v %v", report, err)
	}
	for _, f := range report.Failed {
		if !refused[f.Key] || !errors.Is(f.Err, bucket.ErrDenied) {
			t.Errorf("reported %q: %v", f.Key, f.Err)
		}
	}
	wantCards(t, w.team(nil, blobindex.Options{}))
	if len(w.keys()) != 3 {
		t.Errorf("left %q", w.keys())
	}
}

// TestCase_C34_SweeperRetriesLater: what a sweeper could not delete it tries again, not at once; without any right to
// delete it pauses, and readers work all the same.
func TestCase_C34_SweeperRetriesLater(t *testing.T) { onStores(t) }

func checkC34SweeperRetriesLater(t *testing.T, s *site) {
	w := s.world(t)
	w.put("_active_runs/team/a_"+fmt.Sprint(w.store.Now().Unix()), "")
	w.advance(3 * time.Hour)
	count := fakes.NewCounter(fakes.NewFaulty(t, w.objects,
		fakes.Fault{Op: fakes.Delete, Nth: 1, Kind: fakes.NotApplied(bucket.ErrDenied)},
		fakes.Fault{Op: fakes.Delete, Nth: 2, Kind: fakes.NotApplied(bucket.ErrDenied)}))
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
	defer sweeper.Close()
	n := w.team(count, blobindex.Options{Sweeper: sweeper})
	for _, step := range []struct {
		wait    time.Duration
		deletes int // requests so far, after this view
	}{{0, 1}, {59 * time.Second, 1}, {time.Second, 2}, {119 * time.Second, 2}, {time.Second, 3}} {
		w.advance(step.wait)
		wantCards(t, n)
		if err := sweeper.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := count.Snapshot().Delete; got != step.deletes {
			t.Fatalf("after %v: %d deletes, want %d", step.wait, got, step.deletes)
		}
	}
	if s := sweeper.Stats(); s.Deleted != 1 || s.Failed != 2 || len(w.keys()) != 0 {
		t.Errorf("stats %+v, left %q", s, w.keys())
	}
}

// TestCase_C35_Chunks: 0, 1,000, 1,001 and 2,500 stale go in batches of a thousand, and nothing to delete makes no
// request.
func TestCase_C35_Chunks(t *testing.T) { onStores(t) }

func checkC35Chunks(t *testing.T, s *site) {
	for stale, requests := range map[int]int{0: 0, 1000: 1, 1001: 2, 2500: 3} {
		w := s.world(t)
		keys := make([]string, stale)
		for i := range keys {
			keys[i] = fmt.Sprintf("_active_runs/team%d/k%04d_%d", i%7, i, w.store.Now().Unix())
		}
		w.fill(keys)
		w.advance(3 * time.Hour)
		count := fakes.NewCounter(w.objects)
		r, err := janitor.New(w.index(count, blobindex.Options{}), nil).Run(t.Context(), nil)
		if err != nil || r.Deleted["stale"] != stale || count.Snapshot().Delete != requests || len(w.keys()) != 0 {
			t.Errorf("%d stale: %+v %v, %+v", stale, r, err, count.Snapshot())
		}
	}
}

// TestCase_C39_EmptyPrefix: an empty prefix, name or id is refused, and no request leaves.
func TestCase_C39_EmptyPrefix(t *testing.T) { onStores(t) }

func checkC39EmptyPrefix(t *testing.T, s *site) {
	w := s.world(t)
	for _, prefix := range []string{"/", "//", " ", ".", "..", "a/../b", "-x", "a b", "_", "_indexd", "a/_indexd", "a__0x2f__", "ä",
		strings.Repeat("a", 64)} {
		if _, err := blobindex.New(w.objects, blobindex.Config{Prefix: prefix}, nil); !errors.Is(err, blobindex.ErrName) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
	if _, err := blobindex.CleanPrefix(""); !errors.Is(err, blobindex.ErrName) {
		t.Errorf("the empty prefix: %v", err)
	}
	x := w.index(nil, blobindex.Options{})
	for _, name := range []string{"", "_", ".", "..", "a/b", "team/", "_indexd", "a\n", "~"} {
		if _, err := x.Namespace(name); !errors.Is(err, blobindex.ErrName) {
			t.Errorf("namespace %q: %v", name, err)
		}
	}
}

// TestCase_C44_HealthyLongJob: a job that beats longer than the TTL is one card with its first start; one that does not
// beat goes at the TTL; one that stops beating is late first.
func TestCase_C44_HealthyLongJob(t *testing.T) { onStores(t) }

func checkC44HealthyLongJob(t *testing.T, s *site) {
	w := s.world(t)
	n := w.team(nil, blobindex.Options{})
	long, quiet, start := w.id("long", 0), w.id("quiet", 0), w.store.Now()
	register(t, n, long, quiet)
	for range 5 * 60 {
		w.advance(time.Minute)
		if _, err := n.Heartbeat(t.Context(), long); err != nil {
			t.Fatal(err)
		}
	}
	v := mustCards(t, n, blobindex.CardsRequest{})
	if len(v.Cards) != 1 || v.Cards[0].ID != long.String() || !v.Cards[0].StartedAt.Equal(start) ||
		!v.Cards[0].LastSeen.Equal(w.store.Now()) || v.Cards[0].Late {
		t.Fatalf("after five hours: %+v", v.Cards)
	}
	if beats := len(w.keys()) - 2; beats > 4 {
		t.Errorf("%d heartbeats are left", beats)
	}
	w.advance(3*time.Minute + time.Millisecond)
	if v := mustCards(t, n, blobindex.CardsRequest{}); len(v.Cards) != 1 || !v.Cards[0].Late {
		t.Errorf("without a heartbeat for three minutes: %+v", v.Cards)
	}
	w.advance(2 * time.Hour)
	wantCards(t, n)
}

// strained is a store under load: it refuses one Put in five, and its listings take three seconds.
type strained struct {
	bucket.Objects
	puts    int
	advance func(time.Duration)
}

func (s *strained) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if s.puts++; s.puts%5 == 0 {
		return time.Time{}, bucket.ErrThrottled
	}
	return s.Objects.Put(ctx, key, body)
}

func (s *strained) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	first := true
	return s.Objects.List(ctx, req, func(p bucket.Page) error {
		if first {
			first = false
			s.advance(3 * time.Second) // its clock was told before
		}
		return fn(p)
	})
}

// TestCase_C45_BeatsUnderLoad: 500 producers beat every 10 s, for longer than the TTL, on a store that refuses one PUT in
// five and takes 3 s for a listing: nobody vanishes and nobody is late in any view on the way, since a grace of several
// beats is given, and now is the listing's beginning.
func TestCase_C45_BeatsUnderLoad(t *testing.T) {
	w := newWorld(t)
	store := &strained{Objects: w.objects, advance: w.advance}
	n := w.team(store, blobindex.Options{Cards: blobindex.MaxCards})
	const producers = 501 // no multiple of five, so that each one has its share of the failures
	var ids []itemid.ID
	for i := range producers {
		id := w.id(fmt.Sprintf("p%03d", i), 0)
		ids = append(ids, id)
		for {
			_, err := n.Register(t.Context(), id, nil)
			if err == nil {
				break
			}
			if !errors.Is(err, bucket.ErrThrottled) {
				t.Fatal(err)
			}
		}
	}
	failed := 0
	for step := range 730 { // more than two hours, in steps of 10 s
		w.advance(10 * time.Second)
		for _, id := range ids {
			switch _, err := n.Heartbeat(t.Context(), id); {
			case errors.Is(err, bucket.ErrThrottled):
				failed++
			case err != nil:
				t.Fatal(err)
			}
		}
		if step%73 != 0 && step != 729 {
			continue
		}
		v := mustCards(t, n, blobindex.CardsRequest{})
		if v.Counts.Live != producers || slices.ContainsFunc(v.Cards, func(c blobindex.Card) bool { return c.Late }) {
			t.Fatalf("step %d: %d of %d live, %d heartbeats had failed: %+v", step, v.Counts.Live, producers, failed, v.Counts)
		}
	}
	if failed < producers*730/6 {
		t.Errorf("only %d heartbeats failed", failed)
	}
}

// TestCase_SkewedRerun: run 1 comes from a host that is 50 s ahead and ends; the re-run from a host with the right time
// is older by its id, and shows all the same.
func TestCase_SkewedRerun(t *testing.T) { onStores(t) }

func checkSkewedRerun(t *testing.T, s *site) {
	for _, end := range []string{"finished", "dead"} {
		w := s.world(t)
		first := w.id("h", 50*time.Second)
		var over []itemid.ID
		if end == "dead" {
			over = append(over, first)
		}
		n := w.team(nil, blobindex.Options{Resolver: overs(over...)})
		register(t, n, first)
		w.advance(5 * time.Second)
		if end == "finished" {
			if _, err := n.Finish(t.Context(), first, blobindex.Failed); err != nil {
				t.Fatal(err)
			}
		}
		w.advance(15 * time.Second)
		rerun := w.id("h", 0)
		register(t, n, rerun)
		wantCards(t, n, rerun)
		e, err := n.Explain(t.Context(), rerun)
		if err != nil || !e.Shown || e.Rule != blobindex.RuleLive || e.Clock != blobindex.StoreClock {
			t.Errorf("%s: %+v %v", end, e, err)
		}
	}
}

// TestCase_SkewedRerun_HiddenNotDeleted: while the run that is ahead goes on, the re-run is hidden, and no pass deletes
// it, since the two are dated within the skew; it shows when the first one has ended and it beats again.
func TestCase_SkewedRerun_HiddenNotDeleted(t *testing.T) { onStores(t) }

func checkSkewedRerunHiddenNotDeleted(t *testing.T, s *site) {
	w := s.world(t)
	x := w.index(nil, blobindex.Options{})
	n := space(t, x, "team")
	first := w.id("h", 50*time.Second)
	register(t, n, first)
	w.advance(20 * time.Second)
	rerun := w.id("h", 0)
	register(t, n, rerun)
	wantCards(t, n, first)
	if e, err := n.Explain(t.Context(), rerun); err != nil || e.Shown || e.Rule != blobindex.RuleSuperseded {
		t.Errorf("%+v %v", e, err)
	}
	if r, err := janitor.New(x, nil).Run(t.Context(), nil); err != nil || len(r.Deleted) != 0 {
		t.Errorf("%+v %v", r, err)
	}
	w.advance(time.Second)
	if _, err := n.Finish(t.Context(), first, blobindex.Done); err != nil {
		t.Fatal(err)
	}
	wantCards(t, n)
	w.advance(time.Second)
	if _, err := n.Heartbeat(t.Context(), rerun); err != nil {
		t.Fatal(err)
	}
	wantCards(t, n, rerun)
}

// TestCase_SkewedProducer: a producer 3 h behind is refused, before the PUT where the store's clock is known and after it
// where it is not; one 2 min behind is accepted, told, and counted.
func TestCase_SkewedProducer(t *testing.T) { onStores(t) }

func checkSkewedProducer(t *testing.T, s *site) {
	w := s.world(t)
	count := fakes.NewCounter(w.objects)
	n := w.team(count, blobindex.Options{})
	behind, ahead, late := w.id("a", -3*time.Hour), w.id("b", 2*time.Minute), w.id("c", -2*time.Minute)
	var clockErr *blobindex.ClockError
	if _, err := n.Register(t.Context(), behind, nil); !errors.As(err, &clockErr) || !clockErr.Written || !errors.Is(err, blobindex.ErrClock) {
		t.Errorf("first registration, 3 h behind: %v", err)
	}
	if got := count.Snapshot().Put; got != 1 {
		t.Errorf("%d PUTs", got)
	}
	for _, id := range []itemid.ID{behind, ahead} {
		if _, err := n.Register(t.Context(), id, nil); !errors.As(err, &clockErr) || clockErr.Written {
			t.Errorf("%s: %v", id, err)
		}
	}
	if got := count.Snapshot().Put; got != 1 {
		t.Errorf("%d PUTs, though the store's clock was known", got)
	}
	r, err := n.Register(t.Context(), late, nil)
	if err != nil || !r.BornLate {
		t.Errorf("2 min behind: %+v %v", r, err)
	}
	if v := mustCards(t, n, blobindex.CardsRequest{}); len(v.Cards) != 1 || v.Counts.BornLate != 1 || v.Counts.Stale != 1 {
		t.Errorf("%+v", v)
	}
	if _, err := n.Finish(t.Context(), ahead, blobindex.Done); !errors.Is(err, blobindex.ErrClock) {
		t.Errorf("finishing an id from the future: %v", err)
	}
}

// TestCase_SkewedProducer_Heartbeat: a heartbeat named ten years ahead is foreign; the item ages on.
func TestCase_SkewedProducer_Heartbeat(t *testing.T) { onStores(t) }

func checkSkewedProducerHeartbeat(t *testing.T, s *site) {
	w := s.world(t)
	n := w.team(nil, blobindex.Options{})
	id := w.id("a", 0)
	register(t, n, id)
	w.put(fmt.Sprintf("_active_runs/team/%s~%d", id, w.store.Now().Add(24*3650*time.Hour).UnixMilli()), "")
	w.advance(2*time.Hour + time.Second)
	wantCards(t, n)
}

// TestCase_CopiedBucket: all store times are new; the cards are the same, born late, and explain names the rule.
func TestCase_CopiedBucket(t *testing.T) { onStores(t) }

func checkCopiedBucket(t *testing.T, s *site) {
	w, copied := s.world(t), s.world(t)
	n := w.team(nil, blobindex.Options{})
	a, b, old := w.id("a", -time.Hour), w.id("b", 0), w.id("old", -110*time.Minute)
	register(t, n, a, b, old)
	for range 11 {
		w.advance(time.Minute)
	}
	if _, err := n.Heartbeat(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	copied.advance(11 * time.Minute)
	for _, k := range w.keys() {
		copied.put(k, "")
	}
	m := copied.team(nil, blobindex.Options{})
	wantCards(t, n, b, a)
	wantCards(t, m, b, a)
	if e, err := m.Explain(t.Context(), a); err != nil || !e.Shown || !e.BornLate || !strings.Contains(e.Key, "~") {
		t.Errorf("%+v %v", e, err)
	}
	if e, err := m.Explain(t.Context(), old); err != nil || e.Rule != blobindex.RuleStale {
		t.Errorf("%+v %v", e, err)
	}
}

// TestCase_HalfAPlan: the newest of three runs is dead by the resolver, and deletes fail in every way: whatever subset
// of the plan is carried out, by whatever number of passes, nothing old comes back, in any process.
func TestCase_HalfAPlan(t *testing.T) { onStores(t) }

func checkHalfAPlan(t *testing.T, s *site) {
	for mask := range 8 {
		w := s.world(t)
		runs := []itemid.ID{w.id("h", -20*time.Minute), w.id("h", -10*time.Minute), w.id("h", 0)}
		refused := map[bucket.Key]bool{}
		for i, id := range runs {
			if mask>>i&1 == 1 {
				refused[bucket.Key("_active_runs/team/"+id.String())] = true
			}
		}
		objects := bucket.Objects(w.objects)
		if len(refused) > 0 {
			objects = fakes.NewFaulty(t, w.objects, refuse(refused))
		}
		sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
		defer sweeper.Close()
		n := w.team(objects, blobindex.Options{Sweeper: sweeper, Resolver: overs(runs[2])})
		register(t, n, runs...)
		for range 4 {
			wantCards(t, n)
			if err := sweeper.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantCards(t, w.team(nil, blobindex.Options{Resolver: overs(runs[2])}))
			w.advance(2 * time.Minute)
		}
		if mask == 0 && len(w.keys()) > 0 {
			t.Errorf("every delete was allowed, and left are %q", w.keys())
		}
	}
}

// TestCase_ResolvedTooEarly: registered and listed before the state document is written: a card, and nothing is deleted.
// A final state counts only when the results are there.
func TestCase_ResolvedTooEarly(t *testing.T) { onStores(t) }

func checkResolvedTooEarly(t *testing.T, s *site) {
	w := s.world(t)
	state, err := resolve.NewState(w.objects, resolve.StateOptions{
		Template: "results/{namespace}/{id}/status.json", Requires: []string{"results/{namespace}/{id}/out.csv"},
	})
	if err != nil {
		t.Fatal(err)
	}
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
	defer sweeper.Close()
	n := w.team(nil, blobindex.Options{Resolver: state, Sweeper: sweeper})
	id := w.id("a", 0)
	register(t, n, id)
	shown := func(state string, get int) {
		t.Helper()
		v := mustCards(t, n, blobindex.CardsRequest{})
		if len(v.Cards) != 1 || v.Cards[0].State != state || v.Cost.Get != get {
			t.Errorf("cards %+v, cost %+v; want one that is %s for %d requests", v.Cards, v.Cost, state, get)
		}
		if err := sweeper.Idle(t.Context()); err != nil || !slices.Contains(w.keys(), "_active_runs/team/"+id.String()) {
			t.Errorf("the marker is gone: %v", err)
		}
	}
	doc := "results/team/" + id.String() + "/status.json"
	shown("unknown", 1)
	w.put(doc, `{"state":"running","progress":0.5}`)
	shown("running", 1)
	w.put(doc, `{"state":`)
	shown("unknown", 1)
	w.put(doc, `{"state":"succeeded"}`)
	shown("running", 2)
	w.put("results/team/"+id.String()+"/out.csv", "1,2")
	wantCards(t, n)
	if err := sweeper.Idle(t.Context()); err != nil || slices.Contains(w.keys(), "_active_runs/team/"+id.String()) {
		t.Errorf("the dead item's marker is still there: %v %q", err, w.keys())
	}
}

// TestCase_CrashLooper: runs of one sub-key every half minute fold into one card, and the older ones go in one pass, all
// but those within the skew.
func TestCase_CrashLooper(t *testing.T) { onStores(t) }

func checkCrashLooper(t *testing.T, s *site) {
	w := s.world(t)
	x := w.index(nil, blobindex.Options{})
	n := space(t, x, "team")
	var last itemid.ID
	for range 20 {
		w.advance(30 * time.Second)
		last = w.id("loop", 0)
		register(t, n, last)
	}
	wantCards(t, n, last)
	r, err := janitor.New(x, nil).Run(t.Context(), nil)
	if err != nil || r.Deleted[prune.SupersededItem.String()] != 17 {
		t.Errorf("%+v %v", r, err)
	}
	wantCards(t, n, last)
}
