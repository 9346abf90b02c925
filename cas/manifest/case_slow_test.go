package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

var errCut = errors.New("the other half never comes")

// cutShort is a source that breaks off in the middle.
func cutShort(body string) manifest.Source {
	return manifest.Source{Name: "cut", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(body[:len(body)/2]), failing{})), nil
	}}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errCut }

// A stepping store calls step before each request, with its number from 1.
type stepping struct {
	manifest.Store
	step func(n int)
	n    int
	puts int
}

func (s *stepping) next() { s.n++; s.step(s.n) }

func (s *stepping) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	s.next()
	s.puts++
	return s.Store.Put(ctx, key, body)
}

func (s *stepping) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	s.next()
	return s.Store.Head(ctx, key)
}

func (s *stepping) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	s.next()
	return s.Store.Load(ctx, key)
}

func (s *stepping) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	s.next()
	return s.Store.Save(ctx, key, body, p)
}

func (s *stepping) Delete(ctx context.Context, keys []bucket.Key) []error {
	s.next()
	return s.Store.Delete(ctx, keys)
}

// TestCase_C08_ManifestSlowWriter: gc, to which every blob is past the grace, comes between any two requests of a writer, or
// before each of the first so many. The writer uploads again what was collected, and never wins with a dead reference.
func TestCase_C08_ManifestSlowWriter(t *testing.T) {
	onStores(t, func(t *testing.T, open func() manifest.Store) {
		mine, others := open(), open()
		has(t, on(t, mine), "kept", "", "kept")
		want := []string{"kept=kept"}
		most := 0
		for _, first := range []bool{false, true} {
			for when := 1; when <= 9; when++ {
				s := &stepping{Store: mine}
				s.step = func(n int) {
					if n == when || first && n < when {
						collect(t, others)
					}
				}
				id := fmt.Sprint(when, first)
				if _, err := on(t, s).Add(t.Context(), manifest.AddRequest{ID: id, DedupeKey: "k", Sources: []manifest.Source{
					text("a" + id), text("b" + id)}}); err != nil {
					t.Errorf("%s: %v", id, err)
				}
				most = max(most, s.puts)
				holds(t, mine, append(want, fmt.Sprintf("%s=a%sb%s", id, id, id))...)
			}
		}
		if most < 4 {
			t.Errorf("at most %d uploads of two blobs: nothing was collected before its time", most)
		}
		collect(t, others)
		if n := len(blobs(t, mine)); n != 3 {
			t.Errorf("%d blobs are left, want those that are referenced", n)
		}
	})
}

// TestCase_C08_ManifestNoRest: where gc comes before every request, for ever, a writer that is given so long ends with an error
// that says so; nothing is added, and nothing is referenced that is not there.
func TestCase_C08_ManifestNoRest(t *testing.T) {
	onStores(t, func(t *testing.T, open func() manifest.Store) {
		mine, others := open(), open()
		has(t, on(t, mine), "kept", "", "kept")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &stepping{Store: mine}
		s.step = func(n int) {
			if collect(t, others); n == 30 {
				cancel()
			}
		}
		_, err := on(t, s).Add(ctx, one("new", "", "new"))
		if !errors.Is(err, context.Canceled) || errors.Is(err, cas.ErrUnknown) {
			t.Errorf("Add: %v, want that it was cancelled", err)
		}
		if s.puts < 3 {
			t.Errorf("%d uploads", s.puts)
		}
		holds(t, mine, "kept=kept")
	})
}

// TestCase_C08_ManifestGraces: which graces there can be, and that no stored one makes gc take what it must not.
func TestCase_C08_ManifestGraces(t *testing.T) {
	years := 10 * 365 * 24 * time.Hour
	for _, d := range []time.Duration{-1, -time.Hour, 1, time.Second, time.Hour - 1, years + 1, 1<<63 - 1, -1 << 63} {
		_, err := manifest.New(membucket.New(nil), "team", "models", &manifest.Options{Grace: d})
		if !errors.Is(err, manifest.ErrGrace) {
			t.Errorf("a grace of %v: %v, want ErrGrace", d, err)
		}
	}
	for text, good := range map[string]bool{
		"3600000": true, "315360000000": true, "0": false, "-1": false, "3599999": false, "315360000001": false, "null": false,
		"9223372036854775807": false, "-9223372036854775808": false, "1e3": false, `"3600000"`: false, "9223372036855": false,
	} {
		now := start
		s := membucket.New(&membucket.Options{Now: func() time.Time { return now }})
		put(t, s, listKey, listOfGrace(text))
		put(t, s, bucket.Key(root+"blobs/orphan"), "x")
		now = start.Add(11 * 365 * 24 * time.Hour)
		r, err := on(t, s).GC(t.Context(), nil)
		if good != (err == nil) || good != (len(blobs(t, s)) == 0) || !good && !errors.Is(err, cas.ErrCorrupt) {
			t.Errorf("grace_ms %s: %+v, %v, left %q", text, r, err, blobs(t, s))
		}
	}
}

// TestCase_C08_ManifestAges: what gc says of orphans by when the store has stored them, at a grace of an hour. Force takes those
// from before the list as well, and nothing else.
func TestCase_C08_ManifestAges(t *testing.T) {
	now := start.Add(100 * time.Hour)
	for name, x := range map[string]struct {
		stored, now time.Time
		goes, force bool
	}{
		"at the grace":            {now.Add(-time.Hour), now, true, true},
		"a moment younger":        {now.Add(-time.Hour + 1), now, false, false},
		"just now":                {now, now, false, false},
		"from the future":         {now.Add(10 * 365 * 24 * time.Hour), now, false, false},
		"the clock went back":     {now.Add(-2 * time.Hour), now.Add(-3 * time.Hour), false, false},
		"before the list":         {start.Add(-2 * time.Minute), now, false, true},
		"just before the list":    {start.Add(-30 * time.Second), now, true, true},
		"the store tells no time": {time.Time{}, now, false, false},
		"nor when it is":          {now.Add(-2 * time.Hour), time.Time{}, false, false},
	} {
		for _, force := range []bool{false, true} {
			s := membucket.New(&membucket.Options{Now: func() time.Time { return start }})
			put(t, s, listKey, listOfGrace("3600000"))
			put(t, s, bucket.Key(root+"blobs/orphan"), "x")
			r, err := on(t, agedStore{s, x.stored, x.now}).GC(t.Context(), &manifest.GCOptions{Force: force})
			goes, gone := x.goes || force && x.force, len(blobs(t, s)) == 0
			if err != nil || (r.Deleted == 1) != goes || gone != goes || len(r.Orphans) != 1 || r.Orphans[0].Why == "" {
				t.Errorf("%s, force=%t: %+v, %v", name, force, r, err)
			}
		}
	}
}

// An agedStore lists every object with one store time, and tells what time it is.
type agedStore struct {
	manifest.Store
	stored, now time.Time
}

func (s agedStore) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return s.Store.List(ctx, req, func(p bucket.Page) error {
		for i := range p.Objects {
			p.Objects[i].StoreTime = s.stored
		}
		p.Now = s.now
		return fn(p)
	})
}

// listOfGrace is a list without entries.
func listOfGrace(ms string) string {
	return listWith(`{"grace_ms":` + ms + `,"entries":[],"reaping":[]}`)
}

func listWith(payload string) string {
	return `{"format":"manifest/1","created":{"nonce":"s1","at":"2026-01-01T00:00:00Z"},"seq":1,"nonce":"s1","recent":[],"payload":` +
		payload + `}`
}

func put(t testing.TB, s manifest.Store, key bucket.Key, body string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
}

// TestCase_C12_ManifestPaced: twenty writers of one manifest on a store that takes one write of a name a second are all in it,
// once each, in the order in which they were won. Who waits moves the store's clock on.
func TestCase_C12_ManifestPaced(t *testing.T) {
	const writers = 20
	for _, x := range []struct {
		name  string
		start func(*testing.T, conf) fake
		lies  s3d.Lies
	}{
		{"s3 503", startS3, s3d.Lies{Pace: time.Second}}, {"s3 429", startS3, s3d.Lies{Pace: time.Second, PaceIs429: true}},
		{"gcs 429", startGCS, s3d.Lies{}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			clock := &hand{}
			f := x.start(t, conf{s3d.Options{Now: clock.now, Lies: x.lies}, gcsd.Options{Now: clock.now}})
			var all sync.WaitGroup
			var mu sync.Mutex
			won := map[string]string{} // ids by tag
			for w := range writers {
				m, err := manifest.New(f.dial(t, nil, ""), "team", "models", &manifest.Options{Doc: &cas.Options{
					Now: clock.now, Wait: func(ctx context.Context, d time.Duration) error { clock.advance(d); return ctx.Err() },
				}})
				if err != nil {
					t.Fatal(err)
				}
				all.Go(func() {
					id := fmt.Sprint(w)
					c := has(t, m, id, "", id)
					mu.Lock()
					defer mu.Unlock()
					won[c.State.Tag] = id
				})
			}
			all.Wait()
			s := f.dial(t, nil, "")
			state, err := on(t, s).Load(t.Context())
			if err != nil || len(state.Entries) != writers || len(won) != writers {
				t.Fatalf("%d entries, %d won, %v", len(state.Entries), len(won), err)
			}
			incarnation, _, _ := strings.Cut(state.Tag, "-")
			var want []string
			for i := range writers {
				id := won[fmt.Sprint(incarnation, "-", i+1)]
				want = append(want, id+"="+id)
			}
			holds(t, s, want...)
			if sent := f.sent(); count(sent, "PUT list") <= writers || count(sent, "PUT blob") != writers {
				t.Errorf("%d saves, %d uploads: nothing was throttled", count(sent, "PUT list"), count(sent, "PUT blob"))
			}
		})
	}
}
