package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
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

// CheckPath returns ErrRow for a path that cannot be published: one that is not valid UTF-8 of 1 to MaxPath bytes, has a byte 0,
// or a part between slashes that is empty, "." or "..". Anything else may be in it, line ends too.
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

// decodeRows calls fn with each line of a part, or of rows that somebody has sent.
func decodeRows(from io.Reader, fn func(Row) error) error {
	d := json.NewDecoder(from)
	d.DisallowUnknownFields()
	for n := 1; ; n++ {
		var r Row
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w: %w", n, ErrRow, err)
		}
		if err := r.Check(); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := fn(r); err != nil {
			return err
		}
	}
}

// NDJSON is a Walk over lines of JSON, one row each, such as a client sends.
func NDJSON(from io.Reader) Walk {
	return func(add func(Row) error) error { return decodeRows(from, add) }
}
