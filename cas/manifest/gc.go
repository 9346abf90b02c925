package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// A reaper deletes journaled blobs, and remembers what the store acknowledged, over all tries of one change.
type reaper struct {
	m    *Manifest
	gone map[string]bool
}

// finish deletes what a state that is to be saved on has journaled, and drops from it what is gone. A journal stands in a
// save that was won: whatever becomes of the next one, its keys are referenced no more.
func (r *reaper) finish(ctx context.Context, l *list) {
	_ = r.delete(ctx, l.Reaping) // what is left stays journaled
	l.Reaping = slices.DeleteFunc(l.Reaping, func(k string) bool { return r.gone[k] })
}

// delete deletes journaled blobs that are not known to be gone.
func (r *reaper) delete(ctx context.Context, journaled []string) error {
	var names []string
	var keys []bucket.Key
	for _, k := range journaled {
		if !r.gone[k] {
			names, keys = append(names, k), append(keys, r.m.blob(k))
		}
	}
	var all []error
	for lo := 0; lo < len(keys); lo += bucket.PageSize {
		hi := min(lo+bucket.PageSize, len(keys))
		errs := r.m.store.Delete(ctx, keys[lo:hi])
		for i, k := range names[lo:hi] {
			if errs != nil && errs[i] != nil {
				all = append(all, errs[i])
				continue
			}
			if r.gone == nil {
				r.gone = map[string]bool{}
			}
			r.gone[k] = true
		}
	}
	return errors.Join(all...)
}

// GCOptions configures a GC.
type GCOptions struct {
	DryRun bool // find out what would go, and delete nothing
	// Force takes orphans that are older than the manifest's own incarnation: they may belong to one that was deleted.
	Force bool
}

// An Orphan is a blob that nothing references.
type Orphan struct {
	Key       bucket.Key
	Size      int64
	StoreTime time.Time
	Why       string // it goes, or stays, as a clause
	Goes      bool
}

// A GCReport is what a GC did, or with DryRun would do.
type GCReport struct {
	Listed   int // blobs
	Orphans  []Orphan
	Resumed  int // blobs that were journaled before
	Deleted  int
	Failures int
	Failed   []error // at most maxFailed
}

const maxFailed = 100

// GC deletes blobs that nothing references: those that are journaled, and orphans older than the grace. It takes the LISTs,
// 1 GET, and where something goes 2 GET, 2 PUT and the deletes more. An unreadable or absent manifest is an error, and then
// nothing is deleted. A store that tells no time has no orphans old enough. Where there are more than 100,000 of them, or the
// list has too little room to note them, that is done in several rounds.
func (m *Manifest) GC(ctx context.Context, opts *GCOptions) (GCReport, error) {
	if opts == nil {
		opts = &GCOptions{}
	}
	r, err := m.gc(ctx, *opts)
	if err != nil {
		return r, m.wrap("collecting blobs of", err)
	}
	return r, nil
}

// A listed blob is one that was there before the manifest was read.
type listed struct {
	key    string
	size   int64
	stored time.Time
}

func (m *Manifest) gc(ctx context.Context, opts GCOptions) (GCReport, error) {
	var r GCReport
	// The blobs first: one that is listed and not referenced afterwards was, or will be, referenced by nobody who has not
	// looked at the journal since.
	all, foreign, now, err := m.list(ctx)
	if err != nil {
		return r, err
	}
	r.Listed = len(all) + foreign
	c := &collection{m: m, opts: opts, now: now, all: all, report: &r, most: maxNoted}
	if opts.DryRun {
		s, err := m.doc.Load(ctx)
		if err == nil {
			err = s.Value.check()
		}
		if err == nil {
			c.judge(&s.Value, s)
		}
		return r, err
	}
	if err := m.usable(ctx); err != nil {
		return r, err
	}
	for more := true; more; {
		if more, err = c.round(ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}

// maxNoted is how many blobs one save of gc notes at the most: 3 MB of the list. If there is less room, it is fewer.
const maxNoted = 100_000

// A collection is a gc on its way. It takes its orphans in rounds, each of which is a gc by itself.
type collection struct {
	m      *Manifest
	opts   GCOptions
	now    time.Time // by the store's clock, when all were listed
	all    []listed  // and are not deleted yet
	report *GCReport
	rounds int
	most   int // that the next round takes
}

// judge returns what a list lets gc take. The first round reports of all.
func (c *collection) judge(l *list, was cas.State[list]) (takes []string) {
	if c.rounds == 0 {
		c.report.Orphans, c.report.Resumed = nil, len(l.Reaping)
	}
	known := referenced(l.Entries)
	for _, k := range l.Reaping {
		known[k] = true
	}
	for _, b := range c.all {
		if known[b.key] {
			continue
		}
		o := Orphan{Key: c.m.blob(b.key), Size: b.size, StoreTime: b.stored}
		o.Goes, o.Why = goes(b, c.now, l.grace(), was.Created.At, c.opts.Force)
		if c.rounds == 0 {
			c.report.Orphans = append(c.report.Orphans, o)
		}
		if o.Goes {
			takes = append(takes, b.key)
		}
	}
	return takes
}

// round notes blobs by a save that is won, deletes them and what was noted before, and drops from the list what is gone. It
// reports whether there are more.
func (c *collection) round(ctx context.Context) (more bool, err error) {
	var journal []string
	took := 0
	_, err = c.m.doc.Update(ctx, func(next *list, was cas.State[list]) error {
		if err := next.check(); err != nil {
			return err
		}
		takes := c.judge(next, was)
		more = len(takes) > c.most
		takes = takes[:min(len(takes), c.most)]
		took = len(takes)
		next.Reaping = append(next.Reaping, takes...)
		if journal = slices.Clone(next.Reaping); took == 0 {
			return cas.ErrNoChange
		}
		return nil
	}, nil)
	// If not even one fits, what is noted already is deleted first.
	if errors.Is(err, cas.ErrTooLarge) && took > 0 && len(journal) > 1 {
		c.most = took / 2
		return true, nil
	}
	if err != nil || len(journal) == 0 {
		c.most = max(c.most, 1)
		return more && err == nil, err // somebody else has deleted what was noted
	}
	reaped := reaper{m: c.m}
	left := reaped.delete(ctx, journal)
	if left != nil {
		c.report.note(left)
	}
	c.report.Deleted += len(reaped.gone)
	if len(reaped.gone) == 0 {
		return false, ctx.Err()
	}
	_, err = c.m.doc.Update(ctx, func(next *list, _ cas.State[list]) error {
		if err := next.check(); err != nil {
			return err
		}
		before := len(next.Reaping)
		next.Reaping = slices.DeleteFunc(next.Reaping, func(k string) bool { return reaped.gone[k] })
		if len(next.Reaping) == before {
			return cas.ErrNoChange
		}
		return nil
	}, nil)
	c.all = slices.DeleteFunc(c.all, func(b listed) bool { return reaped.gone[b.key] })
	c.rounds++
	// For so many there is room now.
	c.most = max(c.most, len(reaped.gone))
	return more && left == nil, err // what cannot be deleted would be tried without end
}

func (r *GCReport) note(err error) {
	all := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		all = many.Unwrap()
	}
	r.Failures += len(all)
	r.Failed = append(r.Failed, all[:min(len(all), maxFailed-len(r.Failed))]...)
}

// incarnationSlack is how far the clock of the host that created a manifest may be from the store's.
const incarnationSlack = time.Minute

// goes judges an orphan by the store's time.
func goes(b listed, now time.Time, grace time.Duration, created time.Time, force bool) (bool, string) {
	switch {
	case b.stored.IsZero() || now.IsZero():
		return false, "the store does not tell how old it is"
	case b.stored.After(now.Add(-grace)):
		return false, fmt.Sprintf("it is not older than the grace of %v", grace)
	case b.stored.Before(created.Add(-incarnationSlack)) && !force:
		return false, "it is older than the manifest, and may belong to one that was deleted; --force takes it"
	}
	return true, fmt.Sprintf("nothing references it, and it is older than the grace of %v", grace)
}

// list returns the blobs, and by the store's clock when it began. What is no blob's key is counted, and left alone.
func (m *Manifest) list(ctx context.Context) (all []listed, foreign int, now time.Time, err error) {
	prefix := m.root() + blobs
	first := true
	err = m.store.List(ctx, bucket.ListRequest{Prefix: prefix}, func(p bucket.Page) error {
		if first {
			now, first = p.Now, false
		}
		for _, o := range p.Objects {
			key, ok := strings.CutPrefix(string(o.Key), prefix)
			if !ok || CheckKey(key) != nil {
				foreign++
				continue
			}
			all = append(all, listed{key, o.Size, o.StoreTime})
		}
		return nil
	})
	return all, foreign, now, err
}

// usable asks whether the store can be used until it has once been told so. Nobody waits for the answer to another one.
func (m *Manifest) usable(ctx context.Context) error {
	if m.opts.Usable == nil || m.verified.Load() {
		return nil
	}
	err := m.opts.Usable(ctx)
	if err == nil {
		m.verified.Store(true)
	}
	return err
}

func (m *Manifest) now() time.Time {
	if m.opts.Doc != nil && m.opts.Doc.Now != nil {
		return m.opts.Doc.Now().UTC()
	}
	return time.Now().UTC()
}
