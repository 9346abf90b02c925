package gocloudbucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"gocloud.dev/blob"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Options configures a Bucket; nil and zero fields mean the defaults.
type Options struct {
	// Sorted says that this store was proved to list in byte order. A driver that escapes keys lists by the escaped ones.
	Sorted bool
	// AnyKeys says that every key is usable that is not refused for any store: the driver keeps them as they are (memblob),
	// or nobody else reads the bucket.
	AnyKeys bool
	// PageSize is how many objects are asked for at once; default 5,000, the most that Azure gives. memblob sorts and
	// fileblob walks all that they have for each page: give them more than they hold. Some S3 servers take no more than
	// 1,000.
	PageSize int
	// PageTimeout is how long one such page may take; default one minute.
	PageTimeout time.Duration
	// BufferSize is the blob.WriterOptions.BufferSize of each write; 0: the driver's. gcsblob allocates 16 MiB for a
	// marker by default and 0.3 MB with 1; s3blob takes none under 5 MiB.
	BufferSize int
	// Attempts is how often a call is made at the most, whatever the client library does below it; default 3.
	Attempts int
	// Pause is waited before the second attempt, twice that before the third, and so on, each with up to half of it more
	// by chance; default 200 ms.
	Pause time.Duration
}

// A Bucket is an object store in a *blob.Bucket. It is safe for concurrent use and holds nothing that needs closing.
type Bucket struct {
	blob *blob.Bucket
	opts Options
	root os.FileInfo // the directory, where the driver is fileblob; else nil
}

var _ bucket.Objects = (*Bucket)(nil)

// New makes a bucket of b, which must stay open while it is used. It sends no request.
func New(b *blob.Bucket, opts *Options) (*Bucket, error) {
	if b == nil {
		return nil, errors.New("gocloudbucket: no bucket was given")
	}
	g := &Bucket{blob: b}
	if opts != nil {
		g.opts = *opts
	}
	if g.opts.PageSize <= 0 {
		g.opts.PageSize = 5000
	}
	if g.opts.PageTimeout <= 0 {
		g.opts.PageTimeout = time.Minute
	}
	if g.opts.Attempts <= 0 {
		g.opts.Attempts = 3
	}
	if g.opts.Pause <= 0 {
		g.opts.Pause = 200 * time.Millisecond
	}
	// Only fileblob answers this one. It re-creates a directory that is gone as soon as something is written.
	g.blob.As(&g.root)
	return g, nil
}

var errRootGone = errors.New("the directory of the bucket is not there any more")

// checkRoot says that fileblob's directory is gone or another one, which fileblob itself does not notice.
func (b *Bucket) checkRoot() error {
	if b.root == nil {
		return nil
	}
	var now os.FileInfo
	if !b.blob.As(&now) || !os.SameFile(b.root, now) {
		return errRootGone
	}
	return nil
}

// Head asks for the object's attributes.
func (b *Bucket) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	var attrs *blob.Attributes
	err := b.usable(ctx, key)
	if err == nil {
		err = b.try(ctx, call{op: read}, func() (err error) {
			attrs, err = b.blob.Attributes(ctx, string(key))
			return err
		})
	}
	if err != nil {
		return bucket.Object{}, fmt.Errorf("heading %q: %w", key, err)
	}
	return bucket.Object{Key: key, Size: attrs.Size, StoreTime: attrs.ModTime}, nil
}

// Open returns the body. The context must live until it is closed.
func (b *Bucket) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	var r *blob.Reader
	err := b.usable(ctx, key)
	if err == nil {
		err = b.try(ctx, call{op: read}, func() (err error) {
			r, err = b.blob.NewReader(ctx, string(key), nil)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", key, err)
	}
	return &reader{r, ctx, key}, nil
}

// A reader is an open body. Its errors are no answers about the object: they are wrapped, not translated.
type reader struct {
	body *blob.Reader
	ctx  context.Context
	key  bucket.Key
}

// Read reads on, until the context ends.
func (r *reader) Read(p []byte) (n int, err error) {
	err = r.ctx.Err()
	if err == nil {
		err = guard(func() (err error) {
			n, err = r.body.Read(p)
			return err
		})
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("reading %q: %w", r.key, err)
	}
	return n, err
}

// Close ends the read.
func (r *reader) Close() error { return guard(r.body.Close) }
