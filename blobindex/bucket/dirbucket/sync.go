package dirbucket

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"
)

// A syncer shares directory syncs between the calls that need them (group commit): per directory one sync runs, and
// one waits to begin. Who has changed a directory joins the waiting one, which begins after that and so covers the
// change; the running one may have begun before.
type syncer struct {
	onSync func(dir string)
	uses   *uses

	mu      sync.Mutex // guards all below
	groups  map[dirKey]*group
	entries map[entryKey]entry // what makes, or made, the entry of a directory durable
	most    int                // entries; forgetting one costs a sync
	joined  int                // how many entries were ever joined for
	started int                // changes that are being made: their calls will join soon
	ended   int                // changes made since the start
	change  sync.Cond          // of mu: ended has grown
	took    time.Duration      // by the last sync
}

// mostEntries bounds what is remembered, at some 150 bytes each.
const mostEntries = 1 << 14

// A group is one directory's syncs while there are any. Its goroutine (run) ends with the last one.
type group struct {
	waiting *round
}

// An entryKey names the entry of a directory in the one above it. Somebody else may have removed and made either of them
// again, or renamed it, since this process synced what had the same path, or the same inode.
type entryKey struct {
	above, dir dirKey
	name       string
}

func entryOf(above, below placeDir) entryKey {
	return entryKey{above.id, below.id, below.path[strings.LastIndexByte(below.path, '/')+1:]}
}

type entry struct {
	round *round
	seq   int // of syncer.joined
}

// A round is one sync, shared by its members.
type round struct {
	d       dir // its own descriptor: members may give up before it is done
	path    string
	members int
	done    chan struct{} // closed after err is set
	err     error
}

func newSyncer(onSync func(string), u *uses) *syncer {
	if onSync == nil {
		onSync = func(string) {}
	}
	s := &syncer{onSync: onSync, uses: u, groups: map[dirKey]*group{}, entries: map[entryKey]entry{}, most: mostEntries}
	s.change.L = &s.mu
	return s
}

// changing announces a change to some directory, until the returned function is called, after the call has joined.
func (s *syncer) changing() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.started--
		s.ended++
		s.change.Broadcast()
	}
}

// join makes the caller a member of the next sync of d, after it has changed d.
func (s *syncer) join(d placeDir) (*round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joinLocked(d)
}

// joinEntry is join for who needs the entry of one directory in d: all who do share one sync for it, for it is there
// already. It returns nil if that sync is over. Where the file system does not tell one directory from the next, there
// is a new one each time.
func (s *syncer) joinEntry(d, below placeDir) (*round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !d.id.lasting() || !below.id.lasting() {
		return s.joinLocked(d)
	}
	key := entryOf(d, below)
	if r := s.entries[key].round; r != nil {
		select {
		case <-r.done:
			if r.err == nil {
				return nil, nil
			}
		default:
			return r, nil
		}
	}
	r, err := s.joinLocked(d)
	if err == nil {
		s.joined++
		s.entries[key] = entry{r, s.joined}
		if len(s.entries) > s.most {
			dropOne(s.entries, key)
		}
	}
	return r, err
}

// mark and forget go around the making of a directory: an older one, removed in the same tick of the clock, may have had
// its key. What was joined for since the mark is for the new one.
func (s *syncer) mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined
}

func (s *syncer) forget(above, made placeDir, mark int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := entryOf(above, made)
	if e, ok := s.entries[key]; ok && e.seq <= mark {
		delete(s.entries, key)
	}
}

func (s *syncer) joinLocked(d placeDir) (*round, error) {
	g := s.groups[d.id]
	if g != nil && g.waiting != nil {
		g.waiting.members++
		return g.waiting, nil
	}
	own, err := d.again()
	if err != nil {
		return nil, err
	}
	r := &round{d: own, path: d.path, members: 1, done: make(chan struct{})}
	if g != nil {
		g.waiting = r
		return r, nil
	}
	g = &group{waiting: r}
	s.groups[d.id] = g
	s.uses.keep() // the caller's own use goes on, so the bucket is open
	go s.run(d.id, g)
	return r, nil
}

// run carries out the rounds of one directory, one after another, until nobody waits.
func (s *syncer) run(key dirKey, g *group) {
	defer s.uses.done()
	for {
		s.gather(g)
		s.mu.Lock()
		r := g.waiting
		g.waiting = nil
		if r == nil {
			delete(s.groups, key)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		start := time.Now()
		r.err = r.d.sync()
		s.setTook(time.Since(start))
		r.d.close()
		s.onSync(r.path)
		close(r.done)
	}
}

const (
	// gatherMost is how many changes a sync waits for, so that steady load does not put it off for ever.
	gatherMost = 128
	// A sync that has several changes pauses for more, by a quarter of what the last one took, within these bounds:
	// enough for an idle processor to take goroutines over from a busy one.
	minPause = 50 * time.Microsecond
	maxPause = time.Millisecond
)

// gather waits for changes that are being made, and lets goroutines that are ready to run begin theirs, as long as that
// brings more: a burst of calls then shares one sync. Without it a sync that runs (on ext4 the journal's commit) makes
// changes wait, so that they trickle into one round after another. A lone call waits for nobody.
func (s *syncer) gather(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.ended + gatherMost
	for before := -1; ; {
		for s.started > 0 && s.ended < limit {
			s.change.Wait()
		}
		now := s.ended
		if g.waiting == nil || now == before || now >= limit {
			return
		}
		before = now
		pause := max(minPause, min(s.took/4, maxPause))
		lone := g.waiting.members == 1
		s.mu.Unlock()
		if lone {
			runtime.Gosched()
		} else {
			time.Sleep(pause)
		}
		s.mu.Lock()
	}
}

func (s *syncer) setTook(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = d
}

// wait returns the round's error once it is over. The context ends the wait, not the sync.
func (r *round) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
