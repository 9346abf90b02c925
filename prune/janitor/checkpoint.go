package janitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// CheckpointPrefix is below what the checkpoints of all indexes are.
const CheckpointPrefix = "_indexd/janitor/"

const checkpointFormat = "janitor/1"

// How long a namespace is left alone after errors, and of how many namespaces that is kept. With names as long as they may be,
// so many take 2 MB.
const (
	firstRetry    = time.Minute
	lastRetry     = time.Hour
	maxNamespaces = 10_000
)

// A checkpoint is the payload; see the package comment.
type checkpoint struct {
	Term       uint64             `json:"term"`
	PassedAt   time.Time          `json:"passed_at,omitzero"`
	Namespaces map[string]failing `json:"namespaces"`
}

// A failing namespace is one where keys could not be deleted.
type failing struct {
	Failures int       `json:"failures"`
	RetryAt  time.Time `json:"retry_at"`
	PassedAt time.Time `json:"passed_at,omitzero"`
}

// deferred tells whether it is left alone at an instant.
func (f failing) deferred(now time.Time) bool {
	left := f.RetryAt.Sub(now)
	return left > 0 && left <= lastRetry
}

// next is what is kept after one more pass with errors.
func (f failing) next(now time.Time) failing {
	f.Failures = min(f.Failures, math.MaxInt32) + 1
	wait := lastRetry
	if n := f.Failures - 1; n < 6 {
		wait = min(firstRetry<<n, lastRetry)
	}
	f.RetryAt = now.Add(wait).UTC()
	return f
}

// loadCheckpoint returns the document, the zero state if there is none.
func (j *Janitor) loadCheckpoint(ctx context.Context) (cas.State[checkpoint], error) {
	s, err := j.doc.Load(ctx)
	if errors.Is(err, cas.ErrNotExist) {
		return cas.State[checkpoint]{}, nil
	}
	if err == nil {
		if wrong := s.Value.check(); wrong != nil {
			err = fmt.Errorf("%w: %w", cas.ErrCorrupt, wrong)
		}
	}
	if err != nil {
		return s, fmt.Errorf("reading the checkpoint of index %q: %w", j.index.Name(), advised(err, j.doc.Key()))
	}
	return s, nil
}

// advised adds to the error of a document that cannot be read what to do about it: until that is done nothing is pruned.
func advised(err error, key bucket.Key) error {
	switch {
	case errors.Is(err, cas.ErrCorrupt), errors.Is(err, cas.ErrTooLarge):
		return fmt.Errorf("%w; nobody writes over it: look at the object %q, and delete it if nothing else needs it", err, key)
	case errors.Is(err, cas.ErrFormat):
		return fmt.Errorf("%w; nobody writes over it: use a version of indexd that knows the format of the object %q", err, key)
	}
	return err
}

func (c checkpoint) check() error {
	if c.Term == 0 || c.Term == math.MaxUint64 {
		return fmt.Errorf("its term is %d", c.Term)
	}
	if len(c.Namespaces) > maxNamespaces {
		return fmt.Errorf("it names %d namespaces", len(c.Namespaces))
	}
	for name, f := range c.Namespaces {
		if err := blobindex.CheckName(name); err != nil && name != blobindex.FlatNamespace {
			return err
		}
		if f.Failures < 1 || f.RetryAt.IsZero() {
			return fmt.Errorf("namespace %q has %d failures and is tried again at %v", name, f.Failures, f.RetryAt)
		}
	}
	return nil
}

// stamped is the checkpoint with a term.
func (c checkpoint) stamped(term uint64) checkpoint {
	c.Term = term
	if c.Namespaces == nil {
		c.Namespaces = map[string]failing{}
	}
	return c
}

// after is the checkpoint at the end of a pass that came to it.
func (c checkpoint) after(p *pass) checkpoint {
	next := c
	next.Namespaces = make(map[string]failing, len(c.Namespaces))
	for name, f := range c.Namespaces {
		if p.opt.Namespace != "" && name != p.opt.Namespace || p.unsure(name) || p.opt.Full && p.failed[name] {
			next.Namespaces[name] = f
		}
	}
	if !p.opt.Full {
		for name := range p.failed {
			was, known := c.Namespaces[name]
			if !known {
				was.PassedAt = c.PassedAt
			}
			next.Namespaces[name] = was.next(p.report.AsOf)
		}
	}
	if p.opt.Namespace == "" && (!p.opt.Full || len(p.failed) == 0) {
		next.PassedAt = p.report.AsOf.UTC()
	}
	next.bound()
	return next
}

// bound forgets what is too much: a namespace that is not named is tried again at once.
func (c *checkpoint) bound() {
	if len(c.Namespaces) <= maxNamespaces {
		return
	}
	names := slices.SortedFunc(maps.Keys(c.Namespaces), func(a, b string) int {
		return cmp.Or(c.Namespaces[a].RetryAt.Compare(c.Namespaces[b].RetryAt), cmp.Compare(a, b))
	})
	for _, name := range names[:len(names)-maxNamespaces] {
		delete(c.Namespaces, name)
	}
}

// checkpointKey is where the checkpoint of the index with that prefix is.
func checkpointKey(prefix string) bucket.Key { return bucket.Key(CheckpointPrefix + prefix) }
