package prune

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/dedupe"
)

const never = dedupe.Never

// instants lie between 1970 and the year 2116, so that sums and differences of them and of durations cannot wrap.
const lastInstant = dedupe.Instant(1) << 62

// instant converts t, clamping what lies outside; the zero time is never.
func instant(t time.Time) dedupe.Instant {
	switch s := t.Unix(); {
	case t.IsZero():
		return never
	case s < 0:
		return 0
	case s >= int64(lastInstant)/int64(time.Second):
		return lastInstant
	}
	return dedupe.Instant(t.UnixNano())
}

func timeOf(i dedupe.Instant) time.Time {
	if i == never {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

type kind uint8

const (
	marker kind = iota
	heartbeat
	tombstone
)

// A record is one key that belongs to an item. A namespace of a million keys holds a million of them.
type record struct {
	name   string         // the key below its namespace
	at     dedupe.Instant // the id's time
	beat   dedupe.Instant // a heartbeat's own name
	store  dedupe.Instant
	size   int32 // of a marker, capped
	idLen  uint8
	subLen uint8
	kind   kind
	untold bool // the store told no store time; store is what the name tells
}

func (r *record) id() string     { return r.name[:r.idLen] }
func (r *record) subkey() string { return r.name[:r.subLen] }

// nameTime is the largest time that the key's name tells.
func (r *record) nameTime() dedupe.Instant { return max(r.at, r.beat) }

// seen is when the sighting says that the item was alive.
func (r *record) seen() dedupe.Instant {
	if r.kind == heartbeat {
		return min(r.beat, r.store)
	}
	return r.at
}

const chunkLen = 4096

// A Namespace collects the keys of one namespace, from one complete listing. Its methods are not safe for
// concurrent use. Memory: about 100 bytes and the name for each key.
type Namespace struct {
	rules   Rules
	chunks  [][]record
	count   int
	future  []record // foreign, dated ahead of their own store time
	foreign int
	merged  bool // it may hold a name twice
}

// NewNamespace returns an empty Namespace. The rules must have come from WithDefaults.
func NewNamespace(rules Rules) *Namespace { return &Namespace{rules: rules} }

// Clone returns a Namespace of the same keys. What is added to the one is not in the other, and a Decision that either made
// before stays as it is. Of a name that is added to the Clone and is there already the one that was stored last counts.
func (n *Namespace) Clone() *Namespace {
	c := *n
	c.merged = true
	c.chunks, c.future = slices.Clone(n.chunks), slices.Clone(n.future)
	if last := len(c.chunks) - 1; last >= 0 {
		c.chunks[last] = slices.Clone(c.chunks[last]) // the others are full, and are not written to any more
	}
	return &c
}

// Add takes one key of the listing: its name below the namespace, body size and store time (zero where the store
// tells none: then the largest time in the name stands in for it). What is no key of an item is counted as foreign.
func (n *Namespace) Add(name string, size int64, stored time.Time) {
	r, ok := n.parse(name)
	if !ok {
		n.foreign++
		return
	}
	r.size = int32(min(size, math.MaxInt32))
	r.store = instant(stored)
	if r.store == never {
		r.store, r.untold = r.nameTime(), true
	} else if r.nameTime() > r.store+dedupe.Instant(n.rules.Skew) {
		n.foreign++
		n.future = append(n.future, r)
		return
	}
	if n.count%chunkLen == 0 {
		n.chunks = append(n.chunks, make([]record, 0, min(chunkLen, max(8, n.count))))
	}
	last := &n.chunks[len(n.chunks)-1]
	*last = append(*last, r)
	n.count++
}

// parse reads a name; ok is false for foreign ones.
func (n *Namespace) parse(name string) (record, bool) {
	text, signal, signalled := strings.Cut(name, "~")
	id, err := n.rules.Grammar.Parse(text)
	if err != nil {
		return record{}, false
	}
	r := record{
		name: name, at: instant(id.Time()), beat: never,
		idLen: uint8(len(text)), subLen: uint8(len(id.Subkey())),
	}
	if !signalled {
		return r, true
	}
	if _, ok := ParseOutcome(signal); ok {
		r.kind = tombstone
		return r, true
	}
	ms, ok := parseBeat(signal)
	r.kind, r.beat = heartbeat, instant(time.UnixMilli(ms))
	return r, ok
}

// beatDigits is the length of a heartbeat's signal: milliseconds since 1970, until the year 2286.
const beatDigits = 13

func parseBeat(s string) (ms int64, ok bool) {
	if len(s) != beatDigits {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		ms = ms*10 + int64(s[i]-'0')
	}
	return ms, true
}

// sorted returns the records by sub-key, id and name, so that groups and items are runs of it. A key without a store time
// is held to the listing's own instant: dated more than the skew ahead of it, it is left out, and counted.
func (n *Namespace) sorted(now dedupe.Instant) (all []*record, ahead int) {
	all = make([]*record, 0, n.count)
	for _, c := range n.chunks {
		for i := range c {
			if c[i].untold && c[i].store > now+dedupe.Instant(n.rules.Skew) {
				ahead++
				continue
			}
			all = append(all, &c[i])
		}
	}
	slices.SortFunc(all, func(a, b *record) int {
		if c := strings.Compare(a.subkey(), b.subkey()); c != 0 {
			return c
		}
		if c := strings.Compare(a.id(), b.id()); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	if n.merged {
		all = lastStored(all)
	}
	return all, ahead
}

// lastStored leaves of each name the record that was stored last.
func lastStored(sorted []*record) []*record {
	kept := sorted[:0]
	for _, r := range sorted {
		switch last := len(kept) - 1; {
		case last < 0 || kept[last].name != r.name:
			kept = append(kept, r)
		case r.store > kept[last].store:
			kept[last] = r
		}
	}
	return kept
}
