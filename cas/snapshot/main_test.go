package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	root       = snapshot.Root + "team/files/"
	pointerKey = bucket.Key(root + "pointer")
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// on is the snapshot of the tests on a store. It never waits.
func on(t testing.TB, s snapshot.Store, opts *snapshot.Options) *snapshot.Snapshot {
	t.Helper()
	o := snapshot.Options{}
	if opts != nil {
		o = *opts
	}
	if o.Doc == nil {
		waits := 0
		o.Doc = &cas.Options{Wait: func(ctx context.Context, _ time.Duration) error {
			if waits++; waits > 1000 {
				return errors.New("waited a thousand times")
			}
			return ctx.Err()
		}}
	}
	snap, err := snapshot.New(s, "team", "files", &o)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// tiny is on with one row to a part, put one after the other.
func tiny(t testing.TB, s snapshot.Store) *snapshot.Snapshot {
	t.Helper()
	snap := on(t, s, nil)
	snap.SetLimits(1, 1<<20, 1)
	return snap
}

// tree is a walk over files with these paths, which have the size as theirs.
func tree(size int64, paths ...string) snapshot.Walk {
	return func(add func(snapshot.Row) error) error {
		for _, p := range paths {
			if err := add(snapshot.Row{Path: p, Size: size, MTime: start}); err != nil {
				return err
			}
		}
		return nil
	}
}

// rows is a walk over n files.
func rows(n int, size int64) snapshot.Walk {
	return func(add func(snapshot.Row) error) error {
		for i := range n {
			r := snapshot.Row{Path: fmt.Sprintf("dir/%07d", i), Size: size, MTime: time.Unix(int64(i), 0)}
			if err := add(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// publish publishes, and wants that outcome, without an error.
func publish(t testing.TB, s *snapshot.Snapshot, walk snapshot.Walk, want snapshot.Outcome) snapshot.Result {
	t.Helper()
	return publishWith(t, s, walk, nil, want)
}

func publishWith(t testing.TB, s *snapshot.Snapshot, walk snapshot.Walk, opts *snapshot.PublishOptions,
	want snapshot.Outcome) snapshot.Result {
	t.Helper()
	r, err := s.Publish(t.Context(), walk, opts)
	if err != nil || r.Outcome != want || r.SweepErr != nil {
		t.Fatalf("Publish: %v, %+v; want it %s", err, r, want)
	}
	return r
}

// holds checks what a reader is given: files with these paths and that size.
func holds(t testing.TB, s *snapshot.Snapshot, size int64, paths ...string) snapshot.Info {
	t.Helper()
	info, got, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, r := range got {
		found = append(found, r.Path)
		if r.Size != size {
			t.Errorf("%q has a size of %d, want %d", r.Path, r.Size, size)
		}
	}
	if !slices.Equal(found, paths) || info.Rows != int64(len(paths)) {
		t.Errorf("the snapshot has %d rows %q, want %q", info.Rows, found, paths)
	}
	return info
}

// content is all that a store has.
func content(t testing.TB, s bucket.Objects) map[bucket.Key]string {
	t.Helper()
	all := map[bucket.Key]string{}
	for _, key := range keys(t, s, "") {
		all[key] = body(t, s, key)
	}
	return all
}

func keys(t testing.TB, s bucket.Objects, prefix string) (all []bucket.Key) {
	t.Helper()
	err := s.List(t.Context(), bucket.ListRequest{Prefix: prefix}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			all = append(all, o.Key)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func body(t testing.TB, s bucket.Objects, key bucket.Key) string {
	t.Helper()
	r, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func put(t testing.TB, s bucket.Objects, key bucket.Key, body string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, s bucket.Objects, keys ...bucket.Key) {
	t.Helper()
	if errs := s.Delete(t.Context(), keys); errs != nil {
		t.Fatal(errs)
	}
}

// as checks that a store has exactly what it had.
func as(t testing.TB, s bucket.Objects, was map[bucket.Key]string) {
	t.Helper()
	if now := content(t, s); !maps.Equal(now, was) {
		t.Errorf("the store was changed: it has %q, and had %q", slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(was)))
	}
}

// file is a key of a generation.
func file(id snapshot.ID, name string) bucket.Key {
	return bucket.Key(root + "generations/" + id.String() + "_" + name)
}

// generations are the ids that a store has something of.
func generations(t testing.TB, s bucket.Objects) (ids []string) {
	t.Helper()
	for _, key := range keys(t, s, root+"generations/") {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(key), root+"generations/"), "_")
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// only checks that of generations the store has this one alone, and all of it.
func only(t testing.TB, s bucket.Objects, info snapshot.Info) {
	t.Helper()
	if ids := generations(t, s); len(ids) != 1 || ids[0] != info.ID.String() {
		t.Errorf("the generations %q are there, want %v alone", ids, info.ID)
	}
	if n := len(keys(t, s, root)); n != info.Parts+3 {
		t.Errorf("%d keys are there, want the pointer, a claim, an index and %d parts", n, info.Parts)
	}
}

// A hand is a clock that tests set.
type hand struct{ now time.Time }

func (h *hand) store() *membucket.Bucket {
	return membucket.New(&membucket.Options{Now: func() time.Time { return h.now }})
}

func newHand() *hand { return &hand{start} }
