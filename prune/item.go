package prune

import (
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/dedupe"
)

// A State is what an item is at one instant.
type State uint8

const (
	Live State = iota
	Finished
	Stale
	Dead
)

func (s State) String() string { return [...]string{"live", "finished", "stale", "dead"}[s] }

// An Item is what the keys of one id say at one instant.
type Item struct {
	ID    itemid.ID // its time is the item's first start
	State State
	// Late: it ever sent a heartbeat, and its latest sighting is older than LateAfter.
	Late bool
	// BornLate: its marker reached the store more than the skew after the id's time.
	BornLate bool
	// Body is the length of the marker's body in bytes, or -1 if no marker is listed.
	Body int64
	// LastSeen is the latest sighting, zero if none is listed; SeenBy the name of the key that it comes from.
	LastSeen time.Time
	SeenBy   string
	// LastReceipt is the largest store time of the sightings, zero if none is listed.
	LastReceipt time.Time
	// Outcome and Ended come from the earliest tombstone; empty and zero if the item is not finished.
	Outcome Outcome
	Ended   time.Time
	// SupersededBy is the id of the newest item that supersedes this one, or empty.
	SupersededBy string
}

// Shown tells whether the item is one of those running now.
func (i *Item) Shown() bool { return i.State == Live && i.SupersededBy == "" }

// item is Item as it is worked out, over a run of the sorted records.
type item struct {
	keys                           []*record // marker, heartbeats ascending, tombstones
	tombs                          int       // index of the first tombstone in keys
	at, seen, receipt, named, word dedupe.Instant
	end                            *record // earliest tombstone
	seenBy                         *record
	state                          State
	by                             int  // index of the newest superseder in the group, or -1
	ahead                          bool // a name or store time of it is more than the skew ahead of now
}

func (it *item) id() string            { return it.keys[0].id() }
func (it *item) finished() bool        { return it.state == Finished }
func (it *item) marker() *record       { return pick(it.keys[0].kind == marker, it.keys[0]) }
func (it *item) sightings() []*record  { return it.keys[:it.tombs] }
func (it *item) tombstones() []*record { return it.keys[it.tombs:] }

func pick(ok bool, r *record) *record {
	if ok {
		return r
	}
	return nil
}

// fold reads one id's keys, which are sorted by name: the marker, then heartbeats, then tombstones (digits sort
// before letters).
func fold(keys []*record) item {
	it := item{keys: keys, tombs: len(keys), at: keys[0].at, seen: never, receipt: never, named: never, by: -1}
	for i, r := range keys {
		if r.kind == tombstone {
			it.tombs = min(it.tombs, i)
			if it.end == nil || r.store < it.end.store {
				it.end = r
			}
			continue
		}
		if s := r.seen(); it.seenBy == nil || s > it.seen {
			it.seen, it.seenBy = s, r
		}
		it.receipt, it.named = max(it.receipt, r.store), max(it.named, r.nameTime())
	}
	return it
}

// doubt marks an item of which a name or a store time lies ahead of now by more than the skew: some clock is or was wrong.
func (it *item) doubt(now dedupe.Instant, skew time.Duration) {
	for _, r := range it.keys {
		it.ahead = it.ahead || max(r.store, r.nameTime())-now > dedupe.Instant(skew)
	}
}

// judge sets the state of a folded item. An item without any sighting has a tombstone.
func (it *item) judge(now dedupe.Instant, ttl time.Duration, dead bool) {
	switch {
	case it.end != nil:
		it.state, it.word = Finished, it.end.store
	case now-it.seen > dedupe.Instant(ttl):
		it.state, it.word = Stale, it.receipt
	case dead:
		it.state, it.word = Dead, it.receipt
	default:
		it.state, it.word = Live, it.receipt
	}
}

func (it *item) lateAt(now dedupe.Instant, after time.Duration) bool {
	beats := len(it.sightings()) > 1 || len(it.sightings()) == 1 && it.keys[0].kind == heartbeat
	return it.state == Live && beats && now-it.seen > dedupe.Instant(after)
}

func (it *item) bornLate(skew time.Duration) bool {
	m := it.marker()
	return m != nil && m.store-m.at > dedupe.Instant(skew)
}
