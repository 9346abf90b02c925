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

// A world is a bucket with a clock of its own, and the host's clock beside it.
type world struct {
	t       *testing.T
	site    *site
	store   *clock
	host    *clock
	objects bucket.Objects
}

// newWorld is a bucket in memory.
func newWorld(t *testing.T) *world { return inMemory().world(t) }

// advance lets time pass everywhere.
func (w *world) advance(d time.Duration) {
	w.store.Advance(d)
	w.host.Advance(d)
}

// index opens the default index as a process of its own would, on objects or on the bucket itself.
func (w *world) index(objects bucket.Objects, opt blobindex.Options) *blobindex.Index {
	w.t.Helper()
	if objects == nil {
		objects = w.objects
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
	if err := putInto(w.t.Context(), w.objects, key, body); err != nil {
		w.t.Fatal(err)
	}
}

func putInto(ctx context.Context, objects bucket.Objects, key, body string) error {
	_, err := objects.Put(ctx, bucket.Key(key), bytes.NewReader([]byte(body)))
	return err
}

// fill puts empty objects, several at a time.
func (w *world) fill(keys []string) {
	w.t.Helper()
	work := make(chan string)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for key := range work {
				if err := putInto(w.t.Context(), w.objects, key, ""); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	for _, key := range keys {
		work <- key
	}
	close(work)
	wg.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// stored are n keys of the namespace, of different sub-keys, dated now.
func (w *world) stored(n int, namespace string) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("_active_runs/%s/s%04d_%d", namespace, i, w.store.Now().Unix())
	}
	return keys
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

// keys are those of the bucket, sorted.
func (w *world) keys() []string {
	w.t.Helper()
	keys, err := keysOf(w.t.Context(), w.objects)
	if err != nil {
		w.t.Fatal(err)
	}
	return keys
}

func keysOf(ctx context.Context, objects bucket.Objects) ([]string, error) {
	var keys []string
	err := objects.List(ctx, bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, string(o.Key))
		}
		return nil
	})
	slices.Sort(keys)
	return keys, err
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
