package blobindex

import (
	"maps"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
)

// A Written key is one that a namespace was acknowledged to hold after a listing may have passed its place.
type Written struct {
	Name   string // below the namespace
	Size   int64
	Stored time.Time // its store time; zero if the store tells none
	// At is the instant of the acknowledgement by the clock of a snapshot; where the store tells no time it is the host's.
	At time.Time
}

// Written is the marker of an acknowledged registration.
func (r Registered) Written(n *Namespace) Written { return n.written(r.ID.String(), r.Size, r.Stored) }

// Written is the acknowledged heartbeat of id.
func (b Beat) Written(n *Namespace, id itemid.ID) Written {
	return n.written(prune.HeartbeatName(id, b.At), 0, b.Stored)
}

// Written is the tombstone of an acknowledged finish of id, of the outcome that counts.
func (f Finished) Written(n *Namespace, id itemid.ID) Written {
	return n.written(prune.TombstoneName(id, f.Outcome), 0, f.Stored)
}

func (n *Namespace) written(name string, size int64, stored time.Time) Written {
	w := Written{Name: name, Size: size, Stored: stored, At: stored}
	if stored.IsZero() {
		w.At = n.x.now()
	}
	return w
}

// With returns what the snapshot would say if its listing had held these keys as well, at the latest of its instant and
// theirs. What was resolved stays so, where none of an item's keys is new. Nothing is deleted by the result: it has no plan,
// and no sweeper is told of it.
func (s *Snapshot) With(keys []Written) *Snapshot {
	at := s.AsOf
	all := s.keys.Clone()
	for _, k := range keys {
		all.Add(k.Name, k.Size, k.Stored)
		if k.At.After(at) {
			at = k.At
		}
	}
	ruling := s.reading.ruling(s.n.x, at, s.Clock)
	if ruling.Rules != s.ruling.Rules {
		// The listing was read by rules that do not count any more. The next one is read by the new ones; until then its own
		// instant is the last one that is known.
		at, ruling = s.AsOf, s.ruling
	}
	out := &Snapshot{AsOf: at, Clock: s.Clock, reading: s.reading, ruling: ruling, print: s.print, overlaid: true}
	s.n.judge(out, all)
	out.follow(s, true) // whoever failed to answer is asked again after the next listing
	return out
}

// keptAnswer is how long the answer of a resolver serves the snapshots that follow, while no key of its item changes.
const keptAnswer = 15 * time.Second

// An answer is what the resolver said of an item.
type answer struct {
	status Status
	asked  time.Time // by the host's clock
	failed bool
	by     sighting // what the item was seen by
}

// A sighting tells a change of an item's keys, but for the loss of those that say less than others.
type sighting struct {
	name     string
	received time.Time
	body     int64
}

func (s *Snapshot) sighting(id string) (sighting, bool) {
	it, ok := s.decision.Item(id)
	return sighting{it.SeenBy, it.LastReceipt, it.Body}, ok
}

// take notes an answer. The lock is held.
func (s *Snapshot) take(id string, a answer) {
	a.by, _ = s.sighting(id)
	s.answers[id] = a
	if a.status.State.Over() {
		s.buried++
		s.settled = false
		s.decision.Bury(id)
	}
}

// Follow takes over from an earlier snapshot of the namespace what the resolver has said of items of which no key has changed
// since, as long as it is younger than 15 s; a final state is taken over in any case. It is called before anything is read.
func (s *Snapshot) Follow(earlier *Snapshot) { s.follow(earlier, false) }

func (s *Snapshot) follow(earlier *Snapshot, failed bool) {
	earlier.mu.Lock()
	answers := maps.Clone(earlier.answers)
	earlier.mu.Unlock()
	now := s.n.x.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, a := range answers {
		by, listed := s.sighting(id)
		switch {
		case !listed || s.answers[id].status.State.Over():
		case a.status.State.Over():
			s.take(id, a)
		case (failed || !a.failed) && by == a.by && elapsed(a.asked, now) < keptAnswer:
			s.answers[id] = a
		}
	}
}
