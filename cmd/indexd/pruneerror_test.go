package main

import (
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
