package blobindex

import (
	"fmt"
	"strings"

	"github.com/blobindex/indexd/blobindex/itemid"
)

// ErrName is wrapped by the errors for prefixes, index names and namespaces that cannot be used.
var ErrName = itemid.ErrName

// FlatNamespace is how the one namespace of a flat index is written where a name is needed (URLs, the command line).
const FlatNamespace = "_"

// CheckName is itemid.CheckName.
func CheckName(s string) error { return itemid.CheckName(s) }

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
