package probe

import (
	"context"
	"errors"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// plainWrites stores objects without conditions and reads them back.
func plainWrites(ctx context.Context, r *run) error {
	body := strings.Repeat("0123456789abcdef", 4096) + "\x00\r\n\xff"
	if err := r.stored(ctx, Put, r.key("put/plain"), body); err != nil {
		return err
	}
	r.yes(Put, "%d bytes came back as they were sent", len(body))
	if err := r.stored(ctx, EmptyPut, r.key("put/empty"), ""); err != nil {
		return err
	}
	r.yes(EmptyPut, "it has no bytes")
	return replaced(ctx, r)
}

// stored puts an object and holds what is there to it. The verdict is no if that is something else.
func (r *run) stored(ctx context.Context, id ID, key bucket.Key, body string) error {
	s := r.site()
	if err := r.put(ctx, s, key, body); err != nil {
		if !isOfRun(err) && ctx.Err() == nil && !errors.Is(err, bucket.ErrThrottled) {
			r.noAs([]Feature{Markers}, id, "%s", r.plain(err))
		}
		return err
	}
	got, err := r.read(ctx, s.Objects, key)
	if err != nil {
		return err
	}
	o, err := s.Objects.Head(ctx, key)
	if err != nil {
		return err
	}
	if got != body || o.Size != int64(len(body)) {
		r.no(id, "%d bytes were sent; reading gives %d bytes, %.40q, and the metadata says %d", len(body), len(got), got, o.Size)
	}
	return nil
}

// replaced reads an object again after it was replaced.
func replaced(ctx context.Context, r *run) error {
	key := r.key("put/replaced")
	for _, body := range []string{"one", "two"} {
		if err := r.put(ctx, r.site(), key, body); err != nil {
			return err
		}
		for i := range r.sites {
			got, err := r.reads(ctx, &r.sites[i], key, body)
			if err != nil {
				return err
			}
			if got != body {
				r.no(ReadAfterWrite, "%s reads %q after %q was stored", r.sites[i].Name, got, body)
				return nil
			}
		}
	}
	r.yes(ReadAfterWrite, "it does")
	return nil
}

// reads gives a body some time to be the one that is wanted.
func (r *run) reads(ctx context.Context, s *Site, key bucket.Key, want string) (got string, err error) {
	for n := 1; ; n++ {
		got, err = r.read(ctx, s.Objects, key)
		if err != nil && !errors.Is(err, bucket.ErrNotExist) {
			return got, err
		}
		if err == nil && got == want || n == looks {
			return got, nil
		}
		if over := r.opts.Wait(ctx, settleIn); over != nil {
			return got, over
		}
	}
}
