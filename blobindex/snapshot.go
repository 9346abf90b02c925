package blobindex

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/prune"
)

// ErrIncomplete is matched by the errors of listings that ended without proof that they were complete, a listing that
// took longer than the rules' ListingLimit among them. It is bucket.ErrIncomplete.
var ErrIncomplete = bucket.ErrIncomplete

// A Clock says whose clock an instant comes from.
type Clock string

const (
	StoreClock Clock = "store"
	HostClock  Clock = "host"
)

// Cost is how many requests something took, by kind: a LIST for each page.
type Cost struct {
	List, Get int
}

// A Snapshot is what one complete listing says of a namespace at one instant. All that is read from it agrees. It is safe for
// concurrent use.
type Snapshot struct {
	AsOf  time.Time // the store's clock at the listing's first page, else the host's
	Clock Clock     // whose clock AsOf is
	Cost  Cost      // what the listing took

	n        *Namespace
	reading  *reading
	ruling   Ruling // of reading, at AsOf
	keys     *prune.Namespace
	print    uint64          // of the keys that were listed
	overlaid bool            // it holds keys that the listing did not: nothing is deleted by it
	known    map[string]bool // what was known to be dead when it was judged
	// turn is held by who asks the resolver, so that no item is asked about twice.
	turn chan struct{}

	mu       sync.Mutex
	decision *prune.Decision
	answers  map[string]answer // of the resolver, by id
	buried   uint64            // how many of them said that an item is over
	settled  bool              // what it says is remembered, and offered to the sweeper, but for what was buried since
}

// Snapshot lists the namespace, all pages: ⌈keys/1000⌉ LIST, and with shared rules 1 GET if they were not read within
// RulesLife. Errors: those of bucket.Objects.List; ErrIncomplete; RulesError.
func (n *Namespace) Snapshot(ctx context.Context) (*Snapshot, error) {
	release, err := n.x.limits.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting to list namespace %q: %w", n.name, err)
	}
	defer release()
	s := &Snapshot{}
	if s.reading, s.Cost.Get, err = n.x.book.consult(ctx, false); err != nil {
		return nil, fmt.Errorf("listing namespace %q: %w", n.name, err)
	}
	var keys *prune.Namespace
	began := n.x.now()
	err = n.x.objects.List(ctx, bucket.ListRequest{Prefix: n.prefix}, func(p bucket.Page) error {
		if s.Cost.List++; s.Cost.List == 1 {
			s.AsOf, s.Clock = n.x.pageClock(p, began)
			if err := n.x.book.checkAge(s.reading); err != nil {
				return err
			}
			// A change of the rules counts from an instant of the store's clock, the same for every reader.
			s.ruling = s.reading.ruling(n.x, s.AsOf, s.Clock)
			keys = prune.NewNamespace(s.ruling.Rules)
		}
		for _, o := range p.Objects {
			name, ok := n.nameOf(o.Key)
			if !ok {
				return fmt.Errorf("%w: the store listed a key outside %q", ErrIncomplete, n.prefix)
			}
			keys.Add(name, o.Size, o.StoreTime)
			s.print += n.x.fingerprint(name, o.Size, o.StoreTime)
		}
		return nil
	})
	if err == nil && s.Cost.List == 0 {
		err = fmt.Errorf("%w: it had no page", ErrIncomplete)
	}
	if err == nil {
		err = n.x.tooLong(began)
	}
	if err != nil {
		return nil, fmt.Errorf("listing namespace %q: %w", n.name, err)
	}
	n.judge(s, keys)
	return s, nil
}

// judge completes a snapshot with what its keys mean.
func (n *Namespace) judge(s *Snapshot, keys *prune.Namespace) {
	s.n, s.keys, s.known = n, keys, n.knownDead()
	s.turn, s.answers = make(chan struct{}, 1), make(map[string]answer)
	s.decision = keys.Decide(s.AsOf, s.known)
}

// Namespace is the namespace that was listed.
func (s *Snapshot) Namespace() *Namespace { return s.n }

// Counts tells how many items and keys of which kind there are.
func (s *Snapshot) Counts() prune.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decision.Counts()
}

// Buried is how many items the resolver has said to be over since the listing: what is read from the snapshot stays the same
// for as long as this does.
func (s *Snapshot) Buried() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buried
}

// Ruling is by which rules the listing was judged.
func (s *Snapshot) Ruling() Ruling { return s.ruling }

// A Deletion is a key that may be deleted, and why.
type Deletion struct {
	Key       bucket.Key
	Namespace string // of the key; FlatNamespace in a flat index
	Reason    prune.Reason

	by *reading // the rules that it was planned by; nil if nothing is known of them
}

// Plan returns the keys that may be deleted, in order. It must not be carried out where Ruling withholds it, nor where the
// host's clock had to stand in for the store's, unless that is known to be right.
func (s *Snapshot) Plan() []Deletion { return slices.Collect(s.Planned) }

// Planned yields the plan, key after key, for who keeps only a part of it. There is none of a snapshot with keys that were
// not listed (With).
func (s *Snapshot) Planned(yield func(Deletion) bool) {
	if s.overlaid {
		return
	}
	s.mu.Lock()
	plan := s.decision.Plan()
	s.mu.Unlock()
	for _, d := range plan {
		if !yield(Deletion{Key: s.n.key(d.Name), Namespace: s.n.name, Reason: d.Reason, by: s.reading}) {
			return
		}
	}
}

// Settle remembers what was found to be dead, and hands what is over to the sweeper, if there is one, the
// store's clock was told, and nothing is withheld; once, and again when more was found to be dead. Whatever is read from a
// snapshot does it.
func (s *Snapshot) Settle() {
	s.mu.Lock()
	settled := s.settled
	s.settled = true
	dead := maps.Clone(s.decision.Buried())
	s.mu.Unlock()
	if settled {
		return
	}
	s.n.rememberDead(s.known, dead)
	if !s.overlaid && s.n.x.sweeper != nil && s.Clock == StoreClock && s.ruling.Withheld() == "" {
		s.n.x.sweeper.offer(s.n.x, s.Plan())
	}
}

// pageClock is the instant by which a listing that begins with p is judged, and whose clock that is.
func (x *Index) pageClock(p bucket.Page, asked time.Time) (time.Time, Clock) {
	if p.Now.IsZero() {
		return x.now(), HostClock
	}
	x.clock.learn(p.Now, asked, x.now())
	return p.Now, StoreClock
}

// tooLong refuses a listing that has taken longer than the rules allow: a heartbeat that was needless at its beginning
// may not be so any more.
func (x *Index) tooLong(began time.Time) error {
	if took := x.now().Sub(began); took > x.rules.ListingLimit {
		return fmt.Errorf("%w: it took %v, longer than %v", ErrIncomplete, took.Round(time.Millisecond),
			x.rules.ListingLimit)
	}
	return nil
}

// fingerprint is a number of one key; the sum of those of a listing tells it from another one of this process.
func (x *Index) fingerprint(name string, size int64, stored time.Time) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	h.WriteString(name)
	var rest [16]byte
	binary.LittleEndian.PutUint64(rest[:8], uint64(size))
	binary.LittleEndian.PutUint64(rest[8:], uint64(stored.UnixNano()))
	h.Write(rest[:])
	return h.Sum64()
}

// SameKeys tells whether two snapshots of one Index were listed with the same keys, sizes and store times.
func (s *Snapshot) SameKeys(other *Snapshot) bool {
	return s.print == other.print && s.n.x == other.n.x
}

// nameOf returns what stands after the namespace's prefix.
func (n *Namespace) nameOf(key bucket.Key) (string, bool) {
	return strings.CutPrefix(string(key), n.prefix)
}

// knownDead returns what resolvers have said to be over in the namespace. It must not be changed.
func (n *Namespace) knownDead() map[string]bool {
	n.x.mu.Lock()
	defer n.x.mu.Unlock()
	return n.x.dead[n.name]
}

// rememberDead replaces what was known to be dead when a listing was judged by those ids of it that still had a key, and
// what was found since. What another reader has found meanwhile stays.
func (n *Namespace) rememberDead(known, ids map[string]bool) {
	n.x.mu.Lock()
	defer n.x.mu.Unlock()
	for id := range n.x.dead[n.name] {
		if !known[id] {
			ids[id] = true
		}
	}
	if len(ids) == 0 {
		delete(n.x.dead, n.name)
		return
	}
	n.x.dead[n.name] = ids
}
