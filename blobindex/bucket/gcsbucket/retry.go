package gcsbucket

import (
	"context"
	"math/rand/v2"
	"net/http"

	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// slower is by how much a pause that the store asked for is longer than the first one.
const slower = 5

// A call says how a call of the contract is sent.
type call struct {
	attempts int  // 0: the bucket's
	requests int  // that one attempt may send; 0: 1
	write    bool // it changes the store: an unclear end is unknown
	onBucket bool // it is asked of the bucket, so that nothing else can be missing
}

// do runs fn until it succeeds, fails for good, has used up its attempts, or ctx ends. Its error is translated. The error
// of a write is bucket.ErrUnknown if any attempt may have been applied, whatever the last one says of itself.
func (b *Bucket) do(ctx context.Context, c call, fn func(context.Context, *exchange) error) error {
	if c.attempts == 0 {
		c.attempts = b.attempts
	}
	maybe, renewed := false, false
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil && attempt == 1 {
			return err
		}
		conn := b.conn.Load()
		x := &exchange{bucket: conn.handle, limit: max(c.requests, 1)}
		err := fn(withExchange(ctx, x), x)
		if err == nil {
			return nil
		}
		// A body that broke off was never whole at the store.
		maybe = maybe || c.write && x.maybeDone && !isBody(err)
		if codeOf(err) == http.StatusUnauthorized && !renewed && attempt < c.attempts && ctx.Err() == nil {
			if renewed = true; b.renew(ctx, conn) {
				continue
			}
		}
		if attempt == c.attempts || ctx.Err() != nil || !worthRepeating(err, x) || !b.pause(ctx, attempt, isBusy(err)) {
			return c.translate(remote.WithEnd(ctx, err), maybe)
		}
	}
}

// pause waits before the next attempt; false if ctx ended meanwhile.
func (b *Bucket) pause(ctx context.Context, attempt int, busy bool) bool {
	d := b.firstPause << min(attempt-1, 10)
	if busy {
		d = max(d, slower*b.firstPause)
	}
	return remote.Sleep(ctx, d+rand.N(d/2+1)) == nil
}
