package gocloudbucket

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// A call is what is asked of the store, and how often.
type call struct {
	op   op
	once bool
}

type op uint8

const (
	list op = iota
	read
	put
	remove
)

// try makes the call until it succeeds, fails for good, has been made often enough, or ctx ends. Its error is translated.
// That of a write is bucket.ErrUnknown if any attempt may have been carried out, whatever the last one says.
func (b *Bucket) try(ctx context.Context, c call, fn func() error) error {
	maybe := false
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil && attempt == 1 {
			return err
		}
		err := guard(fn)
		if err == nil {
			return nil
		}
		f := b.judge(err, c.op)
		maybe = maybe || c.op >= put && f.maybe
		if c.once || attempt == b.opts.Attempts || !f.again || ctx.Err() != nil || !b.pause(ctx, attempt) {
			return f.final(remote.WithEnd(ctx, err), maybe)
		}
	}
}

// pause waits before the next attempt; false if ctx ended meanwhile.
func (b *Bucket) pause(ctx context.Context, attempt int) bool {
	d := b.opts.Pause << min(attempt-1, 10)
	return remote.Sleep(ctx, d+rand.N(d/2+1)) == nil
}

// A panicError is what a driver panicked with.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("the driver panicked: %v", e.value) }

// Unwrap lets a runtime error be told from others.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// guard calls fn, and makes an error of a panic in it.
func guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v}
		}
	}()
	return fn()
}
