package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/fakes/s3d"
)

const manifestRoot = manifest.Root + "bench/list/"

// listed makes a manifest of n entries as if they had been added, and returns how large its list is.
func listed(ctx context.Context, store manifest.Store, n int) (int, error) {
	entries := make([]manifest.Entry, n)
	for i := range entries {
		sum := fmt.Sprintf("sha256:%064d", i)
		entries[i] = manifest.Entry{
			ID: fmt.Sprintf("run-%d", i), DedupeKey: fmt.Sprintf("key-%d", i), Size: 1024, Digest: sum,
			Blobs:   []manifest.Blob{{Key: fmt.Sprintf("B%025d", i), Name: "model.bin", Size: 1024, Digest: sum}},
			AddedAt: time.Unix(1_700_000_000, 0).UTC(), Meta: map[string]string{"owner": "ann"},
		}
	}
	type list struct {
		GraceMS int64            `json:"grace_ms"`
		Entries []manifest.Entry `json:"entries"`
		Reaping []string         `json:"reaping"`
	}
	doc := cas.NewDoc[list](store, bucket.Key(manifestRoot+"list"), manifest.Format, nil)
	if _, err := doc.Update(ctx, func(l *list, _ cas.State[list]) error {
		*l = list{GraceMS: manifest.MinGrace.Milliseconds(), Entries: entries, Reaping: []string{}}
		return nil
	}, &cas.UpdateOptions{Create: true}); err != nil {
		return 0, err
	}
	o, err := store.Load(ctx, doc.Key())
	return len(o.Body), err
}

// benchManifestDir changes a long manifest on a directory.
func benchManifestDir(ctx context.Context, dir string) ([]row, error) {
	b, err := dirbucket.Create(filepath.Join(dir, "bucket"), nil)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	const n, times = 10_000, 21
	size, err := listed(ctx, b, n)
	if err != nil {
		return nil, err
	}
	m, err := manifest.New(b, "bench", "list", nil)
	if err != nil {
		return nil, err
	}
	body := strings.Repeat("x", 1024)
	var adds, removes, works []float64
	for i := range times {
		id := fmt.Sprintf("new-%d", i)
		source := manifest.Source{Name: "f", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }}
		began, worked := wall(), processor()
		if _, err := m.Add(ctx, manifest.AddRequest{ID: id, Sources: []manifest.Source{source}}); err != nil {
			return nil, err
		}
		adds, works = append(adds, wall()-began), append(works, processor()-worked)
		began = wall()
		if _, err := m.Remove(ctx, id, ""); err != nil {
			return nil, err
		}
		removes = append(removes, wall()-began)
	}
	var rows []row
	for _, x := range []struct {
		what string
		took []float64
	}{{"an entry of 1 KiB added to a manifest", adds}, {"the same, removed", removes}, {"processor time of adding it", works}} {
		s := spreadOf(x.took)
		rows = append(rows, row{
			fmt.Sprintf("dirbucket: %s, of %d,000 entries in %.1f MB (%d times)", x.what, n/1000, float64(size)/1e6, times),
			s.in("ms"), "< 1 s", s.median / 1000,
		})
	}
	return rows, nil
}

// benchManifestS3 collects many orphans, of a server that is delayed.
func benchManifestS3(ctx context.Context, _ string) ([]row, error) {
	h := &harness{}
	defer h.close()
	var ahead atomic.Int64
	const latency, orphans = 20 * time.Millisecond, 100_000
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	server := s3d.New(h, &s3d.Options{Latency: latency, Now: now})
	driver, _, err := s3Clients(server, nil)
	if err != nil {
		return nil, err
	}
	if _, err := listed(ctx, driver, 1000); err != nil {
		return nil, err
	}
	for i := range orphans {
		server.Store("bucket", fmt.Sprintf("%sblobs/%026d", manifestRoot, i), "")
	}
	ahead.Store(int64(2 * time.Hour))
	m, err := manifest.New(driver, "bench", "list", nil)
	if err != nil {
		return nil, err
	}
	server.Reset()
	began := time.Now()
	r, err := m.GC(ctx, nil)
	took := time.Since(began)
	if err != nil || r.Deleted != orphans {
		return nil, fmt.Errorf("%d of %d orphans were deleted: %w", r.Deleted, orphans, err)
	}
	c := server.Counts()
	requests := 0
	for _, n := range c {
		requests += n
	}
	const want = 2*orphans/bucket.PageSize + 2 + 2
	return []row{{
		fmt.Sprintf("%s: gc that deletes %d,000 blobs of a manifest: requests", delayed(latency), orphans/1000),
		fmt.Sprintf("%d: %d LIST, %d GET, %d PUT, %d batch deletes; in %v", requests, c[s3d.ListObjectsV2], c[s3d.GetObject],
			c[s3d.PutObject], c[s3d.DeleteObjects], round(took)),
		fmt.Sprint(want), float64(requests) / want,
	}}, nil
}
