package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

const (
	tornSaves      = 60 // of one object, while it is read
	tornSavesPaced = 4  // where the store takes one a second
	tornReaders    = 4
)

// A reading is what a read of one object gave.
type reading struct {
	version cas.Version
	body    string
}

// A tearing is one object that is replaced again and again while it is read.
type tearing struct {
	r    *run
	key  bucket.Key
	stop chan struct{} // closed when there are no more saves

	mu     sync.Mutex          // guards all below
	saved  map[cas.Version]int // which save made it
	open   bool                // the outcome of a save stayed unknown, so that its version may be seen and was not told
	reads  int
	absent int
	seen   map[reading]int // how often
	broken int             // reads that failed
	why    error           // the last one did
	failed error           // of the run
}

// tornReads replaces an object while it is read through all sites, and holds every body to the version that it came with.
func tornReads(ctx context.Context, r *run) error {
	if r.is(IfMatch, No) {
		return errors.New("no save on a condition is carried out")
	}
	t := &tearing{
		r: r, key: r.key("torn/object"), stop: make(chan struct{}), saved: map[cas.Version]int{}, seen: map[reading]int{},
	}
	v, err := r.create(ctx, t.key, tornBody(0))
	if err != nil {
		return err
	}
	t.saved[v] = 0
	var readers sync.WaitGroup
	for range tornReaders {
		s := r.site()
		readers.Go(func() { t.read(ctx, s) })
	}
	err = t.write(ctx, v)
	close(t.stop)
	readers.Wait()
	if err = errors.Join(err, t.failed); err != nil {
		return err
	}
	if t.broken == t.reads {
		return fmt.Errorf("no read of what was being replaced came to its end: %w", t.why)
	}
	t.judge()
	return nil
}

// tornBody differs in length and in every byte from the one before and after it.
func tornBody(i int) string {
	return strings.Repeat(strconv.Itoa(i%10), 1000+i%7*9000) + "," + strconv.Itoa(i)
}

// write saves again and again, and reads after each save as well.
func (t *tearing) write(ctx context.Context, v cas.Version) error {
	saves := tornSaves
	if t.r.isPaced() {
		saves = tornSavesPaced
	}
	for i := 1; i <= saves; i++ {
		s := t.r.site()
		next, o, err := t.r.save(ctx, s, t.key, tornBody(i), cas.IfMatch(v))
		if t.r.isPaced() {
			saves = min(saves, tornSavesPaced)
		}
		switch {
		case errors.Is(err, cas.ErrUnknown) && !isOfRun(err):
			t.mu.Lock()
			t.open = true
			t.mu.Unlock()
			return nil
		case err != nil:
			return err
		case o == refused:
			return fmt.Errorf("a save on the version %s was refused, though nobody else writes", v)
		}
		v = next
		t.mu.Lock()
		t.saved[v] = i
		t.mu.Unlock()
		if !t.once(ctx, t.r.site()) {
			return nil
		}
	}
	return nil
}

func (t *tearing) read(ctx context.Context, s *Site) {
	for t.once(ctx, s) {
		select {
		case <-t.stop:
			return
		default:
		}
	}
}

// once reads once, and reports whether to go on.
func (t *tearing) once(ctx context.Context, s *Site) bool {
	o, err := s.Store.Load(ctx, t.key)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	switch {
	case errors.Is(err, cas.ErrNotExist):
		t.absent++
	case errors.Is(err, cas.ErrThrottled):
	case isOfRun(err) || ctx.Err() != nil:
		t.failed = err
		return false
	case err != nil: // no half of it was taken for the whole
		t.broken, t.why = t.broken+1, err
	default:
		t.seen[reading{o.Version, string(o.Body)}]++
	}
	return true
}

// judge holds what was read to what was saved, once all versions are known. A body that is older than its version, or none
// that was ever saved, loses updates: a save that is made of it is carried out. A newer one does not: a save of it on its
// version is refused.
func (t *tearing) judge() {
	r := t.r
	saves := map[string]int{}
	for i := range len(t.saved) + 1 {
		saves[tornBody(i)] = i
	}
	torn, newer, how := 0, 0, ""
	for x, n := range t.seen {
		version, told := t.saved[x.version]
		body, whole := saves[x.body]
		switch {
		case !told && whole && t.open, told && whole && body == version:
		case told && whole && body > version:
			newer += n
		default:
			torn += n
			how = fmt.Sprintf("with version %s came %d bytes, %.20q", x.version, len(x.body), x.body)
		}
	}
	if torn > 0 {
		r.no(TornReads, "%d of %d reads had an older body than was saved with the version that they told, or none that was: %s",
			torn, t.reads, how)
	}
	if newer > 0 {
		r.remark(TornReads, "%d of %d reads had a newer body than their version, which loses nothing: a save of it is refused",
			newer, t.reads)
	}
	if t.absent > 0 {
		r.no(AbsentReads, "%d of %d reads found nothing", t.absent, t.reads)
	}
	r.yes(TornReads, "%d reads of %d versions", t.reads, len(t.saved))
	r.yes(AbsentReads, "%d reads", t.reads)
	if t.broken > 0 {
		r.remark(TornReads, "%d of %d reads failed, and can be repeated: %s", t.broken, t.reads, r.plain(t.why))
	}
}
