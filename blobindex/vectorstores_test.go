package blobindex_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	gocmp "github.com/google/go-cmp/cmp"
)

// TestVectors_Stores puts the keys of each vector into the stores that a process can have by itself, lists and deletes
// them there.
func TestVectors_Stores(t *testing.T) {
	vectors := readVectors(t)
	for _, s := range wireSites() {
		t.Run(s.name, func(t *testing.T) {
			for _, v := range vectors {
				t.Run(v.Name, func(t *testing.T) { v.stored(t, s) })
			}
		})
	}
}

// stored runs the vector on a site: the keys are put, listed and deleted there, and only the times of what is listed,
// and the clock, are the vector's. Keys that the site cannot hold are left out, and the pure decision, which TestVectors
// holds to the vector, then says what is wanted of the others. It reports whether the vector ran whole.
func (v vector) stored(t *testing.T, s *site) (whole bool) {
	by := &storeShelf{Objects: s.open(t), t: t, name: s.name}
	var known []string
	objects := slices.Clone(v.Objects)
	// Longer keys first: where a path cannot be an object as well, the items are put and the object is refused.
	slices.SortStableFunc(objects, func(a, b vectorObject) int { return len(b.Key) - len(a.Key) })
	for _, o := range objects {
		switch s.holds(t, by.Objects, o.Key, strings.Repeat(" ", int(o.Size)), known) {
		case held, stuck:
			known = append(known, o.Key)
		}
	}
	whole = len(known) == len(v.Objects)
	v.Objects = slices.DeleteFunc(slices.Clone(v.Objects), func(o vectorObject) bool { return !slices.Contains(known, o.Key) })
	by.all = v.objects()
	want, asked := v.decide(t)
	if whole {
		want = v.Want
	}
	v.viewed(t, by, want, asked)
	v.carriedOut(t, by, want.Deletes, known)
	return whole
}

// carriedOut deletes what the plan names, through the index, and compares what is left.
func (v vector) carriedOut(t *testing.T, by *storeShelf, deletes []vectorDelete, known []string) {
	t.Helper()
	var plan []blobindex.Deletion
	for _, d := range deletes {
		plan = append(plan, blobindex.Deletion{Key: bucket.Key(d.Key)})
		known = slices.DeleteFunc(known, func(key string) bool { return key == d.Key })
	}
	if errs := v.index(t, by, nil).Delete(t.Context(), plan); errs != nil {
		t.Errorf("vector %s: deleting: %v", v.Name, errs)
	}
	left, err := keysOf(t.Context(), by.Objects)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(known)
	if diff := gocmp.Diff(known, left); len(known)+len(left) > 0 && diff != "" {
		t.Errorf("vector %s: left after deleting (-want +got):\n%s", v.Name, diff)
	}
}

// A storeShelf is a store that is asked for real. All that it lists must be known, as large as it was put; what is
// not to be shown is left out of the pages, and times are replaced.
type storeShelf struct {
	bucket.Objects
	t     *testing.T
	name  string
	all   []bucket.Object // in the store
	shown map[bucket.Key]bucket.Object
	now   time.Time
}

func (s *storeShelf) String() string { return "on " + s.name }

func (s *storeShelf) show(now time.Time, objects []bucket.Object) {
	s.now, s.shown = now, make(map[bucket.Key]bucket.Object)
	for _, o := range objects {
		s.shown[o.Key] = o
	}
}

func (s *storeShelf) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	missing := make(map[bucket.Key]int64) // sizes
	for _, o := range s.all {
		if strings.HasPrefix(string(o.Key), req.Prefix) && o.Key > req.After {
			missing[o.Key] = o.Size
		}
	}
	now := s.now
	err := s.Objects.List(ctx, req, func(p bucket.Page) error {
		if p.Now.IsZero() {
			s.t.Errorf("the store tells no time of listing %q", req.Prefix)
		}
		out := bucket.Page{Now: now, Sorted: p.Sorted}
		now = now.Add(time.Hour)
		for _, o := range p.Objects {
			if size, ok := missing[o.Key]; !ok || size != o.Size || o.StoreTime.IsZero() {
				s.t.Errorf("listing %q gave %+v, once more or unlike it was put", req.Prefix, o)
			}
			delete(missing, o.Key)
			if shown, ok := s.shown[o.Key]; ok {
				out.Objects = append(out.Objects, shown)
			}
		}
		return fn(out)
	})
	if err == nil && len(missing) > 0 {
		s.t.Errorf("a complete listing of %q lacks %v", req.Prefix, missing)
	}
	return err
}
