package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
)

// A generator lists keys that it makes as it goes, and holds none: what is left of the heap is the index's own.
type generator struct {
	keys, live int
	now        time.Time
}

func (g generator) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	page := bucket.Page{Now: g.now, Sorted: true, Objects: make([]bucket.Object, 0, bucket.PageSize)}
	every := g.keys / g.live
	for i := range g.keys {
		at := g.now.Add(-3*time.Hour - time.Duration(i)*time.Millisecond)
		if i%every == 0 {
			at = g.now.Add(-time.Duration(i) * time.Millisecond)
		}
		page.Objects = append(page.Objects, bucket.Object{
			Key: bucket.Key(fmt.Sprintf("%scfg%07d_%019d", req.Prefix, i, at.UnixNano())), StoreTime: at,
		})
		if len(page.Objects) == bucket.PageSize || i == g.keys-1 {
			if err := fn(page); err != nil {
				return err
			}
			page.Objects = page.Objects[:0]
		}
	}
	return ctx.Err()
}

var errListOnly = errors.New("this store only lists")

func (generator) Put(context.Context, bucket.Key, io.Reader) (time.Time, error) {
	return time.Time{}, errListOnly
}
func (generator) Open(context.Context, bucket.Key) (io.ReadCloser, error) { return nil, errListOnly }
func (generator) Head(context.Context, bucket.Key) (bucket.Object, error) {
	return bucket.Object{}, errListOnly
}
func (generator) Delete(context.Context, []bucket.Key) []error { return nil }

// benchMillion makes the top eight cards of a million keys, 20,000 of them live.
func benchMillion(ctx context.Context, _ string) ([]row, error) {
	g := generator{keys: 1_000_000, live: 20_000, now: time.Now()}
	x, err := blobindex.New(g, blobindex.Config{}, nil)
	if err != nil {
		return nil, err
	}
	n, err := x.Namespace("team")
	if err != nil {
		return nil, err
	}
	var times, heaps []float64
	for range 5 {
		runtime.GC()
		peak := watchHeap()
		began := time.Now()
		v, err := n.Cards(ctx, blobindex.CardsRequest{})
		took := time.Since(began)
		heaps = append(heaps, peak()/1e6)
		if err != nil {
			return nil, err
		}
		if len(v.Cards) != 8 || v.Counts.Live != g.live || v.Counts.Stale != g.keys-g.live {
			return nil, fmt.Errorf("unexpected view: %+v", v.Counts)
		}
		times = append(times, took.Seconds())
	}
	bare, err := listOnly(ctx, g)
	if err != nil {
		return nil, err
	}
	t, heap := median(times), median(heaps)
	return []row{
		{"1,000,000 keys, 20,000 live, to the top 8 cards, making the keys included",
			fmt.Sprintf("%.2f s (making the keys alone: %.2f s)", t, bare.Seconds()), "≤ 3 s", t / 3},
		{"the same, peak of the heap, garbage included", fmt.Sprintf("%.0f MB", heap), "≤ 200 MB", heap / 200},
	}, nil
}

func listOnly(ctx context.Context, g generator) (time.Duration, error) {
	began := time.Now()
	err := g.List(ctx, bucket.ListRequest{Prefix: "_active_runs/team/"}, func(bucket.Page) error { return nil })
	return time.Since(began), err
}

// watchHeap samples the bytes of the heap's objects, live or not yet swept, each millisecond until the returned function
// is called, which returns the peak.
func watchHeap() func() float64 {
	stop, result := make(chan struct{}), make(chan float64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		peak := 0.0
		for {
			metrics.Read(sample)
			peak = max(peak, float64(sample[0].Value.Uint64()))
			select {
			case <-tick.C:
			case <-stop:
				result <- peak
				return
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-result
	}
}
