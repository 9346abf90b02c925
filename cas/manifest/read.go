package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Open returns the body of a blob that an entry of a state references. ErrMissing if it is not there: it was deleted by
// somebody else, such as a lifecycle rule, or the state is an old one and the entry was removed since.
func (m *Manifest) Open(ctx context.Context, b Blob) (io.ReadCloser, error) {
	if err := CheckKey(b.Key); err != nil {
		return nil, m.wrap("reading a blob of", err)
	}
	r, err := m.store.Open(ctx, m.blob(b.Key))
	if errors.Is(err, bucket.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if err != nil {
		return nil, m.wrap("reading a blob of", err)
	}
	return r, nil
}

// A Fault is an entry's blob that is not as the list has it.
type Fault struct {
	ID   string // of the entry
	Blob Blob
	Why  string // as a clause
}

// A Check is what Fsck found.
type Check struct {
	State   State
	Blobs   int // that are referenced
	Faults  []Fault
	Orphans []Orphan // what GC would say of each
	Foreign int      // keys among the blobs that are none
}

// Fsck compares the list with the blobs that are there: the LISTs and 2 GET. Bodies are not read. Errors: as of Load, and of
// listings; faults are no error.
func (m *Manifest) Fsck(ctx context.Context) (Check, error) {
	c, err := m.fsck(ctx)
	if err != nil {
		return Check{}, m.wrap("checking", err)
	}
	return c, nil
}

func (m *Manifest) fsck(ctx context.Context) (Check, error) {
	// Blobs of the list that is read first are there until a later save is won; so one that is missing from the listing is a
	// fault only if it is referenced afterwards, too.
	was, err := m.doc.Load(ctx)
	if err != nil {
		return Check{}, err
	}
	all, foreign, now, err := m.list(ctx)
	if err != nil {
		return Check{}, err
	}
	s, err := m.doc.Load(ctx)
	if err != nil {
		return Check{}, err
	}
	if err := s.Value.check(); err != nil {
		return Check{}, err
	}
	c := Check{State: stateOf(s), Foreign: foreign}
	there := map[string]listed{}
	for _, b := range all {
		there[b.key] = b
	}
	before := referenced(was.Value.Entries)
	for _, e := range s.Value.Entries {
		for _, b := range e.Blobs {
			c.Blobs++
			switch got, ok := there[b.Key]; {
			case !ok && !before[b.Key]: // uploaded and added since
			case !ok:
				c.Faults = append(c.Faults, Fault{e.ID, b, "it is missing"})
			case got.size != b.Size:
				c.Faults = append(c.Faults, Fault{e.ID, b, fmt.Sprintf("it has %d bytes, and should have %d", got.size, b.Size)})
			}
			delete(there, b.Key)
		}
	}
	// Nor is what left the list meanwhile an orphan: it is journaled, or was, and is gone.
	for _, k := range slices.Concat(s.Value.Reaping, was.Value.Reaping, slices.Collect(maps.Keys(before))) {
		delete(there, k)
	}
	for _, b := range all {
		if _, ok := there[b.key]; ok {
			o := Orphan{Key: m.blob(b.key), Size: b.size, StoreTime: b.stored}
			o.Goes, o.Why = goes(b, now, s.Value.grace(), s.Created.At, false)
			c.Orphans = append(c.Orphans, o)
		}
	}
	return c, nil
}
