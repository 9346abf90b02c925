package prune

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/dedupe"
)

// A Reason says why a key may be deleted.
type Reason uint8

// The reasons, in the order in which a plan is carried out.
const (
	NeedlessHeartbeat Reason = iota
	FinishedSighting
	SupersededItem
	StaleItem
	DeadItem
	OldTombstone
	FutureDated
	reasons // their number
)

func (r Reason) String() string {
	return [...]string{"needless_heartbeat", "finished", "superseded", "stale", "dead", "old_tombstone", "future_dated"}[r]
}

// A Deletion is one key that may be deleted: its name below the namespace, and why.
type Deletion struct {
	Name   string
	Reason Reason
}

// Plan returns the keys that may be deleted, in the order in which to delete them: by reason, then oldest item
// first, then by name. It must not be carried out unless the decision's instant came from the store's own clock.
func (d *Decision) Plan() []Deletion {
	p := planner{now: d.now, rules: d.rules}
	for g := range d.groups {
		p.group(d.group(g))
	}
	for i := range d.future {
		if f := &d.future[i]; p.past(f.store, d.rules.TTL) {
			p.delete(FutureDated, f)
		}
	}
	slices.SortFunc(p.plan, func(a, b planned) int {
		return cmp.Or(cmp.Compare(a.reason, b.reason), cmp.Compare(a.key.at, b.key.at),
			strings.Compare(a.key.name, b.key.name))
	})
	out := make([]Deletion, len(p.plan))
	for i, k := range p.plan {
		out[i] = Deletion{Name: k.key.name, Reason: k.reason}
	}
	return out
}

type planned struct {
	key    *record
	reason Reason
}

type planner struct {
	now   dedupe.Instant
	rules Rules
	plan  []planned
}

func (p *planner) delete(why Reason, keys ...*record) {
	for _, k := range keys {
		p.plan = append(p.plan, planned{k, why})
	}
}

func (p *planner) past(t dedupe.Instant, age time.Duration) bool {
	return p.now-t > dedupe.Instant(age)
}

// group plans one sub-key, its items newest first. kept is the latest last word of the items that the plan keeps:
// what was received by then stays superseded, whatever else goes and however those items end.
func (p *planner) group(items []item) {
	if slices.ContainsFunc(items, func(it item) bool { return it.ahead }) {
		return // some clock is or was wrong: nothing of the sub-key is proven
	}
	kept := never
	rest := lastReceipts(items)
	for i := range items {
		it := &items[i]
		goes := false
		if it.finished() {
			goes = p.finished(it)
		} else if why, over := p.reason(items, i); over && (rest[i] <= kept || covered(items, i, kept)) {
			goes = true
			p.delete(why, it.keys...)
		} else {
			p.needless(it)
		}
		if !goes {
			kept = max(kept, it.word)
		}
	}
}

// finished plans a finished item: the tombstone alone is enough to keep it finished; it goes last, when nothing that
// it could hide can be fresh any more. All tombstones go together, since the earliest one is the one that counts.
func (p *planner) finished(it *item) (goes bool) {
	p.delete(FinishedSighting, it.sightings()...)
	if it.tombs > 0 {
		return false
	}
	for _, t := range it.tombstones() {
		if !p.past(t.store, p.rules.TTL+2*p.rules.Skew) {
			return false
		}
	}
	p.delete(OldTombstone, it.tombstones()...)
	return true
}

// reason tells why an unfinished item is over, if its keys may go for that reason.
func (p *planner) reason(items []item, i int) (Reason, bool) {
	it := &items[i]
	switch {
	case it.state == Stale && p.past(it.named, p.rules.TTL) && p.past(it.receipt, p.rules.TTL):
		return StaleItem, true
	case it.state == Dead:
		return DeadItem, true
	}
	for j := 0; j < i && items[j].at-it.at > dedupe.Instant(p.rules.Skew); j++ {
		if dedupe.Supersedes(items[j].run(), it.run()) {
			return SupersededItem, true
		}
	}
	return 0, false
}

// hidesItself tells whether the item stays hidden whatever becomes of the others.
func (it *item) hidesItself() bool { return it.state == Finished || it.state == Stale }

// lastReceipts returns, for each item, the latest receipt of the older ones that do not hide themselves.
func lastReceipts(items []item) []dedupe.Instant {
	rest := make([]dedupe.Instant, len(items))
	last := never
	for i := len(items) - 1; i >= 0; i-- {
		rest[i] = last
		if !items[i].hidesItself() {
			last = max(last, items[i].receipt)
		}
	}
	return rest
}

// covered tells whether all that item i supersedes, and that does not hide itself, was last received by kept.
func covered(items []item, i int, kept dedupe.Instant) bool {
	it := items[i].run()
	return !slices.ContainsFunc(items[i+1:], func(z item) bool {
		return !z.hidesItself() && z.receipt > kept && dedupe.Supersedes(it, z.run())
	})
}

// needless plans the heartbeats of which a later one, no earlier by name and by store time, was received more than
// the listing limit ago.
func (p *planner) needless(it *item) {
	best := never // the largest store time of such a later heartbeat that is old enough
	for i := it.tombs - 1; i >= 0 && it.keys[i].kind == heartbeat; i-- {
		r := it.keys[i]
		if best >= r.store {
			p.delete(NeedlessHeartbeat, r)
		}
		if p.past(r.store, p.rules.ListingLimit) {
			best = max(best, r.store)
		}
	}
}
