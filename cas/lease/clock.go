package lease

import (
	"sync"
	"time"

	"github.com/blobindex/indexd/cas"
)

// A clock is a Clock whose functions are set.
type clock Clock

func newClock(c Clock) clock {
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Running == nil {
		began := time.Now()
		c.Running = func() time.Duration { return time.Since(began) }
	}
	return clock(c)
}

// An instant is a moment by both clocks of this host.
type instant struct {
	wall    time.Time
	running time.Duration
}

func (c clock) now() instant { return instant{c.Wall().Round(0), c.Running()} }

// since is how long ago that was: by the clock that says longer, for each may have stood still or been set back.
func (c clock) since(i instant) time.Duration {
	now := c.now()
	return max(now.wall.Sub(i.wall), now.running-i.running, 0)
}

// A watch remembers since when a document has been seen unchanged, for stores that tell no time.
type watch struct {
	mu    sync.Mutex // guards what follows
	state state
	from  time.Duration // of the running clock
}

// A state tells one save of a document from any other.
type state struct {
	created string
	seq     uint64
	version cas.Version
}

// seen returns for how long the document has been in that state as far as it was looked at: by the running clock alone, which
// never says too much.
func (w *watch) seen(s cas.State[record], c clock) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := c.Running()
	if is := (state{s.Created.Nonce, s.Seq, s.Version}); w.state != is {
		w.state, w.from = is, now
	}
	return max(now-w.from, 0)
}

// remaining is how long the lease has to be waited for; 0 if it may be acquired. What was watched counts where the store tells
// time, too: its clock may have been set back.
func (l *Lease) remaining(s cas.State[record]) time.Duration {
	age := l.watch.seen(s, l.clock)
	if !s.ModTime.IsZero() && !s.StoreTime.IsZero() {
		age = max(age, s.StoreTime.Sub(s.ModTime))
	}
	opens := s.Value.opens()
	if opens == 0 || age > opens {
		return 0
	}
	return opens - age + 1 // at that very age it is not over yet
}
