package buckettest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// writers is how many requests fill keeps going at once.
const writers = 16

// An env is what a step works with: a bucket, and a prefix that nobody else uses.
type env struct {
	testing.TB
	Config
	o      bucket.Objects
	prefix string
}

func newEnv(t testing.TB, c Config, step string) *env {
	t.Helper()
	e := &env{TB: t, Config: c, prefix: fmt.Sprintf("buckettest-%s-%s/", step, rand.Text())}
	e.o = c.New(t)
	if c.Fill == nil {
		t.Cleanup(e.cleanUp)
	}
	return e
}

// cleanUp leaves a shared bucket as it was found. The context of the test is over by then.
func (e *env) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Context()), time.Minute)
	defer cancel()
	var keys []bucket.Key
	err := e.o.List(ctx, bucket.ListRequest{Prefix: e.prefix}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, o.Key)
		}
		return nil
	})
	if err != nil {
		e.Logf("cleaning up: %v", err)
	}
	if errs := e.o.Delete(ctx, keys); errs != nil {
		e.Logf("cleaning up: %v", errors.Join(errs...))
	}
}

func (e *env) key(name string) bucket.Key { return bucket.Key(e.prefix + name) }

func (e *env) keys(names ...string) []bucket.Key {
	keys := make([]bucket.Key, len(names))
	for i, name := range names {
		keys[i] = e.key(name)
	}
	return keys
}

func (e *env) put(name, body string) time.Time {
	e.Helper()
	t, err := e.o.Put(e.Context(), e.key(name), strings.NewReader(body))
	if err != nil {
		e.Fatalf("Put(%q): %v", name, err)
	}
	return t
}

// many is from how many objects on it is worth while to go past the driver.
const many = 100

// fill puts empty objects, several at a time, or has many of them put past the driver.
func (e *env) fill(names []string) {
	e.Helper()
	if e.Fill != nil && len(names) >= many {
		e.Fill(e.o, e.keys(names...))
		return
	}
	work := make(chan string)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for name := range work {
				if _, err := e.o.Put(e.Context(), e.key(name), nil); err != nil {
					e.Errorf("Put(%q): %v", name, err)
				}
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	wg.Wait()
}

func (e *env) delete(names ...string) {
	e.Helper()
	if errs := e.o.Delete(e.Context(), e.keys(names...)); errs != nil {
		e.Fatalf("Delete(%q): %v", names, errors.Join(errs...))
	}
}

// body reads an object; ok is false if there is none.
func (e *env) body(name string) (body string, ok bool) {
	e.Helper()
	r, err := e.o.Open(e.Context(), e.key(name))
	if errors.Is(err, bucket.ErrNotExist) {
		return "", false
	}
	if err != nil {
		e.Errorf("Open(%q): %v", name, err)
		return "", false
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		e.Errorf("reading %q: %v", name, err)
	}
	return string(data), true
}

func (e *env) wantBody(name, want string) {
	e.Helper()
	got, ok := e.body(name)
	switch {
	case !ok:
		e.Errorf("Open(%q): no such object, want %d bytes", name, len(want))
	case got != want:
		e.Errorf("Open(%q): %d bytes %.40q, want %d bytes %.40q", name, len(got), got, len(want), want)
	}
	o, err := e.o.Head(e.Context(), e.key(name))
	if err != nil || o.Key != e.key(name) || o.Size != int64(len(want)) || o.StoreTime.IsZero() == e.timed() {
		e.Errorf("Head(%q) = %+v, %v, want key %q, size %d, a store time: %v",
			name, o, err, e.key(name), len(want), e.timed())
	}
}

func (e *env) wantAbsent(name string) {
	e.Helper()
	if _, err := e.o.Head(e.Context(), e.key(name)); !errors.Is(err, bucket.ErrNotExist) {
		e.Errorf("Head(%q): error %v, want ErrNotExist", name, err)
	}
	r, err := e.o.Open(e.Context(), e.key(name))
	if !errors.Is(err, bucket.ErrNotExist) {
		e.Errorf("Open(%q): error %v, want ErrNotExist", name, err)
	}
	if err == nil {
		r.Close()
	}
}

// names lists below the step's prefix and returns the names below it, sorted.
func (e *env) names(prefix string) []string {
	e.Helper()
	var names []string
	for _, o := range e.list(bucket.ListRequest{Prefix: e.prefix + prefix}) {
		names = append(names, strings.TrimPrefix(string(o.Key), e.prefix))
	}
	slices.Sort(names)
	return names
}

func (e *env) wantNames(prefix string, want []string) {
	e.Helper()
	want = slices.Sorted(slices.Values(want))
	if got := e.names(prefix); !slices.Equal(got, want) {
		e.Errorf("List(%q): %d names, want %d (-want +got):\n%s", prefix, len(got), len(want), cmp.Diff(want, got))
	}
}

// list lists, and holds the listing to all that must be true of any.
func (e *env) list(req bucket.ListRequest) []bucket.Object {
	e.Helper()
	var objects []bucket.Object
	pages := 0
	err := e.o.List(e.Context(), req, func(p bucket.Page) error {
		pages++
		e.checkPage(p)
		objects = append(objects, p.Objects...)
		return nil
	})
	if err != nil {
		e.Fatalf("List(%+v): %v", req, err)
	}
	if pages == 0 {
		e.Errorf("List(%+v): succeeded without a page", req)
	}
	e.checkObjects(req, objects)
	return objects
}

func (e *env) checkPage(p bucket.Page) {
	e.Helper()
	if len(p.Objects) > bucket.PageSize {
		e.Errorf("a page of %d objects, want at most %d", len(p.Objects), bucket.PageSize)
	}
	if p.Sorted != e.Sorted {
		e.Errorf("Page.Sorted = %v, want %v", p.Sorted, e.Sorted)
	}
	if p.Now.IsZero() == e.TellsTime {
		e.Errorf("Page.Now = %v, want a time: %v", p.Now, e.TellsTime)
	}
}

func (e *env) checkObjects(req bucket.ListRequest, objects []bucket.Object) {
	e.Helper()
	seen := make(map[bucket.Key]bool, len(objects))
	for i, o := range objects {
		if !strings.HasPrefix(string(o.Key), req.Prefix) || o.Key <= req.After {
			e.Errorf("List(%+v): %q does not belong to it", req, o.Key)
		}
		if seen[o.Key] {
			e.Errorf("List(%+v): %q came twice", req, o.Key)
		}
		seen[o.Key] = true
		if e.Sorted && i > 0 && o.Key < objects[i-1].Key {
			e.Errorf("List(%+v): %q came after %q", req, o.Key, objects[i-1].Key)
		}
		if o.StoreTime.IsZero() == e.timed() {
			e.Errorf("List(%+v): store time of %q is %v, want a time: %v", req, o.Key, o.StoreTime, e.timed())
		}
	}
}

// timed: Head and listings tell store times.
func (e *env) timed() bool { return e.TellsTime || e.TimesObjects }
