package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
	"github.com/blobindex/indexd/blobindex/itemid"
)

// Exit statuses.
const (
	exitDone    = 0
	exitFailed  = 1  // nothing half-done is left, or the message says what is
	exitUsage   = 2  // a flag, an argument or the configuration is wrong; nothing was asked of the bucket
	exitBroken  = 3  // the bucket breaks a guarantee that the command needs, or the rules given differ from the saved ones
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

// An advisedError is an error with what to do about it, in the place of what message would advise.
type advisedError struct {
	err    error
	advice string
}

func (e *advisedError) Error() string { return e.err.Error() }
func (e *advisedError) Unwrap() error { return e.err }

// usagef returns an error for wrong usage.
func usagef(format string, args ...any) error {
	return &statusError{exitUsage, fmt.Errorf(format, args...)}
}

// usageErrors are what the packages below answer to arguments that cannot be right.
var usageErrors = []error{
	blobindex.ErrName, blobindex.ErrLabels, blobindex.ErrRequest, itemid.ErrInvalid, openbucket.ErrAddress, openbucket.ErrConfig,
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
	case slices.ContainsFunc(usageErrors, func(e error) bool { return errors.Is(err, e) }):
		return exitUsage
	case errors.Is(err, bucket.ErrThrottled), errors.Is(err, blobindex.ErrRulesChanging):
		return exitBusy
	}
	return exitFailed
}

// packageNames finds the names of packages that begin an error, or an error within another one, outside of quotes; and
// two sentinels behind texts that say more.
var packageNames = regexp.MustCompile(`("(?:\\.|[^"\\])*")|: bucket: not found|: lease: another term|` +
	`(^|: |; |\()(?:(?:auth|blobindex|bucket|cas|dirbucket|gcsbucket|itemid|janitor|lease|manifest|openbucket|probe|prune|resolve|s3bucket|snapshot|web): )+`)

// readable makes the text of an error one line for people, who need not know of our packages.
func readable(text string) string { return packageNames.ReplaceAllString(oneLine(text), "$1$2") }

// message is what the user is told of an error: one line, with what to do about it where the error itself does not say.
func message(err error) string {
	text := readable(err.Error())
	var clock *blobindex.ClockError
	var advised *advisedError
	switch {
	case errors.As(err, &advised):
		return text + "; " + advised.advice
	case errors.As(err, &clock):
		return strings.Replace(text, readable(clock.Error()), clockText(clock), 1)
	case errors.Is(err, bucket.ErrUnknown):
		return text + "; it may have been applied: look with \"indexd explain\" before you repeat it"
	case errors.Is(err, bucket.ErrDenied):
		return text + "; check who may read and write there, or choose another --bucket"
	case errors.Is(err, bucket.ErrThrottled):
		return text + "; try later"
	case errors.Is(err, bucket.ErrFull), errors.Is(err, syscall.ENOSPC):
		return text + "; make room and repeat it"
	case errors.Is(err, syscall.ENOTDIR):
		return text + "; choose a directory with --bucket"
	case errors.Is(err, syscall.EMFILE):
		return text + "; raise the limit on open files (ulimit -n) and repeat it"
	case errors.Is(err, context.Canceled):
		return "interrupted: " + text
	}
	return text
}

// clockText says how far an id or a heartbeat is from the store's clock. Far in the past it is the id that is wrong,
// rather than the clock.
func clockText(e *blobindex.ClockError) string {
	state := "nothing was written"
	if e.Written {
		state = "the key was written, but is not shown"
	}
	const advice = "give the item an id of now, or check this host's clock"
	if ahead := e.Name.Sub(e.Store); ahead > 0 {
		return fmt.Sprintf("it is dated %s ahead of the store's clock, and at most %s is allowed (%s); %s", humane(ahead),
			exact(e.Limit), state, advice)
	}
	return fmt.Sprintf("it is dated %s before the store's clock, past the TTL of %s (%s); %s", humane(e.Store.Sub(e.Name)),
		exact(e.Limit), state, advice)
}
