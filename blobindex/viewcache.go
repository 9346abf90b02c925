package blobindex

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// lastGood answers a request whose listing failed with cause.
func (n *Namespace) lastGood(req CardsRequest, cause error) (View, error) {
	if errors.Is(cause, context.Canceled) {
		return View{}, cause // nobody waits for an answer
	}
	v, ok := n.x.views.stale(viewKey{n.name, req}, n.x.producerNow())
	if !ok {
		return View{}, cause
	}
	v.Cause = cause
	return v, nil
}

// maxViews is how many last good views an Index keeps; the one that was asked for longest ago goes first.
const maxViews = 1024

type viewKey struct {
	namespace string
	req       CardsRequest
}

// A viewCache keeps the last good view of each request.
type viewCache struct {
	mu    sync.Mutex
	views map[viewKey]*list.Element
	order list.List // of *cachedView, most recently used first
}

type cachedView struct {
	key   viewKey
	view  View
	since time.Time // of the first failure after it; zero: none
}

func (c *viewCache) put(key viewKey, v View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.views[key]; ok {
		if cached := e.Value.(*cachedView); !v.AsOf.Before(cached.view.AsOf) {
			cached.view, cached.since = v, time.Time{}
		}
		c.order.MoveToFront(e)
		return
	}
	if c.views == nil {
		c.views = make(map[viewKey]*list.Element)
	}
	c.views[key] = c.order.PushFront(&cachedView{key: key, view: v})
	if c.order.Len() > maxViews {
		oldest := c.order.Back()
		c.order.Remove(oldest)
		delete(c.views, oldest.Value.(*cachedView).key)
	}
}

func (c *viewCache) stale(key viewKey, now time.Time) (View, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.views[key]
	if !ok {
		return View{}, false
	}
	c.order.MoveToFront(e)
	cached := e.Value.(*cachedView)
	if cached.since.IsZero() {
		cached.since = now
	}
	v := cached.view
	v.Complete, v.StaleSince, v.Cost = false, cached.since, Cost{}
	return v, true
}
