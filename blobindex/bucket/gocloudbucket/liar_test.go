package gocloudbucket_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/blobindex/indexd/blobindex/bucket/gocloudbucket"
)

// A liar is a driver whose answers a test replaces. Without that it is an honest one, in memory.
type liar struct {
	// strike, if not nil, is asked before each call. Its error is the call's, and a panic in it is the driver's.
	strike func(op, key string) error
	// page, if not nil, answers instead of the honest driver. It is given the number of the request, from 1 on.
	page func(ctx context.Context, opts *driver.ListOptions, nth int) (*driver.ListPage, error)
	// code is what the driver calls an error; nil: by errAbsent.
	code func(error) gcerrors.ErrorCode
	// dir, if not empty, is what the driver says that it is in, as fileblob does.
	dir string
	// keeps stores what was written although the context ended before the writer was closed.
	keeps bool

	mu      sync.Mutex
	objects map[string]driver.ListObject
	bodies  map[string][]byte
	calls   map[string]int
}

var errAbsent = errors.New("liar: no such key")

// start makes the bucket of a driver.
func start(t testing.TB, l *liar, opts gocloudbucket.Options) *gocloudbucket.Bucket {
	t.Helper()
	l.objects, l.bodies, l.calls = map[string]driver.ListObject{}, map[string][]byte{}, map[string]int{}
	return adapt(t, blob.NewBucket(l), opts)
}

// fill stores empty objects.
func (l *liar) fill(keys ...string) {
	for _, key := range keys {
		l.store(key, nil)
	}
}

func (l *liar) store(key string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects[key] = driver.ListObject{Key: key, Size: int64(len(body)), ModTime: time.Unix(1_800_000_000, 0)}
	l.bodies[key] = body
}

func (l *liar) count(op string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[op]
}

func (l *liar) begin(op, key string) (int, error) {
	l.mu.Lock()
	l.calls[op]++
	nth := l.calls[op]
	l.mu.Unlock()
	if l.strike != nil {
		return nth, l.strike(op, key)
	}
	return nth, nil
}

func (l *liar) ListPaged(ctx context.Context, opts *driver.ListOptions) (*driver.ListPage, error) {
	nth, err := l.begin("list", opts.Prefix)
	if err != nil {
		return nil, err
	}
	if opts.BeforeList != nil {
		if err := opts.BeforeList(func(any) bool { return false }); err != nil {
			return nil, err
		}
	}
	if l.page != nil {
		return l.page(ctx, opts, nth)
	}
	return l.honest(opts), nil
}

// honest pages by key.
func (l *liar) honest(opts *driver.ListOptions) *driver.ListPage {
	l.mu.Lock()
	defer l.mu.Unlock()
	var page driver.ListPage
	for _, key := range slices.Sorted(maps.Keys(l.objects)) {
		if !strings.HasPrefix(key, opts.Prefix) || key <= string(opts.PageToken) {
			continue
		}
		if len(page.Objects) == opts.PageSize {
			page.NextPageToken = []byte(page.Objects[len(page.Objects)-1].Key)
			break
		}
		o := l.objects[key]
		page.Objects = append(page.Objects, &o)
	}
	return &page
}

func (l *liar) Attributes(_ context.Context, key string) (*driver.Attributes, error) {
	if _, err := l.begin("head", key); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok := l.objects[key]
	if !ok {
		return nil, errAbsent
	}
	return &driver.Attributes{Size: o.Size, ModTime: o.ModTime}, nil
}

func (l *liar) NewRangeReader(_ context.Context, key string, _, _ int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	if _, err := l.begin("open", key); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	body, ok := l.bodies[key]
	if !ok {
		return nil, errAbsent
	}
	return &liarReader{bytes.NewReader(body), l, key}, nil
}

type liarReader struct {
	body *bytes.Reader
	l    *liar
	key  string
}

func (r *liarReader) Read(p []byte) (int, error) {
	if _, err := r.l.begin("read", r.key); err != nil {
		return 0, err
	}
	return r.body.Read(p)
}
func (r *liarReader) Close() error                         { return nil }
func (r *liarReader) Attributes() *driver.ReaderAttributes { return &driver.ReaderAttributes{} }
func (r *liarReader) As(any) bool                          { return false }

func (l *liar) NewTypedWriter(ctx context.Context, key, _ string, _ *driver.WriterOptions) (driver.Writer, error) {
	if _, err := l.begin("put", key); err != nil {
		return nil, err
	}
	return &liarWriter{ctx: ctx, l: l, key: key}, nil
}

type liarWriter struct {
	bytes.Buffer
	ctx context.Context
	l   *liar
	key string
}

// Close stores. A strike at "close" loses the answer of a write that was carried out.
func (w *liarWriter) Close() error {
	if err := w.ctx.Err(); err != nil && !w.l.keeps {
		return err
	}
	w.l.store(w.key, bytes.Clone(w.Bytes()))
	_, err := w.l.begin("close", w.key)
	return err
}

func (l *liar) Delete(_ context.Context, key string, _ *driver.DeleteOptions) error {
	if _, err := l.begin("delete", key); err != nil {
		return err
	}
	l.mu.Lock()
	_, ok := l.objects[key]
	delete(l.objects, key)
	delete(l.bodies, key)
	l.mu.Unlock()
	if !ok {
		return errAbsent
	}
	_, err := l.begin("deleted", key) // the answer of a delete that was carried out may be lost
	return err
}

func (l *liar) ErrorCode(err error) gcerrors.ErrorCode {
	switch {
	case errors.Is(err, errAbsent):
		return gcerrors.NotFound
	case l.code != nil:
		return l.code(err)
	}
	return gcerrors.Unknown
}

var errUnused = errors.New("liar: not used by an index")

func (l *liar) Copy(context.Context, string, string, *driver.CopyOptions) error { return errUnused }
func (l *liar) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errUnused
}
func (l *liar) As(i any) bool {
	info, ok := i.(*os.FileInfo)
	if !ok || l.dir == "" {
		return false
	}
	var err error
	*info, err = os.Stat(l.dir)
	return err == nil
}
func (l *liar) ErrorAs(error, any) bool { return false }
func (l *liar) Close() error            { return nil }

var _ io.ReadCloser = (*liarReader)(nil)
