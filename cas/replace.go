package cas

import (
	"context"
	"errors"
	"fmt"
)

// Replace saves value on the condition that the document is still exactly base, a state that Load, Update or Replace has
// returned; the zero State stands for there being none. Unlike Update it never computes anew: who has lost is told. It is for
// what only one may have, such as a lease. 1 PUT; 1 GET and more after an answer that leaves the outcome open.
//
// ErrConflict: the document is another one by now, and nothing was changed; so too for a base without a Version, on which
// somebody has built already. ErrNotExist: it was deleted meanwhile, which some stores call a conflict; or there is nothing
// to create it in. ErrUnknown: the save may have been carried out, or may be yet. ErrThrottled, or an error of ctx: the store
// did not let us through in time, and nothing was changed. ErrUnsupported: the store refuses what it must not refuse. It
// ends with ctx.
func (d *Doc[T]) Replace(ctx context.Context, base State[T], value T) (State[T], error) {
	if base.saved != nil && base.Version == "" {
		return State[T]{}, fmt.Errorf("replacing document %q: somebody has built on it: %w", d.key, ErrConflict)
	}
	s, err := (&update[T]{d: d}).replace(ctx, base, value)
	if err != nil {
		return State[T]{}, fmt.Errorf("replacing document %q: %w", d.key, err)
	}
	return s, nil
}

func (u *update[T]) replace(ctx context.Context, base State[T], value T) (State[T], error) {
	for {
		refusals := u.refusals
		s, err := u.put(ctx, base, value)
		switch {
		case !errors.Is(err, errLost):
			return s, err
		case u.refusals <= refusals:
			return State[T]{}, ErrConflict
		}
		// Refused for good, and the document is still base: nobody was faster, the store was in the way for a moment.
		if over := u.d.opts.Wait(ctx, contended(u.refusals)); over != nil {
			return State[T]{}, fmt.Errorf("giving up after %d refusals: %w", u.refusals, over)
		}
	}
}
