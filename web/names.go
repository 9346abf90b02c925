package web

import (
	"context"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

// namesLife is how long the page's picker shows the namespaces that it has learned: on a sorted store each costs a LIST,
// and a page asks every other second.
const namesLife = 15 * time.Second

// A nameCache keeps the namespaces of each index for the page. Its zero value is empty. Whoever lists does so within
// their own request, so nothing goes on when no request does.
type nameCache struct {
	mu    sync.Mutex
	known map[string]knownNames // by index
	going map[string]*search    // by index
}

type knownNames struct {
	names []string
	at    time.Time
}

// A search is one request's listing, for which others wait. Its fields but done are set before done is closed.
type search struct {
	done  chan struct{}
	ended bool // else the request was given up, and its listing with it
	names []string
	err   error
}

// last returns what was learned last, however long ago.
func (c *nameCache) last(x *blobindex.Index) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[x.Name()].names
}

// list returns the namespaces of x as they were namesLife ago or later, and what finding them took. Callers share one
// listing and its failure; its cost is told to the one who listed.
func (c *nameCache) list(ctx context.Context, x *blobindex.Index, now time.Time) ([]string, blobindex.Cost, error) {
	for {
		names, s, mine := c.enter(x.Name(), now)
		if s == nil {
			return names, blobindex.Cost{}, nil
		}
		if mine {
			return c.search(ctx, x, s, now)
		}
		select {
		case <-s.done:
			if s.ended {
				return s.names, blobindex.Cost{}, s.err
			}
		case <-ctx.Done():
			return nil, blobindex.Cost{}, ctx.Err()
		}
	}
}

// enter returns the names if they are known, else the search that goes on, or a new one that the caller has to make.
func (c *nameCache) enter(index string, now time.Time) (names []string, s *search, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.known[index]; ok && now.Sub(k.at) < namesLife {
		return k.names, nil, false
	}
	if s := c.going[index]; s != nil {
		return nil, s, false
	}
	if c.going == nil {
		c.known, c.going = make(map[string]knownNames), make(map[string]*search)
	}
	s = &search{done: make(chan struct{})}
	c.going[index] = s
	return nil, s, true
}

func (c *nameCache) search(ctx context.Context, x *blobindex.Index, s *search, now time.Time) ([]string, blobindex.Cost,
	error) {
	defer func() { // after a panic as well: others wait
		c.mu.Lock()
		defer c.mu.Unlock()
		if s.ended && s.err == nil {
			c.known[x.Name()] = knownNames{s.names, now}
		}
		delete(c.going, x.Name())
		close(s.done)
	}()
	names, cost, err := x.Namespaces(ctx)
	s.names, s.err, s.ended = names, err, err == nil || ctx.Err() == nil
	return names, cost, err
}
