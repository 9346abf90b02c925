package gcsbucket

import (
	"context"
	"fmt"
	"net/http"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// deleters is how many deletes of one call are under way at once: Cloud Storage has no request for several keys.
const deleters = 32

// Delete sends one request a key, several at once. A key that is absent is gone; in a bucket that is absent nothing is
// known to be, so that is an error.
func (b *Bucket) Delete(ctx context.Context, keys []bucket.Key) []error {
	errs := make([]error, len(keys))
	remote.Each(deleters, len(keys), func(i int) {
		if err := b.delete(ctx, keys[i]); err != nil {
			errs[i] = fmt.Errorf("deleting %q: %w", keys[i], err)
		}
	})
	for _, err := range errs {
		if err != nil {
			return errs
		}
	}
	return nil
}

func (b *Bucket) delete(ctx context.Context, key bucket.Key) error {
	name, err := b.object(ctx, key)
	if err != nil {
		return err
	}
	return b.do(ctx, call{write: true}, func(ctx context.Context, x *exchange) error {
		err := x.bucket.Object(name).Delete(ctx)
		if codeOf(err) == http.StatusNotFound && !ofBucket(err) {
			return nil
		}
		return err
	})
}
