package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/blobindex/resolve"
	"github.com/blobindex/indexd/web"
)

// A timed store adds up the time that is spent in the store.
type timed struct {
	bucket.Objects
	spent atomic.Int64
}

func (t *timed) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	began, outside := time.Now(), time.Duration(0)
	err := t.Objects.List(ctx, req, func(p bucket.Page) error {
		called := time.Now()
		defer func() { outside += time.Since(called) }()
		return fn(p)
	})
	t.spent.Add(int64(time.Since(began) - outside))
	return err
}

func (t *timed) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	began := time.Now()
	defer func() { t.spent.Add(int64(time.Since(began))) }()
	return t.Objects.Open(ctx, key)
}

// benchCards asks for the cards of a namespace of 1,000 live markers over HTTP, and takes the store's share off.
func benchCards(ctx context.Context, dir string) ([]row, error) {
	d, err := dirbucket.Create(filepath.Join(dir, "bucket"), nil)
	if err != nil {
		return nil, err
	}
	store := &timed{Objects: d}
	x, err := blobindex.New(store, blobindex.Config{}, &blobindex.Options{Resolver: resolve.NewMarker(store)})
	if err != nil {
		return nil, err
	}
	n, err := x.Namespace("team")
	if err != nil {
		return nil, err
	}
	for i := range 1000 {
		id, err := x.Mint(fmt.Sprintf("cfg%04d", i))
		if err != nil {
			return nil, err
		}
		if _, err := n.Register(ctx, id, nil); err != nil {
			return nil, err
		}
	}
	handler, err := web.New([]*blobindex.Index{x}, func(context.Context) error { return nil }, &web.Options{
		Live: &live.Options{MinInterval: 1, MaxInterval: 1}, // each request lists
	})
	if err != nil {
		return nil, err
	}
	defer handler.Close()
	server := httptest.NewServer(handler)
	defer server.Close()
	var outside, whole []float64
	for i := range 205 {
		store.spent.Store(0)
		began := time.Now()
		resp, err := http.Get(server.URL + "/v1/indexes/running/team/cards")
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, err
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("status %s, %v", resp.Status, err)
		}
		took := time.Since(began)
		if i >= 5 {
			whole = append(whole, took.Seconds()*1e3)
			outside = append(outside, (took-time.Duration(store.spent.Load())).Seconds()*1e3)
		}
	}
	o := median(outside)
	return []row{{
		"a cards request over HTTP, namespace of 1,000 live markers: time outside the store (median of 200)",
		fmt.Sprintf("%.2f ms of %.2f ms", o, median(whole)), "< 5 ms", o / 5,
	}}, nil
}
