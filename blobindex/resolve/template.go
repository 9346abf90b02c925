package resolve

import (
	"errors"
	"fmt"
	"strings"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
)

// ErrTemplate is wrapped by the errors for key templates that cannot be used.
var ErrTemplate = errors.New("resolve: unusable key template")

// A template is a key in which whole path segments stand for parts of a Target: {index}, {namespace}, {id}, {subkey}.
type template []string

func parseTemplate(s string) (template, error) {
	fail := func(why string) (template, error) {
		return nil, fmt.Errorf("%w %q: %s", ErrTemplate, s, why)
	}
	segments := strings.Split(s, "/")
	for _, seg := range segments {
		switch seg {
		case "":
			return fail("it has an empty segment; write segments joined by single slashes, without one at either end")
		case ".", "..":
			return fail("a segment is " + seg)
		case "{index}", "{namespace}", "{id}", "{subkey}":
		default:
			if strings.ContainsAny(seg, "{}") {
				return fail("a variable must be a whole segment, one of {index}, {namespace}, {id}, {subkey}")
			}
		}
	}
	return segments, nil
}

// key fills the template in. Values cannot add segments: ids and names hold no slash, and begin with no dot.
func (t template) key(target blobindex.Target) bucket.Key {
	out := make([]string, len(t))
	for i, seg := range t {
		switch seg {
		case "{index}":
			seg = target.Index
		case "{namespace}":
			seg = target.Namespace
		case "{id}":
			seg = target.ID.String()
		case "{subkey}":
			seg = target.ID.Subkey()
		}
		out[i] = seg
	}
	return bucket.Key(strings.Join(out, "/"))
}
