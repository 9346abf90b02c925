package gcsbucket

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"

	"cloud.google.com/go/storage"

	"github.com/blobindex/indexd/blobindex/bucket"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged: the store holds another body than the one that was sent.
var errDamaged = errors.New("the store's checksum is not that of the body")

// Put uploads the body in one request, over whatever is there. No condition is sent. A body that is an io.Seeker, or nil,
// is sent again as Options say; any other body is sent once.
func (b *Bucket) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	t, err := b.put(ctx, key, body)
	if err != nil {
		return time.Time{}, fmt.Errorf("putting %q: %w", key, err)
	}
	return t, nil
}

func (b *Bucket) put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	name, err := b.object(ctx, key)
	if err != nil {
		return time.Time{}, err
	}
	c := call{write: true, onBucket: true}
	rewind := func() error { return nil }
	if s, ok := body.(io.Seeker); ok {
		start, err := s.Seek(0, io.SeekCurrent)
		if err != nil {
			return time.Time{}, &bucket.BodyError{Err: err}
		}
		rewind = func() error {
			_, err := s.Seek(start, io.SeekStart)
			return err
		}
	} else if body != nil {
		c.attempts = 1
	}
	var t time.Time
	err = b.do(ctx, c, func(ctx context.Context, x *exchange) error {
		if err := rewind(); err != nil {
			return &bucket.BodyError{Err: err}
		}
		attrs, err := upload(ctx, x.bucket.Object(name), body)
		if err == nil {
			t = attrs.Updated
		}
		return err
	})
	return t, err
}

// upload makes one request of it: with no chunks the client neither buffers nor retries, nor does it announce a length.
func upload(ctx context.Context, o *storage.ObjectHandle, body io.Reader) (*storage.ObjectAttrs, error) {
	// Ending it is how an upload is broken off: see guarded.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := o.NewWriter(ctx)
	w.ChunkSize = 0
	w.ContentType = "application/octet-stream"
	w.CacheControl = "no-store"
	// Some servers answer without a checksum, which the client takes for a wrong one.
	w.DisableAutoChecksum = true
	in := &bodyReader{ctx: ctx, body: body, sum: crc32.New(castagnoli)}
	if body != nil {
		if _, err := io.Copy(w, in); err != nil {
			cancel()
			return nil, abort(w, in, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	attrs := w.Attrs()
	if sum := in.sum.Sum32(); attrs.CRC32C != 0 && attrs.CRC32C != sum {
		return nil, errDamaged
	}
	return attrs, nil
}

// abort waits for the client to be done with an upload whose body broke off or whose request failed.
func abort(w *storage.Writer, in *bodyReader, err error) error {
	if in.sent > 0 {
		w.Close() // tells again what err is
	} // else the writer has not begun, and closing it would store an empty object
	if in.err != nil {
		return &bucket.BodyError{Err: in.err}
	}
	return err
}

// A bodyReader remembers the error of the body, and ends an endless one with its context.
type bodyReader struct {
	ctx  context.Context
	body io.Reader
	sum  hash.Hash32
	sent int64
	err  error
}

func (r *bodyReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.body.Read(p)
	r.sum.Write(p[:n])
	r.sent += int64(n)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
