package gocloudbucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"gocloud.dev/blob"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// maxRequests is how many requests a driver may send to fill one page.
const maxRequests = remote.MaxEmptyPages

var errSpinning = errors.New("the driver goes on without an end")

// List calls fn with the pages of the listing. A page of the driver's is cut into several.
func (b *Bucket) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	l := listing{b: b, req: req, fn: fn}
	err := l.run(ctx)
	if err == nil || l.byCaller {
		return err
	}
	return fmt.Errorf("listing %q: page %d: %w", req.Prefix, l.pages+1, err)
}

// A listing is one List on its way.
type listing struct {
	b        *Bucket
	req      bucket.ListRequest
	fn       func(bucket.Page) error
	pages    int    // of the driver's
	last     string // the greatest key so far, on a sorted store
	byCaller bool   // the error is fn's
	buf      []bucket.Object
}

func (l *listing) run(ctx context.Context) error {
	if l.req.After != "" && !l.b.opts.Sorted {
		return fmt.Errorf("listing after a key of a store that is not known to be sorted: %w", bucket.ErrUnsupported)
	}
	// A token that reads like the mark of the first page would begin again.
	seen := map[string]bool{string(blob.FirstPageToken): true}
	for token := blob.FirstPageToken; ; l.pages++ {
		objects, next, err := l.page(ctx, bytes.Clone(token))
		if err != nil {
			return err
		}
		if seen[string(next)] {
			return fmt.Errorf("its token has come before: %w", bucket.ErrIncomplete)
		}
		if err := l.deliver(ctx, objects); err != nil || len(next) == 0 {
			return err
		}
		token, seen[string(next)] = next, true
	}
}

// page asks the driver for one page. The iterator of *blob.Bucket would not do: it tells no token, and calls itself for
// each empty page, until the stack is full.
func (l *listing) page(ctx context.Context, token []byte) (objects []*blob.ListObject, next []byte, err error) {
	if err := l.rooted(); err != nil {
		return nil, nil, err
	}
	err = l.b.try(ctx, call{op: list}, func() (err error) {
		objects, next, err = l.b.ask(ctx, token, askable(l.req.Prefix), l.b.opts.PageSize)
		return err
	})
	var panicked *panicError
	switch {
	case errors.As(err, &panicked), errors.Is(err, errSpinning):
		err = fmt.Errorf("%w: %w", bucket.ErrIncomplete, err)
	case err == nil:
		err = l.rooted()
	}
	return objects, next, err
}

// rooted says that the directory of a fileblob is gone, which would list as empty.
func (l *listing) rooted() error {
	if err := l.b.checkRoot(); err != nil {
		return fmt.Errorf("%w: %w", bucket.ErrIncomplete, err)
	}
	return nil
}

// ask makes one call. A driver that goes round in circles is stopped by whatever of the two it heeds.
func (b *Bucket) ask(ctx context.Context, token []byte, prefix string, size int) ([]*blob.ListObject, []byte, error) {
	limited, cancel := context.WithTimeout(ctx, b.opts.PageTimeout)
	defer cancel()
	sent := 0
	objects, next, err := b.blob.ListPage(limited, token, size, &blob.ListOptions{
		Prefix: prefix,
		BeforeList: func(func(any) bool) error {
			if sent++; sent > maxRequests {
				return fmt.Errorf("%d requests for one page: %w", sent, errSpinning)
			}
			return nil
		},
	})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no page within %v: %w", b.opts.PageTimeout, errSpinning)
	}
	return objects, next, err
}

// deliver hands over what belongs to the listing, in pages of the contract's size.
func (l *listing) deliver(ctx context.Context, objects []*blob.ListObject) error {
	given := false
	for _, o := range objects {
		if o.IsDir {
			return fmt.Errorf("the driver lists %q as a directory: %w", o.Key, bucket.ErrIncomplete)
		}
		// An empty key is the prefix of a prefixed bucket, made as a directory.
		if o.Key == "" || !strings.HasPrefix(o.Key, l.req.Prefix) || o.Key <= string(l.req.After) {
			continue
		}
		if l.b.opts.Sorted {
			if o.Key <= l.last {
				return fmt.Errorf("%q came after %q on a store that is declared sorted: %w", o.Key, l.last, bucket.ErrIncomplete)
			}
			l.last = o.Key
		}
		if len(l.buf) == bucket.PageSize {
			if err := l.give(ctx); err != nil {
				return err
			}
			given = true
		}
		l.buf = append(l.buf, bucket.Object{Key: bucket.Key(o.Key), Size: o.Size, StoreTime: o.ModTime})
	}
	if given && len(l.buf) == 0 {
		return nil
	}
	return l.give(ctx)
}

func (l *listing) give(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := l.fn(bucket.Page{Objects: l.buf, Sorted: l.b.opts.Sorted})
	l.byCaller = err != nil
	l.buf = l.buf[:0]
	return err
}
