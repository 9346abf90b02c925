package live_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/live"
)

// TestOverlay_AtOnce: what is registered here is shown without a listing, and so is what finishes.
func TestOverlay_AtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		n, h := space(t, s, nil), hub(t, nil)
		stream := subscribe(t, h, n, "")
		if e := next(t, stream); e.Kind != live.Snapshot || len(e.View.Cards) != 0 || !e.View.Complete {
			t.Fatalf("it begins with %+v", e)
		}
		lists := s.listed()
		a := id(t, "a")
		if _, err := h.Register(t.Context(), n, a, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		e, ready, err := stream.TryNext()
		if err != nil || ready != nil || e.Kind != live.Upsert || ids(e.View) != "a " || e.View.Counts.Live != 1 {
			t.Fatalf("after registering: %+v, %v", e, err)
		}
		if v := cards(t, h, n); ids(v) != "a " || v.Cost != (blobindex.Cost{}) {
			t.Fatalf("cards are %+v", v)
		}
		if _, err := h.Finish(t.Context(), n, a, blobindex.Done); err != nil {
			t.Fatal(err)
		}
		if e := next(t, stream); e.Kind != live.Remove || len(e.Removed) != 1 || e.View.Counts.Live != 0 {
			t.Fatalf("after finishing: %+v", e)
		}
		if got := s.listed(); got != lists+1 { // Finish lists the item's sightings
			t.Fatalf("%d listings", got-lists)
		}
		r, err := h.Recent(t.Context(), n)
		if err != nil || len(r.Items) != 1 || r.Items[0].ID != a.String() {
			t.Fatalf("recent is %+v, %v", r, err)
		}
	})
}

// TestOverlay_Ghost: what was registered here and deleted elsewhere is gone with the first listing begun after.
func TestOverlay_Ghost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		n, h := space(t, s, nil), hub(t, nil)
		stream := subscribe(t, h, n, "")
		next(t, stream)
		time.Sleep(time.Second)
		a := id(t, "a")
		if _, err := h.Register(t.Context(), n, a, nil); err != nil {
			t.Fatal(err)
		}
		if e := next(t, stream); ids(e.View) != "a " {
			t.Fatalf("after registering: %+v", e)
		}
		s.remove(t, root+a.String())
		began := time.Now()
		if e := next(t, stream); e.Kind != live.Remove {
			t.Fatalf("after a delete elsewhere: %+v", e)
		}
		if took := time.Since(began); took > live.DefaultMinInterval+time.Second {
			t.Fatalf("the ghost was there for %v", took)
		}
	})
}

// TestOverlay_ListingUnderWay: a listing that was begun before an acknowledgement does not end what is shown of it.
func TestOverlay_ListingUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		s.took = time.Second // the keys are read at once, the answer comes later
		n, h := space(t, s, nil), hub(t, nil)
		stream := subscribe(t, h, n, "")
		next(t, stream)
		time.Sleep(1500 * time.Millisecond) // the second listing has begun
		if got := s.listed(); got != 2 {
			t.Fatalf("%d listings", got)
		}
		if _, err := h.Register(t.Context(), n, id(t, "a"), nil); err != nil {
			t.Fatal(err)
		}
		if e := next(t, stream); ids(e.View) != "a " {
			t.Fatalf("after registering: %+v", e)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if e, err := stream.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("then came %+v, %v", e, err)
		}
		if v := cards(t, h, n); ids(v) != "a " {
			t.Fatalf("cards are %+v", v)
		}
	})
}

// TestOverlay_ClosedView: what is written while the view is not open is listed before anything is read from it.
func TestOverlay_ClosedView(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		n, h := space(t, s, nil), hub(t, &live.Options{MinInterval: 10 * time.Second, Hold: time.Second})
		cards(t, h, n)
		time.Sleep(2 * time.Second)
		if _, err := h.Register(t.Context(), n, id(t, "a"), nil); err != nil {
			t.Fatal(err)
		}
		if v := cards(t, h, n); ids(v) != "a " || v.Cost.List != 1 {
			t.Fatalf("%+v", v)
		}
	})
}

// TestOverlay_Sweeps: what a listing finds to be over is swept, though it is never shown without an overlay.
func TestOverlay_Sweeps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		sweeper := blobindex.NewSweeper(nil)
		defer sweeper.Close()
		n, h := space(t, s, &blobindex.Options{Sweeper: sweeper}), hub(t, nil)
		s.put(t, root+id(t, "old").String())
		time.Sleep(3 * time.Hour)
		time.AfterFunc(20*time.Millisecond, func() { h.Register(context.Background(), n, id(t, "new"), nil) }) // while it is listed
		if v := cards(t, h, n); ids(v) != "new " {
			t.Fatalf("%+v", v)
		}
		synctest.Wait()
		if got := sweeper.Stats().Deleted; got != 1 {
			t.Fatalf("%d keys were swept", got)
		}
	})
}

// TestP5_SlowListings: listings that take longer than the interval leave the store as long a pause.
func TestP5_SlowListings(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		s.took = 3 * time.Second
		n, h := space(t, s, nil), hub(t, nil)
		stream := subscribe(t, h, n, "")
		next(t, stream)
		for began := time.Now(); time.Since(began) < 100*time.Second; {
			s.put(t, root+id(t, "s").String())
			time.Sleep(time.Second)
			if v := cards(t, h, n); !v.Complete {
				t.Fatalf("%+v", v)
			}
		}
		if got := s.listed(); got < 18 || got > 22 {
			t.Fatalf("%d listings", got)
		}
	})
}

// TestLongListings: a listing that takes longer than the bound gets more time, and what it comes to is shown.
func TestLongListings(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		s.took = 100 * time.Second
		n, h := space(t, s, nil), hub(t, nil)
		began := time.Now()
		for {
			_, err := h.Cards(t.Context(), n, blobindex.CardsRequest{})
			if err == nil {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Minute {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
	})
}
