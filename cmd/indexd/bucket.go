package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
)

// A use says what a command may do with a bucket.
type use int

const (
	existing use = iota // it must be there
	creating            // it is made if it is not there
	serving             // as creating, and it may be in memory: the process lives as long as its bucket has to
)

// A lazyBucket opens its bucket at the first request. What is refused before any request (a bad id, labels that are too
// long) therefore leaves no directory behind. Its methods are safe for concurrent use.
type lazyBucket struct {
	open func() (bucket.Objects, error)

	mu      sync.Mutex // guards objects and err
	objects bucket.Objects
	err     error
}

// parseBucket checks a bucket's address and returns the bucket, not opened yet. The errors are usage errors.
func parseBucket(address string, u use) (*lazyBucket, error) {
	if address == "mem://" {
		if u != serving {
			return nil, usagef("the bucket mem:// lives only as long as its process: use it with serve, or name a " +
				"directory with --bucket file:///dir")
		}
		return &lazyBucket{open: func() (bucket.Objects, error) { return membucket.New(nil), nil }}, nil
	}
	dir, err := bucketDir(address)
	if err != nil {
		return nil, err
	}
	return &lazyBucket{open: func() (bucket.Objects, error) {
		var b *dirbucket.Bucket
		var err error
		if u == existing {
			b, err = dirbucket.Open(dir, nil)
		} else {
			b, err = dirbucket.Create(dir, nil)
		}
		if err != nil {
			return nil, err // not b, which would be an interface that is not nil
		}
		return b, nil
	}}, nil
}

// bucketDir returns the directory that an address names: file:///dir, or a path that cannot be taken for anything else.
func bucketDir(address string) (string, error) {
	dir := address
	switch scheme, _, isURL := strings.Cut(address, "://"); {
	case isURL && scheme != "file":
		return "", usagef("the bucket %.200q has a scheme that this program has no driver for; use file:///dir", address)
	case isURL:
		u, err := url.Parse(address)
		if err != nil || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return "", usagef("the bucket %.200q is no file URL; write file:///dir, with three slashes", address)
		}
		dir = u.Path
	case !filepath.IsAbs(address) && !strings.HasPrefix(address, "./") && !strings.HasPrefix(address, "../"):
		return "", usagef("the bucket %.200q is no address; write file:///dir, or ./dir for a directory here", address)
	}
	// What an unset variable leaves of a path is refused, like an empty prefix.
	if clean := filepath.Clean(dir); strings.TrimSpace(dir) == "" || clean == "." || clean == filepath.Dir(clean) {
		return "", usagef("the bucket %.200q names no directory of its own; write file:///dir, or ./dir for a directory here",
			address)
	}
	if strings.Contains(dir, "\x00") {
		return "", usagef("the bucket %.200q has a NUL in its path", address)
	}
	return dir, nil
}

// get opens the bucket, once.
func (b *lazyBucket) get() (bucket.Objects, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects == nil && b.err == nil {
		b.objects, b.err = b.open()
	}
	return b.objects, b.err
}

// Close lets go of the bucket if it was opened.
func (b *lazyBucket) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.objects.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

var _ bucket.Objects = (*lazyBucket)(nil)

func (b *lazyBucket) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	o, err := b.get()
	if err != nil {
		return err
	}
	return o.List(ctx, req, fn)
}

func (b *lazyBucket) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	o, err := b.get()
	if err != nil {
		return time.Time{}, err
	}
	return o.Put(ctx, key, body)
}

func (b *lazyBucket) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	o, err := b.get()
	if err != nil {
		return nil, err
	}
	return o.Open(ctx, key)
}

func (b *lazyBucket) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	o, err := b.get()
	if err != nil {
		return bucket.Object{}, err
	}
	return o.Head(ctx, key)
}

func (b *lazyBucket) Delete(ctx context.Context, keys []bucket.Key) []error {
	o, err := b.get()
	if err == nil {
		return o.Delete(ctx, keys)
	}
	errs := make([]error, len(keys))
	for i, key := range keys {
		errs[i] = fmt.Errorf("deleting %q: %w", key, err)
	}
	return errs
}
