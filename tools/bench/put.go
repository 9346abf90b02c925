package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

// benchPut registers durably: from one goroutine and from 32, against a bare loop that syncs the directory after each
// create; and counts the directory syncs of 32 goroutines that are released at a barrier.
func benchPut(ctx context.Context, dir string) ([]row, error) {
	var syncs atomic.Int64
	d, err := dirbucket.Create(filepath.Join(dir, "bucket"), &dirbucket.Options{OnDirSync: func(string) { syncs.Add(1) }})
	if err != nil {
		return nil, err
	}
	loose := filepath.Join(dir, "loose")
	if err := os.Mkdir(loose, 0o755); err != nil {
		return nil, err
	}
	var serial atomic.Int64
	put := func() error {
		_, err := d.Put(ctx, bucket.Key(fmt.Sprintf("%s/x_%010d", markerDir, serial.Add(1))), nil)
		return err
	}
	bare := func() error {
		name := filepath.Join(loose, fmt.Sprintf("x_%010d", serial.Add(1)))
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		fd, err := syscall.Open(loose, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		return syscall.Fsync(fd)
	}
	var rows []row
	const creates = 4096
	for _, workers := range []int{1, 32} {
		t, base, ratio, err := pairs(5, parallel(workers, creates, put), parallel(workers, creates, bare))
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{
			fmt.Sprintf("dirbucket, %d durable puts from %d goroutines, against O_EXCL and a directory sync for each", creates, workers),
			fmt.Sprintf("%.2f × (%.0f/s, %.0f/s)", ratio, creates/t.Seconds(), creates/base.Seconds()), "", 0,
		})
	}
	var counts []float64
	for range 5 {
		syncs.Store(0)
		if err := parallel(32, 32, put)(); err != nil {
			return nil, err
		}
		counts = append(counts, float64(syncs.Load()))
	}
	n := int(median(counts))
	return append(rows, row{
		"directory syncs of 32 goroutines released at a barrier, one put each (median of 5)", fmt.Sprint(n), "≤ 4", float64(n) / 4,
	}), nil
}

// parallel calls f total times, from workers goroutines that are released together.
func parallel(workers, total int, f func() error) func() error {
	return func() error {
		var wg sync.WaitGroup
		errs := make(chan error, workers)
		barrier := make(chan struct{})
		for range workers {
			wg.Go(func() {
				<-barrier
				for range total / workers {
					if err := f(); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		close(barrier)
		wg.Wait()
		select {
		case err := <-errs:
			return err
		default:
			return nil
		}
	}
}
