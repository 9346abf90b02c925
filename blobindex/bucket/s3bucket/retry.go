package s3bucket

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// What a request is for decides what a lost answer means.
type purpose bool

const (
	reading purpose = false
	writing purpose = true
)

// try calls send until it succeeds, fails for good, or has been called limit times. It returns the last failure in the
// contract's words. If any attempt of a write may have been carried out, that is bucket.ErrUnknown, unless the write
// succeeded after all.
func (b *Bucket) try(ctx context.Context, why purpose, limit int, send func() error) error {
	ambiguous, refreshed := false, false
	for n := 1; ; n++ {
		age := b.renewals.Load()
		err := send()
		if err == nil {
			return nil
		}
		f := b.translate(err, why)
		f.err = remote.WithEnd(ctx, f.err)
		if f.ambiguous {
			ambiguous = true
		} else if ambiguous {
			f.err = fmt.Errorf("%w: an earlier attempt may have been carried out; the last one: %w", bucket.ErrUnknown, f.err)
		}
		if f.expired && !refreshed && n < limit {
			refreshed = true
			b.renew(age)
			continue
		}
		if !f.again || n >= limit || ctx.Err() != nil {
			return f.err
		}
		if err := remote.Sleep(ctx, b.wait(n, f.throttled)); err != nil {
			return fmt.Errorf("%w, waiting to repeat after: %w", err, f.err)
		}
	}
}

// renew drops the credentials, unless that was done since age was read: many requests find at once that they have expired.
func (b *Bucket) renew(age int64) {
	if b.renewals.CompareAndSwap(age, age+1) {
		b.creds.Invalidate()
	}
}

// wait is how long to wait after the n-th attempt: between a half and the whole of a pause that doubles.
func (b *Bucket) wait(n int, throttled bool) time.Duration {
	pause := b.pause
	if pause <= 0 {
		pause = 100 * time.Millisecond
		if throttled {
			pause = 500 * time.Millisecond
		}
	}
	pause = min(pause<<min(n-1, 10), b.limit)
	return pause/2 + rand.N(pause/2+1)
}
