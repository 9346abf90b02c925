package dirbucket

import (
	"fmt"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// What Linux can name (limits.h: NAME_MAX, PATH_MAX less the final NUL).
const (
	maxSegment = 255
	maxKey     = 4095
)

// checkKey returns ErrInvalidKey, with the reason, unless key is a path that can be made below the root.
func checkKey(key bucket.Key) error {
	reason := ""
	switch {
	case key == "":
		reason = "empty key"
	case len(key) > maxKey:
		reason = fmt.Sprintf("%d bytes, more than a path may have (%d)", len(key), maxKey)
	case isReserved(key):
		reason = "the directory " + metaName + " is the bucket's own"
	default:
		for segment := range strings.SplitSeq(string(key), "/") {
			if reason = badSegment(segment); reason != "" {
				break
			}
		}
	}
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%s: %w", reason, bucket.ErrInvalidKey)
}

// badSegment returns why no file may have this name, or nothing.
func badSegment(name string) string {
	switch {
	case name == "":
		return "a leading, trailing or doubled slash"
	case name == "." || name == "..":
		return "a dot segment"
	case len(name) > maxSegment:
		return fmt.Sprintf("a segment of %d bytes, more than a file name may have (%d)", len(name), maxSegment)
	case strings.Contains(name, "\x00"):
		return "a NUL"
	case !nameable(name):
		return "a segment that this system cannot name a file"
	}
	return ""
}

func isReserved(key bucket.Key) bool {
	first, _, _ := strings.Cut(string(key), "/")
	return sameName(first, metaName)
}

// parentOf is the path of the directory that a valid key lies in, "" for the root.
func parentOf(key bucket.Key) string {
	return string(key[:max(0, strings.LastIndexByte(string(key), '/'))])
}

// splitKey splits a valid key into its directories and its name.
func splitKey(key bucket.Key) (dirs []string, name string) {
	parts := strings.Split(string(key), "/")
	return parts[:len(parts)-1], parts[len(parts)-1]
}
