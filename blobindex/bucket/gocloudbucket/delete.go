package gocloudbucket

import (
	"context"
	"errors"
	"fmt"

	"gocloud.dev/blob"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// deleters is how many deletes of one call are under way at once.
const deleters = 16

// Delete deletes the keys one by one, several at once.
func (b *Bucket) Delete(ctx context.Context, keys []bucket.Key) []error {
	errs := make([]error, len(keys))
	remote.Each(deleters, len(keys), func(i int) { errs[i] = b.delete(ctx, keys[i]) })
	b.settle(ctx, errs)
	failed := false
	for i, err := range errs {
		if err != nil {
			errs[i], failed = fmt.Errorf("deleting %q: %w", keys[i], err), true
		}
	}
	if !failed {
		return nil
	}
	return errs
}

// errAbsent: the driver says that there is no such key.
var errAbsent = errors.New("no such object")

func (b *Bucket) delete(ctx context.Context, key bucket.Key) error {
	if err := b.usable(ctx, key); err != nil {
		return err
	}
	absent := false
	err := b.try(ctx, call{op: remove}, func() error {
		err := b.blob.Delete(ctx, string(key))
		if err != nil && b.judge(err, remove).meaning == bucket.ErrNotExist {
			absent = true // perhaps by an attempt before this one
			return nil
		}
		return err
	})
	if absent {
		return errAbsent
	}
	return err
}

// settle makes success of the errors of absent keys. In a bucket that is absent itself nothing is known to be, and a
// driver's answer about one key does not tell the two apart.
func (b *Bucket) settle(ctx context.Context, errs []error) {
	asked := false
	var missing error
	for i, err := range errs {
		if err != errAbsent {
			continue
		}
		if !asked {
			missing, asked = b.missing(ctx), true
		}
		errs[i] = missing
	}
}

// missing says why the bucket may be absent; nil if it is there, or if this caller may not list it.
func (b *Bucket) missing(ctx context.Context) error {
	err := b.try(ctx, call{op: list}, func() error {
		_, _, err := b.ask(ctx, blob.FirstPageToken, "", 1)
		return err
	})
	switch {
	case err == nil, errors.Is(err, bucket.ErrDenied):
		return nil
	case errors.Is(err, bucket.ErrNotExist):
		return fmt.Errorf("no such bucket: %w", err)
	}
	return fmt.Errorf("looking whether the bucket is there: %w", err)
}
