package gcsbucket

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// maxName is Cloud Storage's limit for a name, in bytes.
const maxName = 1024

// object is the name of a key's object, or the reason for which there can be none.
func (b *Bucket) object(ctx context.Context, key bucket.Key) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if key == "" {
		return "", fmt.Errorf("empty key: %w", bucket.ErrInvalidKey)
	}
	name := b.root + string(key)
	if err := checkName(name); err != nil {
		return "", fmt.Errorf("%w: %w", bucket.ErrInvalidKey, err)
	}
	if b.pathKeys && !isPath(name) {
		return "", fmt.Errorf("%w: this server would take it for another path", bucket.ErrInvalidKey)
	}
	return name, nil
}

// checkName says why Cloud Storage cannot hold an object of that name.
func checkName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("more than %d bytes", maxName)
	case !utf8.ValidString(name):
		return errors.New("not valid UTF-8")
	case strings.ContainsAny(name, "\r\n"):
		return errors.New("a line end in it")
	case name == ".", name == "..", strings.HasPrefix(name, ".well-known/acme-challenge/"):
		return errors.New("a reserved name")
	}
	return nil
}

// isPath: cleaning it as a path changes nothing. A slash at the end stays.
func isPath(name string) bool {
	return "/"+strings.TrimSuffix(name, "/") == path.Clean("/"+name)
}

// validPart cuts s before its first byte that is not of a valid UTF-8 character. It is a prefix of s and not greater.
func validPart(s string) string {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return s[:i]
			}
		}
	}
	return s
}
