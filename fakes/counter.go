package fakes

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Counts are requests as a store bills them.
type Counts struct {
	List       int // pages answered; one for a listing that answered none
	Put        int
	Open       int
	Head       int
	Delete     int // ⌈keys/1000⌉ for each call
	DeleteKeys int // keys of all deletes
}

// Requests is their sum; DeleteKeys is none.
func (c Counts) Requests() int { return c.List + c.Put + c.Open + c.Head + c.Delete }

// String lists the counts that are not zero, such as "2 List, 1 Delete of 3 keys".
func (c Counts) String() string {
	s := ""
	for _, part := range []struct {
		n    int
		name string
	}{{c.List, "List"}, {c.Put, "Put"}, {c.Open, "Open"}, {c.Head, "Head"},
		{c.Delete, fmt.Sprintf("Delete of %d keys", c.DeleteKeys)}} {
		if part.n == 0 {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("%d %s", part.n, part.name)
	}
	if s == "" {
		return "no requests"
	}
	return s
}

// A Counter counts what is asked of a store. It is safe for concurrent use. A call is counted when it is made, a page
// when it is answered.
type Counter struct {
	inner bucket.Objects

	mu     sync.Mutex
	counts Counts // under mu
}

var _ bucket.Objects = (*Counter)(nil)

// NewCounter decorates inner.
func NewCounter(inner bucket.Objects) *Counter { return &Counter{inner: inner} }

// Snapshot returns the counts since the beginning or the last Reset.
func (c *Counter) Snapshot() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Reset starts again from zero and returns the counts until then.
func (c *Counter) Reset() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	c.counts = Counts{}
	return counts
}

func (c *Counter) add(fn func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(&c.counts)
}

// List lists and counts the pages.
func (c *Counter) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	pages := 0
	err := c.inner.List(ctx, req, func(p bucket.Page) error {
		pages++
		c.add(func(n *Counts) { n.List++ })
		return fn(p)
	})
	if pages == 0 {
		c.add(func(n *Counts) { n.List++ })
	}
	return err
}

// Put stores an object and counts one.
func (c *Counter) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	c.add(func(n *Counts) { n.Put++ })
	return c.inner.Put(ctx, key, body)
}

// Open opens a body and counts one.
func (c *Counter) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	c.add(func(n *Counts) { n.Open++ })
	return c.inner.Open(ctx, key)
}

// Head tells about an object and counts one.
func (c *Counter) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	c.add(func(n *Counts) { n.Head++ })
	return c.inner.Head(ctx, key)
}

// Delete deletes objects and counts them and their batches.
func (c *Counter) Delete(ctx context.Context, keys []bucket.Key) []error {
	c.add(func(n *Counts) {
		n.Delete += (len(keys) + bucket.PageSize - 1) / bucket.PageSize
		n.DeleteKeys += len(keys)
	})
	return c.inner.Delete(ctx, keys)
}
