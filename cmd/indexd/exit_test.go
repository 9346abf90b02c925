package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
)

// TestExitStatus: each kind of error has its status, and its message says what to do.
func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
		says string
	}{
		{nil, exitDone, ""},
		{errors.New("x"), exitFailed, "x"},
		{usagef("x"), exitUsage, "x"},
		{blobindex.ErrName, exitUsage, ""},
		{blobindex.ErrLabels, exitUsage, ""},
		{blobindex.ErrRequest, exitUsage, ""},
		{itemid.ErrInvalid, exitUsage, ""},
		{&blobindex.ClockError{}, exitFailed, "check this host's clock"},
		{bucket.ErrNotExist, exitFailed, ""},
		{bucket.ErrDenied, exitFailed, "check who may read and write there"},
		{bucket.ErrIncomplete, exitFailed, ""},
		{bucket.ErrUnknown, exitUnknown, "before you repeat it"},
		{errors.Join(bucket.ErrUnknown, syscall.ENOSPC), exitUnknown, "before you repeat it"},
		{bucket.ErrThrottled, exitBusy, "try later"},
		{syscall.ENOSPC, exitFailed, "make room"},
		{bucket.ErrFull, exitFailed, "make room"},
		{syscall.EMFILE, exitFailed, "ulimit -n"},
		{context.Canceled, exitFailed, "interrupted"},
		{&statusError{exitBroken, bucket.ErrDenied}, exitBroken, ""},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("doing something: %w", err)
		}
		if got := exitStatus(err); got != c.want {
			t.Errorf("exitStatus(%v) = %d, want %d", err, got, c.want)
		}
		if err != nil && !strings.Contains(message(err), c.says) {
			t.Errorf("message(%v) = %q, want %q in it", err, message(err), c.says)
		}
	}
}

// TestMessage: people are told what happened, and not in which package; what they wrote themselves is left as it is.
func TestMessage(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		err  error
		want string
	}{
		{blobindex.ErrName, "unusable name"},
		{bucket.ErrNotExist, "not found"},
		{fmt.Errorf("directory x does not exist; create it: %w", bucket.ErrNotExist), "directory x does not exist; create it"},
		{fmt.Errorf("x cannot be one: %w: %w", bucket.ErrNotExist, errors.New("mkdir x: refused")),
			"x cannot be one: mkdir x: refused"},
		{fmt.Errorf("%w: %w: they take 2000 bytes", blobindex.ErrLabels, blobindex.ErrLabelsTooLarge),
			"unusable labels: labels too large: they take 2000 bytes"},
		{errors.Join(itemid.ErrInvalid, bucket.ErrIncomplete), "invalid id; listing incomplete"},
		{fmt.Errorf("it is %q: %w", "a: bucket: not found, \": itemid: b", bucket.ErrIncomplete),
			`it is "a: bucket: not found, \": itemid: b": listing incomplete`},
		{fmt.Errorf("making the bucket: %w", errors.New("refused")), "making the bucket: refused"},
		{fmt.Errorf("opening: %w", syscall.ENOTDIR), "opening: not a directory; choose a directory with --bucket"},
		{fmt.Errorf("registering %q: %w", "a_1", &blobindex.ClockError{
			Name: now.Add(-365 * 24 * time.Hour), Store: now, Limit: 2 * time.Hour, Written: true,
		}), `registering "a_1": it is dated 365d before the store's clock, past the TTL of 2h (the key was written, but is not ` +
			`shown); give the item an id of now, or check this host's clock`},
		{&blobindex.ClockError{Name: now.Add(5 * time.Minute), Store: now, Limit: time.Minute},
			"it is dated 5m00s ahead of the store's clock, and at most 1m is allowed (nothing was written); give the item an id " +
				"of now, or check this host's clock"},
		{errors.New("yaml: unmarshal errors:\n  line 1: bad"), "yaml: unmarshal errors: line 1: bad"},
	} {
		if got := message(c.err); got != c.want {
			t.Errorf("message(%v) = %q, want %q", c.err, got, c.want)
		}
	}
}

// TestOneLine: whatever an error is made of, its message is one line.
func TestOneLine(t *testing.T) {
	err := errors.Join(errors.New("a\nb"), errors.New(" c\r\n"))
	if got := message(err); got != "a; b; c" {
		t.Errorf("message = %q", got)
	}
}
