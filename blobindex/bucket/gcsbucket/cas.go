package gcsbucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"cloud.google.com/go/storage"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

var _ cas.Store = (*Bucket)(nil)

// Load returns the object with its generation as its version, body and generation from one answer.
func (b *Bucket) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	name, err := b.object(ctx, key)
	var loaded cas.Object
	if err == nil {
		err = b.do(ctx, call{}, func(ctx context.Context, x *exchange) (err error) {
			loaded, err = load(ctx, x.bucket.Object(name), x)
			return err
		})
	}
	if err != nil {
		return cas.Object{}, fmt.Errorf("loading %q: %w", key, err)
	}
	return loaded, nil
}

func load(ctx context.Context, o *storage.ObjectHandle, x *exchange) (cas.Object, error) {
	r, err := o.NewReader(ctx)
	if err != nil {
		return cas.Object{}, err
	}
	defer r.Close()
	body, err := io.ReadAll(io.LimitReader(r, cas.MaxSize+1))
	switch {
	case errors.Is(err, errBeyond):
		x.refused = false // the client would read on; the whole is asked for again instead
		return cas.Object{}, errors.New("the body broke off")
	case err != nil:
		return cas.Object{}, err
	case len(body) > cas.MaxSize:
		return cas.Object{}, &finalError{fmt.Errorf("more than %d bytes: %w", cas.MaxSize, cas.ErrTooLarge)}
	case r.Attrs.Generation <= 0:
		return cas.Object{}, &finalError{fmt.Errorf("the answer tells no generation: %w", cas.ErrNoVersion)}
	}
	return cas.Object{
		Body: body, Version: version(r.Attrs.Generation), ModTime: r.Attrs.LastModified, StoreTime: x.date,
	}, nil
}

func version(generation int64) cas.Version { return cas.Version(strconv.FormatInt(generation, 10)) }

// A finalError is our own judgement of a good answer; a repetition would come to the same.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// Save sends one upload with ifGenerationMatch, 0 for what must be absent, and never sends it again.
func (b *Bucket) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	v, err := b.saveFrom(ctx, key, func() io.Reader { return bytes.NewReader(body) }, p)
	if err != nil {
		return "", fmt.Errorf("saving %q %v: %w", key, p, err)
	}
	return v, nil
}

func (b *Bucket) saveFrom(ctx context.Context, key bucket.Key, body func() io.Reader, p cas.Precondition) (cas.Version, error) {
	cond, err := condition(p)
	if err != nil {
		return "", err
	}
	name, err := b.object(ctx, key)
	if err != nil {
		return "", err
	}
	var attrs *storage.ObjectAttrs
	err = b.do(ctx, call{write: true, onBucket: p.Absent(), attempts: 1}, func(ctx context.Context, x *exchange) (err error) {
		attrs, err = upload(ctx, x.bucket.Object(name).If(cond), body())
		switch codeOf(err) {
		case http.StatusPreconditionFailed:
			return &finalError{cas.ErrConflict}
		case http.StatusServiceUnavailable: // open, as each 5xx, and a wish for slower writes as well
			return fmt.Errorf("%w: %w", bucket.ErrThrottled, err)
		}
		return err
	})
	switch {
	case err != nil:
		return "", err
	case attrs.Generation <= 0:
		return "", fmt.Errorf("saved, but the answer tells no generation: %w", cas.ErrNoVersion)
	}
	return version(attrs.Generation), nil
}

// condition is p as Cloud Storage says it. A version that is no generation is another store's, and cannot match.
func condition(p cas.Precondition) (storage.Conditions, error) {
	if err := p.Check(); err != nil {
		return storage.Conditions{}, err
	}
	if p.Absent() {
		return storage.Conditions{DoesNotExist: true}, nil
	}
	g, err := strconv.ParseInt(string(p.Version()), 10, 64)
	if err != nil || g <= 0 {
		return storage.Conditions{}, fmt.Errorf("the version %q is no generation: %w", p.Version(), cas.ErrConflict)
	}
	return storage.Conditions{GenerationMatch: g}, nil
}

func isFinal(err error) bool {
	var final *finalError
	return errors.As(err, &final)
}
