package blobindex_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/fakes"
)

// TestSweeper_Told: what is told of the batches adds up to what the sweeper counts, with the reasons of the plan.
func TestSweeper_Told(t *testing.T) {
	const more = 20_000
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	mem := membucket.New(&membucket.Options{Now: clock})
	faulty := fakes.NewFaulty(t, mem)
	gone, failures, drops := map[string]int{}, 0, 0 // written under the sweeper's lock, read when it is idle
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: clock, Told: func(deleted map[string]int, failed, dropped int) {
		for reason, n := range deleted {
			gone[reason] += n
		}
		failures += failed
		drops += dropped
	}})
	x, err := blobindex.New(faulty, blobindex.Config{}, &blobindex.Options{Now: clock, Sweeper: sweeper})
	if err != nil {
		t.Fatal(err)
	}
	n, err := x.Namespace("team")
	if err != nil {
		t.Fatal(err)
	}
	put := func(subkey string, at time.Time) bucket.Key {
		key := bucket.Key(fmt.Sprintf("_active_runs/team/%s_%d", subkey, at.UnixMilli()))
		if _, err := mem.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		return key
	}
	for i := range more { // more than the queue takes at once
		put(fmt.Sprint("old", i), now)
	}
	stuck := put("stuck", now)
	now = now.Add(3 * time.Hour)
	put("again", now.Add(-10*time.Minute))
	put("again", now)
	faulty.Plan(fakes.Fault{Op: fakes.Delete, Key: fakes.Exact(stuck), Kind: fakes.NotApplied(bucket.ErrThrottled)})
	look := func() {
		if _, err := n.Cards(t.Context(), blobindex.CardsRequest{}); err != nil {
			t.Fatal(err)
		}
		if err := sweeper.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		look()
	}
	sweeper.Close()
	stats := sweeper.Stats()
	if !maps.Equal(gone, map[string]int{"stale": more, "superseded": 1}) || failures != 1 || stats.Deleted != more+1 ||
		stats.Failed != 1 || drops != stats.Dropped || drops == 0 {
		t.Errorf("told %v, %d failed, %d dropped; counted %+v", gone, failures, drops, stats)
	}
}
