package main

import (
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
)

// A ledger is what one side of a comparison owes: the items that it has acknowledged and that nothing has ended since.
// An audit compares it with what is really listed there. It is safe for concurrent use.
type ledger struct {
	ttl time.Duration

	mu    sync.Mutex // guards all below
	owed  map[string]owed
	total int             // items acknowledged so far
	lost  map[string]bool // items that an audit has ever missed
	gone  int             // items that the last audit missed
}

type owed struct {
	subkey string
	seen   time.Time // not after its latest acknowledged sighting
}

// expiryMargin is how long before its TTL an item is no longer owed: the sides judge age by clocks of their own.
const expiryMargin = 5 * time.Second

func newLedger(ttl time.Duration) *ledger {
	return &ledger{ttl: ttl, owed: make(map[string]owed), lost: make(map[string]bool)}
}

// acknowledged is called after an item was acknowledged; seen is a time before it was asked for.
func (l *ledger) acknowledged(id itemid.ID, seen time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed[id.String()] = owed{id.Subkey(), seen}
	l.total++
}

// alive is called after a heartbeat was acknowledged.
func (l *ledger) alive(id itemid.ID, seen time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o, ok := l.owed[id.String()]; ok {
		o.seen = seen
		l.owed[id.String()] = o
	}
}

// ending is called before an item is finished: from then on it may rightfully be absent.
func (l *ledger) ending(id itemid.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owed, id.String())
}

// starting is called before a run is registered: from then on it may rightfully replace the others of its sub-key.
func (l *ledger) starting(subkey string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, o := range l.owed {
		if o.subkey == subkey {
			delete(l.owed, id)
		}
	}
}

// due returns the items that must be listed now.
func (l *ledger) due(now time.Time) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := make(map[string]bool)
	for id, o := range l.owed {
		if now.Sub(o.seen) > l.ttl {
			delete(l.owed, id)
		} else if now.Sub(o.seen) < l.ttl-expiryMargin {
			due[id] = true
		}
	}
	return due
}

// audit counts as lost what was due before a listing began and still is after it has ended, but is not in it.
func (l *ledger) audit(before map[string]bool, listed map[string]bool, now time.Time) {
	after := l.due(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = 0
	for id := range before {
		if after[id] && !listed[id] {
			l.lost[id] = true
			l.gone++
		}
	}
}

// A tally is what a ledger has found so far.
type tally struct {
	Total int // items acknowledged
	Lost  int // of these, missed by any audit
	Gone  int // of these, missed by the last audit
}

func (l *ledger) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tally{Total: l.total, Lost: len(l.lost), Gone: l.gone}
}
