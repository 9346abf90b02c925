package cas

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoChange is returned by the function of an Update that has nothing to save.
var ErrNoChange = errors.New("cas: nothing to change")

// UpdateOptions says what Update may do.
type UpdateOptions struct {
	// Create allows an absent document to be created. Without, its absence is ErrNotExist.
	Create bool
}

// Limits of one Update.
const (
	maxSends  = 6 // of one save whose outcome stays open
	maxReads  = 6 // of the document, after an open outcome
	maxRefuse = 8 // refusals in a row of a condition that held when looked at
)

// Update changes the document: it loads it, lets change compute from it, and saves the result on the condition that the
// document is still the one that was loaded. If it is not, all of that is done again, from the document that is there then;
// change therefore may run any number of times. It is given the payload to change (zero for a document that is to be
// created) and the state that the save will be made on, whose Version is empty then. An error of change ends the update
// and is returned; ErrNoChange ends it well, with the state as loaded.
//
// ErrUnknown: a save may have been carried out, or may be yet, and change has not run again since. ErrNotExist: there is no
// document, or it has been deleted meanwhile. ErrThrottled, or an error of ctx: the store did not let us through in time,
// and nothing was changed. ErrUnsupported: the store refuses what it must not refuse. Update ends with ctx; without a
// deadline it is as patient as contention and the store demand.
func (d *Doc[T]) Update(ctx context.Context, change func(next *T, base State[T]) error, opts *UpdateOptions) (State[T], error) {
	if opts == nil {
		opts = &UpdateOptions{}
	}
	u := &update[T]{d: d, change: change, create: opts.Create}
	s, err := u.run(ctx)
	if err != nil && !errors.Is(err, ErrNoChange) {
		return State[T]{}, fmt.Errorf("updating document %q: %w", d.key, err)
	}
	return s, nil
}

// An update is one Update on its way.
type update[T any] struct {
	d      *Doc[T]
	change func(*T, State[T]) error
	create bool

	base     *loaded[T] // nil: there is none
	existed  bool       // there was one at some time, so that it is not created again
	refusals int        // in a row of a condition that held
}

func (u *update[T]) run(ctx context.Context) (State[T], error) {
	if err := u.look(ctx); err != nil {
		return State[T]{}, err
	}
	for rounds := 1; ; rounds++ {
		s, settled, err := u.attempt(ctx)
		if settled || err != nil {
			return s, err
		}
		if err := u.d.opts.Wait(ctx, contended(rounds)); err != nil {
			return State[T]{}, fmt.Errorf("giving up after %d conflicts: %w: %w", rounds, ErrConflict, err)
		}
		if err := u.look(ctx); err != nil {
			return State[T]{}, err
		}
	}
}

// look loads the base of the next attempt. It never comes from a cache.
func (u *update[T]) look(ctx context.Context) error {
	l, err := u.d.load(ctx)
	switch {
	case errors.Is(err, ErrNotExist) && u.create && !u.existed:
		u.base = nil
		return nil
	case errors.Is(err, ErrNotExist) && u.existed:
		return fmt.Errorf("it was deleted meanwhile: %w", err)
	case err != nil:
		return err
	}
	u.base, u.existed = l, true
	return nil
}

// attempt computes and saves once. It is not settled if the save was lost.
func (u *update[T]) attempt(ctx context.Context) (State[T], bool, error) {
	s := State[T]{}
	var value T
	if u.base != nil {
		var err error
		if s, err = u.base.state(); err != nil {
			return s, true, err
		}
		// A value of its own, so that change may do with it what it likes.
		if err := strict(u.base.Payload, &value); err != nil {
			return s, true, err
		}
	}
	if err := u.change(&value, s); err != nil {
		return s, true, err
	}
	saved, err := u.put(ctx, s, value)
	if errors.Is(err, errLost) {
		return s, false, nil
	}
	if err != nil {
		return s, true, err
	}
	return saved, true, nil
}

// put saves value on top of base.
func (u *update[T]) put(ctx context.Context, base State[T], value T) (State[T], error) {
	text, err := payload(value)
	if err != nil {
		return State[T]{}, err
	}
	ours := next(base.saved, u.d.format, u.d.opts.Nonce(), u.d.opts.Now(), text)
	body, err := ours.encode()
	if err != nil {
		return State[T]{}, err
	}
	p := IfAbsent()
	if base.saved != nil {
		p = IfMatch(base.Version)
	}
	v, err := u.save(ctx, base.saved, ours, body, p)
	if err != nil {
		return State[T]{}, err
	}
	u.d.sight(ours)
	return State[T]{Value: value, Version: v, Seq: ours.Seq, Created: ours.Created, saved: ours}, nil
}

// errLost: somebody else's save came first; the update is computed again.
var errLost = errors.New("cas: lost")

// save sends one save until it is known what became of it. The version is empty if it was won and built on since.
func (u *update[T]) save(ctx context.Context, base, ours *envelope, body []byte, p Precondition) (Version, error) {
	open := false // an earlier send may yet be carried out
	throttles := 0
	for sends := 1; ; {
		v, err := u.d.store.Save(ctx, u.d.key, body, p)
		if err == nil && v == "" {
			err = ErrNoVersion
		}
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, ErrUnknown):
			open = true
		case errors.Is(err, ErrNoVersion):
			return "", u.gaveUp(true, fmt.Errorf("saved, but: %w", err)) // nothing can be built on it, but it is there
		case errors.Is(err, ErrThrottled):
			// Nothing landed: the same save again, slower.
			throttles++
			if over := u.d.opts.Wait(ctx, throttled(throttles)); over != nil {
				return "", u.gaveUp(open, fmt.Errorf("%w: %w", over, err))
			}
			continue
		case errors.Is(err, ErrNotExist) && base == nil && !open:
			return "", err // where it would be created
		case errors.Is(err, ErrNotExist) && !open:
			return "", fmt.Errorf("it was deleted meanwhile: %w", err)
		case !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotExist):
			return "", u.gaveUp(open, err)
		}
		// Before any pause: the longer we wait, the more saves are built on ours, and the further it moves out of recent.
		now, found, readErr := u.readBack(ctx)
		if readErr != nil {
			return "", u.gaveUp(open, fmt.Errorf("%w; reading it back: %w", err, readErr))
		}
		switch judged := judge(base, ours, now); {
		case judged == won && now.mark() == ours.mark():
			return found, nil
		case judged == won:
			return "", nil
		case judged == lost:
			u.refusals = 0
			return "", errLost
		case open && judged == notYet && sends < maxSends:
			pause := contended(sends)
			if errors.Is(err, ErrThrottled) {
				throttles++
				pause = throttled(throttles)
			}
			if over := u.d.opts.Wait(ctx, pause); over != nil {
				return "", u.gaveUp(open, fmt.Errorf("%w: %w", over, err))
			}
			sends++
		case open:
			return "", u.gaveUp(open, err)
		case judged == notYet:
			return "", u.refused(p, err)
		default:
			return "", errLost // refused for good, and the document is another one
		}
	}
}

// gaveUp makes an error of one that ends a save: unknown, if any send of it is still open.
func (u *update[T]) gaveUp(open bool, err error) error {
	if open && !errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

// refused is for a conflict where the document still is, or again is not, what the condition named. A reader behind
// another one may see that for a moment; a store that keeps saying so does not honour its own conditions.
func (u *update[T]) refused(p Precondition, err error) error {
	if u.refusals++; u.refusals < maxRefuse {
		return errLost
	}
	return fmt.Errorf("the store refused to save %v %d times, though that holds: %w: %w", p, u.refusals, ErrUnsupported, err)
}

// readBack loads the document after a save, nil if there is none, with its version.
func (u *update[T]) readBack(ctx context.Context) (*envelope, Version, error) {
	for n := 1; ; n++ {
		l, err := u.d.load(ctx)
		switch {
		case errors.Is(err, ErrNotExist):
			return nil, "", nil
		case err == nil:
			return l.envelope, l.object.Version, nil
		case n == maxReads, ctx.Err() != nil, errors.Is(err, ErrCorrupt), errors.Is(err, ErrFormat), errors.Is(err, ErrDenied):
			return nil, "", err
		}
		if over := u.d.opts.Wait(ctx, contended(n)); over != nil {
			return nil, "", fmt.Errorf("%w: %w", over, err)
		}
	}
}
