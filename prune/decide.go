package prune

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/blobindex/indexd/dedupe"
)

// Counts are what a namespace holds at one instant.
type Counts struct {
	Live       int // items that are live and that nothing supersedes
	Superseded int // items that are live, but that a newer one supersedes
	Stale      int // items
	Dead       int // items
	Finished   int // items
	BornLate   int // live items, superseded ones included
	Foreign    int // keys
}

func (c *Counts) add(d Counts, sign int) {
	c.Live += sign * d.Live
	c.Superseded += sign * d.Superseded
	c.Stale += sign * d.Stale
	c.Dead += sign * d.Dead
	c.Finished += sign * d.Finished
	c.BornLate += sign * d.BornLate
}

// A Decision is what a namespace is at one instant, given what is known to be dead. It changes only by Bury. Its
// methods are not safe for concurrent use.
type Decision struct {
	rules   Rules
	now     dedupe.Instant
	records []*record
	future  []record
	dead    map[string]bool
	counts  Counts
	showing bool   // shown was worked out: who only plans does not need it, and it is large
	shown   []Item // in the order of dedupe.Newest
	scratch scratch
}

type scratch struct {
	items []item
	runs  []dedupe.Run
	by    []int
}

// Decide tells what the namespace is at the instant now, which must be the store's clock at the first page of the
// listing (or later). dead holds the ids that a resolver has said to be over. The Namespace may be dropped.
func (n *Namespace) Decide(now time.Time, dead map[string]bool) *Decision {
	d := &Decision{rules: n.rules, now: instant(now), future: n.future, dead: make(map[string]bool)}
	var ahead int
	d.records, ahead = n.sorted(d.now)
	d.counts.Foreign = n.foreign + ahead
	for g := range d.groups {
		for i := range g {
			if id := g[i].id(); len(dead) > 0 && dead[id] && (i == 0 || g[i-1].id() != id) {
				d.dead[id] = true
			}
		}
		d.counts.add(d.count(d.group(g)), 1)
	}
	return d
}

// Now is the instant that was decided for.
func (d *Decision) Now() time.Time { return timeOf(d.now) }

// Counts tells how much of what there is.
func (d *Decision) Counts() Counts { return d.counts }

// Shown returns the items that are running now, newest first, ties by id: at most one for each sub-key, and those that a
// wrong clock puts in doubt. The slice is the Decision's own; Bury changes it.
func (d *Decision) Shown() []Item {
	if !d.showing {
		d.showing = true
		for g := range d.groups {
			d.show(d.group(g))
		}
		slices.SortFunc(d.shown, newestFirst)
	}
	return d.shown
}

// Buried returns those of the ids known to be dead, from the start or by Bury, of which a key is listed.
func (d *Decision) Buried() map[string]bool { return d.dead }

// Bury takes note that a resolver has said that the item is over, and decides its sub-key again: what it superseded
// may now show. An id that is not listed is passed over.
func (d *Decision) Bury(id string) {
	g := d.find(id)
	if g == nil || d.dead[id] {
		return
	}
	items := d.group(g)
	d.counts.add(d.count(items), -1)
	d.dead[id] = true
	items = d.group(g)
	d.counts.add(d.count(items), 1)
	if !d.showing {
		return
	}
	subkey := g[0].subkey()
	d.shown = slices.DeleteFunc(d.shown, func(s Item) bool { return s.ID.Subkey() == subkey })
	d.show(items)
	slices.SortFunc(d.shown, newestFirst)
}

// Item returns what the keys of one id say; ok is false if none is listed.
func (d *Decision) Item(id string) (it Item, ok bool) {
	g := d.find(id)
	items := d.group(g)
	for i := range items {
		if items[i].id() == id {
			return d.item(items, i), true
		}
	}
	return Item{}, false
}

// Future tells of the keys of one id that are foreign, since they are dated more than the skew ahead of their own store
// time: the name and the store time of the one that was stored last. ok is false if there is none.
func (d *Decision) Future(id string) (name string, stored time.Time, ok bool) {
	last := never
	for i := range d.future {
		if f := &d.future[i]; f.id() == id && f.store > last {
			name, last, ok = f.name, f.store, true
		}
	}
	return name, timeOf(last), ok
}

// Items returns the items of one sub-key, newest first.
func (d *Decision) Items(subkey string) []Item {
	items := d.group(d.findSubkey(subkey))
	all := make([]Item, len(items))
	for i := range items {
		all[i] = d.item(items, i)
	}
	return all
}

// Finished returns the finished items, last ended first, ties by id.
func (d *Decision) Finished() []Item {
	var all []Item
	for g := range d.groups {
		items := d.group(g)
		for i := range items {
			if items[i].finished() {
				all = append(all, d.item(items, i))
			}
		}
	}
	slices.SortFunc(all, func(a, b Item) int {
		return cmp.Or(b.Ended.Compare(a.Ended), strings.Compare(b.ID.String(), a.ID.String()))
	})
	return all
}

func newestFirst(a, b Item) int {
	return cmp.Or(b.ID.Time().Compare(a.ID.Time()), strings.Compare(b.ID.String(), a.ID.String()))
}

// groups yields the records of one sub-key after another.
func (d *Decision) groups(yield func([]*record) bool) {
	for lo := 0; lo < len(d.records); {
		hi := lo + 1
		for hi < len(d.records) && d.records[hi].subkey() == d.records[lo].subkey() {
			hi++
		}
		if !yield(d.records[lo:hi]) {
			return
		}
		lo = hi
	}
}

func (d *Decision) find(id string) []*record {
	parsed, err := d.rules.Grammar.Parse(id)
	if err != nil {
		return nil
	}
	g := d.findSubkey(parsed.Subkey())
	if i := sort.Search(len(g), func(i int) bool { return g[i].id() >= id }); i == len(g) || g[i].id() != id {
		return nil
	}
	return g
}

func (d *Decision) findSubkey(subkey string) []*record {
	lo := sort.Search(len(d.records), func(i int) bool { return d.records[i].subkey() >= subkey })
	hi := lo
	for hi < len(d.records) && d.records[hi].subkey() == subkey {
		hi++
	}
	return d.records[lo:hi]
}

// group folds, judges and dedupes the records of one sub-key, newest item first. The result holds until the next call.
func (d *Decision) group(g []*record) []item {
	s := &d.scratch
	s.items, s.runs = s.items[:0], s.runs[:0]
	for lo := 0; lo < len(g); {
		hi := lo + 1
		for hi < len(g) && g[hi].id() == g[lo].id() {
			hi++
		}
		it := fold(g[lo:hi])
		it.judge(d.now, d.rules.TTL, d.dead[it.id()])
		it.doubt(d.now, d.rules.Skew)
		s.items = append(s.items, it)
		lo = hi
	}
	slices.SortFunc(s.items, func(a, b item) int { return dedupe.Newest(a.run(), b.run()) })
	for i := range s.items {
		s.runs = append(s.runs, s.items[i].run())
	}
	s.by = dedupe.Superseders(s.by[:0], s.runs)
	for i, by := range s.by {
		s.items[i].by = by
	}
	return s.items
}

// run is the item as package dedupe sees it. One in doubt hides no other: it may be shown itself, but supersedes nothing.
func (it *item) run() dedupe.Run {
	if it.ahead {
		return dedupe.Run{ID: it.id(), At: it.at, LastReceipt: it.receipt, LastWord: never}
	}
	return dedupe.Run{ID: it.id(), At: it.at, Live: it.state == Live, LastReceipt: it.receipt, LastWord: it.word}
}

// show adds the items of a group that are shown: the newest live one, if nothing supersedes it, and those in doubt.
func (d *Decision) show(items []item) {
	for i := range items {
		if items[i].state == Live && items[i].by < 0 {
			d.shown = append(d.shown, d.item(items, i))
		}
	}
}

func (d *Decision) count(items []item) (c Counts) {
	for i := range items {
		switch it := &items[i]; it.state {
		case Finished:
			c.Finished++
		case Stale:
			c.Stale++
		case Dead:
			c.Dead++
		default:
			if it.by >= 0 {
				c.Superseded++
			} else {
				c.Live++
			}
			if it.bornLate(d.rules.Skew) {
				c.BornLate++
			}
		}
	}
	return c
}

// item makes the public form of items[i].
func (d *Decision) item(items []item, i int) Item {
	it := &items[i]
	id, _ := d.rules.Grammar.Parse(it.id()) // it has parsed before
	pub := Item{
		ID: id, State: it.state, Body: -1,
		Late: it.lateAt(d.now, d.rules.LateAfter), BornLate: it.bornLate(d.rules.Skew),
		LastSeen: timeOf(it.seen), LastReceipt: timeOf(it.receipt),
	}
	if it.seenBy != nil {
		pub.SeenBy = it.seenBy.name
	}
	if m := it.marker(); m != nil {
		pub.Body = int64(m.size)
	}
	if it.end != nil {
		pub.Outcome, _ = ParseOutcome(it.end.name[len(it.id())+1:])
		pub.Ended = timeOf(it.end.store)
	}
	if it.by >= 0 {
		pub.SupersededBy = items[it.by].id()
	}
	return pub
}
