package blobindex

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/prune"
)

// ErrIncomplete is matched by the errors of listings that ended without proof that they were complete, a listing that
// took longer than the rules' ListingLimit among them. It is bucket.ErrIncomplete.
var ErrIncomplete = bucket.ErrIncomplete

func flatError(index, name string) error {
	return fmt.Errorf("%w: the index %q is flat and has no namespace %.80q; leave the namespace out, or give %q",
		ErrName, index, name, FlatNamespace)
}

// A listing is what one complete listing of a namespace held.
type listing struct {
	keys  *prune.Namespace
	now   time.Time // the store's clock at the first page, else the host's
	store bool      // now is the store's clock
	pages int
}

// list lists the namespace, all pages.
func (n *Namespace) list(ctx context.Context) (*listing, error) {
	release, err := n.x.await(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting to list namespace %q: %w", n.name, err)
	}
	defer release()
	l := &listing{keys: prune.NewNamespace(n.x.rules)}
	began := n.x.now()
	err = n.x.objects.List(ctx, bucket.ListRequest{Prefix: n.prefix}, func(p bucket.Page) error {
		l.pages++
		if l.pages == 1 {
			l.now, l.store = n.x.pageClock(p)
		}
		for _, o := range p.Objects {
			name, ok := n.nameOf(o.Key)
			if !ok {
				return fmt.Errorf("%w: the store listed a key outside %q", ErrIncomplete, n.prefix)
			}
			l.keys.Add(name, o.Size, o.StoreTime)
		}
		return nil
	})
	if err == nil && l.pages == 0 {
		err = fmt.Errorf("%w: it had no page", ErrIncomplete)
	}
	if err == nil {
		err = n.x.tooLong(began)
	}
	if err != nil {
		return nil, fmt.Errorf("listing namespace %q: %w", n.name, err)
	}
	return l, nil
}

// pageClock is the instant by which a listing that begins with p is judged, and whether it is the store's own.
func (x *Index) pageClock(p bucket.Page) (now time.Time, store bool) {
	if p.Now.IsZero() {
		return x.now(), false
	}
	x.clock.learn(p.Now, x.now())
	return p.Now, true
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

// A Live item is one that is running now, as far as the listing tells: no resolver was asked.
type Live struct {
	ID        string    `json:"id"`
	Subkey    string    `json:"subkey"`
	StartedAt time.Time `json:"started_at"`
	LastSeen  time.Time `json:"last_seen_at"`
	Late      bool      `json:"late"`
	BornLate  bool      `json:"born_late"`
}

// A Listing is all live items of a namespace, newest first, ties by id.
type Listing struct {
	Items []Live
	AsOf  time.Time // the instant that it was judged at
	Clock Clock
	Cost  Cost
}

// A Clock says whose clock an instant comes from.
type Clock string

const (
	StoreClock Clock = "store"
	HostClock  Clock = "host"
)

func whose(store bool) Clock {
	if store {
		return StoreClock
	}
	return HostClock
}

// Cost is how many requests something took, by kind: a LIST for each page.
type Cost struct {
	List, Get int
}

// List returns the live items: ⌈keys/1000⌉ LIST, and nothing else. What a resolver has said to be over before, in this
// Index, is left out. Errors: those of bucket.Objects.List; ErrIncomplete.
func (n *Namespace) List(ctx context.Context) (Listing, error) {
	l, err := n.list(ctx)
	if err != nil {
		return Listing{}, err
	}
	d := l.keys.Decide(l.now, n.knownDead())
	n.sweep(l, d)
	out := Listing{Items: make([]Live, 0, len(d.Shown())), AsOf: l.now, Clock: whose(l.store), Cost: Cost{List: l.pages}}
	for _, it := range d.Shown() {
		out.Items = append(out.Items, Live{
			ID: it.ID.String(), Subkey: it.ID.Subkey(), StartedAt: it.ID.Time(), LastSeen: it.LastSeen,
			Late: it.Late, BornLate: it.BornLate,
		})
	}
	return out, nil
}

// sweep hands what a reader found to be over to the sweeper, if there is one and the store's clock was told.
func (n *Namespace) sweep(l *listing, d *prune.Decision) {
	if n.x.sweeper != nil && l.store {
		n.x.sweeper.offer(n, d.Plan())
	}
}

// An Ended item is one that finished, as its tombstone tells.
type Ended struct {
	ID        string    `json:"id"`
	Subkey    string    `json:"subkey"`
	Outcome   Outcome   `json:"outcome"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// A RecentListing is the finished items of a namespace, last ended first, ties by id.
type RecentListing struct {
	Items []Ended
	AsOf  time.Time // the instant that it was judged at
	Clock Clock
	Cost  Cost
}

// Recent returns the finished items of which a tombstone is still there: ⌈keys/1000⌉ LIST. Errors: as for List.
func (n *Namespace) Recent(ctx context.Context) (RecentListing, error) {
	l, err := n.list(ctx)
	if err != nil {
		return RecentListing{}, err
	}
	d := l.keys.Decide(l.now, n.knownDead())
	n.sweep(l, d)
	return RecentListing{Items: ended(d.Finished()), AsOf: l.now, Clock: whose(l.store), Cost: Cost{List: l.pages}}, nil
}

func ended(items []prune.Item) []Ended {
	out := make([]Ended, len(items))
	for i, it := range items {
		out[i] = Ended{
			ID: it.ID.String(), Subkey: it.ID.Subkey(), Outcome: it.Outcome, StartedAt: it.ID.Time(), EndedAt: it.Ended,
		}
	}
	return out
}

// Namespaces returns the names of the namespaces that hold a key, ascending; for a flat index FlatNamespace alone. On a
// store that lists in order it takes one LIST for each namespace, else it lists the whole index. Errors: as for List.
func (x *Index) Namespaces(ctx context.Context) (names []string, cost Cost, err error) {
	if x.flat {
		return []string{FlatNamespace}, Cost{}, nil
	}
	release, err := x.await(ctx)
	if err != nil {
		return nil, Cost{}, fmt.Errorf("waiting to list index %q: %w", x.name, err)
	}
	defer release()
	found := make(map[string]bool)
	errSkip := errors.New("skip") // ends a listing whose rest is not needed
	req := bucket.ListRequest{Prefix: x.prefix + "/"}
	for {
		var skip string
		err := x.objects.List(ctx, req, func(p bucket.Page) error {
			cost.List++
			for _, o := range p.Objects {
				name, _, ok := strings.Cut(strings.TrimPrefix(string(o.Key), req.Prefix), "/")
				if !ok || CheckName(name) != nil {
					continue
				}
				found[name] = true
				skip = name
			}
			if p.Sorted && skip != "" {
				return errSkip
			}
			return nil
		})
		if errors.Is(err, errSkip) {
			// "0" follows "/": no key of the namespace is greater, and every other key that comes later is.
			after := bucket.Key(req.Prefix + skip + "0")
			if after <= req.After {
				return nil, cost, fmt.Errorf("listing the namespaces of index %q: %w: it lists keys before the one that it was to "+
					"start after", x.name, ErrIncomplete)
			}
			req.After = after
			continue
		}
		if err != nil {
			return nil, cost, fmt.Errorf("listing the namespaces of index %q: %w", x.name, err)
		}
		return sortedKeys(found), cost, nil
	}
}
