package dirbucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Open returns the body of the object, an open file: it stays the same whatever happens to the key.
func (b *Bucket) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	var f *os.File
	err := b.look(ctx, key, func(p *place) error {
		if _, err := p.regular(); err != nil {
			return err // a pipe, say, must not even be opened
		}
		var err error
		if f, err = p.parent().open(p.name, false); err != nil {
			return err
		}
		m, err := fileMeta(f)
		if err == nil && !m.regular { // it has become something else since
			err = fmt.Errorf("not a regular file: %w", bucket.ErrNotExist)
		}
		return err
	})
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, fmt.Errorf("opening %q: %w", key, err)
	}
	return f, nil
}

// Head tells about the object.
func (b *Bucket) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	var m meta
	err := b.look(ctx, key, func(p *place) (err error) {
		m, err = p.regular()
		return err
	})
	if err != nil {
		return bucket.Object{}, fmt.Errorf("heading %q: %w", key, err)
	}
	return bucket.Object{Key: key, Size: m.size, StoreTime: m.time}, nil
}

// regular stats the object; what is no regular file is none.
func (p *place) regular() (meta, error) {
	m, err := p.parent().stat(p.name)
	if err == nil && !m.regular {
		err = fmt.Errorf("not a regular file: %w", bucket.ErrNotExist)
	}
	return m, err
}

// look calls fn with the place of the key, and makes ErrNotExist of every way in which a path can lead to nothing. The
// root is looked for afterwards too, so that "no such object" is never said of a bucket that went away meanwhile.
func (b *Bucket) look(ctx context.Context, key bucket.Key, fn func(*place) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	end, err := b.begin()
	if err != nil {
		return err
	}
	defer end()
	p, err := b.find(splitKey(key))
	if err == nil {
		err = fn(p)
		p.close()
	}
	if gone := b.presentFor(parentOf(key)); gone != nil {
		return gone
	}
	if isAbsent(err) && !errors.Is(err, bucket.ErrNotExist) {
		return fmt.Errorf("%w: %w", bucket.ErrNotExist, err)
	}
	return translate(err)
}
