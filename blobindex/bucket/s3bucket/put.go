package s3bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex/bucket"
)

const (
	inMemory = 1 << 20 // bytes of a body without a length that are kept in memory
	maxBody  = 5 << 30 // bytes that one PutObject takes
)

// Put stores an object with one PutObject; see the package comment for bodies without a length.
func (b *Bucket) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	full, err := b.usable(ctx, key)
	if err != nil {
		return time.Time{}, fmt.Errorf("putting %q: %w", key, err)
	}
	src, err := newSource(ctx, body, b.maxBody)
	if err != nil {
		return time.Time{}, fmt.Errorf("putting %q: %w", key, err)
	}
	defer src.close()
	if src.size > 0 && strings.HasSuffix(full, "/") && b.custom && !b.anyKeys {
		return time.Time{}, fmt.Errorf("putting %q: a directory with a body: %w", key, bucket.ErrInvalidKey)
	}
	attempts := b.attempts
	if src.once {
		attempts = 1
	}
	var at time.Time
	err = b.try(ctx, writing, attempts, func() error {
		r, err := src.reader()
		if err != nil {
			return err
		}
		out, err := b.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &b.name, Key: &full, Body: r, ContentLength: aws.Int64(src.size),
		}, src.plain)
		if err == nil {
			at = serverTime(out.ResultMetadata)
		}
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("putting %q: %w", key, err)
	}
	return at, nil
}

// A source is a body of known length that can be read from its start again.
type source struct {
	data  []byte // all of it, if seek is nil
	seek  io.ReadSeeker
	start int64
	size  int64
	once  bool // may be sent only once
	file  *os.File
}

// newSource reads a body that is no Seeker to its end. A body of more than limit bytes is refused as soon as that is seen.
func newSource(ctx context.Context, body io.Reader, limit int64) (*source, error) {
	if body == nil {
		return &source{}, nil
	}
	if seek, ok := body.(io.ReadSeeker); ok {
		return seekSource(seek, limit)
	}
	s := &source{once: true}
	var buf bytes.Buffer
	r := bucket.ReadBody(ctx, body)
	n, err := io.CopyN(&buf, r, min(inMemory, limit+1))
	switch {
	case errors.Is(err, io.EOF):
		s.data, s.size = buf.Bytes(), n
		return s, nil
	case err == nil && n > limit:
		err = tooLong(limit)
	case err == nil:
		err = s.spool(io.MultiReader(&buf, r), limit)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func seekSource(seek io.ReadSeeker, limit int64) (*source, error) {
	start, err := seek.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, &bucket.BodyError{Err: err}
	}
	end, err := seek.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, &bucket.BodyError{Err: err}
	}
	s := &source{seek: seek, start: start, size: max(end-start, 0)}
	if s.size > limit {
		return nil, tooLong(limit)
	}
	if s.size > inMemory {
		return s, nil
	}
	// A short one is read once: no later attempt can be spoiled by what became of the Seeker.
	if _, err := seek.Seek(start, io.SeekStart); err != nil {
		return nil, &bucket.BodyError{Err: err}
	}
	data := make([]byte, s.size)
	if _, err := io.ReadFull(seek, data); err != nil {
		return nil, &bucket.BodyError{Err: err}
	}
	return &source{data: data, size: s.size}, nil
}

func tooLong(limit int64) error {
	return fmt.Errorf("its body has more than the %d bytes that one request of S3 takes: %w", limit, bucket.ErrUnsupported)
}

// spool keeps a body in a file that has no name any more where the system allows that, so that a crash leaves nothing.
func (s *source) spool(body io.Reader, limit int64) error {
	f, err := os.CreateTemp("", "indexd-s3-*")
	if err != nil {
		return err
	}
	s.file, s.seek = f, f
	os.Remove(f.Name()) // Windows refuses: close does it there
	s.size, err = io.Copy(f, io.LimitReader(body, limit+1))
	if err == nil && s.size > limit {
		err = tooLong(limit)
	}
	return err
}

func (s *source) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}

// reader returns the body from its start, for one attempt.
func (s *source) reader() (io.ReadSeeker, error) {
	if s.seek == nil {
		return bytes.NewReader(s.data), nil
	}
	if _, err := s.seek.Seek(s.start, io.SeekStart); err != nil {
		return nil, &bucket.BodyError{Err: err}
	}
	return bodyReader{s.seek}, nil
}

// plain keeps the SDK from framing an empty body for the sake of a checksum of nothing.
func (s *source) plain(o *s3.Options) {
	if s.size == 0 {
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	}
}

// A bodyReader marks the errors of a body, and hides that it could be closed.
type bodyReader struct{ io.ReadSeeker }

func (r bodyReader) Read(p []byte) (int, error) {
	n, err := r.ReadSeeker.Read(p)
	if err != nil && err != io.EOF {
		err = &bucket.BodyError{Err: err}
	}
	return n, err
}
