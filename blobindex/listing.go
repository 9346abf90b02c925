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

// List returns the live items, for what Snapshot takes. What a resolver has said to be over before, in this
// Index, is left out. Errors: as for Snapshot.
func (n *Namespace) List(ctx context.Context) (Listing, error) {
	s, err := n.Snapshot(ctx)
	if err != nil {
		return Listing{}, err
	}
	l := s.List()
	l.Cost = s.Cost
	return l, nil
}

// List returns the live items. It asks nobody, so that its Cost is zero: what the listing took is the snapshot's.
func (s *Snapshot) List() Listing {
	s.Settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := s.decision.Shown()
	out := Listing{Items: make([]Live, 0, len(shown)), AsOf: s.AsOf, Clock: s.Clock}
	for _, it := range shown {
		out.Items = append(out.Items, Live{
			ID: it.ID.String(), Subkey: it.ID.Subkey(), StartedAt: it.ID.Time(), LastSeen: it.LastSeen,
			Late: it.Late, BornLate: it.BornLate,
		})
	}
	return out
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

// Recent returns the finished items of which a tombstone is still there, for what Snapshot takes. Errors: as for Snapshot.
func (n *Namespace) Recent(ctx context.Context) (RecentListing, error) {
	s, err := n.Snapshot(ctx)
	if err != nil {
		return RecentListing{}, err
	}
	l := s.Recent()
	l.Cost = s.Cost
	return l, nil
}

// Recent returns the finished items of which a tombstone is still there. It asks nobody, so that its Cost is zero.
func (s *Snapshot) Recent() RecentListing {
	s.Settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	return RecentListing{Items: ended(s.decision.Finished()), AsOf: s.AsOf, Clock: s.Clock}
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
// store that lists in order it takes one LIST for each namespace, else it lists the whole index. Errors: as for Snapshot.
func (x *Index) Namespaces(ctx context.Context) (names []string, cost Cost, err error) {
	if x.flat {
		return []string{FlatNamespace}, Cost{}, nil
	}
	release, err := x.limits.list(ctx)
	if err != nil {
		return nil, Cost{}, fmt.Errorf("waiting to list index %q: %w", x.name, err)
	}
	defer release()
	found := make(map[string]bool)
	var last bucket.Key
	errSkip := errors.New("skip") // ends a listing whose rest is not needed
	req := bucket.ListRequest{Prefix: x.prefix + "/"}
	for {
		var skip string
		err := x.objects.List(ctx, req, func(p bucket.Page) error {
			cost.List++
			for _, o := range p.Objects {
				if p.Sorted && o.Key <= last {
					return outOfOrder(o.Key)
				}
				last = o.Key
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
			req.After = bucket.Key(req.Prefix + skip + "0")
			last = req.After
			continue
		}
		if err != nil {
			return nil, cost, fmt.Errorf("listing the namespaces of index %q: %w", x.name, err)
		}
		return sortedKeys(found), cost, nil
	}
}
