package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

const (
	patience = 8                     // tries of what a store is too busy for
	repeats  = 5                     // tries of what failed for no reason that lasts
	looks    = 3                     // at what was just written
	settleIn = 50 * time.Millisecond // between two looks at what was just written
)

// tries calls do until it succeeds or is refused for good. Throttling is waited out, and remembered.
func (r *run) tries(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		switch {
		case err == nil, ctx.Err() != nil, isFinal(err):
			return err
		case errors.Is(err, bucket.ErrThrottled):
			r.pace()
			if n == patience {
				return err
			}
			if over := r.opts.Wait(ctx, time.Second+time.Duration(n)*250*time.Millisecond); over != nil {
				return over
			}
		case n >= repeats:
			return err
		default:
			if over := r.opts.Wait(ctx, time.Duration(n)*100*time.Millisecond); over != nil {
				return over
			}
		}
	}
}

// isFinal: the same request would be answered the same.
func isFinal(err error) bool {
	for _, s := range []error{cas.ErrConflict, cas.ErrPrecondition, cas.ErrNoVersion, bucket.ErrNotExist, bucket.ErrDenied,
		bucket.ErrInvalidKey, bucket.ErrUnsupported, bucket.ErrIncomplete, bucket.ErrFull} {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}

func (r *run) pace() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paced = true
}

func (r *run) isPaced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paced
}

// put stores an object without a condition.
func (r *run) put(ctx context.Context, s *Site, key bucket.Key, body string) error {
	return r.tries(ctx, func() error {
		_, err := s.Objects.Put(ctx, key, strings.NewReader(body))
		r.note(err)
		return err
	})
}

// note takes note of a write that may have left something to delete.
func (r *run) note(err error) {
	if err == nil || errors.Is(err, bucket.ErrUnknown) || errors.Is(err, cas.ErrNoVersion) {
		r.wrote.Store(true)
	}
}

// remove deletes objects, and returns the first error.
func (r *run) remove(ctx context.Context, s *Site, keys ...bucket.Key) error {
	return r.tries(ctx, func() error {
		for _, err := range s.Objects.Delete(ctx, keys) {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// read returns the body of an object.
func (r *run) read(ctx context.Context, o bucket.Objects, key bucket.Key) (body string, err error) {
	err = r.tries(ctx, func() error {
		in, err := o.Open(ctx, key)
		if err != nil {
			return err
		}
		defer in.Close()
		b, err := io.ReadAll(in)
		body = string(b)
		return err
	})
	return body, err
}

// An outcome is what a conditional write was answered, once that is known.
type outcome int

const (
	won outcome = iota
	refused
)

// save writes on a condition. An answer that leaves the outcome open is settled by looking at what is there: bodies of a
// key are all different.
func (r *run) save(ctx context.Context, s *Site, key bucket.Key, body string, p cas.Precondition) (cas.Version, outcome, error) {
	var v cas.Version
	open := false // an earlier try may have been carried out, or may be yet, so that a later one is refused for it
	err := r.tries(ctx, func() error {
		var err error
		v, err = s.Store.Save(ctx, key, []byte(body), p)
		r.note(err)
		open = open || errors.Is(err, cas.ErrUnknown)
		if open && err != nil && ctx.Err() == nil {
			if now, there := r.load(ctx, s, key); there == nil && string(now.Body) == body {
				v = now.Version
				return nil
			}
		}
		return err
	})
	switch {
	case err == nil && v == "":
		return "", won, fmt.Errorf("saving %q: %w", key, cas.ErrNoVersion)
	case err == nil:
		return v, won, nil
	case errors.Is(err, cas.ErrConflict), errors.Is(err, cas.ErrNotExist):
		return "", refused, nil
	}
	return "", refused, err
}

// create is a save that must be carried out, since nobody else knows the key.
func (r *run) create(ctx context.Context, key bucket.Key, body string) (cas.Version, error) {
	v, o, err := r.save(ctx, r.site(), key, body, cas.IfAbsent())
	if err == nil && o == refused {
		err = fmt.Errorf("creating %q, which nobody has used, was refused", key)
	}
	return v, err
}

func (r *run) load(ctx context.Context, s *Site, key bucket.Key) (o cas.Object, err error) {
	err = r.tries(ctx, func() error {
		o, err = s.Store.Load(ctx, key)
		return err
	})
	return o, err
}

// replace puts another body there, and returns its version. Whether conditions work does not matter to it.
func (r *run) replace(ctx context.Context, key bucket.Key, body string, now cas.Version) (cas.Version, error) {
	s := r.site()
	_, out, err := r.save(ctx, s, key, body, cas.IfMatch(now))
	if err == nil && out == refused {
		err = r.put(ctx, s, key, body)
	}
	if err != nil {
		return "", err
	}
	o, ok, err := r.holds(ctx, key, body)
	if err == nil && !ok {
		err = fmt.Errorf("%q was replaced, and still has its former body", key)
	}
	return o.Version, err
}

// holds looks through every site whether the object has that body, more than once: that reads lag is another question's.
func (r *run) holds(ctx context.Context, key bucket.Key, body string) (o cas.Object, ok bool, err error) {
	for i := range r.sites {
		for n := 1; ; n++ {
			o, err = r.load(ctx, &r.sites[i], key)
			if err != nil && !errors.Is(err, bucket.ErrNotExist) {
				return o, false, err
			}
			if ok = err == nil && string(o.Body) == body; ok || n == looks {
				break
			}
			if over := r.opts.Wait(ctx, settleIn); over != nil {
				return o, false, over
			}
		}
		if !ok {
			return o, false, nil
		}
	}
	return o, true, nil
}

// gone looks through every site whether there is no object.
func (r *run) gone(ctx context.Context, key bucket.Key) (bool, error) {
	for i := range r.sites {
		for n := 1; ; n++ {
			_, err := r.sites[i].Objects.Head(ctx, key)
			if errors.Is(err, bucket.ErrNotExist) {
				break
			}
			if err != nil || n == looks {
				return false, err
			}
			if over := r.opts.Wait(ctx, settleIn); over != nil {
				return false, over
			}
		}
	}
	return true, nil
}

// unguarded is the site's objects past what the driver refuses, nil if it has no such access.
func (r *run) unguarded(s *Site) bucket.Objects {
	if u, ok := s.extra().(Unguarder); ok {
		return u.Unguarded()
	}
	return nil
}
