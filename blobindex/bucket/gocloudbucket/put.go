package gocloudbucket

import (
	"context"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Put stores the body with one Writer. The time is always zero: drivers do not tell it.
func (b *Bucket) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if err := b.put(ctx, key, body); err != nil {
		return time.Time{}, fmt.Errorf("putting %q: %w", key, err)
	}
	return time.Time{}, nil
}

func (b *Bucket) put(ctx context.Context, key bucket.Key, body io.Reader) error {
	if err := b.usable(ctx, key); err != nil {
		return err
	}
	c := call{op: put}
	rewind := func() error { return nil }
	if s, ok := body.(io.Seeker); ok {
		start, err := s.Seek(0, io.SeekCurrent)
		if err != nil {
			return &bucket.BodyError{Err: err}
		}
		rewind = func() error {
			_, err := s.Seek(start, io.SeekStart)
			return err
		}
	} else {
		c.once = body != nil
	}
	return b.try(ctx, c, func() error {
		if err := rewind(); err != nil {
			return &bucket.BodyError{Err: err}
		}
		return b.write(ctx, string(key), body)
	})
}

// write sends the body once. Whatever goes wrong before the Writer is closed ends its context first: that is how a driver
// is told to store nothing.
func (b *Bucket) write(ctx context.Context, key string, body io.Reader) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.blob.NewWriter(ctx, key, &blob.WriterOptions{
		ContentType:  "application/octet-stream",
		CacheControl: "no-store",
		BufferSize:   b.opts.BufferSize,
	})
	if err != nil {
		return err
	}
	whole := false
	defer func() {
		if whole {
			return
		}
		cancel()
		if guard(w.Close) == nil && err != nil {
			err = fmt.Errorf("%w; what came before it may have been stored: %w", err, bucket.ErrUnknown)
		}
	}()
	if body != nil {
		// The Writer's ReadFrom, which io.Copy would use, allocates 1 MiB.
		if _, err := io.Copy(struct{ io.Writer }{w}, bucket.ReadBody(ctx, body)); err != nil {
			return err
		}
	}
	whole = true
	return w.Close()
}
