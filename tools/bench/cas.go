package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A counted is the payload of the documents here.
type counted struct {
	Count int `json:"count"`
}

const casKey = "docs/counter"

func counter(store cas.Store) *cas.Doc[counted] {
	return cas.NewDoc[counted](store, casKey, "bench/1", nil)
}

// update counts one up, and returns how often that was computed.
func update(ctx context.Context, d *cas.Doc[counted]) (attempts int, err error) {
	_, err = d.Update(ctx, func(c *counted, _ cas.State[counted]) error {
		attempts++
		c.Count++
		return nil
	}, &cas.UpdateOptions{Create: true})
	return attempts, err
}

// grown updates a document until it tells of as many saves as it ever does, and returns its body.
func grown(ctx context.Context, store cas.Store) ([]byte, error) {
	d := counter(store)
	for range cas.Remembered + 1 {
		if _, err := update(ctx, d); err != nil {
			return nil, err
		}
	}
	o, err := store.Load(ctx, casKey)
	return o.Body, err
}

// times calls f n times.
func times(n int, f func() error) func() error {
	return func() error {
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
}

// benchCASDir updates one document on a directory, alone against the bare steps of a durable write, and together.
func benchCASDir(ctx context.Context, dir string) ([]row, error) {
	root := filepath.Join(dir, "bucket")
	b, err := dirbucket.Create(root, nil)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	body, err := grown(ctx, b)
	if err != nil {
		return nil, err
	}
	d := counter(b)
	ours := func() error {
		_, err := update(ctx, d)
		return err
	}
	const pairs, each = 151, 10 // short ones, so that what else the machine does spoils few of them
	os, bs, err := interleave(pairs, wall, times(each, ours), times(each, func() error { return replaceFile(dir, body) }))
	if err != nil {
		return nil, err
	}
	r := spreadOf(ratios(os, bs))
	rows := []row{{
		fmt.Sprintf("dirbucket: %d updates of a document of %d kB, against write, sync, rename and directory sync alone (%d pairs)",
			each, len(body)/1000, pairs),
		fmt.Sprintf("%s: %s, %s", r.in("×"), spreadOf(os).in("ms"), spreadOf(bs).in("ms")), "≤ 3 ×", r.median / 3,
	}}
	crowd, err := crowdOfProcesses(ctx, root)
	return append(rows, crowd), err
}

// replaceFile is what any durable replacement of a file costs.
func replaceFile(dir string, body []byte) error {
	tmp := filepath.Join(dir, "bare.tmp")
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err := errors.Join(err, f.Sync(), f.Close(), os.Rename(tmp, filepath.Join(dir, "bare"))); err != nil {
		return err
	}
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return syscall.Fsync(fd)
}

// A crowd changes one document as fast as it can, with nobody to say how many writes a second there may be.
const crowdSize, crowdEach = 16, 50

// crowdDir tells this program that it is one process of a crowd, and on which directory.
const crowdDir = "INDEXD_BENCH_CROWD"

// crowdOfProcesses starts them all and then lets them go at once.
func crowdOfProcesses(ctx context.Context, root string) (row, error) {
	self, err := os.Executable()
	if err != nil {
		return row{}, err
	}
	var cmds []*exec.Cmd
	var outs []io.Reader
	var starts []io.Closer
	for range crowdSize {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env, cmd.Stderr = append(os.Environ(), crowdDir+"="+root), os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return row{}, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return row{}, err
		}
		if err := cmd.Start(); err != nil {
			return row{}, err
		}
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			return row{}, fmt.Errorf("a process of the crowd did not begin: %w", err)
		}
		cmds, outs, starts = append(cmds, cmd), append(outs, out), append(starts, in)
	}
	began := time.Now()
	for _, in := range starts {
		in.Close()
	}
	var all []int
	for i, out := range outs {
		var attempts []int
		if err := errors.Join(json.NewDecoder(out).Decode(&attempts), cmds[i].Wait()); err != nil {
			return row{}, err
		}
		all = append(all, attempts...)
	}
	const what = "dirbucket: %d processes update one document %d times each: attempts per success"
	return crowdRow(what, all, time.Since(began)), nil
}

// crowdProcess is one of them.
func crowdProcess(ctx context.Context, root string) error {
	b, err := dirbucket.Open(root, nil)
	if err != nil {
		return err
	}
	defer b.Close()
	os.Stdout.WriteString("!")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	attempts, err := updates(ctx, b)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(attempts)
}

// updates returns how many attempts each of a crowd member's updates took.
func updates(ctx context.Context, store cas.Store) ([]int, error) {
	var all []int
	d := counter(store)
	for range crowdEach {
		n, err := update(ctx, d)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

func crowdRow(what string, attempts []int, took time.Duration) row {
	slices.Sort(attempts)
	n := len(attempts)
	median := attempts[n/2]
	return row{
		fmt.Sprintf(what, crowdSize, crowdEach),
		fmt.Sprintf("median %d, p99 %d, at most %d (%.0f updates/s)",
			median, attempts[n*99/100], attempts[n-1], float64(n)/took.Seconds()),
		"median < 3", float64(median) / 2, // it is a whole number
	}
}

// benchCASS3 updates one document on S3, alone against the requests by the bare SDK, and with clients of their own together.
func benchCASS3(ctx context.Context, _ string) ([]row, error) {
	var rows []row
	for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
		some, err := onS3(latency, func(server *s3d.Server, driver *s3bucket.Bucket, sdk *s3.Client) ([]row, error) {
			alone, err := updateOnS3(ctx, latency, driver, sdk)
			if err != nil {
				return nil, err
			}
			crowd, err := crowdOnS3(ctx, latency, server)
			return []row{alone, crowd}, err
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	return rows, nil
}

func delayed(latency time.Duration) string {
	if latency == 0 {
		return "S3"
	}
	return fmt.Sprintf("S3, server delayed by %d ms", latency.Milliseconds())
}

func updateOnS3(ctx context.Context, latency time.Duration, driver *s3bucket.Bucket, sdk *s3.Client) (row, error) {
	body, err := grown(ctx, driver)
	if err != nil {
		return row{}, err
	}
	d := counter(driver)
	ours := func() error {
		_, err := update(ctx, d)
		return err
	}
	name, bare := aws.String("bucket"), aws.String("bare")
	put := func() error {
		_, err := sdk.PutObject(ctx, &s3.PutObjectInput{Bucket: name, Key: bare, Body: bytes.NewReader(body)})
		return err
	}
	if err := put(); err != nil {
		return row{}, err
	}
	theirs := func() error {
		out, err := sdk.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: bare})
		if err != nil {
			return err
		}
		_, err = io.ReadAll(out.Body)
		return errors.Join(err, out.Body.Close(), put())
	}
	pairs, each := 15, 100
	if latency > 0 {
		pairs, each = 9, 20
	}
	os, bs, err := interleave(pairs, wall, times(each, ours), times(each, theirs))
	if err != nil {
		return row{}, err
	}
	return row{
		fmt.Sprintf("%s: %d updates of a document of %d kB, against GET and PUT by the bare SDK (%d pairs)",
			delayed(latency), each, len(body)/1000, pairs),
		fmt.Sprintf("%s: %s, %s", spreadOf(ratios(os, bs)).in("×"), spreadOf(os).in("ms"), spreadOf(bs).in("ms")),
		"", 0,
	}, nil
}

func crowdOnS3(ctx context.Context, latency time.Duration, server *s3d.Server) (row, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards all and failed
	var all []int
	var failed error
	barrier := make(chan struct{})
	for range crowdSize {
		driver, _, err := s3Clients(server, nil)
		if err != nil {
			return row{}, err
		}
		wg.Go(func() {
			<-barrier
			attempts, err := updates(ctx, driver)
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, attempts...), errors.Join(failed, err)
		})
	}
	began := time.Now()
	close(barrier)
	wg.Wait()
	if failed != nil {
		return row{}, failed
	}
	what := delayed(latency) + ": %d clients update one document %d times each: attempts per success"
	return crowdRow(what, all, time.Since(began)), nil
}
