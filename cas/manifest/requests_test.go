package manifest_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestManifest_Requests counts at the server's socket what Add, Remove, GC and Fsck say that they take.
func TestManifest_Requests(t *testing.T) {
	onWires(t, func(t *testing.T, f fake, clock *hand) {
		s := f.dial(t, nil, "")
		m := on(t, s)
		type counts = map[string]int
		remove := "DELETE blob"
		if _, ok := f.(*s3Fake); ok {
			remove = "POST"
		}
		two := one("a", "k", "x")
		two.Sources = append(two.Sources, text("y"))
		for _, x := range []struct {
			what string
			do   func() error
			want counts
		}{
			{"create", func() error { _, err := m.Add(t.Context(), two); return err },
				counts{"PUT blob": 2, "GET list": 1, "HEAD blob": 2, "PUT list": 1}},
			{"add", func() error { _, err := m.Add(t.Context(), one("b", "", "x")); return err },
				counts{"PUT blob": 1, "GET list": 1, "HEAD blob": 1, "PUT list": 1}},
			{"load", func() error { _, err := m.Load(t.Context()); return err }, counts{"GET list": 1}},
			{"remove", func() error { _, err := m.Remove(t.Context(), "a", ""); return err },
				counts{"GET list": 1, "PUT list": 1, remove: deletes(remove, 2)}},
			{"fsck", func() error { _, err := m.Fsck(t.Context()); return err }, counts{"GET": 1, "GET list": 2}},
			{"gc that finishes a journal", func() error { _, err := m.GC(t.Context(), nil); return err },
				counts{"GET": 1, "GET list": 2, "PUT list": 1, remove: deletes(remove, 2)}},
			{"gc of nothing", func() error { _, err := m.GC(t.Context(), nil); return err }, counts{"GET": 1, "GET list": 1}},
			{"gc of two orphans", func() error {
				put(t, s, root+"blobs/x", "")
				put(t, s, root+"blobs/y", "")
				clock.advance(2 * time.Hour)
				f.reset()
				_, err := m.GC(t.Context(), nil)
				return err
			}, counts{"GET": 1, "GET list": 2, "PUT list": 2, remove: deletes(remove, 2)}},
		} {
			f.reset()
			if err := x.do(); err != nil {
				t.Errorf("%s: %v", x.what, err)
			}
			got := counts{}
			for _, what := range f.sent() {
				got[what]++
			}
			if !maps.Equal(got, x.want) {
				t.Errorf("%s: %v, want %v", x.what, got, x.want)
			}
		}
	})
}

// deletes is how many requests delete n blobs: one by one, or in a batch.
func deletes(how string, n int) int {
	if how == "POST" {
		return 1
	}
	return n
}

// TestManifest_CollectMany: gc of many orphans takes the LISTs, a batch delete for each 1,000, and two saves.
func TestManifest_CollectMany(t *testing.T) {
	const orphans = 100_000
	clock := &hand{}
	f := startS3(t, conf{s3d.Options{Now: clock.now}, gcsd.Options{}}).(*s3Fake)
	s := f.dial(t, nil, "")
	has(t, on(t, s), "kept", "", "kept")
	for i := range orphans {
		f.Store("bucket", fmt.Sprintf("%sblobs/%026d", root, i), "")
	}
	clock.advance(2 * time.Hour)
	f.Reset()
	r, err := on(t, s).GC(t.Context(), nil)
	if err != nil || r.Deleted != orphans || r.Failures > 0 || len(r.Orphans) != orphans {
		t.Errorf("deleted %d, failed %d, of %d, %v", r.Deleted, r.Failures, len(r.Orphans), err)
	}
	want := map[s3d.Op]int{s3d.ListObjectsV2: orphans/bucket.PageSize + 1, s3d.GetObject: 2, s3d.PutObject: 2,
		s3d.DeleteObjects: orphans / bucket.PageSize}
	if got := f.Counts(); !maps.Equal(got, want) {
		t.Errorf("the requests were %v, want %v", got, want)
	}
	state := holds(t, s, "kept=kept")
	if n := len(blobs(t, s)); n != 1 || len(state.Reaping) > 0 {
		t.Errorf("%d blobs and %d noted are left", n, len(state.Reaping))
	}
}
