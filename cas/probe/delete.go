package probe

import (
	"context"
	"errors"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// deletes deletes one object, what is absent, and then many at once.
func deletes(ctx context.Context, r *run) error {
	one, stays := r.key("delete/one"), r.key("delete/one-more")
	if err := r.putAll(ctx, []bucket.Key{one, stays}); err != nil {
		return err
	}
	for _, key := range []bucket.Key{one, r.key("delete/absent")} {
		if err := r.remove(ctx, r.site(), key); err != nil {
			if r.over(ctx, err) == nil && !errors.Is(err, bucket.ErrThrottled) {
				r.no(Delete, "deleting %s: %s", strings.TrimPrefix(string(key), r.root), r.plain(err))
			}
			return err
		}
		if gone, err := r.gone(ctx, key); err != nil {
			return err
		} else if !gone {
			r.no(Delete, "it was acknowledged, and the object is still there")
		}
	}
	if err := r.many(ctx); err != nil {
		return err
	}
	if gone, err := r.gone(ctx, stays); err != nil {
		return err
	} else if gone {
		r.no(Delete, "another object is gone as well")
	}
	r.yes(Delete, "they are")
	return nil
}

// many deletes what listings has written, in one call.
func (r *run) many(ctx context.Context) error {
	s := r.site()
	prefix := r.root + "list/"
	var keys []bucket.Key
	for _, k := range r.made {
		if strings.HasPrefix(string(k), prefix) {
			keys = append(keys, k)
		}
	}
	if len(keys) < 2 {
		keys = []bucket.Key{r.key("list/a"), r.key("list/b")}
		if err := r.putAll(ctx, keys); err != nil {
			return err
		}
	}
	began := r.opts.Now()
	var failed error
	errs := 0
	for _, err := range s.Objects.Delete(ctx, keys) {
		if over := r.over(ctx, err); over != nil {
			return over
		}
		if err != nil {
			failed, errs = err, errs+1
		}
	}
	took := r.opts.Now().Sub(began)
	id := Delete
	b, batched := s.extra().(Batcher)
	if batched {
		id = BatchDelete
	}
	left := 0
	for _, k := range []bucket.Key{keys[0], keys[len(keys)/2], keys[len(keys)-1]} {
		if gone, err := r.gone(ctx, k); err != nil {
			return err
		} else if !gone {
			left++
		}
	}
	switch {
	case errs > 0:
		r.noAs([]Feature{Pruning}, id, "%d of %d: %s", errs, len(keys), r.plain(failed))
	case left > 0:
		r.noAs([]Feature{Pruning}, id, "all of %d were acknowledged, and not all are gone", len(keys))
	}
	if !batched {
		return nil
	}
	if mode := b.DeleteMode(); mode == "one by one" {
		r.no(BatchDelete, "the store takes no such request")
	} else {
		r.yes(BatchDelete, "%d in %.1f s", len(keys), took.Seconds())
		if mode != "batch" {
			r.remark(BatchDelete, "as a %s", mode)
		}
	}
	return nil
}
