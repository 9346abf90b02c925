package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

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
		{&blobindex.ClockError{}, exitFailed, "set this host's clock"},
		{bucket.ErrNotExist, exitFailed, ""},
		{bucket.ErrDenied, exitFailed, "check who may read and write there"},
		{bucket.ErrIncomplete, exitFailed, ""},
		{bucket.ErrUnknown, exitUnknown, "before you repeat it"},
		{errors.Join(bucket.ErrUnknown, syscall.ENOSPC), exitUnknown, "before you repeat it"},
		{bucket.ErrThrottled, exitBusy, "try later"},
		{syscall.ENOSPC, exitFailed, "make room"},
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

// TestOneLine: whatever an error is made of, its message is one line.
func TestOneLine(t *testing.T) {
	err := errors.Join(errors.New("a\nb"), errors.New(" c\r\n"))
	if got := message(err); got != "a; b; c" {
		t.Errorf("message = %q", got)
	}
}
