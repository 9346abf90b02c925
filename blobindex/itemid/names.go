package itemid

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrName is wrapped by the errors for names that cannot be used.
var ErrName = errors.New("unusable name")

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
	case s == "_" || s == "_indexd" || strings.Contains(s, "__0x"):
		return fmt.Errorf("%w %q: it is reserved; choose another one", ErrName, s)
	}
	return nil
}
