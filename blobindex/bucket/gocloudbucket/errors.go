package gocloudbucket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"syscall"

	"gocloud.dev/gcerrors"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A failure is what an error of a driver means.
type failure struct {
	meaning error // in the words of the contract; nil: none
	again   bool  // the same call may fare better
	maybe   bool  // a write may have been carried out
}

// judge is where errors of drivers are given their meaning. The status that the store answered goes before gocloud's code.
func (b *Bucket) judge(err error, asked op) failure {
	var panicked *panicError
	status, code := statusOf(err), gcerrors.Code(err)
	switch {
	case isBody(err):
		return failure{}
	case errors.As(err, &panicked):
		return failure{maybe: true}
	case errors.Is(err, errSpinning), errors.Is(err, errRootGone):
		return failure{}
	case status == http.StatusUnauthorized, status == http.StatusForbidden, code == gcerrors.PermissionDenied,
		errors.Is(err, fs.ErrPermission), isExpired(err):
		return failure{meaning: bucket.ErrDenied}
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, code == gcerrors.ResourceExhausted:
		return failure{meaning: bucket.ErrThrottled, again: true, maybe: true}
	case status == http.StatusNotFound, status == 0 && code == gcerrors.NotFound && !ofNetwork(err):
		switch {
		case b.checkRoot() != nil:
			return failure{}
		case asked == list && b.root != nil:
			return failure{again: true} // a file went away while fileblob walked
		}
		return failure{meaning: bucket.ErrNotExist}
	case status == http.StatusNotImplemented, code == gcerrors.Unimplemented:
		return failure{meaning: bucket.ErrUnsupported}
	case errors.Is(err, syscall.ENAMETOOLONG), asked == put && inTheWay(err):
		return failure{meaning: bucket.ErrInvalidKey}
	case inTheWay(err):
		return failure{meaning: bucket.ErrNotExist}
	case status == http.StatusRequestTimeout, status >= 500:
		return failure{again: true, maybe: true}
	case status != 0:
		return failure{}
	case code == gcerrors.FailedPrecondition, code == gcerrors.AlreadyExists, code == gcerrors.InvalidArgument:
		return failure{}
	default: // no answer at all, or one that says nothing
		return failure{again: true, maybe: true}
	}
}

// final is the error that a call returns. A write that may have been carried out by any of its attempts is unknown.
func (f failure) final(err error, maybe bool) error {
	switch {
	case maybe:
		return fmt.Errorf("%w: %w", bucket.ErrUnknown, err)
	case f.meaning == nil:
		return err
	}
	return fmt.Errorf("%w: %w", f.meaning, err)
}

func isBody(err error) bool {
	var of *bucket.BodyError
	return errors.As(err, &of)
}

// isExpired: AWS answers 400 to credentials whose time is over.
func isExpired(err error) bool {
	var api interface{ ErrorCode() string }
	return errors.As(err, &api) && (api.ErrorCode() == "ExpiredToken" || api.ErrorCode() == "InvalidToken")
}

// ofNetwork: the store was not reached. A syscall.Errno is no evidence of that, fileblob's errors are of that type.
func ofNetwork(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var of *url.Error
	return errors.As(err, &op) || errors.As(err, &dns) || errors.As(err, &of)
}

// inTheWay: to fileblob keys are paths, and at the key or above it lies something else than an object.
func inTheWay(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.ENOTEMPTY} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// statusOf is the HTTP status that the store answered, 0 if no error below err has one. AWS has a method for it, the
// errors of Azure (azcore.ResponseError) and Google (googleapi.Error) have fields, which are found by name so that their
// libraries need not be linked in.
func statusOf(err error) int {
	if err == nil {
		return 0
	}
	if answer, ok := err.(interface{ HTTPStatusCode() int }); ok {
		return answer.HTTPStatusCode()
	}
	if status := statusField(reflect.ValueOf(err)); status != 0 {
		return status
	}
	switch below := err.(type) {
	case interface{ Unwrap() error }:
		return statusOf(below.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range below.Unwrap() {
			if status := statusOf(e); status != 0 {
				return status
			}
		}
	}
	return 0
}

func statusField(v reflect.Value) int {
	if v = reflect.Indirect(v); v.Kind() != reflect.Struct {
		return 0
	}
	for _, name := range []string{"StatusCode", "Code"} {
		field, ok := v.Type().FieldByName(name)
		// gocloud's own errors have a Code as well, below 20.
		if ok && len(field.Index) == 1 && field.Type.Kind() == reflect.Int {
			if n := int(v.Field(field.Index[0]).Int()); 300 <= n && n < 600 {
				return n
			}
		}
	}
	return 0
}
