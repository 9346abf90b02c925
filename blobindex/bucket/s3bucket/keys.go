package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// maxKey is S3's limit for a key, in bytes.
const maxKey = 1024

// usable is asked first by every call on a key. It returns the key as the store knows it.
func (b *Bucket) usable(ctx context.Context, key bucket.Key) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	full := b.prefix + string(key)
	why := ""
	switch {
	case key == "":
		why = "empty key"
	case len(full) > maxKey:
		why = fmt.Sprintf("key of more than %d bytes", maxKey)
	case !utf8.ValidString(full):
		why = "key that is not UTF-8"
	case slices.ContainsFunc(strings.Split(full, "/"), isDots):
		why = "key with a dot segment"
	case !b.custom || b.anyKeys:
	case strings.HasPrefix(full, "/") || strings.Contains(full, "//"):
		why = "key with an empty segment"
	case strings.ContainsFunc(full, isControl):
		why = "key with a control character"
	}
	if why != "" {
		return "", fmt.Errorf("%s: %w", why, bucket.ErrInvalidKey)
	}
	return full, nil
}

func isDots(segment string) bool { return segment == "." || segment == ".." }

// isControl: XML 1.0 has no way to say most of these.
func isControl(r rune) bool { return r < ' ' || r == 0xfffe || r == 0xffff }

// notXML is isControl, and what some parser takes for the end of a line.
func notXML(r rune) bool { return isControl(r) || r == 0x85 || r == 0x2028 }

// askable returns as much of a prefix as a listing can be asked for. Whatever has the prefix has this one too.
func (b *Bucket) askable(prefix string) string {
	for i, r := range prefix {
		bad := r == utf8.RuneError && !strings.HasPrefix(prefix[i:], "\uFFFD")
		if bad || b.custom && !b.anyKeys && isControl(r) {
			prefix = prefix[:i]
			break
		}
	}
	if b.custom && !b.anyKeys {
		prefix = plainSegments(prefix)
	}
	if b.flat {
		prefix = prefix[:strings.LastIndexByte(prefix, '/')+1] // directory buckets take whole segments only
	}
	return prefix
}

// plainSegments cuts before the first segment that servers resolve; an empty last one is just a slash at the end.
func plainSegments(prefix string) string {
	start := 0
	for {
		n := strings.IndexByte(prefix[start:], '/')
		if n == 0 || isDots(prefix[start:][:max(n, 0)]) || n < 0 && isDots(prefix[start:]) {
			return prefix[:start]
		}
		if n < 0 {
			return prefix
		}
		start += n + 1
	}
}

// cleanPrefix drops the slashes that say nothing, and refuses what a path inside a bucket should not be made of.
func cleanPrefix(path string) (string, error) {
	var kept []string
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "":
			continue
		case isDots(segment) || !utf8.ValidString(segment) || strings.ContainsFunc(segment, isControl) ||
			strings.TrimSpace(segment) == "":
			return "", fmt.Errorf("the path %q inside the bucket is not usable", path)
		}
		kept = append(kept, segment)
	}
	if len(kept) == 0 {
		return "", nil
	}
	prefix := strings.Join(kept, "/") + "/"
	if len(prefix) > maxKey/2 {
		return "", errors.New("the path inside the bucket is too long")
	}
	return prefix, nil
}
