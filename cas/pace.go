package cas

import (
	"context"
	"math/rand/v2"
	"time"
)

// contended is the pause after the n-th conflict, or try: by chance up to a limit that doubles, so that writers who met
// once do not meet again (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).
func contended(n int) time.Duration { return rand.N(10*time.Millisecond<<min(n, 7)) + time.Millisecond }

// throttled is the pause after the n-th answer that asks for slower writes: stores take about one write a second of one
// object (https://cloud.google.com/storage/quotas#objects), so that several writers need more than that each.
func throttled(n int) time.Duration {
	d := time.Second << min(n-1, 3)
	return d + rand.N(d)
}

// wait is the default of Options.Wait.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
