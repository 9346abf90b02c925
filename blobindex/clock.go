package blobindex

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
)

// ErrClock is matched by the error of a registration, heartbeat or finish whose name and store time are too far apart.
var ErrClock = errors.New("blobindex: clocks too far apart")

// A ClockError says that a name is dated more than the skew ahead of the store's clock, or is already past the TTL by
// it. Such a key is no card, and never hides one. It matches ErrClock.
type ClockError struct {
	Name    time.Time // the time in the name
	Store   time.Time // the store's clock
	Limit   time.Duration
	Written bool // the key was written before this was found out; it is cleaned up by age
}

func (e *ClockError) Error() string {
	state := "nothing was written"
	if e.Written {
		state = "the key was written, but is not shown"
	}
	if ahead := e.Name.Sub(e.Store); ahead > 0 {
		return fmt.Sprintf("blobindex: clocks too far apart: the name is dated %v ahead of the store's clock "+
			"(at most %v is allowed; %s): set this host's clock, or give the item an id of now",
			ahead.Round(time.Millisecond), e.Limit, state)
	}
	return fmt.Sprintf("blobindex: clocks too far apart: the name is dated %v before the store's clock, past the TTL "+
		"of %v (%s): set this host's clock, or give the item an id of now",
		e.Store.Sub(e.Name).Round(time.Millisecond), e.Limit, state)
}

// Is makes a ClockError match ErrClock.
func (e *ClockError) Is(target error) bool { return target == ErrClock }

// checkAhead compares the time in a name with the store's clock.
func (x *Index) checkAhead(name, store time.Time, written bool) error {
	if skew := x.Rules().Skew; name.Sub(store) > skew {
		return &ClockError{Name: name, Store: store, Limit: skew, Written: written}
	}
	return nil
}

// checkClock is checkAhead, and refuses what is past the TTL as well.
func (x *Index) checkClock(name, store time.Time, written bool) error {
	if ttl := x.Rules().TTL; store.Sub(name) > ttl {
		return &ClockError{Name: name, Store: store, Limit: ttl, Written: written}
	}
	return x.checkAhead(name, store, written)
}

// A clock is the store's, as its last answer told it.
type clock struct {
	mu    sync.Mutex
	store time.Time // zero: not known yet
	host  time.Time // when the answer came
}

// slowAnswer is from when on an answer tells too little of when the store gave it.
const slowAnswer = 5 * time.Second

// learn takes note of a store time in the answer to what was asked at began and answered at host. Zero store times and
// slow answers say nothing.
func (c *clock) learn(store, began, host time.Time) {
	if store.IsZero() || host.Sub(began) > slowAnswer {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store, c.host = store, host
}

// trust is how long a learned clock is fresh: only then is a write refused by it that was not sent yet.
const trust = 5 * time.Minute

// now is the store's clock at host, zero if it is not known, and whether what is known is fresh.
func (c *clock) now(host time.Time) (now time.Time, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store.IsZero() {
		return time.Time{}, false
	}
	since := elapsed(c.host, host)
	return c.store.Add(since), since <= trust
}

// elapsed is the time between two readings of the host's clock. The monotonic clock stands still while a host is suspended,
// the wall clock may be set: the larger difference is the one that did pass, or errs to the side of a later now.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)), 0)
}

// producerNow names new items and heartbeats: the store's clock where it is known, else the host's.
func (x *Index) producerNow() time.Time {
	if t, _ := x.clock.now(x.now()); !t.IsZero() {
		return t
	}
	return x.now()
}

// maxMinted is from how many sub-keys on those that matter no more are forgotten.
const maxMinted = 10_000

// Mint returns a new id for a run of the sub-key, dated now. Of one sub-key the ids that one Index mints ascend, a
// millisecond apart at the least; a KSUID holds seconds only, so that those of one second are in no order. Errors: those
// of itemid.Grammar.Mint.
func (x *Index) Mint(subkey string) (itemid.ID, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	rules := x.Rules()
	at := x.producerNow().Truncate(time.Millisecond) // what is below is random
	last, ok := x.minted[subkey]
	if lead := last.Sub(at); ok && subkey != "" && lead >= 0 && lead < rules.Skew { // more is a clock set back
		at = last.Add(time.Millisecond)
	}
	id, err := rules.Grammar.Mint(subkey, at, x.rand)
	if err != nil {
		return itemid.ID{}, err
	}
	if len(x.minted) >= maxMinted {
		maps.DeleteFunc(x.minted, func(_ string, last time.Time) bool { return last.Before(at) }) // they cannot come again
	}
	x.minted[subkey] = at
	return id, nil
}
