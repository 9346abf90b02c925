package s3bucket

import (
	"context"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Open returns the body of the object. Getting it is retried until its first byte, and not from there on; a body that
// breaks off is an error of Read, never an end.
func (b *Bucket) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	full, err := b.usable(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", key, err)
	}
	var out *s3.GetObjectOutput
	err = b.try(ctx, reading, b.attempts, func() error {
		out, err = b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &full})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", key, err)
	}
	return &reader{out.Body, key}, nil
}

// A reader names the object in its errors.
type reader struct {
	io.ReadCloser
	key bucket.Key
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("reading %q: %w", r.key, err)
	}
	return n, err
}
