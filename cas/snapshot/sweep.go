package snapshot

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// Swept is what a sweep removed.
type Swept struct {
	Generations int // of which nothing is left
	Keys        int
	Kept        int // generations that are not current and stay: in their grace, or perhaps in the making
}

// Sweep removes what can never be current again. 1 LIST, 1 GET and the deletes. An error after deletes names the first that
// failed. Errors else: ErrLost, those of cas.Doc.Load and of listings, after which nothing was removed.
func (s *Snapshot) Sweep(ctx context.Context) (Swept, error) {
	if err := s.usable(ctx); err != nil {
		return Swept{}, s.wrap("sweeping", err)
	}
	// The claims first: see the package comment.
	found, err := s.list(ctx)
	if err != nil {
		return Swept{}, s.wrap("sweeping", err)
	}
	state, err := s.load(ctx)
	if err == nil && state.Seq == 0 && found.follows() {
		err = ErrLost
	}
	if err != nil {
		return Swept{}, s.wrap("sweeping", err)
	}
	swept, err := s.remove(ctx, found, state)
	if err != nil {
		return swept, s.wrap("sweeping", err)
	}
	return swept, nil
}

// staged is what was listed of generations.
type staged struct {
	ids   []ID // in ascending order of their texts
	files map[ID][]bucket.Object
	asOf  time.Time // by the store's clock; zero if it tells none
	host  time.Time // by ours, at the same moment
}

// list lists what is staged. Keys that are no generation's are left alone.
func (s *Snapshot) list(ctx context.Context) (staged, error) {
	found := staged{files: map[ID][]bucket.Object{}, host: s.opts.Now()}
	prefix := s.root() + generations
	err := s.store.List(ctx, bucket.ListRequest{Prefix: prefix}, func(p bucket.Page) error {
		if found.asOf.IsZero() {
			found.asOf, found.host = p.Now, s.opts.Now() // not before the request: it may have been sent again
		}
		for _, o := range p.Objects {
			if id, _, ok := cutFile(strings.TrimPrefix(string(o.Key), prefix)); ok {
				found.files[id] = append(found.files[id], o)
			}
		}
		return nil
	})
	for id := range found.files {
		found.ids = append(found.ids, id)
	}
	slices.SortFunc(found.ids, func(a, b ID) int { return strings.Compare(a.String(), b.String()) })
	return found, err
}

// now is the store's clock, run on since it was asked, or else ours.
func (f staged) now(host time.Time) time.Time {
	if f.asOf.IsZero() {
		return host
	}
	return f.asOf.Add(max(host.Sub(f.host), host.Round(0).Sub(f.host.Round(0)), 0))
}

func (f staged) newest() (n uint64) {
	for _, id := range f.ids {
		n = max(n, id.Number)
	}
	return n
}

func (f staged) has(id ID) bool { return len(f.files[id]) > 0 }

// follows reports whether there is a generation that was to follow on another one.
func (f staged) follows() bool {
	return slices.ContainsFunc(f.ids, func(id ID) bool { return id.base != base{} })
}

// whole returns ErrMissing or ErrDamaged unless all parts and the index of a generation are listed.
func (f staged) whole(is Info) error {
	parts, bytes, index := 0, int64(0), int64(-1)
	for _, o := range f.files[is.ID] {
		switch _, file, _ := cutFile(path.Base(string(o.Key))); file {
		case "claim":
		case "index":
			index = o.Size
		default:
			parts++
			bytes += o.Size
		}
	}
	switch {
	case index < 0:
		return fmt.Errorf("%w: the index is not there", ErrMissing)
	case parts < is.Parts:
		return fmt.Errorf("%w: %d of %d parts are there", ErrMissing, parts, is.Parts)
	case parts != is.Parts || bytes != is.Bytes || index != is.IndexBytes:
		return fmt.Errorf("%w: %d parts have %d bytes, and were %d with %d", ErrDamaged, parts, bytes, is.Parts, is.Bytes)
	}
	return nil
}

// remove removes of what was listed, before the pointer was read, what can never be current again.
func (s *Snapshot) remove(ctx context.Context, found staged, state cas.State[pointer]) (Swept, error) {
	now := state.StoreTime
	if now.IsZero() {
		now = found.now(s.opts.Now())
	}
	var keys []bucket.Key
	var swept Swept
	ends := map[bucket.Key]bool{} // the last key of each generation
	for _, id := range found.ids {
		if !over(id, state, now) {
			if id != state.Value.Current.ID {
				swept.Kept++
			}
			continue
		}
		for _, o := range found.files[id] {
			keys = append(keys, o.Key)
		}
		ends[keys[len(keys)-1]] = true
	}
	var first error
	whole := true
	for lo := 0; lo < len(keys); lo += bucket.PageSize {
		batch := keys[lo:min(lo+bucket.PageSize, len(keys))]
		errs := s.store.Delete(ctx, batch)
		for i, key := range batch {
			if errs != nil && errs[i] != nil {
				whole = false
				if first == nil {
					first = fmt.Errorf("deleting %q: %w", key, errs[i])
				}
			} else {
				swept.Keys++
			}
			if ends[key] {
				if whole {
					swept.Generations++
				}
				whole = true
			}
		}
		if first != nil && ctx.Err() != nil {
			break
		}
	}
	return swept, first
}

// over reports whether a generation that was listed before the pointer was read can never be current again, nor is in its
// grace.
func over(id ID, state cas.State[pointer], now time.Time) bool {
	if state.Seq == 0 || id.base == baseOf(state) || id == state.Value.Current.ID {
		return false
	}
	for _, r := range state.Value.since(state) {
		if r.ID == id {
			return now.Sub(r.Since) > state.Value.grace() || state.Value.grace() == 0
		}
	}
	return true
}

// since returns the retired generations, the last one until when the pointer was saved, if the store tells: the time in it
// is from before that.
func (p *pointer) since(state cas.State[pointer]) []retired {
	all := slices.Clone(p.Retired)
	if n := len(all); n > 0 && state.ModTime.After(all[n-1].Since) {
		all[n-1].Since = state.ModTime.UTC()
	}
	return all
}
