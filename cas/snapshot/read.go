package snapshot

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// IndexFormat is that of an index.
const IndexFormat = "snapshot-index/1"

// An index is what a generation consists of.
type index struct {
	Format string `json:"format"`
	ID     ID     `json:"id"`
	Rows   int64  `json:"rows"`
	Digest string `json:"digest"` // over all lines
	Parts  []part `json:"parts"`
}

// A Status is what is published.
type Status struct {
	Current Info
	Grace   time.Duration
	Retired []ID   // that may still be read, oldest first
	Tag     string // names this state of the snapshot
}

// Status tells what is published. 1 GET. cas.ErrNotExist if nothing is; ErrLost, for 1 LIST more, if something was.
func (s *Snapshot) Status(ctx context.Context) (Status, error) {
	state, err := s.published(ctx)
	if err != nil {
		return Status{}, s.wrap("reading", err)
	}
	st := Status{Current: state.Value.Current, Grace: state.Value.grace(), Tag: tag(state)}
	for _, r := range state.Value.Retired {
		st.Retired = append(st.Retired, r.ID)
	}
	return st, nil
}

func (s *Snapshot) published(ctx context.Context) (cas.State[pointer], error) {
	state, err := s.load(ctx)
	if err != nil || state.Seq > 0 {
		return state, err
	}
	found, err := s.list(ctx)
	switch {
	case err != nil:
		return state, err
	case found.follows():
		return state, ErrLost
	}
	return state, fmt.Errorf("nothing has been published: %w", cas.ErrNotExist)
}

// restarts is how often a reader begins again.
const restarts = 5

// Read returns the rows of the current generation. 2 GET and 1 for each part. It begins again, at most 5 times, if the
// generation was swept meanwhile because another one was published; ErrSwept if even the last one was. ErrMissing,
// ErrDamaged: a part of the current generation is not there, or is another one; its name is in the error. Errors else: those
// of Status.
func (s *Snapshot) Read(ctx context.Context) (Info, []Row, error) {
	var rows []Row
	info, err := s.again(ctx, func(g *Generation) error {
		rows = rows[:0]
		return g.Stream(ctx, func(r Row) error {
			rows = append(rows, r)
			return nil
		})
	})
	if err != nil {
		return info, nil, err
	}
	return info, rows, nil
}

// Open returns the current generation, of which parts can be read. 2 GET; it begins again as Read does.
func (s *Snapshot) Open(ctx context.Context) (*Generation, error) {
	var opened *Generation
	_, err := s.again(ctx, func(g *Generation) error {
		opened = g
		return nil
	})
	return opened, err
}

// again opens the current generation for fn until it is read, or is still current and cannot be read.
func (s *Snapshot) again(ctx context.Context, fn func(*Generation) error) (Info, error) {
	var was Info
	for n := 0; ; n++ {
		state, err := s.published(ctx)
		if err != nil {
			return was, s.wrap("reading", err)
		}
		now := state.Value.Current
		g, err := s.open(ctx, now)
		if err == nil {
			err = fn(g)
		}
		if err == nil {
			return now, nil
		}
		swept := s.swept(ctx, now.ID, err)
		if !errors.Is(swept, ErrSwept) || n == restarts {
			return now, swept
		}
		was = now
	}
}

// swept is err, but ErrSwept if a part of a generation that was current is missing, and it is not current any more.
func (s *Snapshot) swept(ctx context.Context, id ID, err error) error {
	if !errors.Is(err, ErrMissing) {
		return err
	}
	now, loadErr := s.published(ctx)
	switch {
	case loadErr != nil:
		return s.wrap("reading", loadErr)
	case now.Value.Current.ID == id:
		return err
	}
	return s.wrap("reading", &SweptError{ID: id, Current: now.Value.Current, Tag: tag(now)})
}

// OpenID returns a generation that is current, or was and is not swept yet. 2 GET. ErrSwept if it is not there; the error is
// a *SweptError.
func (s *Snapshot) OpenID(ctx context.Context, id ID) (*Generation, error) {
	state, err := s.published(ctx)
	if err != nil {
		return nil, s.wrap("reading", err)
	}
	if state.Value.Current.ID == id {
		g, err := s.open(ctx, state.Value.Current)
		return g, s.swept(ctx, id, err)
	}
	swept := &SweptError{ID: id, Current: state.Value.Current, Tag: tag(state)}
	if !slices.ContainsFunc(state.Value.Retired, func(r retired) bool { return r.ID == id }) {
		return nil, s.wrap("reading", swept)
	}
	g, err := s.open(ctx, Info{ID: id})
	if errors.Is(err, ErrMissing) {
		return nil, s.wrap("reading", swept)
	}
	return g, err
}

// A SweptError tells what is current instead of what was asked for. It matches ErrSwept.
type SweptError struct {
	ID      ID
	Current Info
	Tag     string
}

func (e *SweptError) Error() string {
	return fmt.Sprintf("generation %d is not there any more; generation %d is current", e.ID.Number, e.Current.ID.Number)
}

// Is makes it match ErrSwept.
func (e *SweptError) Is(target error) bool { return target == ErrSwept }

// A Generation is one that was published. It may be swept while it is read.
type Generation struct {
	s     *Snapshot
	info  Info
	index index
}

// Info tells of the generation. Of a retired one it has the id, rows, parts and digest alone.
func (g *Generation) Info() Info { return g.info }

// open reads the index of a generation; Info has only an id of a retired one, whose index nothing vouches for but itself.
func (s *Snapshot) open(ctx context.Context, info Info) (*Generation, error) {
	g := &Generation{s: s, info: info}
	most := int64(math.MaxInt64 - 1)
	if info.IndexBytes > 0 {
		most = info.IndexBytes
	}
	body, err := g.file(ctx, "index", most)
	if err != nil {
		return nil, err
	}
	if info.IndexDigest != "" && digest(body) != info.IndexDigest {
		return nil, g.damaged("index", errors.New("it is not what was published"))
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&g.index); err != nil {
		return nil, g.damaged("index", err)
	}
	if g.index.Format != IndexFormat || g.index.ID != info.ID {
		return nil, g.damaged("index", fmt.Errorf("it is of format %.40q and generation %v", g.index.Format, g.index.ID))
	}
	g.info.Rows, g.info.Parts, g.info.Digest = g.index.Rows, len(g.index.Parts), g.index.Digest
	return g, nil
}

// file reads an object of the generation, and no more of it than a byte beyond what it should have.
func (g *Generation) file(ctx context.Context, name string, most int64) ([]byte, error) {
	r, err := g.s.store.Open(ctx, g.s.key(g.info.ID, name))
	if errors.Is(err, bucket.ErrNotExist) {
		return nil, g.s.wrap("reading", fmt.Errorf("generation %d: %w: %s: %w", g.info.ID.Number, ErrMissing, name, err))
	}
	if err != nil {
		return nil, g.s.wrap("reading", err)
	}
	defer r.Close()
	body, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, g.s.wrap("reading", fmt.Errorf("generation %d: %s: %w", g.info.ID.Number, name, err))
	}
	return body, nil
}

func (g *Generation) damaged(name string, err error) error {
	return g.s.wrap("reading", fmt.Errorf("generation %d: %w: %s: %w", g.info.ID.Number, ErrDamaged, name, err))
}

// Stream calls fn with each row, in order. 1 GET for each part, which is held in memory. They are a snapshot only when
// Stream has returned nil: what was given before an error is a part of one. ErrMissing: a part is not there; if the
// generation is not current any more, it was swept. An error of fn ends it and is returned.
func (g *Generation) Stream(ctx context.Context, fn func(Row) error) error {
	whole, rows := sha256.New(), int64(0)
	for n := range g.index.Parts {
		count, err := g.part(ctx, n, whole, fn)
		if err != nil {
			return err
		}
		rows += count
	}
	if got := "sha256:" + hex.EncodeToString(whole.Sum(nil)); rows != g.index.Rows || got != g.index.Digest {
		return g.damaged("its parts together", fmt.Errorf("%d rows with digest %s, and it was published with %d and %s", rows,
			got, g.index.Rows, g.index.Digest))
	}
	return nil
}

// part calls fn with the rows of one part, all of which are known to be right by then.
func (g *Generation) part(ctx context.Context, n int, whole hash.Hash, fn func(Row) error) (int64, error) {
	is := g.index.Parts[n]
	body, err := g.file(ctx, partName(n), is.Bytes)
	if err != nil {
		return 0, err
	}
	if digest(body) != is.Digest {
		return 0, g.damaged(partName(n), errors.New("it is not what was published"))
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return 0, g.damaged(partName(n), err)
	}
	count := int64(0)
	var refused error
	err = decodeRows(io.TeeReader(z, whole), func(r Row) error {
		count++
		refused = fn(r)
		return refused
	})
	switch {
	case refused != nil:
		return count, refused
	case err != nil:
		return count, g.damaged(partName(n), err)
	case count != is.Rows:
		return count, g.damaged(partName(n), fmt.Errorf("it has %d rows, not %d", count, is.Rows))
	}
	return count, nil
}

// Page returns the rows whose paths begin with prefix and come after a path, at most limit of them (1 or more), and whether
// there are more. It reads only the parts that may have some. Errors: as of Stream.
func (g *Generation) Page(ctx context.Context, prefix, after string, limit int) (rows []Row, more bool, err error) {
	full := errors.New("enough")
	for n, p := range g.index.Parts {
		if p.Last <= after || p.Last < prefix {
			continue
		}
		if p.First > prefix && !strings.HasPrefix(p.First, prefix) {
			break
		}
		if len(rows) == limit {
			return rows, true, nil // its first row is one
		}
		_, err := g.part(ctx, n, sha256.New(), func(r Row) error {
			if r.Path <= after || !strings.HasPrefix(r.Path, prefix) {
				return nil
			}
			if len(rows) == limit {
				more = true
				return full
			}
			rows = append(rows, r)
			return nil
		})
		if err == full {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	return rows, more, nil
}
