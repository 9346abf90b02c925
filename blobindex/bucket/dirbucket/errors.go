package dirbucket

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// translate gives an error of the operating system the contract's meaning. What has none there is returned as it is: no
// descriptors, a failing device.
func translate(err error) error {
	var sentinel error
	var body *bucket.BodyError
	switch {
	case err == nil || isTranslated(err) || errors.As(err, &body):
		return err
	case isDenied(err):
		sentinel = bucket.ErrDenied
	case errors.Is(err, fs.ErrNotExist):
		sentinel = bucket.ErrNotExist
	case isFull(err):
		sentinel = bucket.ErrFull
	case isOneOf(err, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.EINVAL, syscall.EILSEQ,
		syscall.ELOOP, syscall.ENXIO):
		// A file or a link where a directory is needed, a directory or a pipe where a file is, or a name that this
		// file system cannot hold.
		sentinel = bucket.ErrInvalidKey
	default:
		return err
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

func isTranslated(err error) bool {
	for _, s := range []error{bucket.ErrDenied, bucket.ErrNotExist, bucket.ErrInvalidKey, bucket.ErrUnknown,
		bucket.ErrIncomplete, bucket.ErrFull} {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}

// unknown is for errors after a change was made: whatever they are, they do not say that it was not.
func unknown(step string, err error) error {
	return fmt.Errorf("%s: %w: %w", step, bucket.ErrUnknown, err)
}

// isDenied: by permissions, or by a read-only file system.
func isDenied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || isOneOf(err, syscall.EROFS)
}

// isAbsent: the path leads to no object: nothing there, or something on the way that is no directory.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || isOneOf(err, syscall.ENOTDIR, syscall.ELOOP)
}

func isFull(err error) bool { return isOneOf(err, syscall.ENOSPC, syscall.EDQUOT) }

func isOneOf(err error, nos ...syscall.Errno) bool {
	var no syscall.Errno
	if !errors.As(err, &no) {
		return false
	}
	for _, n := range nos {
		if no == n {
			return true
		}
	}
	return false
}
