package blobindex_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/itemid"
)

// A clock that tests move by hand.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(1_800_000_000, 0).UTC()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// A world is a bucket in memory with a clock of its own, and the host's clock beside it.
type world struct {
	t     *testing.T
	store *clock
	host  *clock
	mem   *membucket.Bucket
}

func newWorld(t *testing.T) *world {
	store, host := newClock(), newClock()
	return &world{t: t, store: store, host: host, mem: membucket.New(&membucket.Options{Now: store.Now})}
}

// advance lets time pass everywhere.
func (w *world) advance(d time.Duration) {
	w.store.Advance(d)
	w.host.Advance(d)
}

// index opens the default index as a process of its own would, on objects or on the bucket itself.
func (w *world) index(objects bucket.Objects, opt blobindex.Options) *blobindex.Index {
	w.t.Helper()
	if objects == nil {
		objects = w.mem
	}
	if opt.Now == nil {
		opt.Now = w.host.Now
	}
	x, err := blobindex.New(objects, blobindex.Config{}, &opt)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

func (w *world) team(objects bucket.Objects, opt blobindex.Options) *blobindex.Namespace {
	w.t.Helper()
	return space(w.t, w.index(objects, opt), "team")
}

func space(t testing.TB, x *blobindex.Index, name string) *blobindex.Namespace {
	t.Helper()
	n, err := x.Namespace(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// put places an object directly, as any client of the bucket may.
func (w *world) put(key, body string) {
	w.t.Helper()
	if _, err := w.mem.Put(w.t.Context(), bucket.Key(key), bytes.NewReader([]byte(body))); err != nil {
		w.t.Fatal(err)
	}
}

// id is an id of the sub-key, dated d from the store's now.
func (w *world) id(subkey string, d time.Duration) itemid.ID {
	w.t.Helper()
	id, err := itemid.Epoch.Parse(fmt.Sprintf("%s_%019d", subkey, w.store.Now().Add(d).UnixNano()))
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) keys() []string {
	w.t.Helper()
	var keys []string
	err := w.mem.List(w.t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, string(o.Key))
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return keys
}

func cardIDs(v blobindex.View) []string {
	ids := []string{}
	for _, c := range v.Cards {
		ids = append(ids, c.ID)
	}
	return ids
}

func mustCards(t testing.TB, n *blobindex.Namespace, req blobindex.CardsRequest) blobindex.View {
	t.Helper()
	v, err := n.Cards(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantCards(t testing.TB, n *blobindex.Namespace, ids ...itemid.ID) {
	t.Helper()
	want := []string{}
	for _, id := range ids {
		want = append(want, id.String())
	}
	if got := cardIDs(mustCards(t, n, blobindex.CardsRequest{})); !slices.Equal(got, want) {
		t.Fatalf("cards are %v, want %v", got, want)
	}
}

func register(t testing.TB, n *blobindex.Namespace, ids ...itemid.ID) {
	t.Helper()
	for _, id := range ids {
		if _, err := n.Register(context.Background(), id, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A resolver made of a function; it counts its calls.
type resolverFunc struct {
	cost  int
	fn    func(blobindex.Target) (blobindex.Status, error)
	mu    sync.Mutex
	calls []string
}

func (r *resolverFunc) MaxRequests(blobindex.Target) int { return r.cost }

func (r *resolverFunc) Resolve(_ context.Context, t blobindex.Target) (blobindex.Status, error) {
	r.mu.Lock()
	r.calls = append(r.calls, t.ID.String())
	r.mu.Unlock()
	s, err := r.fn(t)
	s.Requests = r.cost
	return s, err
}

// overs is a resolver that says of the given items that they failed, and of the others that they run.
func overs(ids ...itemid.ID) *resolverFunc {
	return &resolverFunc{cost: 1, fn: func(t blobindex.Target) (blobindex.Status, error) {
		if slices.ContainsFunc(ids, func(id itemid.ID) bool { return id.String() == t.ID.String() }) {
			return blobindex.Status{State: blobindex.FailedRun}, nil
		}
		return blobindex.Status{State: blobindex.Running}, nil
	}}
}
