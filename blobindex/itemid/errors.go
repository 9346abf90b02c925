package itemid

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// ErrInvalid is wrapped by every error of Parse, and by every error of Mint but those of its source of randomness.
var ErrInvalid = errors.New("itemid: invalid id")

// An Error says what is wrong with a text that is no id. Parse returns no other error; errors.Is finds ErrInvalid.
type Error struct {
	// Grammar is the one that was asked for.
	Grammar Grammar
	// Excerpt is the text, or its first 64 bytes at the most, as it was given: unquoted, and possibly hostile.
	Excerpt string
	// Reason is a fixed sentence that says what is wrong and what would be right. It repeats nothing of the text, so
	// that it may be shown to anybody.
	Reason string
}

// Error gives the excerpt in quoted ASCII (300 bytes at the most), the reason, and the shape of an id of this grammar.
func (e *Error) Error() string {
	if e.Grammar > SubkeyKSUID {
		return fmt.Sprintf("%v %s: %s", ErrInvalid, quote(e.Excerpt), e.Reason)
	}
	return fmt.Sprintf("%v %s: %s (an id of grammar %s is %s)",
		ErrInvalid, quote(e.Excerpt), e.Reason, e.Grammar, e.Grammar.shape())
}

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }

// Reasons for Error.Reason. They speak of the sub-key and the time part, never of the text itself.
const (
	reasonGrammar   = "its grammar is unknown; want one of " + grammarNames
	reasonEmpty     = "it is empty; an id has 1 to 200 bytes"
	reasonLong      = "it is longer than 200 bytes"
	reasonDot       = "it must not start with a dot"
	reasonSlash     = `it must not hold a "/"`
	reasonTilde     = `it must not hold a "~"`
	reasonControl   = "it must not hold a control character"
	reasonUTF8      = "it must be valid UTF-8"
	reasonEscape    = `it must not hold "__0x", which some clients take for an escape`
	reasonNoSubkey  = `it has no "_" between a sub-key and a time`
	reasonNoPrefix  = `nothing stands before the last "_"; the sub-key must not be empty`
	reasonDigits    = `what follows the last "_" must be exactly 10, 13, 16 or 19 digits 0-9`
	reasonNanos     = "its nanoseconds must not be more than 9223372036854775807"
	reasonULID      = "its time part must be an upper-case ULID of 26 characters, the first one 0 to 7"
	reasonUUID      = "its time part must be a lower-case UUID of 36 characters with its four hyphens"
	reasonUUIDv7    = "its UUID must be of version 7 and of the variant of RFC 9562"
	reasonKSUID     = "its time part must be a KSUID: 27 characters 0-9A-Za-z, aWgEPTl1tmebfsQzFP4bxwgy80V at the most"
	reasonBareMint  = "its grammar has no place for a sub-key; mint with an empty one"
	reasonEmptyMint = "its grammar needs a sub-key; mint with one that is not empty"
)

// maxExcerpt bounds what an error keeps and repeats of a text that may be of any length.
const maxExcerpt = 64

// excerpt returns the start of s, cut between characters where there are any.
func excerpt(s string) string {
	if len(s) <= maxExcerpt {
		return s
	}
	end := maxExcerpt
	for end > maxExcerpt-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	// A copy, lest a small error keep a huge text alive.
	return string([]byte(s[:end]))
}

// quote makes an excerpt safe to print: no line breaks, no direction marks, no escape sequences of a terminal.
func quote(s string) string { return strconv.QuoteToASCII(s) }
