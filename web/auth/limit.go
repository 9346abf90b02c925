package auth

import (
	"container/list"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A LimitError says that too much was asked for.
type LimitError struct {
	After time.Duration // when to ask again
	// Guesses: it is failures to sign in that were too many.
	Guesses bool
}

func (e *LimitError) Error() string {
	if e.Guesses {
		return fmt.Sprintf("auth: too many failures to sign in; ask again in %v", e.After)
	}
	return fmt.Sprintf("auth: too many requests; ask again in %v", e.After)
}

// maxKnown is how many principals, peers and JWTs are remembered, of each those that came last. A principal or a peer that was
// forgotten begins with a full allowance.
const maxKnown = 10_000

// A memory holds what was used last. Its zero value is empty. It is not safe for concurrent use.
type memory[K comparable, V any] struct {
	known map[K]*list.Element
	order list.List // of *remembered[K, V], that used last at the front
}

type remembered[K comparable, V any] struct {
	key   K
	value V
}

func (m *memory[K, V]) get(key K) (v V, ok bool) {
	e, ok := m.known[key]
	if !ok {
		return v, false
	}
	m.order.MoveToFront(e)
	return e.Value.(*remembered[K, V]).value, true
}

func (m *memory[K, V]) put(key K, v V) {
	m.drop(key)
	if m.known == nil {
		m.known = make(map[K]*list.Element)
	}
	for len(m.known) >= maxKnown {
		m.drop(m.order.Back().Value.(*remembered[K, V]).key)
	}
	m.known[key] = m.order.PushFront(&remembered[K, V]{key, v})
}

func (m *memory[K, V]) drop(key K) {
	if e, ok := m.known[key]; ok {
		m.order.Remove(e)
		delete(m.known, key)
	}
}

// allowances are one token bucket for each who asks. They are safe for concurrent use.
type allowances struct {
	every rate.Limit
	burst int

	mu    sync.Mutex // guards known
	known memory[string, *rate.Limiter]
}

// take takes one of who's allowance; else it says how long there is none.
func (a *allowances) take(who string, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	l, ok := a.known.get(who)
	if !ok {
		l = rate.NewLimiter(a.every, a.burst)
		a.known.put(who, l)
	}
	a.mu.Unlock()
	r := l.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// peerOf is whom the failures of an address count for: of IPv6 a host has a whole /64.
func peerOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	a := at.Addr().Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	block, err := a.Prefix(64)
	if err != nil {
		return a.String()
	}
	return block.String()
}
