package live_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/live"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A store is a bucket of which the listings are counted, and may fail, hang or take their time.
type store struct {
	bucket.Objects
	took time.Duration

	mu    sync.Mutex
	lists int
	begun chan struct{} // told of each listing, if it is not nil
	mode  string        // "", "fail", "hang", "deaf": a hanging one does not hear its context either
	free  chan struct{} // closed when the mode changes
}

var errStore = errors.New("the store is down")

func newStore() *store {
	return &store{
		Objects: membucket.New(nil), took: 50 * time.Millisecond, free: make(chan struct{}),
	}
}

func (s *store) List(ctx context.Context, r bucket.ListRequest, fn func(bucket.Page) error) error {
	s.mu.Lock()
	s.lists++
	mode, free := s.mode, s.free
	begun := s.begun
	s.mu.Unlock()
	if begun != nil {
		begun <- struct{}{}
	}
	switch mode {
	case "fail":
		return errStore
	case "hang":
		select {
		case <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := s.Objects.List(ctx, r, fn)
	select {
	case <-time.After(s.took):
	case <-ctx.Done():
		return ctx.Err()
	}
	return err
}

func (s *store) set(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
	close(s.free)
	s.free = make(chan struct{})
}

func (s *store) failing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode != ""
}

func (s *store) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// put places a key as any other process may.
func (s *store) put(t testing.TB, key string) {
	t.Helper()
	if _, err := s.Put(context.Background(), bucket.Key(key), bytes.NewReader(nil)); err != nil {
		t.Fatal(err)
	}
}

func (s *store) remove(t testing.TB, key string) {
	t.Helper()
	if errs := s.Delete(context.Background(), []bucket.Key{bucket.Key(key)}); errs != nil {
		t.Fatal(errs)
	}
}

// now is a world at a time that ids can spell: the clock of a bubble begins in 2000.
func inBubble(t *testing.T, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)))
		f(t)
	})
}

func hub(t testing.TB, opt *live.Options) *live.Hub {
	h := live.New(opt)
	t.Cleanup(h.Close)
	return h
}

func space(t testing.TB, objects bucket.Objects, opt *blobindex.Options) *blobindex.Namespace {
	t.Helper()
	x, err := blobindex.New(objects, blobindex.Config{}, opt)
	if err != nil {
		t.Fatal(err)
	}
	n, err := x.Namespace("team")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const root = "_active_runs/team/"

// id is one of the sub-key, dated now.
func id(t testing.TB, subkey string) itemid.ID {
	t.Helper()
	id, err := itemid.Epoch.Parse(fmt.Sprintf("%s_%019d", subkey, time.Now().UnixNano()))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func cards(t testing.TB, h *live.Hub, n *blobindex.Namespace) blobindex.View {
	t.Helper()
	v, err := h.Cards(context.Background(), n, blobindex.CardsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func subscribe(t testing.TB, h *live.Hub, n *blobindex.Namespace, last string) *live.Stream {
	t.Helper()
	s, err := h.Subscribe(context.Background(), n, blobindex.CardsRequest{}, last)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// next waits for an event, in a bubble for as long as it takes.
func next(t testing.TB, s *live.Stream) live.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	e, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ids(v blobindex.View) string {
	out := ""
	for _, c := range v.Cards {
		out += c.Subkey + " "
	}
	return out
}
