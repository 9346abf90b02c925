package dirbucket_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
)

const manyMarkers = 100_000

// markers makes a bucket with n markers in one namespace, not durably: that is not what is measured.
func markers(tb testing.TB, n int) (path string) {
	path = tb.TempDir()
	create(tb, path)
	if err := os.MkdirAll(filepath.Join(path, "_active_runs/team"), 0o777); err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprintf("_active_runs/team/%08x_%d", i*2654435761, 1764500000000000000+i)
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o666); err != nil {
			tb.Fatal(err)
		}
	}
	return path
}

// BenchmarkList is to stay within 1.5 times of BenchmarkReadDirInfo.
func BenchmarkList(b *testing.B) {
	o := create(b, markers(b, manyMarkers))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		err := o.List(b.Context(), bucket.ListRequest{Prefix: "_active_runs/team/"}, func(p bucket.Page) error {
			n += len(p.Objects)
			return nil
		})
		if err != nil || n != manyMarkers {
			b.Fatalf("%d objects, %v", n, err)
		}
	}
}

func BenchmarkReadDirInfo(b *testing.B) {
	path := filepath.Join(markers(b, manyMarkers), "_active_runs/team")
	b.ReportAllocs()
	for b.Loop() {
		entries, err := os.ReadDir(path)
		if err != nil || len(entries) != manyMarkers {
			b.Fatalf("%d entries, %v", len(entries), err)
		}
		for _, e := range entries {
			if _, err := e.Info(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkPut registers durably from 1 to 128 goroutines, and reports how many puts share a directory sync.
func BenchmarkPut(b *testing.B) {
	for _, goroutines := range []int{1, 32, 128} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			var syncs, n atomic.Int64
			o := counted(b, b.TempDir(), &syncs)
			b.SetParallelism(goroutines)
			if goroutines == 1 {
				for b.Loop() {
					put(b, o, bucket.Key(fmt.Sprintf("team/%d", n.Add(1))), "")
				}
			} else {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						put(b, o, bucket.Key(fmt.Sprintf("team/%d", n.Add(1))), "")
					}
				})
			}
			b.ReportMetric(float64(n.Load())/float64(syncs.Load()), "puts/sync")
			b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "puts/s")
		})
	}
}
