package main

import (
	"cmp"
	"context"
	"io"
	"math/rand/v2"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A slowBucket makes a near bucket as far away as an object store is: each request, and each page of a listing, takes
// delay() longer, half of it on the way there and half on the way back, so that what the request does happens in between.
type slowBucket struct {
	bucket.Objects
	delay func() time.Duration
}

// The delays of a demonstration's requests: those of an object store in the same region, at the short end.
const (
	shortestDelay = 30 * time.Millisecond
	longestDelay  = 80 * time.Millisecond
)

func storeDelay() time.Duration {
	return shortestDelay + rand.N(longestDelay-shortestDelay)
}

// travel does what a request does, between the two halves of its delay.
func (b *slowBucket) travel(ctx context.Context, do func() error) error {
	half := b.delay() / 2
	if err := pause(ctx, half); err != nil {
		return err
	}
	err := do()
	return cmp.Or(err, pause(ctx, half)) // a refusal travels back as well
}

func (b *slowBucket) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return b.Objects.List(ctx, req, func(p bucket.Page) error {
		if err := pause(ctx, b.delay()); err != nil {
			return err
		}
		return fn(p)
	})
}

func (b *slowBucket) Put(ctx context.Context, key bucket.Key, body io.Reader) (t time.Time, err error) {
	err = b.travel(ctx, func() error { t, err = b.Objects.Put(ctx, key, body); return err })
	return t, err
}

func (b *slowBucket) Open(ctx context.Context, key bucket.Key) (r io.ReadCloser, err error) {
	err = b.travel(ctx, func() error { r, err = b.Objects.Open(ctx, key); return err })
	if err != nil && r != nil {
		r.Close() // nobody waits for it any more
		r = nil
	}
	return r, err
}

func (b *slowBucket) Head(ctx context.Context, key bucket.Key) (o bucket.Object, err error) {
	err = b.travel(ctx, func() error { o, err = b.Objects.Head(ctx, key); return err })
	return o, err
}

func (b *slowBucket) Delete(ctx context.Context, keys []bucket.Key) (errs []error) {
	if len(keys) == 0 {
		return b.Objects.Delete(ctx, keys)
	}
	err := b.travel(ctx, func() error { errs = b.Objects.Delete(ctx, keys); return nil })
	if err == nil || errs != nil {
		return errs
	}
	errs = make([]error, len(keys))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// pause waits, or ends with the context's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
