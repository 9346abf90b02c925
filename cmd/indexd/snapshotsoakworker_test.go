package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"os"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas/snapshot"
)

// soakSnapshot is the snapshot of TestSnapshotSoak.
const soakSnapshot = "team/files"

// What the workers of TestSnapshotSoak say, a line for each act.
const (
	saidPublished  = "published"  // generation
	saidUnchanged  = "unchanged"  // generation
	saidSuperseded = "superseded" // generation that is current
	saidRead       = "read"       // generation, digest of what was read
	saidSwept      = "swept"      // the generation went while it was read
)

func openSoakSnapshot(address string) (*snapshot.Snapshot, *lazyBucket, error) {
	b, err := parseBucket(address, existing)
	if err != nil {
		return nil, nil, err
	}
	s, err := snapshot.New(b, "team", "files", &snapshot.Options{Usable: b.usable})
	return s, b, err
}

// snapshotSoakWorker is the program of the test's processes:
//
//	publisher ADDRESS GRACE DIR...   publishes one directory after the other, over and over
//	reader ADDRESS PAUSE             reads over and over; each read takes so long and longer
//
// It says what came of each act, and ends when its standard input does.
func snapshotSoakWorker() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		}
	}()
	role, address := os.Args[1], os.Args[2]
	s, b, err := openSoakSnapshot(address)
	if err == nil {
		length, parsing := time.ParseDuration(os.Args[3])
		switch {
		case parsing != nil:
			err = parsing
		case role == "publisher":
			err = soakPublish(ctx, s, b, length, os.Args[4:])
		default:
			err = soakRead(ctx, s, length)
		}
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
}

func soakPublish(ctx context.Context, s *snapshot.Snapshot, b *lazyBucket, grace time.Duration, dirs []string) error {
	if grace == 0 {
		grace = snapshot.NoGrace
	}
	for n := os.Getpid(); ; n++ { // not all with the same one first
		src := source{dir: dirs[n%len(dirs)], bucket: b.location.Dir()}
		r, err := s.Publish(ctx, func(add func(snapshot.Row) error) error {
			_, err := src.walk(ctx, add, nil)
			return err
		}, &snapshot.PublishOptions{Grace: grace})
		if err != nil {
			return err
		}
		if r.SweepErr != nil {
			return r.SweepErr
		}
		fmt.Println(r.Outcome, r.Pointer.ID.Number)
	}
}

// soakRead reads, and waits a part of pause after each row that ends a hundredth.
func soakRead(ctx context.Context, s *snapshot.Snapshot, pause time.Duration) error {
	for ctx.Err() == nil {
		g, err := s.Open(ctx)
		var sum lineSum
		if err == nil {
			err = g.Stream(ctx, func(r snapshot.Row) error {
				if sum.rows++; pause > 0 && sum.rows%max(g.Info().Rows/100, 1) == 0 {
					select {
					case <-time.After(pause / 100):
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return sum.add(r)
			})
		}
		switch {
		case errors.Is(err, snapshot.ErrSwept), errors.Is(err, snapshot.ErrMissing) && replaced(ctx, s, g):
			fmt.Println(saidSwept)
		case err != nil:
			return err
		default:
			fmt.Println(saidRead, g.Info().ID.Number, sum.String())
		}
	}
	return nil
}

// replaced reports whether a generation is not current any more.
func replaced(ctx context.Context, s *snapshot.Snapshot, g *snapshot.Generation) bool {
	st, err := s.Status(ctx)
	return err == nil && st.Current.ID != g.Info().ID
}

// A lineSum is the digest of rows, computed apart from the package that publishes them.
type lineSum struct {
	rows int64
	sum  hash.Hash
}

func (l *lineSum) add(r snapshot.Row) error {
	if l.sum == nil {
		l.sum = sha256.New()
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(r)
	l.sum.Write(line.Bytes())
	return err
}

func (l *lineSum) String() string {
	if l.sum == nil {
		return "sha256:"
	}
	return "sha256:" + hex.EncodeToString(l.sum.Sum(nil))
}

// keysOf are all keys of the snapshot.
func keysOf(ctx context.Context, b bucket.Objects) (keys []string, err error) {
	err = b.List(ctx, bucket.ListRequest{Prefix: snapshot.Root + soakSnapshot + "/"}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, string(o.Key))
		}
		return nil
	})
	return keys, err
}
