package gocloudbucket

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// maxKey is the limit of Azure, S3 and Google for a name.
const maxKey = 1024

// escape begins what gocloud's drivers write for a character that their store cannot hold.
const escape = "__0x"

// usable is asked first by every call on a key.
func (b *Bucket) usable(ctx context.Context, key bucket.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	why, at := "", 0
	switch {
	case key == "":
		why = "empty key"
	case len(key) > maxKey:
		why = fmt.Sprintf("key of more than %d bytes", maxKey)
	case !utf8.ValidString(string(key)):
		why = "key that is not UTF-8"
	case strings.Contains(string(key), escape):
		why = "key with " + escape + ", which drivers take for an escape"
	case !b.opts.AnyKeys:
		at, why = oddity(string(key))
		if why == "" && strings.HasSuffix(string(key), "/") {
			why, at = "empty segment", len(key)
		}
		if why != "" {
			why = fmt.Sprintf("%s at byte %d", why, at)
		}
	}
	if why != "" {
		return fmt.Errorf("%s: %w", why, bucket.ErrInvalidKey)
	}
	return b.checkRoot()
}

// oddity finds the first thing in a key that some driver escapes or some store alters, but for a slash at its end, which a
// prefix may have. at is where the key before it is plain, whatever follows.
func oddity(key string) (at int, what string) {
	start := 0
	for i := 0; ; i++ {
		switch {
		case i == len(key) || key[i] == '/':
			switch segment := key[start:i]; {
			case segment == "" && i < len(key):
				return start, "empty segment"
			case strings.HasSuffix(segment, "."):
				return start, "segment that ends with a dot"
			}
			if i == len(key) {
				return 0, ""
			}
			start = i + 1
		case key[i] < ' ' || key[i] == 0x7f:
			return i, "control character"
		case strings.IndexByte("\\\"#%?", key[i]) >= 0:
			return i, "one of \\ \" # % ?"
		}
	}
}

// askable is as much of a prefix as any store can be asked for. Whatever has the prefix has this one too.
func askable(prefix string) string {
	for i, r := range prefix {
		if r == utf8.RuneError && !strings.HasPrefix(prefix[i:], "\uFFFD") {
			prefix = prefix[:i]
			break
		}
	}
	prefix, _, _ = strings.Cut(prefix, escape)
	if at, what := oddity(prefix); what != "" {
		prefix = prefix[:at]
	}
	return prefix
}
