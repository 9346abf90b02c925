package gcsbucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// What is here lets a prober see what the store does by itself, past what the driver guards against.

// Unguarded is the same bucket, but takes the keys that are otherwise refused for what servers were seen to make of them.
// It is closed with the bucket.
func (b *Bucket) Unguarded() bucket.Objects {
	return b.twin(b.name, false)
}

// ListPage asks for one page of at most max keys and returns what was answered, unchecked. form is always empty: JSON has
// one way to write a key.
func (b *Bucket) ListPage(ctx context.Context, prefix, after, token string, max int) (keys []string, next, form string, err error) {
	q := &storage.Query{Prefix: b.root + prefix, Projection: storage.ProjectionNoACL}
	if after != "" {
		q.StartOffset = b.root + after + "\x00" // inclusive, and no key lies in between
	}
	if err := q.SetAttrSelection([]string{"Name"}); err != nil {
		return nil, "", "", err
	}
	err = b.do(ctx, call{onBucket: true}, func(ctx context.Context, x *exchange) (err error) {
		keys, next, err = b.rawPage(ctx, q, token, max, x)
		return err
	})
	if err != nil {
		return nil, "", "", fmt.Errorf("listing a page of %q: %w", prefix, err)
	}
	return keys, next, "", nil
}

// rawPage is page, but asks for as many as it is told to and takes whatever comes.
func (b *Bucket) rawPage(ctx context.Context, q *storage.Query, token string, max int, x *exchange) (keys []string, next string, err error) {
	it := x.bucket.Objects(ctx, q)
	it.PageInfo().Token, it.PageInfo().MaxSize = token, max
	item, err := it.Next()
	switch {
	case x.status == http.StatusOK && (x.refused || errors.Is(err, iterator.Done)):
		return nil, it.PageInfo().Token, nil
	case err != nil:
		return nil, "", err
	}
	for n := it.PageInfo().Remaining(); ; n-- {
		if item != nil && item.Name != "" {
			keys = append(keys, strings.TrimPrefix(item.Name, b.root))
		}
		if n == 0 {
			return keys, it.PageInfo().Token, nil
		}
		if item, err = it.Next(); err != nil {
			return nil, "", err
		}
	}
}

// Conditional sends a "read" or a "delete" on the condition that the object is still of that generation, or a change of its
// "metadata" on the condition of a metageneration that it does not have. The error is nil if it was carried out, and
// cas.ErrConflict if it was refused.
func (b *Bucket) Conditional(ctx context.Context, request string, key bucket.Key, v cas.Version) error {
	name, err := b.object(ctx, key)
	if err != nil {
		return fmt.Errorf("%s of %q: %w", request, key, err)
	}
	cond, err := condition(cas.IfMatch(v))
	if err != nil {
		return fmt.Errorf("%s of %q: %w", request, key, err)
	}
	send := map[string]func(context.Context, *storage.ObjectHandle) error{
		"read": func(ctx context.Context, o *storage.ObjectHandle) error {
			r, err := o.If(cond).NewReader(ctx)
			if err == nil {
				err = r.Close()
			}
			return err
		},
		"delete": func(ctx context.Context, o *storage.ObjectHandle) error { return o.If(cond).Delete(ctx) },
		"metadata": func(ctx context.Context, o *storage.ObjectHandle) error {
			never := storage.Conditions{MetagenerationMatch: 1 << 40}
			_, err := o.If(never).Update(ctx, storage.ObjectAttrsToUpdate{Metadata: map[string]string{"indexd": "probe"}})
			return err
		},
	}[request]
	if send == nil {
		return fmt.Errorf("%s of %q: %w", request, key, bucket.ErrUnsupported)
	}
	err = b.do(ctx, call{attempts: 1}, func(ctx context.Context, x *exchange) error {
		err := send(ctx, x.bucket.Object(name))
		if codeOf(err) == http.StatusPreconditionFailed {
			return &finalError{cas.ErrConflict}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s of %q on a condition: %w", request, key, err)
	}
	return nil
}

// MetadataVersion returns the generation that the metadata tells.
func (b *Bucket) MetadataVersion(ctx context.Context, key bucket.Key) (cas.Version, error) {
	name, err := b.object(ctx, key)
	var attrs *storage.ObjectAttrs
	if err == nil {
		err = b.do(ctx, call{}, func(ctx context.Context, x *exchange) (err error) {
			attrs, err = x.bucket.Object(name).Attrs(ctx)
			return err
		})
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("heading %q: %w", key, err)
	case attrs.Generation <= 0:
		return "", fmt.Errorf("heading %q: the answer tells no generation: %w", key, cas.ErrNoVersion)
	}
	return version(attrs.Generation), nil
}

// SaveSlowly is Save, but calls midway when half of the body has been sent, and sends the rest when that returns.
func (b *Bucket) SaveSlowly(
	ctx context.Context, key bucket.Key, body []byte, p cas.Precondition, midway func(),
) (cas.Version, error) {
	v, err := b.saveFrom(ctx, key, func() io.Reader {
		half := len(body) / 2
		return io.MultiReader(bytes.NewReader(body[:half]), &callReader{midway}, bytes.NewReader(body[half:]))
	}, p)
	if err != nil {
		return "", fmt.Errorf("saving %q slowly %v: %w", key, p, err)
	}
	return v, nil
}

// A callReader is empty, and calls when it is come to.
type callReader struct{ call func() }

func (r *callReader) Read([]byte) (int, error) {
	r.call()
	return 0, io.EOF
}

// Sibling is another bucket at the same place, with the same credentials. It may not exist. It is closed with b.
func (b *Bucket) Sibling(name string) bucket.Objects {
	return b.twin(name, b.pathKeys)
}

// twin is a bucket over the connection that b has now; it does not renew it.
func (b *Bucket) twin(name string, pathKeys bool) *Bucket {
	t := &Bucket{
		name: name, root: b.root, sorted: b.sorted, pathKeys: pathKeys, attempts: b.attempts, firstPause: b.firstPause,
		maxEmpty: b.maxEmpty,
	}
	conn := b.conn.Load()
	handle := conn.client.Bucket(name).Retryer(storage.WithPolicy(storage.RetryNever))
	t.conn.Store(&connection{conn.client, handle, conn.base})
	return t
}
