package itemid

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxLen is the length of the longest id, in bytes.
const MaxLen = 200

// ID is a parsed item id. IDs may be compared with == and are equal if their texts and grammars are; the zero ID is
// no valid id. An ID takes 32 bytes besides its text, since a listing holds a million of them.
type ID struct {
	text string
	sec  int64 // seconds from 1970 on, and
	nsec int32 // nanoseconds within the second: what does not fit int64 nanoseconds is right here too
	cut  uint8 // length of the sub-key; MaxLen fits
}

// String returns the id exactly as it was given to Parse.
func (id ID) String() string { return id.text }

// Subkey returns what is before the last "_", or the whole id in a bare grammar. Of two live items of one sub-key
// only the newer one is shown.
func (id ID) Subkey() string { return id.text[:id.cut] }

// Time returns the time inside the id, in UTC, in the resolution of its spelling: never before 1970, and as late as
// the year 10889 (ULID, UUIDv7), which RFC 3339 and JSON cannot spell. The zero ID has the zero time.
func (id ID) Time() time.Time {
	if id.IsZero() {
		return time.Time{}
	}
	return time.Unix(id.sec, int64(id.nsec)).UTC()
}

// IsZero reports whether id is the zero ID, which Parse never returns without an error.
func (id ID) IsZero() bool { return id.text == "" }

// Compare orders ids by time, and ids of one time by the bytes of their texts: -1 if id is older than other. The
// newer of two ids of one sub-key, in this order, supersedes the other one.
func (id ID) Compare(other ID) int {
	if c := cmp.Compare(id.sec, other.sec); c != 0 {
		return c
	}
	if c := cmp.Compare(id.nsec, other.nsec); c != 0 {
		return c
	}
	return strings.Compare(id.text, other.text)
}

// Parse reads an id of grammar g. Its error is always an *Error, which wraps ErrInvalid. Parse(s).String() == s for
// whatever parses. The ID keeps s alive and copies nothing of it.
func (g Grammar) Parse(s string) (ID, error) {
	if g > SubkeyKSUID {
		return ID{}, refuse(g, s, reasonGrammar)
	}
	last, reason := scan(s)
	if reason != "" {
		return ID{}, refuse(g, s, reason)
	}
	cut, part := len(s), s
	if !g.bare() {
		switch last {
		case -1:
			return ID{}, refuse(g, s, reasonNoSubkey)
		case 0:
			return ID{}, refuse(g, s, reasonNoPrefix)
		}
		cut, part = last, s[last+1:]
	}
	var sec int64
	var nsec int32
	switch g {
	case Epoch:
		sec, nsec, reason = epochTime(part)
	case ULID, SubkeyULID:
		sec, nsec, reason = ulidTime(part)
	case UUIDv7, SubkeyUUIDv7:
		sec, nsec, reason = uuidTime(part)
	case KSUID, SubkeyKSUID:
		sec, nsec, reason = ksuidTime(part)
	}
	if reason != "" {
		return ID{}, refuse(g, s, reason)
	}
	return ID{text: s, sec: sec, nsec: nsec, cut: uint8(cut)}, nil
}

func refuse(g Grammar, s, reason string) error {
	return &Error{Grammar: g, Excerpt: excerpt(s), Reason: reason}
}

// scan checks, in one pass, what every id must be, and returns the index of the last "_" or -1. A text that is too
// long is refused unread.
func scan(s string) (last int, reason string) {
	switch {
	case s == "":
		return -1, reasonEmpty
	case len(s) > MaxLen:
		return -1, reasonLong
	case s[0] == '.':
		return -1, reasonDot
	}
	last = -1
	for i := 0; i < len(s); i++ {
		c := s[i]
		// Nearly every byte of nearly every key: digits, letters and what stands between them in ASCII.
		if '0' <= c && c <= '^' || '`' <= c && c <= '}' && c != 'x' {
			continue
		}
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				return -1, reasonUTF8
			}
			if r <= '\u009f' {
				return -1, reasonControl
			}
			i += n - 1
		case c < ' ' || c == '\x7f':
			return -1, reasonControl
		case c == '/':
			return -1, reasonSlash
		case c == '~':
			return -1, reasonTilde
		case c == '_':
			last = i
		case c == 'x' && i >= 3 && s[i-3:i] == "__0":
			return -1, reasonEscape
		}
	}
	return last, ""
}
