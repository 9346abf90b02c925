package blobindex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// A saveError is what went wrong once there was something to save.
type saveError struct{ err error }

func (e *saveError) Error() string { return e.err.Error() }
func (e *saveError) Unwrap() error { return e.err }

// saveWait is the longest that reading may be held up by saving, on a store that asks for slower writes, say; who changes
// the rules has more patience.
const (
	saveWait        = 10 * time.Second
	reconfigureWait = time.Minute
)

// errUnverified ends an update that would save before it is known that the store keeps its conditions.
var errUnverified = errors.New("blobindex: not verified yet")

// update changes the document, or creates it, within wait; finding out whether the store keeps its conditions comes before
// the first save, and is not counted.
func (b *rulebook) update(
	ctx context.Context, wait time.Duration, change func(*rulesDocument, cas.State[rulesDocument]) error,
) (cas.State[rulesDocument], error) {
	for {
		s, err := b.updateVerified(ctx, wait, change)
		if !errors.Is(err, errUnverified) {
			return s, err
		}
		if err := b.sharing.Usable(ctx); err != nil {
			return s, err
		}
		b.mu.Lock()
		b.verified = true
		b.mu.Unlock()
	}
}

func (b *rulebook) updateVerified(
	ctx context.Context, wait time.Duration, change func(*rulesDocument, cas.State[rulesDocument]) error,
) (cas.State[rulesDocument], error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return b.doc.Update(ctx, func(next *rulesDocument, base cas.State[rulesDocument]) error {
		if err := change(next, base); err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.verified && b.sharing.Usable != nil {
			return errUnverified
		}
		return nil
	}, &cas.UpdateOptions{Create: true})
}

// load returns the document. With Sharing.Save it creates it where there is none, and drops an announcement that counts:
// else a copy of the object, which has a later store time, would make it count later again. ErrNotExist if there is none.
func (b *rulebook) load(ctx context.Context) (cas.State[rulesDocument], error) {
	if !b.sharing.Save || b.givenUp() != "" {
		return b.doc.Load(ctx)
	}
	saving, created := false, false
	s, err := b.update(ctx, saveWait, func(next *rulesDocument, base cas.State[rulesDocument]) error {
		saving, created = false, base.Seq == 0
		if created {
			*next = rulesDocument{Current: storedRules(b.x.rules)}
		} else if !b.settle(next, base) {
			return cas.ErrNoChange
		}
		saving = true
		return nil
	})
	switch {
	case err == nil || !saving:
		return s, err
	case created && errors.Is(err, cas.ErrUnknown):
		return s, &saveError{err} // it was read back already
	case created:
		// Somebody else may have saved them meanwhile: only of what is seen not to be there may it be said.
		if s, there := b.doc.Load(ctx); !errors.Is(there, cas.ErrNotExist) {
			return s, there
		}
		return s, &saveError{err}
	}
	// Tidying up can wait.
	b.refused(&saveError{err})
	return b.doc.Load(ctx)
}

// settle makes announced rules that are in force everywhere the current ones.
func (b *rulebook) settle(next *rulesDocument, base cas.State[rulesDocument]) bool {
	s, err := scheduleOf(base.Value, base.ModTime, b.x.rules.ListingLimit)
	now := base.StoreTime
	if now.IsZero() {
		now = b.x.now()
	}
	if err != nil || s.next == nil || s.quiet(now) {
		return false // what cannot be read is told by who reads it
	}
	*next = rulesDocument{Current: base.Value.Announced.Rules}
	return true
}

// refused returns why saving is not tried any more, and takes note of it; empty if it may be tried again.
func (b *rulebook) refused(e *saveError) (why string) {
	switch {
	case errors.Is(e.err, cas.ErrUnknown):
		return "" // it may have been saved
	case errors.Is(e.err, bucket.ErrDenied):
		why = "none are saved, and this process may not write there"
	case errors.Is(e.err, cas.ErrUnsupported):
		why = unsupported(e.err)
	default:
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.never = why
	return why
}

func (b *rulebook) givenUp() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.never
}

func unsupported(err error) string {
	return fmt.Sprintf("none can be saved without compare-and-swap (%v)", err)
}

// Reconfigure changes the shared rules to those that this index was given; those that nobody gave stay as they are saved.
// Where none are saved, the index's own are. A change is announced: it counts, everywhere at once, from Ruling.From on, and
// nobody deletes anything before Ruling.Quiet. It takes 2 GET and 1 PUT. Errors: RulesError for what cannot be read, which is
// never written over; ErrRulesChanging while another change does not count yet; cas.ErrUnsupported; those of cas.Doc.Update.
func (x *Index) Reconfigure(ctx context.Context) (Ruling, error) {
	b := x.book
	if b.doc == nil {
		return Ruling{}, fmt.Errorf("changing the rules of index %q: %w", x.name, errNone)
	}
	saving := false
	_, err := b.update(ctx, reconfigureWait, func(next *rulesDocument, base cas.State[rulesDocument]) error {
		saving = false
		if err := b.announce(next, base); err != nil {
			return err
		}
		saving = true
		return nil
	})
	switch {
	case err == nil, errors.Is(err, cas.ErrNoChange):
		return x.ReadRules(ctx)
	case saving, errors.Is(err, ErrRulesChanging), errors.Is(err, ErrRequest), errors.Is(err, cas.ErrUnsupported):
		return Ruling{}, fmt.Errorf("changing the rules of index %q: %w", x.name, err)
	}
	return Ruling{}, b.wrap(err)
}

// ResetRules lets everybody read the saved rules again after the bucket was restored from a backup, which who has seen later
// ones refuses to: see cas.Doc.Reset. It reports whether any are saved. The store is tried before, as for any save.
func (x *Index) ResetRules(ctx context.Context) (saved bool, err error) {
	b := x.book
	if b.doc == nil {
		return false, fmt.Errorf("resetting the rules of index %q: %w", x.name, errNone)
	}
	if b.sharing.Usable != nil {
		if err := b.sharing.Usable(ctx); err != nil {
			return false, fmt.Errorf("resetting the rules of index %q: %w", x.name, err)
		}
	}
	err = b.doc.Reset(ctx)
	if errors.Is(err, cas.ErrNotExist) {
		return false, nil
	}
	return true, err
}

// announce changes a document to what the index was given.
func (b *rulebook) announce(next *rulesDocument, base cas.State[rulesDocument]) error {
	if base.Seq == 0 {
		*next = rulesDocument{Current: storedRules(b.x.rules)}
		return nil
	}
	s, err := scheduleOf(base.Value, base.ModTime, b.x.rules.ListingLimit)
	if err != nil {
		return err
	}
	want, err := b.x.given.over(s.target(), b.x.rules).WithDefaults()
	if err != nil {
		return fmt.Errorf("%w: together with the rules that are saved: %w", ErrRequest, err)
	}
	if want == s.target() {
		return cas.ErrNoChange
	}
	now := base.StoreTime
	if now.IsZero() {
		now = b.x.now()
	}
	if s.pending(now) {
		return fmt.Errorf("%w: a change counts from %s; try again then", ErrRulesChanging, stamp(s.from))
	}
	// What was in force until now stays so until everybody can have read of the change.
	next.Current = storedRules(s.at(now))
	next.Announced = &announcement{Rules: storedRules(want), From: now.Add(rulesLead).UTC()}
	return nil
}
