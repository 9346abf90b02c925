package blobindex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFairLimiter: one namespace waits with many calls, another comes later with one: it is served next but one.
func TestFairLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFairLimiter(1)
		if err := l.acquire(t.Context(), "big"); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var served []string
		wait := func(namespace string) {
			go func() {
				if l.acquire(t.Context(), namespace) == nil {
					mu.Lock()
					served = append(served, namespace)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		for range 3 {
			wait("big")
		}
		wait("small")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- l.acquire(ctx, "gone") }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: %v", err)
		}
		for range 4 {
			l.release()
			synctest.Wait()
		}
		if want := []string{"big", "small", "big", "big"}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
		l.release()
		if l.free != 1 || len(l.waiting) != 0 || len(l.turn) != 0 {
			t.Errorf("left over: %d free, waiting %v, turn %v", l.free, l.waiting, l.turn)
		}
	})
}

// TestFairLimiter_GrantedAsItLeaves: a place that is granted to a caller whose context has just ended is handed on.
func TestFairLimiter_GrantedAsItLeaves(t *testing.T) {
	for range 500 {
		l := newFairLimiter(1)
		if err := l.acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.acquire(ctx, "b") }()
		go cancel()
		l.release()
		if err := <-done; err == nil {
			l.release()
		}
		if l.free != 1 || len(l.turn) != 0 || len(l.waiting) != 0 {
			t.Fatalf("a place was lost: %d free, turn %v", l.free, l.turn)
		}
	}
}

func TestViewCache_Bounded(t *testing.T) {
	var c viewCache
	key := func(i int) string { return fmt.Sprint(i) }
	for i := range maxViews + 1 {
		if i == maxViews {
			c.stale(key(0), CardsRequest{}, time.Now()) // asked for, so that it stays
		}
		c.put(key(i), CardsRequest{}, View{}, c.begin())
	}
	_, first := c.stale(key(0), CardsRequest{}, time.Now())
	_, second := c.stale(key(1), CardsRequest{}, time.Now())
	if !first || second || len(c.views) != maxViews || c.order.Len() != maxViews {
		t.Errorf("first %v, second %v, %d views", first, second, len(c.views))
	}
}

// TestTracker_Bounded: it forgets items rather than grow without end.
func TestTracker_Bounded(t *testing.T) {
	var tr tracker
	for i := range maxTracked + 10 {
		tr.finish(bucket.Key(fmt.Sprint(i)))
	}
	if len(tr.items) != maxTracked {
		t.Errorf("%d items", len(tr.items))
	}
}

// stuck is a store whose deletes wait.
type stuck struct {
	bucket.Objects
	began   chan int
	release chan struct{}
}

func (s *stuck) Delete(ctx context.Context, keys []bucket.Key) []error {
	s.began <- len(keys)
	<-s.release
	return s.Objects.Delete(ctx, keys)
}

// TestSweeper_NeverDelays: a reader's offer returns at once when the store hangs, what does not fit is dropped, and no key
// is queued twice.
func TestSweeper_NeverDelays(t *testing.T) {
	store := &stuck{Objects: membucket.New(nil), began: make(chan int), release: make(chan struct{})}
	s := NewSweeper(nil)
	defer s.Close()
	x, err := New(store, Config{}, &Options{Sweeper: s})
	if err != nil {
		t.Fatal(err)
	}
	n, err := x.Namespace("team")
	if err != nil {
		t.Fatal(err)
	}
	plan := make([]Deletion, (sweepQueue+3)*sweepBatch)
	for i := range plan {
		plan[i] = Deletion{Key: n.key(fmt.Sprintf("k%06d_1700000000", i))}
	}
	s.offer(x, plan[:sweepBatch])
	<-store.began // the queue is empty again, the first batch at work
	s.offer(x, plan)
	if got, want := s.Stats().Dropped, 2*sweepBatch; got != want {
		t.Errorf("dropped %d, want %d", got, want)
	}
	dropped := s.Stats().Dropped
	s.offer(x, plan[:(sweepQueue+1)*sweepBatch]) // all of it is known
	if s.Stats().Dropped != dropped {
		t.Error("keys that are queued were queued again")
	}
	close(store.release)
	for range sweepQueue {
		<-store.began
	}
	if err := s.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Stats().Deleted, (sweepQueue+1)*sweepBatch; got != want {
		t.Errorf("deleted %d, want %d", got, want)
	}
}

// TestClock_Suspend: while a host is suspended its monotonic clock stands still; the larger difference counts.
func TestClock_Suspend(t *testing.T) {
	var c clock
	host := time.Now()
	store := host.Add(-10 * time.Second).Round(0)
	c.learn(store, host, host)
	woken := host.Round(0).Add(time.Minute) // no monotonic reading: only the wall clock has moved
	if got, ok := c.now(woken); !ok || !got.Equal(store.Add(time.Minute)) {
		t.Errorf("after a minute: %v %v", got, ok)
	}
	if _, ok := c.now(woken.Add(time.Hour)); ok {
		t.Error("an answer of an hour ago is trusted")
	}
	if got, _ := c.now(host.Add(-time.Hour)); got.Before(store) {
		t.Error("the store's clock ran backwards with the host's")
	}
}
