package blobindex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/prune/janitor"
)

// TestCase_C22_PageBoundaries: 0, 1, 999, 1,000, 1,001, 2,000 and 2,001 markers, in every way of listing, for the pages
// that they fill.
func TestCase_C22_PageBoundaries(t *testing.T) { onStores(t) }

func checkC22PageBoundaries(t *testing.T, s *site) {
	w := s.world(t)
	x := w.index(nil, blobindex.Options{})
	n := space(t, x, "team")
	keys := w.stored(2001, "team")
	put := 0
	for _, size := range []int{0, 1, 999, 1000, 1001, 2000, 2001} {
		w.fill(keys[put:size])
		put = size
		pages := max(1, (size+999)/1000)
		list, err := n.List(t.Context())
		if err != nil || len(list.Items) != size || list.Cost.List != pages {
			t.Errorf("%d markers: listed %d for %+v, %v", size, len(list.Items), list.Cost, err)
		}
		v := mustCards(t, n, blobindex.CardsRequest{})
		if v.Counts.Live != size || len(v.Cards) != min(size, blobindex.DefaultCards) || v.Cost.List != pages {
			t.Errorf("%d markers: %d cards, %+v, for %+v", size, len(v.Cards), v.Counts, v.Cost)
		}
		scanned := 0
		if stats, err := x.Scan(t.Context(), func(s *blobindex.Snapshot) error {
			scanned += s.Counts().Live
			return nil
		}); err != nil || scanned != size || stats.Pages != pages {
			t.Errorf("%d markers: scanned %d, %+v, %v", size, scanned, stats, err)
		}
	}
	deletingMeanwhile(t, w)
}

// deletingMeanwhile lists the live ones among what is deleted at the same time, each of them every time.
func deletingMeanwhile(t *testing.T, w *world) {
	w.advance(3 * time.Hour)
	var live []string
	for i := range 20 { // in between the 2,001 that are stale now
		live = append(live, fmt.Sprintf("_active_runs/team/s%03d5-_%d", i*10, w.store.Now().Unix()))
	}
	w.fill(live)
	n := w.team(nil, blobindex.Options{})
	passed := make(chan error)
	go func() {
		r, err := janitor.New(w.index(nil, blobindex.Options{}), nil).Run(t.Context(), nil)
		if err == nil && (r.Failures > 0 || r.Deleted["stale"] != 2001) {
			err = fmt.Errorf("the pass did %+v", r)
		}
		passed <- err
	}()
	for last := false; !last; {
		select {
		case err := <-passed:
			if err != nil {
				t.Error(err)
			}
			last = true
		default:
		}
		list, err := n.List(t.Context())
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, it := range list.Items {
			got = append(got, "_active_runs/team/"+it.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, live) {
			t.Errorf("of 20 live ones %d were listed while others were deleted", len(got))
		}
	}
	if left := w.keys(); !slices.Equal(left, live) {
		t.Errorf("%d keys are left", len(left))
	}
}

// TestCase_C40_Separators: the last "_" splits; what remains is a sub-key or there is no item.
func TestCase_C40_Separators(t *testing.T) { onStores(t) }

func checkC40Separators(t *testing.T, s *site) {
	w := s.world(t)
	n := w.team(nil, blobindex.Options{})
	now := fmt.Sprint(w.store.Now().Unix())
	want := map[string]string{ // by name; an empty sub-key is no item
		"ab_cd_" + now: "ab_cd", "_" + now: "", now: "", "ab__" + now: "ab_", now + "_" + now: now, "x_" + now + "_ab": "",
	}
	for name := range want {
		w.put("_active_runs/team/"+name, "")
	}
	v := mustCards(t, n, blobindex.CardsRequest{})
	if len(v.Cards) != 3 || v.Counts.Foreign != 3 {
		t.Errorf("%d cards and %d foreign keys", len(v.Cards), v.Counts.Foreign)
	}
	for _, c := range v.Cards {
		if c.Subkey == "" || want[c.ID] != c.Subkey || !strings.HasSuffix(c.ID, "_"+now) {
			t.Errorf("%q has the sub-key %q, want %q", c.ID, c.Subkey, want[c.ID])
		}
	}
}
