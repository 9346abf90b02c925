package blobindex

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// A Snapshot is what one complete listing says of a namespace at one instant. All that is read from it agrees. It is not
// safe for concurrent use.
type Snapshot struct {
	AsOf  time.Time // the store's clock at the listing's first page, else the host's
	Clock Clock     // whose clock AsOf is
	Cost  Cost      // what the listing took, and what was resolved since

	n        *Namespace
	reading  *reading
	ruling   Ruling // of reading, at AsOf
	decision *prune.Decision
	known    map[string]bool // what was known to be dead when it was judged
}

// Snapshot lists the namespace, all pages: ⌈keys/1000⌉ LIST, and with shared rules 1 GET if they were not read within
// RulesLife. Errors: those of bucket.Objects.List; ErrIncomplete; RulesError.
func (n *Namespace) Snapshot(ctx context.Context) (*Snapshot, error) {
	release, err := n.x.limits.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting to list namespace %q: %w", n.name, err)
	}
	defer release()
	var s Snapshot
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
	n.judge(&s, keys)
	return &s, nil
}

// judge completes a snapshot with what its keys mean.
func (n *Namespace) judge(s *Snapshot, keys *prune.Namespace) {
	s.n, s.known = n, n.knownDead()
	s.decision = keys.Decide(s.AsOf, s.known)
}

// Namespace is the namespace that was listed.
func (s *Snapshot) Namespace() *Namespace { return s.n }

// Counts tells how many items and keys of which kind there are.
func (s *Snapshot) Counts() prune.Counts { return s.decision.Counts() }

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

// Planned yields the plan, key after key, for who keeps only a part of it.
func (s *Snapshot) Planned(yield func(Deletion) bool) {
	for _, d := range s.decision.Plan() {
		if !yield(Deletion{Key: s.n.key(d.Name), Namespace: s.n.name, Reason: d.Reason, by: s.reading}) {
			return
		}
	}
}

// settle remembers what was found to be dead, and hands what is over to the sweeper, if there is one, the
// store's clock was told, and nothing is withheld.
func (s *Snapshot) settle() {
	s.n.rememberDead(s.known, s.decision.Buried())
	if s.n.x.sweeper != nil && s.Clock == StoreClock && s.ruling.Withheld() == "" {
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
