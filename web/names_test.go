package web

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
)

// slow is a store whose listings wait until they are let go, or until nobody waits for them.
type slow struct {
	bucket.Objects
	letGo        chan error
	begun, going atomic.Int64
}

func (s *slow) List(ctx context.Context, r bucket.ListRequest, fn func(bucket.Page) error) error {
	s.begun.Add(1)
	s.going.Add(1)
	defer s.going.Add(-1)
	select {
	case err := <-s.letGo:
		if err != nil {
			return err
		}
		return s.Objects.List(ctx, r, fn)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A namesBench is a nameCache over a slow store that holds the namespace "team".
type namesBench struct {
	t     *testing.T
	store *slow
	cache nameCache
	x     *blobindex.Index
	now   time.Time
}

func newNamesBench(t *testing.T) *namesBench {
	t.Helper()
	b := &namesBench{t: t, store: &slow{Objects: membucket.New(nil), letGo: make(chan error)}, now: time.Now()}
	if _, err := b.store.Put(t.Context(), "_active_runs/team/x_1772366400", nil); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.x, err = blobindex.New(b.store, blobindex.Config{}, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

type told struct {
	names []string
	cost  blobindex.Cost
	err   error
}

// ask asks for the names, and returns once that waits, or has ended.
func (b *namesBench) ask(ctx context.Context) <-chan told {
	b.t.Helper()
	answer := make(chan told, 1)
	go func() {
		names, cost, err := b.cache.list(ctx, b.x, b.now)
		answer <- told{names, cost, err}
	}()
	synctest.Wait()
	return answer
}

func TestNamesAreListedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNamesBench(t)
		var answers []<-chan told
		for range 10 {
			answers = append(answers, b.ask(t.Context()))
		}
		b.store.letGo <- nil
		b.store.letGo <- nil // what comes after "team"
		lists := 0
		for _, a := range answers {
			got := <-a
			if lists += got.cost.List; got.err != nil || !slices.Equal(got.names, []string{"team"}) {
				t.Errorf("%+v", got)
			}
		}
		if n := int(b.store.begun.Load()); n != 2 || lists != n {
			t.Errorf("%d listings, and %d are told", n, lists)
		}
		// For a while they are known.
		b.now = b.now.Add(namesLife - 1)
		if got := <-b.ask(t.Context()); got.err != nil || len(got.names) != 1 || got.cost != (blobindex.Cost{}) {
			t.Errorf("%+v", got)
		}
		b.now = b.now.Add(1)
		again := b.ask(t.Context())
		b.store.letGo <- errors.New("away")
		if got := <-again; got.err == nil {
			t.Errorf("%+v", got)
		}
	})
}

// One failure is told to all who wait for it: in turn, each would wait for the failures of those before.
func TestNamesFailOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNamesBench(t)
		first, second := b.ask(t.Context()), b.ask(t.Context())
		b.store.letGo <- errors.New("away")
		for _, a := range []<-chan told{first, second} {
			if got := <-a; got.err == nil {
				t.Errorf("%+v", got)
			}
		}
		if n := b.store.begun.Load(); n != 1 {
			t.Errorf("%d listings", n)
		}
	})
}

// The listing is that of a request: it ends with it, and another one that waits takes it over.
func TestNamesEndWithTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNamesBench(t)
		ctx, leave := context.WithCancel(t.Context())
		first, second := b.ask(ctx), b.ask(t.Context())
		leave()
		if got := <-first; !errors.Is(got.err, context.Canceled) {
			t.Errorf("%+v", got)
		}
		synctest.Wait()
		if begun, going := b.store.begun.Load(), b.store.going.Load(); begun != 2 || going != 1 {
			t.Errorf("%d listings begun, %d going on: want those of two requests, one gone", begun, going)
		}
		b.store.letGo <- nil
		b.store.letGo <- nil
		if got := <-second; got.err != nil || len(got.names) != 1 {
			t.Errorf("%+v", got)
		}
		// Alone, it leaves nothing behind.
		b.now = b.now.Add(namesLife)
		ctx, leave = context.WithCancel(t.Context())
		third := b.ask(ctx)
		leave()
		<-third
		synctest.Wait()
		if n := b.store.going.Load(); n != 0 {
			t.Errorf("%d listings go on with nobody waiting", n)
		}
	})
}
