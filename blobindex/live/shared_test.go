package live_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/live"
)

// listingsWith is how many listings so many viewers of one namespace cause in a minute in which something changes all the
// time; half of them keep a stream open, the others read every second.
func listingsWith(t *testing.T, viewers int) (lists int) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		n, h := space(t, s, nil), hub(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for i := range viewers {
			wg.Go(func() {
				if i%2 == 0 {
					stream := subscribe(t, h, n, "")
					for ctx.Err() == nil {
						stream.Next(ctx)
					}
					return
				}
				for ctx.Err() == nil {
					if _, err := h.Cards(ctx, n, blobindex.CardsRequest{}); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
					time.Sleep(time.Second)
				}
			})
		}
		for i := 0; ctx.Err() == nil; i++ {
			s.put(t, root+id(t, fmt.Sprintf("s%d", i)).String())
			time.Sleep(time.Second)
		}
		wg.Wait()
		lists = s.listed()
	})
	return lists
}

// TestP5_ViewersShareListings: a thousand viewers cause as many listings as one does.
func TestP5_ViewersShareListings(t *testing.T) {
	one, many := listingsWith(t, 1), listingsWith(t, 1000)
	if one < 29 || one > 31 || many < one-1 || many > one+1 {
		t.Fatalf("one viewer causes %d listings a minute, 1,000 cause %d", one, many)
	}
}

// TestP5_BacksOff: an unchanged namespace is listed every 15 s, and every 2 s from the first change that is seen on.
func TestP5_BacksOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		n, h := space(t, s, nil), hub(t, nil)
		stream := subscribe(t, h, n, "")
		next(t, stream)
		time.Sleep(2 * time.Minute)
		before := s.listed()
		time.Sleep(5 * time.Minute)
		if got := s.listed() - before; got != 20 {
			t.Fatalf("%d listings in 5 minutes in which nothing changed", got)
		}
		s.put(t, root+id(t, "a").String())
		began := time.Now()
		if e := next(t, stream); ids(e.View) != "a " {
			t.Fatalf("the change is told as %+v", e)
		}
		if took := time.Since(began); took > 16*time.Second {
			t.Fatalf("the change was seen after %v", took)
		}
		s.put(t, root+id(t, "b").String())
		began = time.Now()
		next(t, stream)
		if took := time.Since(began); took > 3*time.Second {
			t.Fatalf("the next change was seen after %v", took)
		}
		stream.Close()
		time.Sleep(time.Minute)
		before = s.listed()
		time.Sleep(time.Hour)
		if got := s.listed() - before; got != 0 {
			t.Fatalf("%d listings without a viewer", got)
		}
	})
}

// TestP5_Reads: reads are answered from one listing per interval, and cost nothing then.
func TestP5_Reads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		n, h := space(t, s, nil), hub(t, nil)
		if v := cards(t, h, n); v.Cost.List != 1 {
			t.Fatalf("the first read cost %+v", v.Cost)
		}
		for range 10 {
			if v := cards(t, h, n); v.Cost.List != 0 {
				t.Fatalf("the next read cost %+v", v.Cost)
			}
		}
		time.Sleep(2 * time.Second)
		if v := cards(t, h, n); v.Cost.List != 1 || s.listed() != 2 {
			t.Fatalf("a read after the interval cost %+v, of %d listings", v.Cost, s.listed())
		}
		// What was written while nobody looked is not in the overlay, and must be listed.
		time.Sleep(live.DefaultHold + time.Second)
		if _, err := h.Register(t.Context(), n, id(t, "a"), nil); err != nil {
			t.Fatal(err)
		}
		if v := cards(t, h, n); v.Cost.List != 1 || ids(v) != "a " {
			t.Fatalf("a read after a pause is %+v", v)
		}
	})
}

// TestShared_FirstCallerHangsUp: of 200 who wait for one listing the first ones leave, and the others are served by it.
func TestShared_FirstCallerHangsUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		s.took = time.Second
		s.put(t, root+id(t, "a").String())
		n, h := space(t, s, nil), hub(t, nil)
		first, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var gone error
		wg.Go(func() { _, gone = h.Cards(first, n, blobindex.CardsRequest{}) })
		synctest.Wait()
		served := make([]bool, 199)
		for i := range served {
			wg.Go(func() {
				v, err := h.Cards(t.Context(), n, blobindex.CardsRequest{})
				served[i] = err == nil && ids(v) == "a " && v.Cost.List == 1
			})
		}
		synctest.Wait()
		hangUp()
		wg.Wait()
		if !errors.Is(gone, context.Canceled) {
			t.Errorf("who hung up got %v", gone)
		}
		for i, ok := range served {
			if !ok {
				t.Fatalf("caller %d was not served", i)
			}
		}
		if got := s.listed(); got != 1 {
			t.Errorf("%d listings", got)
		}
	})
}

// TestShared_AllHangUp: a listing that nobody waits for is given up, and the next one who comes is served by another.
func TestShared_AllHangUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		s.set("hang")
		n, h := space(t, s, nil), hub(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Cards(ctx, n, blobindex.CardsRequest{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.mode = "" // without freeing who hangs
		s.mu.Unlock()
		began := time.Now()
		if v := cards(t, h, n); !v.Complete {
			t.Fatalf("%+v", v)
		}
		if took := time.Since(began); took > time.Second {
			t.Fatalf("the next one waited for %v", took)
		}
	})
}

// TestStale: the store fails or hangs for 30 s; viewers keep what they had, marked stale, and it recovers by itself.
func TestStale(t *testing.T) {
	for _, mode := range []string{"fail", "hang"} {
		t.Run(mode, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStore()
				n, h := space(t, s, nil), hub(t, nil)
				s.put(t, root+id(t, "a").String())
				stream := subscribe(t, h, n, "")
				next(t, stream)
				time.Sleep(time.Minute)
				asOf := cards(t, h, n).AsOf
				s.set(mode)
				down := time.Now()
				e := next(t, stream)
				if e.Kind != live.Stale || e.View.Complete || e.View.StaleSince.Before(down) ||
					e.View.StaleSince.After(down.Add(16*time.Second+live.DefaultPatience)) {
					t.Fatalf("after %v came %+v", time.Since(down), e)
				}
				if v := cards(t, h, n); v.Complete || ids(v) != "a " || v.AsOf.Before(asOf) || v.Cause == nil ||
					!v.StaleSince.Equal(e.View.StaleSince) {
					t.Fatalf("the view is %+v", v)
				}
				if st := h.Stats(); len(st) != 1 || !st[0].StaleSince.Equal(e.View.StaleSince) || st[0].Counts.Live != 1 {
					t.Fatalf("stats are %+v", st)
				}
				if _, err := h.List(t.Context(), n); err == nil {
					t.Fatal("a list of what is stale came without an error")
				}
				late := subscribe(t, h, n, "")
				if e := next(t, late); e.Kind != live.Snapshot || e.View.Complete || ids(e.View) != "a " {
					t.Fatalf("a stream in between begins with %+v", e)
				}
				// What is written through the hub shows all the same.
				if _, err := h.Register(t.Context(), n, id(t, "b"), nil); err != nil {
					t.Fatal(err)
				}
				if e := next(t, stream); e.Kind != live.Upsert || ids(e.View) != "b " || e.View.Complete {
					t.Fatalf("a registration meanwhile is told as %+v", e)
				}
				time.Sleep(time.Until(down.Add(30 * time.Second)))
				s.set("")
				up := time.Now()
				if e = next(t, stream); e.Kind != live.Upsert || len(e.View.Cards) != 0 || !e.View.Complete || !e.View.StaleSince.IsZero() {
					t.Fatalf("the recovery is told as %+v", e)
				}
				if took := time.Since(up); took > 16*time.Second {
					t.Fatalf("it took %v to recover", took)
				}
				if v := cards(t, h, n); !v.Complete || ids(v) != "b a " {
					t.Fatalf("the view is %+v", v)
				}
			})
		})
	}
}

// TestStale_First: without a good view there is an error, never an empty one.
func TestStale_First(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		n, h := space(t, s, nil), hub(t, nil)
		s.set("fail")
		for range 3 {
			if _, err := h.Cards(t.Context(), n, blobindex.CardsRequest{}); !errors.Is(err, errStore) {
				t.Fatal(err)
			}
			if _, err := h.Subscribe(t.Context(), n, blobindex.CardsRequest{}, ""); !errors.Is(err, errStore) {
				t.Fatal(err)
			}
		}
		if got := s.listed(); got != 1 {
			t.Fatalf("%d listings at once of a store that fails", got)
		}
		time.Sleep(3 * time.Second)
		s.set("")
		if v := cards(t, h, n); !v.Complete {
			t.Fatalf("%+v", v)
		}
	})
}
