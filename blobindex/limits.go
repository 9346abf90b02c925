package blobindex

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limits bound how many listings and how many calls of resolvers go on at once in the indexes that share them. Places for
// resolving go to the namespaces that wait for one in turn.
type Limits struct {
	listings *semaphore.Weighted
	resolves *fairLimiter
}

// NewLimits returns bounds of so many listings and calls of resolvers; 0 means the defaults, 8 and 32.
func NewLimits(listings, resolves int) *Limits {
	return &Limits{
		listings: semaphore.NewWeighted(int64(max(1, cmp.Or(listings, DefaultMaxListings)))),
		resolves: newFairLimiter(max(1, cmp.Or(resolves, DefaultMaxResolves))),
	}
}

// list takes a place among the listings.
func (l *Limits) list(ctx context.Context) (release func(), err error) {
	if err := l.listings.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { l.listings.Release(1) }, nil
}

// resolve takes a place among the calls of resolvers, for a namespace of an index.
func (l *Limits) resolve(ctx context.Context, namespace string) error {
	return l.resolves.acquire(ctx, namespace)
}

// A fairLimiter bounds how many calls go on at once, and hands free places to the namespaces that wait in turn, so that
// one with many items to resolve does not keep the others waiting.
type fairLimiter struct {
	mu      sync.Mutex
	free    int
	waiting map[string][]chan struct{} // per namespace, first come first served
	turn    []string                   // the namespaces that wait, next one first
}

func newFairLimiter(n int) *fairLimiter {
	return &fairLimiter{free: n, waiting: make(map[string][]chan struct{})}
}

// acquire waits for a place. Every nil answer must be followed by one release.
func (l *fairLimiter) acquire(ctx context.Context, namespace string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return nil
	}
	place := make(chan struct{})
	if len(l.waiting[namespace]) == 0 {
		l.turn = append(l.turn, namespace)
	}
	l.waiting[namespace] = append(l.waiting[namespace], place)
	l.mu.Unlock()

	select {
	case <-place:
		return nil
	case <-ctx.Done():
	}
	if l.leave(namespace, place) {
		return ctx.Err()
	}
	l.release() // the place came as the context went
	return ctx.Err()
}

// leave takes a waiting place out of its queue; false if it has been granted already.
func (l *fairLimiter) leave(namespace string, place chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.waiting[namespace]
	for i, p := range queue {
		if p == place {
			l.waiting[namespace] = append(queue[:i:i], queue[i+1:]...)
			if len(l.waiting[namespace]) == 0 {
				l.drop(namespace)
			}
			return true
		}
	}
	return false
}

func (l *fairLimiter) drop(namespace string) {
	delete(l.waiting, namespace)
	for i, n := range l.turn {
		if n == namespace {
			l.turn = append(l.turn[:i:i], l.turn[i+1:]...)
			return
		}
	}
}

func (l *fairLimiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.turn) == 0 {
		l.free++
		return
	}
	namespace := l.turn[0]
	queue := l.waiting[namespace]
	close(queue[0])
	l.turn = l.turn[1:]
	if len(queue) == 1 {
		delete(l.waiting, namespace)
		return
	}
	l.waiting[namespace] = queue[1:]
	l.turn = append(l.turn, namespace)
}
