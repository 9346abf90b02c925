package snapshot_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas/snapshot"
)

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

// TestPublish goes through a snapshot's life.
func TestPublish(t *testing.T) {
	ctx, b := t.Context(), membucket.New(nil)
	s, err := snapshot.New(b, "team", "files", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		walk snapshot.Walk
		opts *snapshot.PublishOptions
		want snapshot.Outcome
		err  error
		rows int64
	}{
		{rows(70_000, 1), nil, snapshot.Published, nil, 70_000},
		{rows(70_000, 1), nil, snapshot.Unchanged, nil, 70_000},
		{rows(70_000, 2), &snapshot.PublishOptions{Grace: snapshot.NoGrace}, snapshot.Published, nil, 70_000},
		{rows(0, 0), nil, "", snapshot.ErrEmpty, 70_000},
		{rows(0, 0), &snapshot.PublishOptions{AllowEmpty: true}, snapshot.Published, nil, 0},
		{rows(3, 0), &snapshot.PublishOptions{Tag: snapshot.NoTag}, snapshot.Superseded, nil, 0},
	} {
		r, err := s.Publish(ctx, step.walk, step.opts)
		if !errors.Is(err, step.err) || r.Outcome != step.want || r.SweepErr != nil {
			t.Fatalf("step %d: %v, %+v", i, err, r)
		}
		info, got, err := s.Read(ctx)
		if err != nil || info.Rows != step.rows || int64(len(got)) != step.rows {
			t.Fatalf("step %d: %v, %+v, %d rows", i, err, info, len(got))
		}
		t.Logf("%+v", r)
	}
}
