package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/fakes"
)

// A counted store counts conditional writes and their reads too.
type counted struct {
	*fakes.Counter
	cas.Store
	loads, saves atomic.Int64
}

func count(s snapshot.Store) *counted { return &counted{Counter: fakes.NewCounter(s), Store: s} }

func (c *counted) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	c.loads.Add(1)
	return c.Store.Load(ctx, key)
}

func (c *counted) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	c.saves.Add(1)
	return c.Store.Save(ctx, key, body, p)
}

// taken is what was asked since the last time: gets, lists, puts, batches of deletes.
func (c *counted) taken() (is [4]int) {
	n := c.Reset()
	return [4]int{n.Open + int(c.loads.Swap(0)), n.List, n.Put + int(c.saves.Swap(0)), n.Delete}
}

// TestRequests counts what Publish, Read, Page, Status and Sweep say that they take, at 100,000 rows and with small parts.
func TestRequests(t *testing.T) {
	h := newHand()
	c := count(h.store())
	s := on(t, c, nil)
	grace := &snapshot.PublishOptions{Grace: snapshot.NoGrace}
	small := on(t, c, nil)
	small.SetLimits(1<<12, 1<<20, 4)
	parts, old := 0, 0
	check := func(what string, gets, lists, puts, deletes int) {
		t.Helper()
		want := [4]int{gets, lists, puts, deletes}
		got := c.taken()
		if got != want {
			t.Errorf("%s: %v gets, lists, puts and deletes, want %v", what, got, want)
		}
		if sum := got[0] + got[1] + got[2] + got[3]; puts > 0 && sum > 9+parts+(old+999)/1000+(parts+old)/1000*2 {
			t.Errorf("%s: %d requests for %d parts over %d old ones", what, sum, parts, old)
		}
	}
	publishOn := func(s *snapshot.Snapshot, size int64) {
		t.Helper()
		old = parts
		parts = publishWith(t, s, rows(100_000, size), grace, snapshot.Published).Pointer.Parts
	}
	publishOn(s, 1)
	if parts < 2 || parts > 3 {
		t.Errorf("100,000 rows are %d parts", parts)
	}
	check("first", 2, 2, 3+parts, 0)
	publishOn(s, 2)
	check("second", 2, 2, 3+parts, 1)
	publishWith(t, s, rows(100_000, 2), grace, snapshot.Unchanged)
	check("unchanged", 2, 1, 0, 0)
	publishOn(small, 3)
	pages := func(keys int) int { return max(1, (keys+999)/1000) }
	if parts < 1500 {
		t.Fatalf("only %d parts", parts)
	}
	check("many parts", 2, 1+pages(parts+2+old+2), 3+parts, 1)
	publishOn(s, 4)
	check("over many parts", 2, pages(old+2)+pages(parts+2+old+2), 3+parts, pages(old+2))
	if _, err := s.Status(t.Context()); err != nil {
		t.Error(err)
	}
	check("status", 1, 0, 0, 0)
	if _, _, err := s.Read(t.Context()); err != nil {
		t.Error(err)
	}
	check("read", 2+parts, 0, 0, 0)
	g, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check("open", 2, 0, 0, 0)
	if _, more, err := g.Page(t.Context(), "dir/", "", 1000); !more || err != nil {
		t.Error(more, err)
	}
	check("a page", 1, 0, 0, 0)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	check("sweep", 1, 1, 0, 0)
	if _, err := s.Publish(t.Context(), rows(100_000, 4), &snapshot.PublishOptions{Tag: snapshot.NoTag}); err != nil {
		t.Error(err)
	}
	check("superseded before the walk", 1, 0, 0, 0)
}

// A gauge is the most heap that was in use since it was started, over what was then.
type gauge struct {
	base, most uint64
	rows       int
}

func newGauge() *gauge {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &gauge{base: m.HeapAlloc}
}

// look looks now and then: each time it stops the program.
func (g *gauge) look() {
	if g.rows++; g.rows%20_000 != 0 {
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	g.most = max(g.most, m.HeapAlloc)
}

func (g *gauge) under(t *testing.T, what string, limit uint64) {
	t.Helper()
	used := max(g.most, g.base) - g.base
	t.Logf("%s: %d MB", what, used>>20)
	if used > limit {
		t.Errorf("%s takes %d MB, more than %d", what, used>>20, limit>>20)
	}
}

// TestMemory: 1,000,000 rows are published and streamed under 64 MB; run with INDEXD_TIMED=1, which measures the time too.
func TestMemory(t *testing.T) {
	n := 150_000
	if os.Getenv("INDEXD_TIMED") == "1" {
		n = 1_000_000
	}
	b, err := dirbucket.Create(t.TempDir(), nil) // what is stored is no heap of ours
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s := on(t, b, nil)
	g := newGauge()
	digest := fmt.Sprintf("sha256:%064x", 7)
	began := time.Now()
	r := publishWith(t, s, func(add func(snapshot.Row) error) error {
		for i := range n {
			g.look()
			if err := add(snapshot.Row{Path: fmt.Sprintf("some/directory/with/a/name/%09d-%x.csv", i, i*7919), Size: int64(i),
				MTime: start.Add(time.Duration(i) * 997 * time.Millisecond), Digest: digest}); err != nil {
				return err
			}
		}
		return nil
	}, &snapshot.PublishOptions{Progress: func(int, int) { g.rows += 20_000 - g.rows%20_000 - 1; g.look() }}, snapshot.Published)
	t.Logf("published %d rows in %d parts of %d MB in %v", n, r.Pointer.Parts, r.Pointer.Bytes>>20, time.Since(began))
	g.under(t, "publishing", 64<<20)

	g, began = newGauge(), time.Now()
	opened, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	if err := opened.Stream(t.Context(), func(snapshot.Row) error { got++; g.look(); return nil }); err != nil || got != n {
		t.Errorf("%d rows, %v", got, err)
	}
	t.Logf("streamed in %v", time.Since(began))
	g.under(t, "streaming", 64<<20)
}
