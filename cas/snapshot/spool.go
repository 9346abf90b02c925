package snapshot

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
)

// maxParts is how many a generation has at the most.
const maxParts = 999_999

// limits are what tests make smaller.
type limits struct {
	part    int   // bytes of the lines of a part, and a line more; a reader holds one part in memory
	memory  int64 // bytes of parts, as stored, before they go to a file
	uploads int   // of parts at once
}

func defaultLimits() limits { return limits{part: 4 << 20, memory: 4 << 20, uploads: 4} }

// A part is a line of the index.
type part struct {
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`  // as stored
	Digest string `json:"digest"` // as stored
	First  string `json:"first"`  // path
	Last   string `json:"last"`
}

// A spool holds the parts of a walk until it is known whether they are to be staged.
type spool struct {
	dir   string
	limit limits
	rows  int64
	parts []part
	whole hash.Hash // over all lines

	lines bytes.Buffer // of the part that is being made
	open  part
	last  string

	body bytes.Buffer // of the parts, until they are too large for memory
	file *os.File
	size int64
	zip  *gzip.Writer
}

func newSpool(dir string, limit limits) *spool {
	return &spool{dir: dir, limit: limit, parts: []part{}, whole: sha256.New()}
}

// add takes the next row.
func (s *spool) add(r Row) error {
	if err := r.Check(); err != nil {
		return err
	}
	if s.rows > 0 && r.Path <= s.last {
		return fmt.Errorf("%w: %.200q comes after %.200q; rows have to be in ascending byte order of their paths, each once",
			ErrRow, r.Path, s.last)
	}
	if s.open.Rows == 0 {
		s.open.First = r.Path
	}
	if err := r.appendLine(&s.lines); err != nil {
		return err
	}
	s.rows++
	s.open.Rows++
	s.open.Last, s.last = r.Path, r.Path
	if s.lines.Len() < s.limit.part {
		return nil
	}
	return s.cut()
}

// cut ends the part that is being made.
func (s *spool) cut() error {
	if s.open.Rows == 0 {
		return nil
	}
	if len(s.parts) == maxParts {
		return fmt.Errorf("%w: more rows than %d parts hold", ErrRow, maxParts)
	}
	s.whole.Write(s.lines.Bytes())
	var packed bytes.Buffer
	if s.zip == nil {
		var err error
		if s.zip, err = gzip.NewWriterLevel(&packed, gzip.BestSpeed); err != nil {
			return err
		}
	}
	s.zip.Reset(&packed)
	if _, err := s.zip.Write(s.lines.Bytes()); err != nil {
		return err
	}
	if err := s.zip.Close(); err != nil {
		return err
	}
	s.open.Bytes, s.open.Digest = int64(packed.Len()), digest(packed.Bytes())
	if err := s.keep(packed.Bytes()); err != nil {
		return fmt.Errorf("keeping rows until they are staged, in %s: %w", s.where(), err)
	}
	s.parts = append(s.parts, s.open)
	s.open = part{}
	s.lines.Reset()
	return nil
}

func (s *spool) where() string {
	if s.dir != "" {
		return s.dir
	}
	return os.TempDir()
}

// keep appends a part to what is kept.
func (s *spool) keep(body []byte) (err error) {
	s.size += int64(len(body))
	if s.file == nil && s.size <= s.limit.memory {
		s.body.Write(body)
		return nil
	}
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, "indexd-snapshot-"); err != nil {
			return err
		}
		os.Remove(s.file.Name()) // so that a crash leaves none; where it fails, close does it
		if _, err = s.file.Write(s.body.Bytes()); err != nil {
			return err
		}
		s.body = bytes.Buffer{}
	}
	_, err = s.file.Write(body)
	return err
}

// each calls fn with each part, in order, and its body.
func (s *spool) each(fn func(n int, p part, body *io.SectionReader) error) error {
	var from io.ReaderAt = bytes.NewReader(s.body.Bytes())
	if s.file != nil {
		from = s.file
	}
	at := int64(0)
	for n, p := range s.parts {
		if err := fn(n, p, io.NewSectionReader(from, at, p.Bytes)); err != nil {
			return err
		}
		at += p.Bytes
	}
	return nil
}

// digest is over all lines.
func (s *spool) digest() string { return "sha256:" + hex.EncodeToString(s.whole.Sum(nil)) }

// close removes what is kept.
func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
