package probe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

const (
	cleanFor = time.Minute // how long a run that has ended goes on to clean up
	leftover = time.Hour   // the age at which what is below Root cannot belong to a run that goes on
	tellLeft = 20          // keys that could not be deleted
)

// clean deletes what the run has made, even if deleting did not work when it was tried. The run's own context may have ended.
func (r *run) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanFor)
	defer cancel()
	if !r.wrote.Load() {
		return
	}
	s := &r.sites[0]
	if u := r.unguarded(s); u != nil {
		u.Delete(ctx, slices.Clone(r.made)) // what the driver would refuse to name, among the rest
	}
	// What is there under another name than it was given, or came after its own delete, only a listing shows.
	var found []bucket.Key
	err := r.can.listing
	if err == nil {
		err = s.Objects.List(ctx, bucket.ListRequest{Prefix: r.root}, func(p bucket.Page) error {
			for _, o := range p.Objects {
				found = append(found, o.Key)
			}
			return nil
		})
	}
	if err != nil {
		found = r.made
	}
	for i, err := range s.Objects.Delete(ctx, found) {
		if err != nil && !errors.Is(err, bucket.ErrInvalidKey) {
			if _, gone := s.Objects.Head(ctx, found[i]); !errors.Is(gone, bucket.ErrNotExist) {
				r.left = append(r.left, string(found[i]))
			}
		}
	}
	r.left = r.left[:min(len(r.left), tellLeft)]
}

// sweep deletes what runs that were killed have left. Nothing depends on it: what goes wrong goes wrong again next time.
func (r *run) sweep(ctx context.Context) {
	s := &r.sites[0]
	var old []bucket.Key
	err := s.Objects.List(ctx, bucket.ListRequest{Prefix: Root}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			own := strings.HasPrefix(string(o.Key), r.root) || o.Key == VerdictKey
			if !own && !p.Now.IsZero() && !o.StoreTime.IsZero() && p.Now.Sub(o.StoreTime) > leftover {
				old = append(old, o.Key)
			}
		}
		return nil
	})
	if err == nil && len(old) > 0 {
		s.Objects.Delete(ctx, old)
	}
}
