package bucket

import (
	"context"
	"io"
)

// ReadBody returns a reader of the body of a Put, for drivers: it ends an endless body with its context, returning the
// context's error as it is, and gives the body's own errors as a *BodyError, so that no driver takes them for errors of
// its store. It asks the context before each read; a read that hangs it cannot end. A nil body reads as an empty one.
func ReadBody(ctx context.Context, body io.Reader) io.Reader {
	return &bodyReader{ctx, body}
}

// A BodyError is an error that the body of a Put returned. It says nothing about the store or the key: a body that is a
// file which does not exist is no ErrNotExist of the object.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return "reading its body: " + e.Err.Error() }

// Unwrap returns the body's own error.
func (e *BodyError) Unwrap() error { return e.Err }

type bodyReader struct {
	ctx  context.Context
	body io.Reader
}

func (r *bodyReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.body == nil {
		return 0, io.EOF
	}
	n, err := r.body.Read(p)
	if err != nil && err != io.EOF {
		err = &BodyError{err}
	}
	return n, err
}
