package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
)

// Exit statuses.
const (
	exitDone    = 0
	exitFailed  = 1  // nothing half-done is left, or the message says what is
	exitUsage   = 2  // a flag, an argument or the configuration is wrong; nothing was asked of the bucket
	exitBroken  = 3  // the bucket breaks a guarantee that the command needs
	exitUnknown = 4  // a write may have been applied: look before repeating it
	exitBusy    = 75 // EX_TEMPFAIL of sysexits.h: try later
)

// errSilent is wrapped by errors of which the user has been told already.
var errSilent = errors.New("told")

// A statusError is an error with an exit status of its own.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// usagef returns an error for wrong usage.
func usagef(format string, args ...any) error {
	return &statusError{exitUsage, fmt.Errorf(format, args...)}
}

// exitStatus is the one place where errors become exit statuses.
func exitStatus(err error) int {
	var own *statusError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &own):
		return own.status
	case errors.Is(err, bucket.ErrUnknown):
		return exitUnknown
	case isOneOf(err, blobindex.ErrName, blobindex.ErrLabels, blobindex.ErrRequest, itemid.ErrInvalid):
		return exitUsage
	case errors.Is(err, bucket.ErrThrottled):
		return exitBusy
	}
	return exitFailed
}

func isOneOf(err error, sentinels ...error) bool {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}

// message is what the user is told of an error: one line, with what to do about it where the error itself does not say.
func message(err error) string {
	text := oneLine(err.Error())
	switch {
	case errors.Is(err, bucket.ErrUnknown):
		return text + "; it may have been applied: look with \"indexd explain\" before you repeat it"
	case errors.Is(err, bucket.ErrDenied):
		return text + "; check who may read and write there, or choose another --bucket"
	case errors.Is(err, bucket.ErrThrottled):
		return text + "; try later"
	case errors.Is(err, syscall.ENOSPC):
		return text + "; make room and repeat it"
	case errors.Is(err, syscall.EMFILE):
		return text + "; raise the limit on open files (ulimit -n) and repeat it"
	case errors.Is(err, context.Canceled):
		return "interrupted: " + text
	}
	return text
}
