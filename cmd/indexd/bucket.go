package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/web"
)

// A use says what a command may do with a bucket.
type use int

const (
	existing use = iota // it must be there
	creating            // a directory is made if it is not there
	serving             // as creating, and it may be in memory: the process lives as long as its bucket has to
)

// A lazyBucket opens its bucket at the first request. What is refused before any request (a bad id, labels that are too
// long) therefore leaves no directory behind. Its methods are safe for concurrent use.
type lazyBucket struct {
	location *openbucket.Location
	use      use
	counted  func(bucket.Objects) bucket.Objects // nil: nobody counts what is asked of it

	mu      sync.Mutex // guards what follows
	driver  openbucket.Bucket
	objects bucket.Objects // the driver, counted
	err     error
}

// parseBucket checks a bucket's address and returns the bucket, not opened yet. The errors are usage errors.
func parseBucket(address string, u use) (*lazyBucket, error) {
	l, err := openbucket.Parse(address)
	if err != nil {
		return nil, err
	}
	if l.Scheme() == "mem" && u != serving {
		return nil, usagef("the bucket mem:// lives only as long as its process: use it with serve, or name a " +
			"directory or a bucket, such as --bucket file:///dir or s3://bucket")
	}
	return &lazyBucket{location: l, use: u}, nil
}

// prices are what the store asks for requests, at list price in US dollars: S3 Standard in us-east-1
// (https://aws.amazon.com/s3/pricing/) and Standard storage in a US region (https://cloud.google.com/storage/pricing).
// A directory, memory and somebody's own server charge nothing.
func (b *lazyBucket) prices() web.Prices {
	if b.location.Cloud() {
		return web.Prices{ListPer1000: 0.005, GetPer1000: 0.0004}
	}
	return web.Prices{}
}

// get opens the bucket, once. Whoever asks first has its context used for that.
func (b *lazyBucket) get(ctx context.Context) (bucket.Objects, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects == nil && b.err == nil {
		open := b.location.Create
		if b.use == existing {
			open = b.location.Open
		}
		if b.driver, b.err = open(ctx); b.err == nil {
			b.objects = b.driver
			if b.counted != nil {
				b.objects = b.counted(b.driver)
			}
		}
	}
	return b.objects, b.err
}

// Close lets go of the bucket if it was opened.
func (b *lazyBucket) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.driver != nil {
		return b.driver.Close()
	}
	return nil
}

// opened is the driver itself, with all that it offers beyond its contracts; nil before the bucket is opened.
func (b *lazyBucket) opened() openbucket.Bucket {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.driver
}

var (
	_ bucket.Objects = (*lazyBucket)(nil)
	_ cas.Store      = (*lazyBucket)(nil)
)

func (b *lazyBucket) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	o, err := b.get(ctx)
	if err != nil {
		return err
	}
	return o.List(ctx, req, fn)
}

func (b *lazyBucket) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	o, err := b.get(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return o.Put(ctx, key, body)
}

func (b *lazyBucket) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	o, err := b.get(ctx)
	if err != nil {
		return nil, err
	}
	return o.Open(ctx, key)
}

func (b *lazyBucket) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	o, err := b.get(ctx)
	if err != nil {
		return bucket.Object{}, err
	}
	return o.Head(ctx, key)
}

func (b *lazyBucket) Delete(ctx context.Context, keys []bucket.Key) []error {
	o, err := b.get(ctx)
	if err == nil {
		return o.Delete(ctx, keys)
	}
	errs := make([]error, len(keys))
	for i, key := range keys {
		errs[i] = fmt.Errorf("deleting %q: %w", key, err)
	}
	return errs
}

// store is the bucket as one with conditional writes; cas.ErrUnsupported where its driver has none.
func (b *lazyBucket) store(ctx context.Context) (cas.Store, error) {
	o, err := b.get(ctx)
	if err != nil {
		return nil, err
	}
	s, ok := o.(cas.Store)
	if !ok {
		return nil, fmt.Errorf("%s:// has no conditional writes: %w", b.location.Scheme(), cas.ErrUnsupported)
	}
	return s, nil
}

func (b *lazyBucket) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	s, err := b.store(ctx)
	if err != nil {
		return cas.Object{}, err
	}
	return s.Load(ctx, key)
}

func (b *lazyBucket) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	s, err := b.store(ctx)
	if err != nil {
		return "", err
	}
	return s.Save(ctx, key, body, p)
}
