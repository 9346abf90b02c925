package probe

import (
	"context"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

const (
	skew = time.Minute     // how far a name may be ahead of the store's clock; DESIGN calls it so as well
	ttl  = 2 * time.Hour   // the default after which an item is hidden
	fine = 2 * time.Second // stores cut their times to seconds
)

// moments are the clocks around one object.
type moments struct {
	told          time.Time // answered to the write
	object        time.Time // of the object, in a listing
	now           time.Time // of the listing
	before, after time.Time // this host's, around the listing
	since         time.Duration
}

// clocks compares the store's clock, that of its objects, and ours.
func clocks(ctx context.Context, r *run) error {
	s := r.site()
	key := r.key("clock/object")
	var m moments
	began := r.opts.Now()
	err := r.tries(ctx, func() (err error) {
		m.told, err = s.Objects.Put(ctx, key, strings.NewReader("clock"))
		return err
	})
	if err != nil {
		return err
	}
	err = r.tries(ctx, func() error {
		m.before = r.opts.Now()
		return s.Objects.List(ctx, bucket.ListRequest{Prefix: string(key)}, func(p bucket.Page) error {
			m.now = p.Now
			for _, o := range p.Objects {
				m.object = o.StoreTime
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	m.after = r.opts.Now()
	m.since = m.after.Sub(began)
	r.judge(m)
	return nil
}

// judge answers the questions about time.
func (r *run) judge(m moments) {
	switch {
	case !m.now.IsZero():
		r.yes(Date, "it said %s", m.now.UTC().Format(time.RFC3339))
	case !m.told.IsZero():
		r.noAs(nil, Date, "it does not; a write tells the store's time, so that pruning works where the clocks agree")
	default:
		r.no(Date, "neither a listing nor a write tells the store's time")
	}
	if m.object.IsZero() {
		r.no(StoreTime, "it tells no time")
	} else {
		r.yes(StoreTime, "it said %s", m.object.UTC().Format(time.RFC3339))
	}
	store := m.now
	if store.IsZero() {
		store = m.told
	}
	if store.IsZero() {
		r.unsure(Clock, "the store's clock is not known")
	} else {
		r.judgeOffset(store, m)
	}
	r.judgeObject(m)
}

// judgeOffset: the store answered at some moment between before and after.
func (r *run) judgeOffset(store time.Time, m moments) {
	half := m.after.Sub(m.before) / 2
	offset := store.Sub(m.before.Add(half))
	seen := offset.Round(time.Second).String()
	switch {
	case offset < -skew-half-fine:
		r.noAs([]Feature{Markers}, Clock, "the store is behind by %s: names by this host's clock are refused as future-dated",
			strings.TrimPrefix(seen, "-"))
	case offset > ttl:
		r.noAs([]Feature{Markers}, Clock, "the store is ahead by %s: names by this host's clock are past the default TTL", seen)
	case offset > skew+half+fine:
		r.no(Clock, "the store is ahead by %s: items count as registered late", seen)
	default:
		r.yes(Clock, "they differ by %s, read within %s", seen, (2 * half).Round(time.Millisecond))
	}
}

// judgeObject: the object was stored not longer ago than all of it took.
func (r *run) judgeObject(m moments) {
	if m.now.IsZero() || m.object.IsZero() {
		r.unsure(LastModified, "one of the two is not told")
		return
	}
	age := m.now.Sub(m.object)
	if age < -fine || age > m.since+fine {
		r.no(LastModified, "an object stored at most %s ago was %s old", m.since.Round(time.Millisecond), age)
		return
	}
	r.yes(LastModified, "a new object was %s old", age.Round(time.Millisecond))
}
