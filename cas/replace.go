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
// somebody has built already. ErrNotExist: it was deleted meanwhile. ErrUnknown: the save may have been carried out, or may
// be yet. ErrThrottled, or an error of ctx: the store did not let us through in time, and nothing was changed. It ends with
// ctx.
func (d *Doc[T]) Replace(ctx context.Context, base State[T], value T) (State[T], error) {
	if base.saved != nil && base.Version == "" {
		return State[T]{}, fmt.Errorf("replacing document %q: somebody has built on it: %w", d.key, ErrConflict)
	}
	u := &update[T]{d: d}
	s, err := u.put(ctx, base, value)
	if errors.Is(err, errLost) {
		err = ErrConflict
	}
	if err != nil {
		return State[T]{}, fmt.Errorf("replacing document %q: %w", d.key, err)
	}
	return s, nil
}
