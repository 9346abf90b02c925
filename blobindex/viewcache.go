package blobindex

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// lastGood answers a request whose listing failed with cause.
func (n *Namespace) lastGood(req CardsRequest, cause error) (View, error) {
	if errors.Is(cause, context.Canceled) {
		return View{}, cause // nobody waits for an answer
	}
	v, ok := n.x.views.stale(n.name, req, n.x.producerNow())
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
	begun uint64    // requests so far
}

type cachedView struct {
	key   viewKey
	view  View
	begun uint64    // the number of its request
	since time.Time // of the first failure after it; zero: none
}

// begin numbers a request, so that of two views the one that was begun later stays, whatever their clocks say.
func (c *viewCache) begin() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
	return c.begun
}

func (c *viewCache) put(namespace string, req CardsRequest, v View, begun uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := viewKey{namespace, req}
	v.Cards, v.Recent = slices.Clone(v.Cards), slices.Clone(v.Recent)
	if e, ok := c.views[key]; ok {
		if cached := e.Value.(*cachedView); begun >= cached.begun {
			cached.view, cached.begun, cached.since = v, begun, time.Time{}
		}
		c.order.MoveToFront(e)
		return
	}
	if c.views == nil {
		c.views = make(map[viewKey]*list.Element)
	}
	c.views[key] = c.order.PushFront(&cachedView{key: key, view: v, begun: begun})
	if c.order.Len() > maxViews {
		oldest := c.order.Back()
		c.order.Remove(oldest)
		delete(c.views, oldest.Value.(*cachedView).key)
	}
}

func (c *viewCache) stale(namespace string, req CardsRequest, now time.Time) (View, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.views[viewKey{namespace, req}]
	if e == nil {
		e = c.wider(namespace, req)
	}
	if e == nil {
		return View{}, false
	}
	c.order.MoveToFront(e)
	cached := e.Value.(*cachedView)
	if cached.since.IsZero() {
		cached.since = now
	}
	v := cached.view
	v.Complete, v.StaleSince, v.Cost = false, cached.since, Cost{}
	v.cut(req)
	return v, true
}

// wider returns the newest view of the same items that holds all that was asked for.
func (c *viewCache) wider(namespace string, req CardsRequest) (best *list.Element) {
	for e := c.order.Front(); e != nil; e = e.Next() {
		have := e.Value.(*cachedView)
		if k := have.key; k.namespace != namespace || k.req.Subkey != req.Subkey || k.req.Owner != req.Owner ||
			k.req.Limit < req.Limit || k.req.Recent < req.Recent || req.Timeline && !k.req.Timeline {
			continue
		}
		if best == nil || have.begun > best.Value.(*cachedView).begun {
			best = e
		}
	}
	return best
}

// cut leaves as much of a view as was asked for, in slices of its own.
func (v *View) cut(req CardsRequest) {
	over := max(0, len(v.Cards)-req.Limit)
	v.Cards = slices.Clone(v.Cards[:len(v.Cards)-over])
	v.Recent = slices.Clone(v.Recent[:min(len(v.Recent), req.Recent)])
	if !req.Timeline {
		v.Timeline = nil
	}
	v.Counts.Shown -= over
	v.Counts.BeyondCap += over
	if over > 0 { // the cap comes before the budget
		v.Counts.BeyondCap += v.Counts.Unresolved
		v.Counts.Unresolved = 0
	}
}
