package fakes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// List lists, but for the faults. A shuffled listing is held in memory whole before its first page is delivered.
func (f *Faulty) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	c := f.begin(List, bucket.Key(req.Prefix))
	if err := c.prevented(ctx, bucket.Key(req.Prefix)); err != nil {
		return err
	}
	err := c.list(ctx, req, c.faultyPages(req.Prefix, fn))
	c.after()
	return err
}

// list delivers the pages in the store's order or shuffled.
func (c call) list(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	var shuffles []func([]bucket.Page)
	for _, p := range c.struck {
		if p.fault.Kind.shuffle != nil {
			c.fire(p)
			shuffles = append(shuffles, p.fault.Kind.shuffle)
		}
	}
	if len(shuffles) == 0 {
		return c.f.inner.List(ctx, req, fn)
	}
	if req.After != "" {
		return fmt.Errorf("listing %q after %q (shuffled as planned): %w", req.Prefix, req.After, bucket.ErrUnsupported)
	}
	var pages []bucket.Page
	err := c.f.inner.List(ctx, req, func(p bucket.Page) error {
		p.Objects = slices.Clone(p.Objects)
		pages = append(pages, p)
		return nil
	})
	// If the listing has failed, its pages come first all the same, as they would have without us.
	for _, shuffle := range shuffles {
		shuffle(pages)
	}
	for _, p := range pages {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("listing %q: %w", req.Prefix, err)
		}
		p.Sorted = false
		if err := fn(p); err != nil {
			return err
		}
	}
	return err
}

// faultyPages is fn behind the faults of single pages and of times.
func (c call) faultyPages(prefix string, fn func(bucket.Page) error) func(bucket.Page) error {
	number := 0
	return func(p bucket.Page) error {
		number++
		p = c.timedPage(p)
		for _, hit := range c.struck {
			k := hit.fault.Kind
			if k.page != number || k.keep >= max(len(p.Objects), 1) {
				continue
			}
			c.fire(hit)
			if k.keep > 0 {
				p.Objects = p.Objects[:k.keep]
				if err := fn(p); err != nil {
					return err
				}
			}
			return fmt.Errorf("listing %q, page %d (planned): %w", prefix, number, k.pageErr)
		}
		return fn(p)
	}
}

// timedPage is p with its times as the faults let them be told. The store's slice is not written to.
func (c call) timedPage(p bucket.Page) bucket.Page {
	if !slices.ContainsFunc(c.struck, func(p *planned) bool { return p.fault.Kind.time != nil || p.fault.Kind.now != nil }) {
		return p
	}
	p.Objects = slices.Clone(p.Objects)
	for i := range p.Objects {
		p.Objects[i].StoreTime = c.time(p.Objects[i].StoreTime)
	}
	p.Now = c.time(p.Now)
	for _, hit := range c.struck {
		if hit.fault.Kind.now != nil {
			c.fire(hit)
			p.Now = hit.fault.Kind.now(p.Now)
		}
	}
	return p
}

// shufflePages moves each page, if there are two or more. The clock of the n-th answer stays that of the n-th answer.
func shufflePages(pages []bucket.Page, seed uint64) {
	nows := make([]time.Time, len(pages))
	for i, p := range pages {
		nows[i] = p.Now
	}
	cycle(len(pages), seed, func(i, j int) { pages[i], pages[j] = pages[j], pages[i] })
	for i := range pages {
		pages[i].Now = nows[i]
	}
}

// shuffleObjects moves each object, on its page or to another one.
func shuffleObjects(pages []bucket.Page, seed uint64) {
	var all []*bucket.Object
	for _, p := range pages {
		for i := range p.Objects {
			all = append(all, &p.Objects[i])
		}
	}
	cycle(len(all), seed, func(i, j int) { *all[i], *all[j] = *all[j], *all[i] })
}

// cycle permutes n things by one random cycle through all of them (Sattolo's algorithm), so that none stays in place.
func cycle(n int, seed uint64, swap func(i, j int)) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := n - 1; i > 0; i-- {
		swap(i, r.IntN(i))
	}
}
