package blobindex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
)

// ErrFinished is the error of a heartbeat for an item that was finished through the same Index.
var ErrFinished = errors.New("blobindex: the item is finished")

// Registered is the acknowledgement of a registration.
type Registered struct {
	ID     itemid.ID
	Key    bucket.Key
	Size   int64     // of the marker's body, the labels
	Stored time.Time // the marker's store time; zero if the store tells none
	// BornLate: the marker was stored more than the skew after the id's time: a late registration, or a host whose
	// clock is behind. The item is shown all the same.
	BornLate bool
}

// Register puts the marker of id, with labels if there are any: one PUT, and no read. Once it has returned nil the item
// is shown until it is finished, superseded, past its TTL or declared dead. It may be repeated until it is acknowledged.
// An id that was hidden once is not to be registered again: one that is finished stays hidden, and who listed the others
// before may still delete their keys. Give a re-run an id of its own. Errors: those of bucket.Objects.Put, ErrClock,
// ErrLabels, itemid.ErrInvalid for an id that is not of the index's grammar.
func (n *Namespace) Register(ctx context.Context, id itemid.ID, labels Labels) (Registered, error) {
	body, err := labels.encode()
	if err != nil {
		return Registered{}, err
	}
	if err := n.admit(id, id.Time()); err != nil {
		return Registered{}, fmt.Errorf("registering %q: %w", id, err)
	}
	key := n.key(id.String())
	stored, err := n.put(ctx, key, body)
	if err != nil {
		return Registered{}, fmt.Errorf("registering %q: %w", id, err)
	}
	r := Registered{ID: id, Key: key, Size: int64(len(body)), Stored: stored}
	if stored.IsZero() {
		return r, nil
	}
	r.BornLate = stored.Sub(id.Time()) > n.x.Rules().Skew
	if err := n.x.checkClock(id.Time(), stored, true); err != nil {
		return r, fmt.Errorf("registering %q: %w", id, err)
	}
	return r, nil
}

// A Beat is the acknowledgement of a heartbeat.
type Beat struct {
	At     time.Time // the time in its name, to the millisecond
	Stored time.Time // its store time; zero if the store tells none
	// Removed is how many of this Index's own earlier heartbeats of the item were deleted as needless. Cleanup is
	// why deleting them failed, if it did; the heartbeat itself counts, and a janitor deletes what is left.
	Removed int
	Cleanup error
}

// Heartbeat says that the item is alive now: one PUT, and deletes of those of this Index's own earlier heartbeats that
// have become needless. An item whose marker is gone exists again by its heartbeat. Errors: as for Register, and
// ErrFinished.
func (n *Namespace) Heartbeat(ctx context.Context, id itemid.ID) (Beat, error) {
	if n.x.beats.finished(n.key(id.String())) {
		return Beat{}, fmt.Errorf("heartbeat of %q: %w: send none after finishing", id, ErrFinished)
	}
	at := n.x.producerNow().Truncate(time.Millisecond)
	if at.Before(id.Time()) {
		at = id.Time().Truncate(time.Millisecond) // a host behind the one that minted the id
	}
	if err := n.admit(id, at); err != nil {
		return Beat{}, fmt.Errorf("heartbeat of %q: %w", id, err)
	}
	name := prune.HeartbeatName(id, at)
	stored, err := n.put(ctx, n.key(name), nil)
	if err != nil {
		return Beat{}, fmt.Errorf("heartbeat of %q: %w", id, err)
	}
	b := Beat{At: at, Stored: stored}
	if stored.IsZero() {
		return b, nil
	}
	if err := n.x.checkClock(at, stored, true); err != nil {
		return b, fmt.Errorf("heartbeat of %q: %w", id, err)
	}
	needless := n.x.beats.sent(n.key(id.String()), n.key(name), at, stored, n.x.rules.ListingLimit)
	if len(needless) > 0 {
		b.Removed, b.Cleanup = deleted(n.x.objects.Delete(ctx, needless), len(needless))
	}
	return b, nil
}

// admit refuses what can be refused before it is written: an id of another grammar, and a name that the store's clock,
// where it is known, shows to be too far off.
func (n *Namespace) admit(id itemid.ID, name time.Time) error {
	if _, err := n.x.Rules().Grammar.Parse(id.String()); err != nil {
		return err
	}
	if now, ok := n.x.StoreNow(); ok {
		return n.x.checkClock(name, now, false)
	}
	return nil
}

// put writes one key and learns the store's clock from the answer.
func (n *Namespace) put(ctx context.Context, key bucket.Key, body []byte) (time.Time, error) {
	began := n.x.now()
	stored, err := n.x.objects.Put(ctx, key, bytes.NewReader(body))
	if err != nil {
		return time.Time{}, err
	}
	n.x.clock.learn(stored, began, n.x.now())
	return stored, nil
}

// deleted sums up the answer of Objects.Delete: how many of n keys are gone, and what went wrong with the others.
func deleted(errs []error, n int) (gone int, err error) {
	if errs == nil {
		return n, nil
	}
	for _, e := range errs {
		if e == nil {
			gone++
		}
	}
	return gone, errors.Join(errs...)
}
