package buckettest_test

import (
	"context"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
)

// A bug is a driver that does one thing wrong; calls that it does not spoil go to a good one.
type bug struct {
	bucket.Objects
	list   func(o bucket.Objects, ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error
	put    func(o bucket.Objects, ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error)
	open   func(o bucket.Objects, ctx context.Context, key bucket.Key) (io.ReadCloser, error)
	delete func(o bucket.Objects, ctx context.Context, keys []bucket.Key) []error
}

func (b bug) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	if b.list != nil {
		return b.list(b.Objects, ctx, req, fn)
	}
	return b.Objects.List(ctx, req, fn)
}

func (b bug) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if b.put != nil {
		return b.put(b.Objects, ctx, key, body)
	}
	return b.Objects.Put(ctx, key, body)
}

func (b bug) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	if b.open != nil {
		return b.open(b.Objects, ctx, key)
	}
	return b.Objects.Open(ctx, key)
}

func (b bug) Delete(ctx context.Context, keys []bucket.Key) []error {
	if b.delete != nil {
		return b.delete(b.Objects, ctx, keys)
	}
	return b.Objects.Delete(ctx, keys)
}

// spoilPages makes a listing bug of what happens to each page.
func spoilPages(spoil func(*bucket.Page)) bug {
	return bug{list: func(o bucket.Objects, ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
		return o.List(ctx, req, func(p bucket.Page) error {
			spoil(&p)
			return fn(p)
		})
	}}
}

// reList makes a listing bug of what happens to the request.
func reList(change func(*bucket.ListRequest)) bug {
	return bug{list: func(o bucket.Objects, ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
		change(&req)
		return o.List(ctx, req, fn)
	}}
}

// reKey makes a writing bug of what happens to the key.
func reKey(change func(string) string) bug {
	return bug{put: func(o bucket.Objects, ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
		return o.Put(ctx, bucket.Key(change(string(key))), body)
	}}
}

// planted are bugs that real drivers had, each with the step that must notice it.
var planted = []struct {
	name string
	step string
	bug  bug
}{
	{"last of a full page lost", "PageBoundaries", spoilPages(func(p *bucket.Page) {
		if n := len(p.Objects); n == bucket.PageSize {
			p.Objects = p.Objects[:n-1]
		}
	})},
	{"first of each page twice", "PageBoundaries", spoilPages(func(p *bucket.Page) {
		if n := len(p.Objects); 0 < n && n < bucket.PageSize {
			p.Objects = append(slices.Clone(p.Objects), p.Objects[0])
		}
	})},
	{"page order reversed", "Order", spoilPages(func(p *bucket.Page) { slices.Reverse(p.Objects) })},
	{"no clock", "StoreTime", spoilPages(func(p *bucket.Page) { p.Now = time.Time{} })},
	{"clock an hour behind", "StoreTime", spoilPages(func(p *bucket.Page) { p.Now = p.Now.Add(-time.Hour) })},
	{"slash trimmed off the prefix", "Boundaries", reList(func(r *bucket.ListRequest) {
		r.Prefix = strings.TrimRight(r.Prefix, "/")
	})},
	{"prefix taken for a directory", "Boundaries", reList(func(r *bucket.ListRequest) {
		r.Prefix = r.Prefix[:strings.LastIndex(r.Prefix, "/")+1]
	})},
	{"after ignored", "After", reList(func(r *bucket.ListRequest) { r.After = "" })},
	{"after inclusive", "After", reList(func(r *bucket.ListRequest) {
		if n := len(r.After); n > 0 {
			r.After = r.After[:n-1] + bucket.Key([]byte{r.After[n-1] - 1, 0xff, 0xff})
		}
	})},
	{"empty listing without a page", "RoundTrip", bug{list: func(o bucket.Objects, ctx context.Context,
		req bucket.ListRequest, fn func(bucket.Page) error) error {
		return o.List(ctx, req, func(p bucket.Page) error {
			if len(p.Objects) == 0 {
				return nil
			}
			return fn(p)
		})
	}}},
	{"callback's error swallowed", "CallbackError", bug{list: func(o bucket.Objects, ctx context.Context,
		req bucket.ListRequest, fn func(bucket.Page) error) error {
		o.List(ctx, req, fn)
		return nil
	}}},
	{"callback's error wrapped", "CallbackError", bug{list: func(o bucket.Objects, ctx context.Context,
		req bucket.ListRequest, fn func(bucket.Page) error) error {
		if err := o.List(ctx, req, fn); err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		return nil
	}}},
	{"listing deaf to its context", "Cancelled", bug{list: func(o bucket.Objects, ctx context.Context,
		req bucket.ListRequest, fn func(bucket.Page) error) error {
		return o.List(context.WithoutCancel(ctx), req, fn)
	}}},
	{"pages that hide what comes in between", "ListWhileChanging", bug{list: offsets}},
	{"pages read ahead", "PageByPage", bug{list: readAhead}},
	{"key cleaned", "OddKeys", reKey(path.Clean)},
	{"key unescaped", "OddKeys", reKey(func(k string) string { return strings.ReplaceAll(k, "%2B", "+") })},
	{"key made valid UTF-8", "OddKeys", reKey(func(k string) string { return strings.ToValidUTF8(k, "\ufffd") })},
	{"key cut at a line feed", "OddKeys", reKey(func(k string) string { return strings.SplitN(k, "\n", 2)[0] })},
	{"empty key taken", "EmptyKey", reKey(func(k string) string { return k + "_" })},
	{"half a body stored", "FailingBody", bug{put: func(o bucket.Objects, ctx context.Context, key bucket.Key,
		body io.Reader) (time.Time, error) {
		if body == nil {
			return o.Put(ctx, key, nil)
		}
		data, err := io.ReadAll(body)
		t, _ := o.Put(ctx, key, strings.NewReader(string(data)))
		return t, err
	}}},
	{"seeker rewound", "StreamingBody", bug{put: func(o bucket.Objects, ctx context.Context, key bucket.Key,
		body io.Reader) (time.Time, error) {
		if s, ok := body.(io.Seeker); ok {
			s.Seek(0, io.SeekStart)
		}
		return o.Put(ctx, key, body)
	}}},
	{"body cut at 1 MiB", "StreamingBody", bug{put: func(o bucket.Objects, ctx context.Context, key bucket.Key,
		body io.Reader) (time.Time, error) {
		if body == nil {
			return o.Put(ctx, key, nil)
		}
		return o.Put(ctx, key, io.LimitReader(body, 1<<20))
	}}},
	{"first write wins", "Refresh", bug{put: func(o bucket.Objects, ctx context.Context, key bucket.Key,
		body io.Reader) (time.Time, error) {
		if old, err := o.Head(ctx, key); err == nil {
			return old.StoreTime, nil
		}
		return o.Put(ctx, key, body)
	}}},
	{"two writes for one body", "Concurrent", bug{put: func(o bucket.Objects, ctx context.Context, key bucket.Key,
		body io.Reader) (time.Time, error) {
		data, err := io.ReadAll(body)
		if err != nil {
			return time.Time{}, err
		}
		o.Put(ctx, key, strings.NewReader(string(data[:len(data)/2])))
		for range 20 { // long enough for somebody to look
			runtime.Gosched()
		}
		return o.Put(ctx, key, strings.NewReader(string(data)))
	}}},
	{"absent object read as empty", "RoundTrip", bug{open: func(o bucket.Objects, ctx context.Context,
		key bucket.Key) (io.ReadCloser, error) {
		r, err := o.Open(ctx, key)
		if err != nil {
			return io.NopCloser(strings.NewReader("")), nil
		}
		return r, nil
	}}},
	{"only the errors returned", "DeleteErrors", bug{delete: func(o bucket.Objects, ctx context.Context,
		keys []bucket.Key) []error {
		return slices.DeleteFunc(o.Delete(ctx, keys), func(err error) bool { return err == nil })
	}}},
	{"delete stops at an error", "DeleteErrors", bug{delete: func(o bucket.Objects, ctx context.Context,
		keys []bucket.Key) []error {
		if i := slices.Index(keys, ""); i >= 0 {
			keys = keys[:i+1]
		}
		return append(o.Delete(ctx, keys), nil, nil)
	}}},
	{"delete of one batch only", "DeleteMany", bug{delete: func(o bucket.Objects, ctx context.Context,
		keys []bucket.Key) []error {
		return o.Delete(ctx, keys[:min(len(keys), bucket.PageSize)])
	}}},
	{"delete asks about no keys", "Delete", bug{delete: func(o bucket.Objects, ctx context.Context,
		keys []bucket.Key) []error {
		if err := ctx.Err(); err != nil {
			return []error{err}
		}
		return o.Delete(ctx, keys)
	}}},
}

// offsets pages by position, as SQL's OFFSET does: what is deleted in front shifts the rest.
func offsets(o bucket.Objects, ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	for from := 0; ; from += bucket.PageSize {
		var all bucket.Page
		err := o.List(ctx, req, func(p bucket.Page) error {
			p.Objects = append(all.Objects, p.Objects...)
			all = p
			return nil
		})
		if err != nil {
			return err
		}
		n := len(all.Objects)
		all.Objects = all.Objects[min(from, n):min(from+bucket.PageSize, n)]
		if err := fn(all); err != nil || from+bucket.PageSize >= n {
			return err
		}
	}
}

// readAhead has the next page ready when it delivers one.
func readAhead(o bucket.Objects, ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	var ready *bucket.Page
	err := o.List(ctx, req, func(p bucket.Page) error {
		before := ready
		p.Objects = slices.Clone(p.Objects)
		ready = &p
		if before == nil {
			return nil
		}
		return fn(*before)
	})
	if err != nil {
		return err
	}
	return fn(*ready)
}

func memConfig(spoil bug) buckettest.Config {
	return buckettest.Config{
		New: func(testing.TB) bucket.Objects {
			spoil := spoil
			spoil.Objects = membucket.New(nil)
			return spoil
		},
		Empty: true, Sorted: true, PageByPage: true, TellsTime: true,
	}
}

// TestPlantedBugs shows that each step can fail.
func TestPlantedBugs(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			if r := runStep(t, memConfig(p.bug), p.step); r.failures() == 0 {
				t.Errorf("step %s passed", p.step)
			}
		})
	}
}

func runStep(t *testing.T, c buckettest.Config, step string) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // a step that gives up ends its goroutine
		defer close(done)
		buckettest.RunStep(r, c, step)
	}()
	<-done
	return r
}

// TestTimesObjects runs the suite on a store that times its objects and tells no clock, and shows that what it then tells
// too much or too little of is noticed.
func TestTimesObjects(t *testing.T) {
	timed := spoilPages(func(p *bucket.Page) { p.Now = time.Time{} })
	timed.put = func(o bucket.Objects, ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
		_, err := o.Put(ctx, key, body)
		return time.Time{}, err
	}
	conf := memConfig(timed)
	conf.TellsTime, conf.TimesObjects = false, true
	buckettest.Run(t, conf)

	telling, untold := conf, conf
	telling.New = memConfig(bug{}).New // tells its clock as well
	shifted := timed
	shifted.list = spoilPages(func(p *bucket.Page) {
		p.Now, p.Objects = time.Time{}, slices.Clone(p.Objects)
		for i := range p.Objects {
			p.Objects[i].StoreTime = p.Objects[i].StoreTime.Add(time.Hour)
		}
	}).list
	differing := conf
	differing.New = memConfig(shifted).New
	untold.TimesObjects = false // tells times of objects all the same
	for _, tc := range []struct {
		what, step string
		conf       buckettest.Config
	}{
		{"a clock too many", "StoreTime", telling},
		{"times that differ", "StoreTime", differing},
		{"times too many", "RoundTrip", untold},
	} {
		if r := runStep(t, tc.conf, tc.step); r.failures() == 0 {
			t.Errorf("%s: step %s passed", tc.what, tc.step)
		}
	}
}

// TestThroughDecorator runs the suite on the decorator of the planted bugs, without one: it is not what they notice.
func TestThroughDecorator(t *testing.T) {
	buckettest.Run(t, memConfig(bug{}))
}

// TestRefusesAndFill: no step insists on a key that the store is said to refuse, and large listings may be filled by
// somebody else.
func TestRefusesAndFill(t *testing.T) {
	refuses := func(key bucket.Key) bool {
		return strings.Contains(string(key), "//") || strings.HasSuffix(string(key), "/") || strings.ContainsAny(string(key), "!\x7f")
	}
	c := memConfig(bug{put: func(o bucket.Objects, ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
		if refuses(key) {
			return time.Time{}, bucket.ErrInvalidKey
		}
		return o.Put(ctx, key, body)
	}})
	filled := 0
	c.Refuses = refuses
	c.Fill = func(o bucket.Objects, keys []bucket.Key) {
		filled += len(keys)
		for _, key := range keys {
			if _, err := o.Put(t.Context(), key, nil); err != nil {
				t.Error(err)
			}
		}
	}
	buckettest.Run(t, c)
	if filled < 4*bucket.PageSize {
		t.Errorf("%d keys were filled: the large steps went another way", filled)
	}
}

// A recorder is a testing.TB whose failures are counted and fail nothing.
type recorder struct {
	testing.TB
	mu    sync.Mutex
	count int
}

func (r *recorder) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
}

func (r *recorder) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

func (r *recorder) Error(...any)          { r.fail() }
func (r *recorder) Errorf(string, ...any) { r.fail() }
func (r *recorder) Fatal(...any)          { r.fail(); runtime.Goexit() }
func (r *recorder) Fatalf(string, ...any) { r.fail(); runtime.Goexit() }
func (r *recorder) Logf(string, ...any)   {}
