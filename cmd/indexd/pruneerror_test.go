package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune/janitor"
)

// TestPrune_Lost: a pass that has lost its lease exits 1 and says so, whatever else was in the way then.
func TestPrune_Lost(t *testing.T) {
	for _, cause := range []error{errors.New("x"), cas.ErrUnknown, bucket.ErrThrottled, bucket.ErrDenied, cas.ErrConflict} {
		err := pruneError("running", janitor.Report{Deleted: map[string]int{"stale": 1000}},
			fmt.Errorf("pruning index \"running\": prune again to go on: %w: %w", lease.ErrLost, cause))
		if text := message(err); exitStatus(err) != exitFailed || !strings.HasSuffix(text, "prune again to go on: lost: "+readable(cause.Error())) {
			t.Errorf("%v: exit status %d, %s", cause, exitStatus(err), text)
		}
	}
}

// TestPrune_ManyDeferred: of thousands of namespaces that are left alone the first are noted, and how many more there are.
func TestPrune_ManyDeferred(t *testing.T) {
	var stderr bytes.Buffer
	r := janitor.Report{Slow: []string{"slow"}}
	for i := range 10_000 {
		r.Deferred = append(r.Deferred, fmt.Sprintf("n%04d", i))
	}
	if err := (&app{stderr: &stderr}).verdict(r); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if n := len(lines); n != 22 || !strings.Contains(lines[0], `"slow"`) || !strings.Contains(lines[20], `"n0019"`) ||
		lines[21] != "indexd: note: 9980 more namespaces are left alone so; --json names all of them" {
		t.Errorf("%d lines, the last %s", n, lines[n-1])
	}
}
