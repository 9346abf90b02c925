package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
)

// TestConformance: what stands between the indexes and a driver keeps the driver's promises.
func TestConformance(t *testing.T) {
	mem := buckettest.Config{Empty: true, Sorted: true, TellsTime: true}
	t.Run("lazy", func(t *testing.T) {
		mem.New = func(t testing.TB) bucket.Objects {
			b, err := parseBucket("mem://", serving)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		buckettest.Run(t, mem)
	})
	t.Run("slow", func(t *testing.T) {
		mem.New = func(testing.TB) bucket.Objects {
			return &slowBucket{membucket.New(nil), func() time.Duration { return 0 }}
		}
		buckettest.Run(t, mem)
	})
}

// TestParseBucket: what is no address is wrong usage, told without a request.
func TestParseBucket(t *testing.T) {
	for _, address := range []string{"", "x", "https://b/c", "s3://", "gs://a:b@c", "mem://", "file://x/y"} {
		_, err := parseBucket(address, creating)
		if err == nil || exitStatus(err) != exitUsage {
			t.Errorf("parseBucket(%q): %v, status %d", address, err, exitStatus(err))
		}
	}
}

// TestLazyBucket_OpensOnDemand: no request, no directory.
func TestLazyBucket_OpensOnDemand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	b, err := parseBucket(dir, creating)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("before any request: %v", err)
	}
	if _, err := b.Put(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "k")); err != nil {
		t.Error(err)
	}
}
