package blobindex

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/prune"
)

// ScanStats tell about a whole scan.
type ScanStats struct {
	Pages      int
	Gets       int // of the shared rules
	Namespaces int
	// Foreign counts the keys that are in no namespace; those within one are counted there.
	Foreign int
	// Slow names namespaces whose part of the listing took longer than the rules allow: they were passed over.
	Slow  []string
	AsOf  time.Time
	Clock Clock
}

// Scan lists the whole index flat and calls fn for each namespace: on a store that lists in order as soon as the
// listing has passed its end, else after the last page. After an error, what fn was told before still holds of those
// namespaces, but the scan is incomplete, and a pruner deletes nothing. fn's errors end the scan and are returned.
func (x *Index) Scan(ctx context.Context, fn func(*Snapshot) error) (ScanStats, error) {
	release, err := x.limits.list(ctx)
	if err != nil {
		return ScanStats{}, fmt.Errorf("waiting to list index %q: %w", x.name, err)
	}
	defer release()
	s := scan{x: x, fn: fn, open: make(map[string]*scanned)}
	if s.reading, s.stats.Gets, err = x.book.consult(ctx, false); err != nil {
		return s.stats, fmt.Errorf("listing index %q: %w", x.name, err)
	}
	s.asked = x.now()
	s.since = s.asked
	err = x.objects.List(ctx, bucket.ListRequest{Prefix: x.prefix + "/"}, s.page)
	if err == nil && s.stats.Pages == 0 {
		err = fmt.Errorf("%w: it had no page", ErrIncomplete)
	}
	if err == nil {
		err = s.judgeAll()
	}
	if err != nil {
		return s.stats, fmt.Errorf("listing index %q: %w", x.name, err)
	}
	return s.stats, nil
}

type scan struct {
	x       *Index
	fn      func(*Snapshot) error
	reading *reading
	ruling  Ruling              // of reading, at the first page
	open    map[string]*scanned // not judged yet
	key     bucket.Key          // the last key
	last    string              // of a sorted listing: the namespace of the last key
	asked   time.Time           // when the page at hand was asked for
	since   time.Time           // when the page before it was: a store may read ahead by one
	stats   ScanStats
}

type scanned struct {
	keys  *prune.Namespace
	began time.Time
}

func (s *scan) page(p bucket.Page) error {
	s.stats.Pages++
	if s.stats.Pages == 1 {
		s.stats.AsOf, s.stats.Clock = s.x.pageClock(p, s.asked)
		if err := s.x.book.checkAge(s.reading); err != nil {
			return err
		}
		s.ruling = s.reading.ruling(s.x, s.stats.AsOf, s.stats.Clock)
	}
	for _, o := range p.Objects {
		if p.Sorted && o.Key <= s.key {
			return outOfOrder(o.Key)
		}
		s.key = o.Key
		rest, ok := strings.CutPrefix(string(o.Key), s.x.prefix+"/")
		if !ok {
			return fmt.Errorf("%w: the store listed a key outside %q", ErrIncomplete, s.x.prefix+"/")
		}
		namespace, name, ok := FlatNamespace, rest, true
		if !s.x.flat {
			namespace, name, ok = strings.Cut(rest, "/")
			ok = ok && CheckName(namespace) == nil
		}
		if !ok {
			s.stats.Foreign++
			continue
		}
		if p.Sorted && namespace != s.last && s.last != "" {
			if err := s.judge(s.last); err != nil {
				return err
			}
		}
		s.last = namespace
		n := s.open[namespace]
		if n == nil {
			n = &scanned{keys: prune.NewNamespace(s.ruling.Rules), began: s.since}
			s.open[namespace] = n
		}
		n.keys.Add(name, o.Size, o.StoreTime)
	}
	s.since, s.asked = s.asked, s.x.now()
	return nil
}

func (s *scan) judgeAll() error {
	names := make(map[string]bool, len(s.open))
	for name := range s.open {
		names[name] = true
	}
	for _, name := range sortedKeys(names) {
		if err := s.judge(name); err != nil {
			return err
		}
	}
	return nil
}

// judge decides a namespace whose keys have all been listed.
func (s *scan) judge(name string) error {
	open := s.open[name]
	if open == nil {
		return nil
	}
	delete(s.open, name)
	if err := s.x.tooLong(open.began); err != nil {
		s.stats.Slow = append(s.stats.Slow, name)
		s.x.log.Warn("a namespace was passed over", "index", s.x.name, "namespace", name, "error", err)
		return nil
	}
	n, err := s.x.Namespace(name)
	if err != nil {
		return err
	}
	s.stats.Namespaces++
	snapshot := &Snapshot{AsOf: s.stats.AsOf, Clock: s.stats.Clock, reading: s.reading, ruling: s.ruling}
	n.judge(snapshot, open.keys)
	return s.fn(snapshot)
}

// outOfOrder is the error of a listing that calls itself sorted and is not: what was judged by its order may be wrong.
func outOfOrder(key bucket.Key) error {
	return fmt.Errorf("%w: the store says that it lists in order, and lists %.200q after a greater key", ErrIncomplete, key)
}

// ErrOutside is the error for a key that is no key of an item of the index.
var ErrOutside = errors.New("blobindex: key outside the index")

// Delete deletes keys that plans of this index named. Each is checked once more to lie in the index, at the depth of
// items; if one does not, nothing is deleted and every key's error is ErrOutside. With shared rules that were not read within
// RulesLife it reads them; if they withhold it by now, or are others than the plan was made by, nothing is deleted and every
// key's error is ErrWithheld. The answer else is that of bucket.Objects.Delete.
func (x *Index) Delete(ctx context.Context, plan []Deletion) []error {
	keys := make([]bucket.Key, len(plan))
	for i, d := range plan {
		if !x.holds(d.Key) {
			return alike(len(plan), fmt.Errorf("deleting %.200q from index %q: %w", d.Key, x.name, ErrOutside))
		}
		keys[i] = d.Key
	}
	if x.book.doc != nil && len(plan) > 0 {
		if err := x.book.mayDelete(ctx, plan); err != nil {
			return alike(len(plan), fmt.Errorf("deleting from index %q: %w", x.name, err))
		}
		// Rules that are announced from now on must not begin to count while this is under way.
		limited, cancel := context.WithTimeout(ctx, rulesDelete)
		defer cancel()
		ctx = limited
	}
	return x.objects.Delete(ctx, keys)
}

// alike is the answer of a delete that failed as a whole.
func alike(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (x *Index) holds(key bucket.Key) bool {
	rest, ok := strings.CutPrefix(string(key), x.prefix+"/")
	if ok && !x.flat {
		var namespace string
		namespace, rest, ok = strings.Cut(rest, "/")
		ok = ok && CheckName(namespace) == nil
	}
	return ok && rest != "" && !strings.Contains(rest, "/")
}

// CheckHostClock writes one fresh object and returns its store time and the host's time around it, for stores that tell
// no clock with a listing. Where the write is not told a store time, the object is asked for it. The store time is zero if
// the store tells none at all.
func (x *Index) CheckHostClock(ctx context.Context) (store, host time.Time, err error) {
	nonce := make([]byte, 12)
	if _, err := io.ReadFull(x.rand, nonce); err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("making a nonce: %w", err)
	}
	key := bucket.Key("_indexd/probe/clock-" + hex.EncodeToString(nonce))
	host = x.now()
	store, err = x.objects.Put(ctx, key, nil)
	if err != nil {
		return time.Time{}, host, fmt.Errorf("comparing the clocks by writing %q: %w", key, err)
	}
	if store.IsZero() {
		o, err := x.objects.Head(ctx, key)
		if err != nil {
			x.log.Warn("the store time of an object written to compare the clocks is not known", "key", string(key), "error", err)
		}
		store = o.StoreTime
	}
	if _, err := deleted(x.objects.Delete(ctx, []bucket.Key{key}), 1); err != nil {
		x.log.Warn("an object written to compare the clocks was left behind", "key", string(key), "error", err)
	}
	return store, host, nil
}
