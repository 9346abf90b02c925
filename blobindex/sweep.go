package blobindex

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/prune"
)

// A Sweeper deletes, in the background, what readers have found to be over. It never delays a reader: what does not
// fit into its queue is dropped, and the next reader finds it again. Without the right to delete it pauses, longer each
// time; readers work all the same.
type Sweeper struct {
	objects bucket.Objects
	log     *slog.Logger
	now     func() time.Time
	queue   chan []bucket.Key
	stop    context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	known  map[bucket.Key]time.Time // queued (zero), or failed and not to be tried before then
	pause  time.Time                // nothing is taken before then
	delay  time.Duration            // the last pause
	deeds  SweepStats
	worked chan struct{} // closed and replaced when a batch is done
}

// SweepStats count what a Sweeper did.
type SweepStats struct {
	Deleted int // keys
	Failed  int // deletes of a key
	Dropped int // keys that did not fit
}

const (
	sweepBatch   = bucket.PageSize
	sweepQueue   = 16 // batches
	sweepRetry   = time.Minute
	sweepPauseTo = time.Hour
	sweepTimeout = time.Minute // for one batch
)

// NewSweeper starts a sweeper on the bucket. now is the host's clock, nil for time.Now. Close stops it.
func NewSweeper(objects bucket.Objects, log *slog.Logger, now func() time.Time) *Sweeper {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if now == nil {
		now = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Sweeper{
		objects: objects, log: log, now: now, stop: stop,
		queue: make(chan []bucket.Key, sweepQueue), done: make(chan struct{}),
		known: make(map[bucket.Key]time.Time), worked: make(chan struct{}),
	}
	go s.run(ctx)
	return s
}

// Close stops the sweeper and waits for it. What is still queued stays undeleted.
func (s *Sweeper) Close() {
	s.stop()
	<-s.done
}

// Stats returns what was done so far.
func (s *Sweeper) Stats() SweepStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deeds
}

// Idle waits until nothing is queued or at work.
func (s *Sweeper) Idle(ctx context.Context) error {
	for {
		s.mu.Lock()
		busy := false
		for _, at := range s.known {
			busy = busy || at.IsZero()
		}
		worked := s.worked
		s.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-worked:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// offer queues the keys of a plan that are not queued yet.
func (s *Sweeper) offer(n *Namespace, plan []prune.Deletion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now.Before(s.pause) {
		return
	}
	var batch []bucket.Key
	for i, d := range plan {
		key := n.key(d.Name)
		if at, ok := s.known[key]; ok && (at.IsZero() || now.Before(at)) || !n.x.holds(key) {
			continue
		}
		batch = append(batch, key)
		if len(batch) == sweepBatch {
			if !s.enqueue(batch) {
				s.deeds.Dropped += len(batch) + len(plan) - i - 1
				return
			}
			batch = nil
		}
	}
	if len(batch) > 0 && !s.enqueue(batch) {
		s.deeds.Dropped += len(batch)
	}
}

func (s *Sweeper) enqueue(batch []bucket.Key) bool {
	select {
	case s.queue <- batch:
		for _, k := range batch {
			s.known[k] = time.Time{}
		}
		return true
	default:
		return false
	}
}

func (s *Sweeper) run(ctx context.Context) {
	defer close(s.done)
	for {
		select {
		case <-ctx.Done():
			return
		case batch := <-s.queue:
			s.delete(ctx, batch)
		}
	}
}

func (s *Sweeper) delete(ctx context.Context, batch []bucket.Key) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	errs := s.objects.Delete(ctx, batch)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var first error
	denied := 0
	for i, k := range batch {
		if errs == nil || errs[i] == nil {
			delete(s.known, k)
			s.deeds.Deleted++
			continue
		}
		first = errs[i]
		s.known[k] = now.Add(sweepRetry)
		s.deeds.Failed++
		if errors.Is(errs[i], bucket.ErrDenied) {
			denied++
		}
	}
	if denied == len(batch) {
		s.delay = min(max(2*s.delay, sweepRetry), sweepPauseTo)
		s.pause = now.Add(s.delay)
	} else {
		s.delay = 0
	}
	for k, at := range s.known { // what failed and was not offered again is somebody else's deed by now
		if !at.IsZero() && now.Sub(at) > sweepRetry {
			delete(s.known, k)
		}
	}
	if first != nil && ctx.Err() == nil {
		s.log.Warn("sweeping failed for some keys", "keys", len(batch), "pause", s.delay, "error", first)
	}
	close(s.worked)
	s.worked = make(chan struct{})
}
