package blobindex

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrName is wrapped by the errors for prefixes, index names and namespaces that cannot be used.
var ErrName = errors.New("blobindex: unusable name")

// FlatNamespace is how the one namespace of a flat index is written where a name is needed (URLs, the command line).
const FlatNamespace = "_"

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,62}$`)

// CheckName returns an error that wraps ErrName unless s can be a namespace, an index name or a segment of a prefix:
// 1 to 63 of the letters, digits, `.`, `_` and `-`, the first neither `.` nor `-`; not `_`, not `_indexd` (the
// index's own documents), and without `__0x` (which some clients unescape to another key).
func CheckName(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: it is empty; give 1 to 63 of A-Z a-z 0-9 . _ -", ErrName)
	case !nameForm.MatchString(s):
		return fmt.Errorf("%w %.80q: a name is 1 to 63 of A-Z a-z 0-9 . _ - and begins with a letter, a digit or _",
			ErrName, s)
	case s == FlatNamespace || s == "_indexd" || strings.Contains(s, "__0x"):
		return fmt.Errorf("%w %q: it is reserved; choose another one", ErrName, s)
	}
	return nil
}

// CleanPrefix returns the prefix of an index without leading, trailing and doubled slashes. What is left must be one
// or more names joined by a slash.
func CleanPrefix(s string) (string, error) {
	names := strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
	if len(names) == 0 {
		return "", fmt.Errorf("%w: the prefix %.80q is empty; name at least one segment, such as %q",
			ErrName, s, DefaultPrefix)
	}
	for _, n := range names {
		if err := CheckName(n); err != nil {
			return "", fmt.Errorf("prefix %.200q: %w", s, err)
		}
	}
	return strings.Join(names, "/"), nil
}

// CheckDisjoint returns an error if one prefix contains another or equals it: their items would mix.
func CheckDisjoint(prefixes ...string) error {
	for i, a := range prefixes {
		for _, b := range prefixes[i+1:] {
			if strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/") {
				return fmt.Errorf("%w: the prefixes %q and %q overlap; give each index one of its own", ErrName, a, b)
			}
		}
	}
	return nil
}
