package blobindex

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
)

// An Outcome is how an item finished.
type Outcome = prune.Outcome

// Outcomes of Finish.
const (
	Done      = prune.Done
	Failed    = prune.Failed
	Cancelled = prune.Cancelled
)

// Finished is the acknowledgement of a finish.
type Finished struct {
	Stored time.Time // the tombstone's store time; zero if the store tells none
	// Outcome is the one that counts: that of the earliest tombstone, which may be another one's. Sightings is how many
	// were listed; none may mean that the item was never registered. Both are told if Cleanup is nil.
	Outcome   Outcome
	Sightings int
	// Removed is how many sightings were deleted. Cleanup is why listing or deleting them failed, if it did: the item
	// is finished all the same, and a janitor deletes what is left.
	Removed int
	Cleanup error
}

// Finish puts the tombstone of id, then deletes the item's sightings: one PUT, one LIST for each 1,000 keys that begin
// with the id, and the deletes. From its nil on the item is hidden, whatever late sighting still arrives. Finish an item
// once; repeat it only after an error, within the TTL. Errors: those of bucket.Objects.Put, ErrClock for an id that is
// dated too far ahead, itemid.ErrInvalid.
func (n *Namespace) Finish(ctx context.Context, id itemid.ID, outcome Outcome) (Finished, error) {
	if _, ok := prune.ParseOutcome(string(outcome)); !ok {
		return Finished{}, fmt.Errorf("finishing %q: the outcome %.40q is none of done, failed, cancelled", id, outcome)
	}
	if _, err := n.x.Rules().Grammar.Parse(id.String()); err != nil {
		return Finished{}, fmt.Errorf("finishing %q: %w", id, err)
	}
	if now, ok := n.x.StoreNow(); ok {
		if err := n.x.checkAhead(id.Time(), now, false); err != nil {
			return Finished{}, fmt.Errorf("finishing %q: %w", id, err)
		}
	}
	// A crash before this put leaves the item running until its TTL; one after it leaves a finished item with
	// sightings, which a janitor deletes.
	stored, err := n.put(ctx, n.key(prune.TombstoneName(id, outcome)), nil)
	if err != nil {
		return Finished{}, fmt.Errorf("finishing %q: %w", id, err)
	}
	if !stored.IsZero() {
		if err := n.x.checkAhead(id.Time(), stored, true); err != nil {
			return Finished{Stored: stored}, fmt.Errorf("finishing %q: %w", id, err)
		}
	}
	n.x.beats.finish(n.key(id.String()))
	f := Finished{Stored: stored, Outcome: outcome}
	f.Cleanup = n.removeSightings(ctx, id, &f)
	return f, nil
}

// removeSightings deletes the sightings, and looks for an earlier tombstone.
func (n *Namespace) removeSightings(ctx context.Context, id itemid.ID, f *Finished) error {
	release, err := n.x.limits.list(ctx)
	if err != nil {
		return fmt.Errorf("waiting to list the sightings of %q: %w", id, err)
	}
	defer release()
	var keys []bucket.Key
	earliest := f.Stored
	list := bucket.ListRequest{Prefix: string(n.key(id.String()))}
	err = n.x.objects.List(ctx, list, func(p bucket.Page) error {
		for _, o := range p.Objects {
			name, ok := n.nameOf(o.Key)
			switch {
			case ok && prune.SightingOf(id, name):
				keys = append(keys, o.Key)
			case ok && !o.StoreTime.IsZero() && o.StoreTime.Before(earliest):
				if signal, ok := strings.CutPrefix(name, id.String()+"~"); ok {
					if other, ok := prune.ParseOutcome(signal); ok {
						f.Outcome, earliest = other, o.StoreTime
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing the sightings of %q: %w", id, err)
	}
	if f.Sightings = len(keys); len(keys) == 0 {
		return nil
	}
	f.Removed, err = deleted(n.x.objects.Delete(ctx, keys), len(keys))
	return err
}
