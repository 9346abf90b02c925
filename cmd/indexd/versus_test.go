package main

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
)

// A far store, of which every request takes that long.
func far(objects bucket.Objects, delay time.Duration) bucket.Objects {
	return &slowBucket{objects, func() time.Duration { return delay }}
}

// twoHosts are two stages on one bucket, whose requests take 10 and 14 ms, and what they owe together.
func twoHosts(t *testing.T) (a, b *stage, v *versus) {
	store := membucket.New(nil)
	log := slog.New(slog.DiscardHandler)
	a = newStage(far(store, 10*time.Millisecond), true, log)
	b = newStage(far(store, 14*time.Millisecond), true, log)
	b.ours, b.theirs = a.ours, a.theirs
	index, err := a.index(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	v, err = newVersus(a, index)
	if err != nil {
		t.Fatal(err)
	}
	return a, b, v
}

// TestVersus_RaceOnTheList: two producers start at once; the one whose write back comes later has read before the other's.
// The list loses the other's item, the index loses none.
func TestVersus_RaceOnTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, v := twoHosts(t)
		var wg sync.WaitGroup
		for subkey, s := range map[string]*stage{"a": a, "b": b} {
			wg.Go(func() {
				if _, err := s.start(t.Context(), subkey, nil, 0); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		audit(t, v)
		if got, want := a.theirs.tally(), (tally{Total: 2, Lost: 1, Gone: 1}); got != want {
			t.Errorf("the list: %+v, want %+v", got, want)
		}
		if got, want := a.ours.tally(), (tally{Total: 2}); got != want {
			t.Errorf("the index: %+v, want %+v", got, want)
		}
	})
}

func audit(t *testing.T, v *versus) {
	t.Helper()
	if err := v.audit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestVersus_NoRaceNoLoss: one after the other, the list loses nothing: not at the start, by heartbeats, by readers, nor by
// what rightfully goes.
func TestVersus_NoRaceNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, v := twoHosts(t)
		ctx := t.Context()
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		p, err := a.start(ctx, "a", nil, 0)
		check(err)
		_, err = b.start(ctx, "b", nil, 25*time.Second) // a host whose clock is behind
		check(err)
		_, err = b.start(ctx, "crash", nil, 0)
		check(err)
		_, err = a.start(ctx, "crash", nil, 0)
		check(err)
		audit(t, v)
		for range 20 {
			check(pause(ctx, demoBeat))
			check(p.beat(ctx))
			check(a.list.prune(ctx))
			audit(t, v)
		}
		check(p.finish(ctx, prune.Done))
		audit(t, v)
		for name, l := range map[string]*ledger{"list": a.theirs, "index": a.ours} {
			if got, want := l.tally(), (tally{Total: 4}); got != want {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
		entries, err := a.list.read(ctx)
		check(err)
		if len(entries) != 0 {
			t.Errorf("the list still has %v", entries)
		}
	})
}

// TestVersus_Crew: the whole crew at its usual pace, for ten minutes of a clock that does not wait.
func TestVersus_Crew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowBucket{membucket.New(nil), storeDelay}
		var log bytes.Buffer
		s := newStage(store, true, slog.New(slog.NewTextHandler(&log, nil)))
		sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Log: s.log})
		defer sweeper.Close()
		index, err := s.index(sweeper, 0)
		if err != nil {
			t.Fatal(err)
		}
		v, err := newVersus(s, index)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var shown bytes.Buffer
		var wg sync.WaitGroup
		wg.Go(func() { s.perform(ctx, crew()) })
		wg.Go(func() { v.read(ctx) })
		wg.Go(func() { v.watch(ctx, &shown) })
		wg.Wait()
		list, ours := s.theirs.tally(), s.ours.tally()
		t.Logf("list %+v, index %+v, swept %+v", list, ours, sweeper.Stats())
		if ours.Total < 300 || ours.Lost != 0 || ours.Gone != 0 {
			t.Errorf("the index: %+v", ours)
		}
		if list.Lost == 0 {
			t.Errorf("the list lost nothing: %+v", list)
		}
		if log.Len() > 0 {
			t.Errorf("logged: %s", &log)
		}
		if n := bytes.Count(shown.Bytes(), []byte("\n")); n < 60 || n > 130 {
			t.Errorf("%d lines in ten minutes", n)
		}
	})
}

func TestLedger(t *testing.T) {
	const ttl = time.Minute
	t0 := time.Unix(1_700_000_000, 0)
	one, other := mustID(t, "k_1700000000"), mustID(t, "k_1700000001")
	none, both := map[string]bool{}, map[string]bool{one.String(): true, other.String(): true}
	for _, c := range []struct {
		name string
		// during happens between the beginning and the end of the listing, at which listed was there.
		before, during func(*ledger)
		listed         map[string]bool
		at             time.Duration
		want           tally
	}{
		{name: "listed", listed: both, want: tally{Total: 1}},
		{name: "absent", listed: none, want: tally{Total: 1, Lost: 1, Gone: 1}},
		{name: "finished before", before: func(l *ledger) { l.ending(one) }, listed: none, want: tally{Total: 1}},
		{name: "finished meanwhile", during: func(l *ledger) { l.ending(one) }, listed: none, want: tally{Total: 1}},
		{name: "replaced meanwhile", during: func(l *ledger) { l.starting("k") }, listed: none, want: tally{Total: 1}},
		{name: "another one's start", during: func(l *ledger) { l.starting("j") }, listed: none, want: tally{1, 1, 1}},
		{name: "acknowledged meanwhile", during: func(l *ledger) { l.acknowledged(other, t0) },
			listed: map[string]bool{one.String(): true}, want: tally{Total: 2}},
		{name: "near its end", listed: none, at: ttl - expiryMargin, want: tally{Total: 1}},
		{name: "not near its end", listed: none, at: ttl - expiryMargin - 1, want: tally{1, 1, 1}},
		{name: "past its end", listed: none, at: ttl + 1, want: tally{Total: 1}},
		{name: "kept alive", before: func(l *ledger) { l.alive(one, t0.Add(ttl)) }, listed: none, at: ttl + 1, want: tally{1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(ttl)
			l.acknowledged(one, t0)
			if c.before != nil {
				c.before(l)
			}
			due := l.due(t0.Add(c.at))
			if c.during != nil {
				c.during(l)
			}
			l.audit(due, c.listed, t0.Add(c.at))
			if got := l.tally(); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			l.audit(l.due(t0.Add(c.at)), both, t0.Add(c.at))
			if got := l.tally(); got.Gone != 0 || got.Lost != c.want.Lost {
				t.Errorf("when it is back: %+v", got)
			}
		})
	}
}

func mustID(t *testing.T, s string) itemid.ID {
	t.Helper()
	id, err := itemid.Epoch.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
