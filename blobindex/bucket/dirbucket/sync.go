package dirbucket

import (
	"context"
	"runtime"
	"sync"
)

// A syncer shares directory syncs between the calls that need them (group commit): per directory one sync runs, and
// one waits to begin. Who has changed a directory joins the waiting one, which begins after that and so covers the
// change; the running one may have begun before.
type syncer struct {
	onSync func(dir string)
	uses   *uses

	mu      sync.Mutex // guards all below
	groups  map[dirKey]*group
	durable map[dirKey]bool // directories whose own entry was seen synced by this process
}

// A group is one directory's syncs while there are any. Its goroutine (run) ends with the last one.
type group struct {
	waiting *round
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
	return &syncer{onSync: onSync, uses: u, groups: map[dirKey]*group{}, durable: map[dirKey]bool{}}
}

// join makes the caller a member of the next sync of d, after it has changed d.
func (s *syncer) join(d dir, key dirKey, path string) (*round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[key]
	if g != nil && g.waiting != nil {
		g.waiting.members++
		return g.waiting, nil
	}
	own, err := d.again()
	if err != nil {
		return nil, err
	}
	r := &round{d: own, path: path, members: 1, done: make(chan struct{})}
	if g != nil {
		g.waiting = r
		return r, nil
	}
	g = &group{waiting: r}
	s.groups[key] = g
	s.uses.keep() // the caller's own use goes on, so the bucket is open
	go s.run(key, g)
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
		r.err = r.d.sync()
		r.d.close()
		s.onSync(r.path)
		close(r.done)
	}
}

// gather lets goroutines that are ready to run join first, as long as that brings more of them: a burst of calls then
// shares one sync. It costs a lone call nothing, for then nobody else runs.
func (s *syncer) gather(g *group) {
	const most = 16 // under steady load somebody always joins
	for before := -1; ; {
		s.mu.Lock()
		now := 0
		if g.waiting != nil {
			now = g.waiting.members
		}
		s.mu.Unlock()
		if now == before || now >= most*runtime.GOMAXPROCS(0) {
			return
		}
		before = now
		runtime.Gosched()
	}
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

func (s *syncer) isDurable(key dirKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable[key]
}

// setDurable records whether the directory's entry in its parent was synced. The record is by identity: one that was
// removed by hand can give its identity to a new one, which whoever makes it therefore records as not durable first.
func (s *syncer) setDurable(key dirKey, durable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if durable {
		s.durable[key] = true
	} else {
		delete(s.durable, key)
	}
}
