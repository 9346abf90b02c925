package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxPath is how many bytes a path has at the most.
const MaxPath = 4096

// A Row is one file of a listing.
type Row struct {
	Path   string    `json:"path"`   // see CheckPath
	Size   int64     `json:"size"`   // bytes
	MTime  time.Time `json:"mtime"`  // when it was changed last, by whoever listed it
	Digest string    `json:"digest"` // such as "sha256:" and 64 hexadecimal digits; empty if nobody computed one
}

var digestPattern = regexp.MustCompile(`^[a-z0-9]{1,20}:[0-9a-f]{8,128}$`)

// CheckPath returns ErrRow for a path that cannot be published: one that is not valid UTF-8 of 1 to MaxPath bytes, has a
// byte 0, or a part between slashes that is empty, "." or "..". Anything else may be in it, line ends too.
func CheckPath(path string) error {
	why := ""
	switch {
	case path == "" || len(path) > MaxPath:
		why = fmt.Sprintf("it has %d bytes, not 1 to %d", len(path), MaxPath)
	case !utf8.ValidString(path):
		why = "it is not valid UTF-8"
	case strings.Contains(path, "\x00"):
		why = "it has a byte 0"
	}
	for part := range strings.SplitSeq(path, "/") {
		if why == "" && (part == "" || part == "." || part == "..") {
			why = fmt.Sprintf("it has a part %q", part)
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: path %.200q: %s; rename it, or leave it out", ErrRow, path, why)
}

// Check returns ErrRow for a row that cannot be published.
func (r Row) Check() error {
	if err := CheckPath(r.Path); err != nil {
		return err
	}
	switch year := r.MTime.UTC().Year(); {
	case r.Size < 0:
		return fmt.Errorf("%w: %.200q has a size of %d", ErrRow, r.Path, r.Size)
	case year < 0 || year > 9999:
		return fmt.Errorf("%w: %.200q is of the year %d", ErrRow, r.Path, year)
	case r.Digest != "" && !digestPattern.MatchString(r.Digest):
		return fmt.Errorf("%w: %.200q has the digest %.80q; give one such as sha256:9f86…", ErrRow, r.Path, r.Digest)
	}
	return nil
}

// appendLine appends the row as it is stored.
func (r Row) appendLine(b *bytes.Buffer) error {
	r.MTime = r.MTime.UTC()
	e := json.NewEncoder(b) // which ends the line
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// maxLine is how many bytes a line has at the most: more than a path of MaxPath bytes that are all escaped.
const maxLine = 64 << 10

// decodeRows calls fn with the row of each line of a part, or of what somebody has sent.
func decodeRows(from io.Reader, fn func(Row) error) error {
	lines := bufio.NewReaderSize(from, maxLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		end := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("line %d: %w: it has more than %d bytes", n, ErrRow, maxLine)
		case err != nil && !end:
			return fmt.Errorf("reading line %d: %w", n, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			r, err := parseRow(line)
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			if err := fn(r); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
	}
}

// parseRow reads a line. What the decoder would replace by U+FFFD is refused: it would be another path. So is a line without
// a size or a time: they would be 0, and of the year 1.
func parseRow(line []byte) (Row, error) {
	if !utf8.Valid(line) || loneSurrogate(line) {
		return Row{}, fmt.Errorf("%w: %.200q is not valid UTF-8", ErrRow, line)
	}
	var is struct {
		Path   string     `json:"path"`
		Size   *int64     `json:"size"`
		MTime  *time.Time `json:"mtime"`
		Digest string     `json:"digest"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&is); err != nil {
		return Row{}, fmt.Errorf("%w: %w", ErrRow, err)
	}
	if len(bytes.TrimSpace(line[d.InputOffset():])) > 0 {
		return Row{}, fmt.Errorf("%w: more than one value", ErrRow)
	}
	if is.Size == nil || is.MTime == nil {
		return Row{}, fmt.Errorf("%w: %.200q has no size, or no mtime", ErrRow, is.Path)
	}
	r := Row{is.Path, *is.Size, *is.MTime, is.Digest}
	return r, r.Check()
}

// loneSurrogate reports whether a line of JSON has an escaped half of a pair without the other one.
func loneSurrogate(line []byte) bool {
	for {
		i := bytes.IndexByte(line, '\\')
		if i < 0 || i+1 == len(line) {
			return false
		}
		if line = line[i:]; line[1] != 'u' {
			line = line[2:]
			continue
		}
		unit := escaped(line)
		line = line[2:]
		if !utf16.IsSurrogate(unit) {
			continue
		}
		line = line[4:]
		if utf16.DecodeRune(unit, escaped(line)) == utf8.RuneError {
			return true
		}
		line = line[6:]
	}
}

// escaped is the unit of an escape such as \ud83d at the beginning of some JSON, 0 if there is none.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(unit)
}

// NDJSON is a Walk over lines of JSON, one row each, such as a client sends. An error of from is returned as it is, wrapped.
func NDJSON(from io.Reader) Walk {
	return func(add func(Row) error) error { return decodeRows(from, add) }
}
