package blobindex_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A retimed bucket is a store, for one test alone, whose times are the test's: what the store tells of its own is looked
// at and replaced. On the way each listing is held to the contract: it tells times, names nothing that was never put,
// and whatever was there all the while exactly once.
type retimed struct {
	bucket.Objects // the store; all of it is this test's
	t              testing.TB
	now            func() time.Time

	mu      sync.Mutex                // guards all below
	objects map[bucket.Key]*retimedAt // of each key that was ever put
	steps   int
}

// retimedAt is what is known of one key.
type retimedAt struct {
	stored time.Time
	step   int // of the last write or delete that was begun
	busy   int // writes and deletes that were begun and have not ended
	gone   bool
}

func retime(t testing.TB, objects bucket.Objects, now func() time.Time) *retimed {
	return &retimed{Objects: objects, t: t, now: now, objects: make(map[bucket.Key]*retimedAt)}
}

// change notes that a key is being written or deleted: from here on listings may show it, or not.
func (r *retimed) change(key bucket.Key) *retimedAt {
	o := r.objects[key]
	if o == nil {
		o = &retimedAt{gone: true}
		r.objects[key] = o
	}
	r.steps++
	o.step = r.steps
	o.busy++
	return o
}

func (r *retimed) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	r.mu.Lock()
	o := r.change(key)
	r.mu.Unlock()
	told, err := r.Objects.Put(ctx, key, body)
	r.mu.Lock()
	defer r.mu.Unlock()
	o.busy--
	if err != nil {
		return time.Time{}, err
	}
	if told.IsZero() {
		r.t.Errorf("the store tells no time of putting %q", key)
	}
	o.stored, o.gone = r.now(), false
	return o.stored, nil
}

func (r *retimed) Delete(ctx context.Context, keys []bucket.Key) []error {
	r.mu.Lock()
	for _, key := range keys {
		r.change(key)
	}
	r.mu.Unlock()
	errs := r.Objects.Delete(ctx, keys)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, key := range keys {
		r.objects[key].busy--
		if errs == nil || errs[i] == nil {
			r.objects[key].gone = true
		}
	}
	return errs
}

func (r *retimed) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	o, err := r.Objects.Head(ctx, key)
	if err != nil {
		return o, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.objects[key]; known != nil {
		o.StoreTime = known.stored
	}
	return o, nil
}

func (r *retimed) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	before := r.still(req)
	listed := make(map[bucket.Key]int)
	err := r.Objects.List(ctx, req, func(p bucket.Page) error {
		if p.Now.IsZero() {
			r.t.Errorf("the store tells no time of listing %q", req.Prefix)
		}
		objects := make([]bucket.Object, len(p.Objects))
		for i, o := range p.Objects {
			listed[o.Key]++
			objects[i] = r.replaced(o)
		}
		return fn(bucket.Page{Objects: objects, Now: r.now(), Sorted: p.Sorted})
	})
	if err == nil {
		r.compare(before, listed)
	}
	return err
}

func (r *retimed) replaced(o bucket.Object) bucket.Object {
	if o.StoreTime.IsZero() {
		r.t.Errorf("the store tells no time of %q", o.Key)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.objects[o.Key]
	if known == nil {
		r.t.Errorf("the store lists %q, which was never put", o.Key)
		return o
	}
	o.StoreTime = known.stored
	return o
}

// still returns the step of each object that a listing must show if it does not change meanwhile.
func (r *retimed) still(req bucket.ListRequest) map[bucket.Key]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := make(map[bucket.Key]int)
	for key, o := range r.objects {
		if !o.gone && o.busy == 0 && key > req.After && strings.HasPrefix(string(key), req.Prefix) {
			steps[key] = o.step
		}
	}
	return steps
}

func (r *retimed) compare(before, listed map[bucket.Key]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, step := range before {
		if r.objects[key].step == step && listed[key] != 1 {
			r.t.Errorf("a complete listing has %q %d times, and it was there all the while", key, listed[key])
		}
	}
	for key, n := range listed {
		if n > 1 {
			r.t.Errorf("a complete listing has %q %d times", key, n)
		}
	}
}
