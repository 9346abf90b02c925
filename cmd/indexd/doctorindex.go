package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/web"
)

const (
	foreignShown = 20            // keys of an index
	viewsPerDay  = 24 * 3600 / 2 // while things change: a listing every 2 s
)

// A foreignJSON tells of the keys of an index that are no item's. They are never cards, and nobody deletes them but for
// those from the future, once they are old.
type foreignJSON struct {
	Index string       `json:"index"`
	Count int          `json:"count"`
	Keys  []bucket.Key `json:"keys"` // the first of them
}

// A costJSON is what a day of one dashboard takes that somebody watches all the time, at list price: an upper bound, since a
// view that does not change is listed less often.
type costJSON struct {
	Index     string  `json:"index"`
	Namespace string  `json:"namespace"` // the one with the most keys
	Keys      int     `json:"keys"`
	Lists     int     `json:"lists"`
	Gets      int     `json:"gets"` // one a card
	USD       float64 `json:"usd"`
}

// look counts the keys of the indexes.
func (d *doctorJSON) look(ctx context.Context, indexes []*blobindex.Index, objects bucket.Objects, p web.Prices) error {
	for _, x := range indexes {
		f, keys, err := count(ctx, x, objects)
		if err != nil {
			return fmt.Errorf("looking at index %q: %w", x.Name(), err)
		}
		d.Foreign = append(d.Foreign, f)
		d.Costs = append(d.Costs, costOf(x.Name(), keys, p))
	}
	return nil
}

// count lists an index, and returns its foreign keys and how many keys each namespace has.
func count(ctx context.Context, x *blobindex.Index, objects bucket.Objects) (foreignJSON, map[string]int, error) {
	f := foreignJSON{Index: x.Name(), Keys: []bucket.Key{}}
	keys := map[string]int{}
	err := objects.List(ctx, bucket.ListRequest{Prefix: x.Prefix() + "/"}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			namespace, name, ok := blobindex.FlatNamespace, strings.TrimPrefix(string(o.Key), x.Prefix()+"/"), true
			if !x.Flat() {
				namespace, name, ok = strings.Cut(name, "/")
				ok = ok && blobindex.CheckName(namespace) == nil
			}
			if ok {
				keys[namespace]++
			}
			if ok && !isForeign(x, name, o, p) {
				continue
			}
			if f.Count++; len(f.Keys) < foreignShown {
				f.Keys = append(f.Keys, o.Key)
			}
		}
		return nil
	})
	return f, keys, err
}

// isForeign judges one key as a reader does: whether a key is foreign depends on no other one.
func isForeign(x *blobindex.Index, name string, o bucket.Object, p bucket.Page) bool {
	n := prune.NewNamespace(x.Rules())
	n.Add(name, o.Size, o.StoreTime)
	return n.Decide(p.Now, nil).Counts().Foreign > 0
}

// costOf is what the largest namespace costs.
func costOf(index string, keys map[string]int, p web.Prices) costJSON {
	c := costJSON{Index: index}
	for name, n := range keys {
		if n > c.Keys || n == c.Keys && name < c.Namespace {
			c.Namespace, c.Keys = name, n
		}
	}
	c.Lists = viewsPerDay * max(1, (c.Keys+bucket.PageSize-1)/bucket.PageSize)
	c.Gets = viewsPerDay * min(c.Keys, blobindex.DefaultCards)
	c.USD = float64(c.Lists)/1000*p.ListPer1000 + float64(c.Gets)/1000*p.GetPer1000
	return c
}
