package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
)

const markers = 100_000

const markerDir = "_active_runs/team"

// benchList lists 100,000 markers of one namespace.
func benchList(ctx context.Context, dir string) ([]row, error) {
	root := filepath.Join(dir, "bucket")
	d, err := dirbucket.Create(root, nil)
	if err != nil {
		return nil, err
	}
	team := filepath.Join(root, markerDir)
	if err := os.MkdirAll(team, 0o755); err != nil {
		return nil, err
	}
	for i := range markers {
		name := fmt.Sprintf("cfg%06d_%d", i*7919%markers, time.Now().UnixNano())
		if err := os.WriteFile(filepath.Join(team, name), nil, 0o644); err != nil {
			return nil, err
		}
	}
	ours := func() error {
		n := 0
		err := d.List(ctx, bucket.ListRequest{Prefix: markerDir + "/"}, func(p bucket.Page) error {
			n += len(p.Objects)
			return nil
		})
		return want(n, err)
	}
	bare := func() error {
		entries, err := os.ReadDir(team)
		if err != nil {
			return err
		}
		n := 0
		for _, e := range entries {
			if _, err := e.Info(); err != nil {
				return err
			}
			n++
		}
		return want(n, nil)
	}
	t, base, ratio, err := pairs(5, ours, bare)
	if err != nil {
		return nil, err
	}
	rows := []row{{
		"dirbucket lists 100,000 markers, against os.ReadDir + Info of each",
		fmt.Sprintf("%.2f × (%v, %v)", ratio, round(t), round(base)), "≤ 1.5 ×", ratio / 1.5,
	}}

	gocloud, err := fileblob.OpenBucket(root, nil)
	if err != nil {
		return nil, err
	}
	defer gocloud.Close()
	peer := func() error {
		n := 0
		iter := gocloud.List(&blob.ListOptions{Prefix: markerDir + "/"})
		for {
			_, err := iter.Next(ctx)
			if errors.Is(err, io.EOF) {
				return want(n, nil)
			}
			if err != nil {
				return err
			}
			n++
		}
	}
	t, base, ratio, err = pairs(1, peer, ours)
	if err != nil {
		return nil, err
	}
	return append(rows, row{
		"gocloud fileblob's iterator over the same markers, against dirbucket (one pair: it takes long)",
		fmt.Sprintf("%.0f × (%v, %v)", ratio, round(t), round(base)), "≥ 20 ×", 20 / ratio,
	}), nil
}

func want(n int, err error) error {
	if err == nil && n != markers {
		err = fmt.Errorf("listed %d of %d markers", n, markers)
	}
	return err
}
