package gcsbucket

import (
	"context"
	"fmt"
	"io"

	"cloud.google.com/go/storage"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Open returns the body of the generation that is there now; later writes do not change what is read from it, but may
// end it with an error where the connection breaks. The context must live until the body is closed.
func (b *Bucket) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	name, err := b.object(ctx, key)
	var r *storage.Reader
	if err == nil {
		err = b.do(ctx, call{requests: b.attempts}, func(ctx context.Context, x *exchange) (err error) {
			r, err = x.bucket.Object(name).NewReader(ctx)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", key, err)
	}
	return &reader{r, key}, nil
}

// A reader is an open body. Its errors are no answers about the object: they are wrapped, not translated.
type reader struct {
	body *storage.Reader
	key  bucket.Key
}

// Read reads on, over a connection made anew if need be. Bytes that do not have the object's checksum are an error at
// the end.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("reading %q: %w", r.key, err)
	}
	return n, err
}

// Close ends the read.
func (r *reader) Close() error { return r.body.Close() }

// Head asks for the object's metadata.
func (b *Bucket) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	name, err := b.object(ctx, key)
	var attrs *storage.ObjectAttrs
	if err == nil {
		err = b.do(ctx, call{}, func(ctx context.Context, x *exchange) (err error) {
			attrs, err = x.bucket.Object(name).Attrs(ctx)
			return err
		})
	}
	if err != nil {
		return bucket.Object{}, fmt.Errorf("heading %q: %w", key, err)
	}
	return bucket.Object{Key: key, Size: attrs.Size, StoreTime: attrs.Updated}, nil
}
