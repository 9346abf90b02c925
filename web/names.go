package web

import (
	"context"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"golang.org/x/sync/singleflight"
)

// namesLife is how long the page's picker shows the namespaces that it has learned: on a sorted store each costs a LIST,
// and a page asks every other second.
const namesLife = 15 * time.Second

// A nameCache keeps the namespaces of each index for the page. Its zero value is empty.
type nameCache struct {
	flight singleflight.Group
	mu     sync.Mutex
	known  map[string]knownNames
}

type knownNames struct {
	names []string
	at    time.Time
}

type found struct {
	names []string
	cost  blobindex.Cost
}

// last returns what was learned last, however long ago.
func (c *nameCache) last(x *blobindex.Index) (knownNames, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[x.Name()]
	return k, ok
}

// list returns the namespaces of x as they were namesLife ago or later, and what finding them took just now; callers
// share one listing, and all are told its cost.
func (c *nameCache) list(ctx context.Context, x *blobindex.Index, now time.Time) ([]string, blobindex.Cost, error) {
	k, ok := c.last(x)
	if ok && now.Sub(k.at) < namesLife {
		return k.names, blobindex.Cost{}, nil
	}
	// The listing is everybody's: it does not end with the request that happened to come first.
	shared, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultTimeout)
	done := c.flight.DoChan(x.Name(), func() (any, error) {
		defer cancel()
		names, cost, err := x.Namespaces(shared)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.known == nil {
				c.known = make(map[string]knownNames)
			}
			c.known[x.Name()] = knownNames{names, now}
		}
		return found{names, cost}, err
	})
	select {
	case r := <-done:
		f, _ := r.Val.(found)
		return f.names, f.cost, r.Err
	case <-ctx.Done():
		return nil, blobindex.Cost{}, ctx.Err()
	}
}
