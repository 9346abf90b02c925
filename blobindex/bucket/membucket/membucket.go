// Package membucket is a bucket.Objects and a cas.Store in memory: for tests, for the demonstration, and as the plainest reading of
// the contract. It owns an ordered map behind one lock; nothing survives the process.
//
// A key is any non-empty byte string. A listing is no snapshot: each page shows the state at the moment at which that
// page is made, as a remote store's pages do, and costs O(log n + page) however large the bucket is. Store times never
// run backwards, even where the given clock does.
package membucket

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// degree of the B-tree: nodes of up to 63 objects, a few cache lines of headers each.
const degree = 32

// Options configures a Bucket; nil and zero fields mean the defaults.
type Options struct {
	Now      func() time.Time // the store's clock; nil: time.Now
	PageSize int              // objects a page; 0 or more than bucket.PageSize: bucket.PageSize

	// Generations makes versions as Cloud Storage does: growing numbers, a new one for each write. Else they are hashes
	// of the content, as S3's ETags are: an object that gets its former body back has its former version.
	Generations bool
}

// A Bucket is an object store in memory. It is safe for concurrent use.
type Bucket struct {
	clock    func() time.Time
	pageSize int
	numbers  bool // versions are generations

	mu         sync.RWMutex // guards objects and generation
	objects    *btree.BTreeG[object]
	generation int64 // the last one given out

	timeMu sync.Mutex // guards latest; taken below mu, never above it
	latest time.Time
}

var (
	_ bucket.Objects = (*Bucket)(nil)
	_ cas.Store      = (*Bucket)(nil)
)

// An object keeps its body as a string: it cannot be changed behind the bucket's back, nor by who reads it.
type object struct {
	key        bucket.Key
	body       string
	time       time.Time
	generation int64
}

// New returns an empty bucket.
func New(opts *Options) *Bucket {
	b := &Bucket{
		clock:      time.Now,
		pageSize:   bucket.PageSize,
		objects:    btree.NewG(degree, func(x, y object) bool { return x.key < y.key }),
		generation: firstGeneration,
	}
	if opts == nil {
		return b
	}
	b.numbers = opts.Generations
	if opts.Now != nil {
		b.clock = opts.Now
	}
	if 0 < opts.PageSize && opts.PageSize < bucket.PageSize {
		b.pageSize = opts.PageSize
	}
	return b
}

// now reads the clock, without its monotonic part (a store time is a wall-clock reading) and never backwards.
func (b *Bucket) now() time.Time {
	b.timeMu.Lock()
	defer b.timeMu.Unlock()
	if t := b.clock().Round(0); t.After(b.latest) {
		b.latest = t
	}
	return b.latest
}

// Put stores a copy of body under key. The body is read before anything changes, so one that fails changes nothing;
// its error is wrapped. The empty key is refused with bucket.ErrInvalidKey.
func (b *Bucket) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if err := usable(ctx, key); err != nil {
		return time.Time{}, fmt.Errorf("putting %q: %w", key, err)
	}
	var text strings.Builder
	if body != nil {
		if _, err := io.Copy(&text, bucket.ReadBody(ctx, body)); err != nil {
			return time.Time{}, fmt.Errorf("putting %q: %w", key, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return time.Time{}, fmt.Errorf("putting %q: %w", key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.store(key, text.String()).time, nil
}

// store puts an object, under mu.
func (b *Bucket) store(key bucket.Key, body string) object {
	b.generation += generationStep
	// A key may share a larger string's memory; an object that stays must not keep that alive.
	o := object{bucket.Key(strings.Clone(string(key))), body, b.now(), b.generation}
	b.objects.ReplaceOrInsert(o)
	return o
}

// Open returns the body that the object has now; later writes do not change what is read from it.
func (b *Bucket) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	o, err := b.get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", key, err)
	}
	return io.NopCloser(strings.NewReader(o.body)), nil
}

// Head tells about the object.
func (b *Bucket) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	o, err := b.get(ctx, key)
	if err != nil {
		return bucket.Object{}, fmt.Errorf("heading %q: %w", key, err)
	}
	return o.listed(), nil
}

// Delete removes the objects one after another, each at once.
func (b *Bucket) Delete(ctx context.Context, keys []bucket.Key) []error {
	errs := make([]error, len(keys))
	failed := false
	for i, key := range keys {
		if err := usable(ctx, key); err != nil {
			errs[i] = fmt.Errorf("deleting %q: %w", key, err)
			failed = true
			continue
		}
		b.mu.Lock()
		b.objects.Delete(object{key: key})
		b.mu.Unlock()
	}
	if !failed {
		return nil
	}
	return errs
}

func (b *Bucket) get(ctx context.Context, key bucket.Key) (object, error) {
	if err := usable(ctx, key); err != nil {
		return object{}, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	o, ok := b.objects.Get(object{key: key})
	if !ok {
		return object{}, fmt.Errorf("no such object: %w", bucket.ErrNotExist)
	}
	return o, nil
}

func (o object) listed() bucket.Object {
	return bucket.Object{Key: o.key, Size: int64(len(o.body)), StoreTime: o.time}
}

// usable is asked first by every call on a key.
func usable(ctx context.Context, key bucket.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if key == "" {
		return fmt.Errorf("empty key: %w", bucket.ErrInvalidKey)
	}
	return nil
}
