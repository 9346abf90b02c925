package blobindex

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A Sweeper deletes, in the background, what the readers of any number of indexes have found to be over. It never delays
// a reader: what does not fit into its queue is dropped, and the next reader finds it again. What could not be deleted is
// tried again later, after a wait that doubles each time. Without the right to delete it pauses; readers work all the
// same.
type Sweeper struct {
	log   *slog.Logger
	now   func() time.Time
	tell  func(deleted map[string]int, failed, dropped int)
	queue chan sweep
	stop  context.CancelFunc
	done  chan struct{}

	mu     sync.Mutex
	keys   map[sweepKey]*sweepState // queued, or failed
	pause  time.Time                // nothing is taken before then
	delay  time.Duration            // the last pause
	deeds  SweepStats
	told   int           // of deeds.Dropped
	worked chan struct{} // closed and replaced when a batch is done
}

// A sweep is a batch of keys of one index.
type sweep struct {
	index *Index
	plan  []Deletion
	began time.Time // when it was offered
}

type sweepKey struct {
	index *Index
	key   bucket.Key
}

type sweepState struct {
	queued bool
	again  time.Time     // not to be tried before then
	wait   time.Duration // the last wait
}

// SweeperOptions of NewSweeper; nil and zero fields mean the defaults.
type SweeperOptions struct {
	Log *slog.Logger     // takes what could not be deleted; default: nothing is logged
	Now func() time.Time // the host's clock, default time.Now
	// Told, if set, is called when a batch is done, with the keys that were deleted, by reason, those that could not be, and
	// those that were dropped since the last call. It must not block, nor call the sweeper.
	Told func(deleted map[string]int, failed, dropped int)
}

// SweepStats count what a Sweeper did.
type SweepStats struct {
	Deleted int // keys
	Failed  int // deletes of a key
	Dropped int // keys that did not fit
}

// PlanLife is how long after it was made a plan is carried out at the most. What it names stays over, as long as producers
// register each id once; the bound keeps the harm of one that does not small.
const PlanLife = 5 * time.Minute

const (
	sweepBatch   = bucket.PageSize
	sweepQueue   = 16 // batches
	sweepRetry   = time.Minute
	sweepRetryTo = time.Hour
	sweepTimeout = time.Minute // for one batch
)

// NewSweeper starts a sweeper; an Index is given it by Options.Sweeper. Close stops it.
func NewSweeper(opt *SweeperOptions) *Sweeper {
	if opt == nil {
		opt = &SweeperOptions{}
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Sweeper{
		log: opt.Log, now: opt.Now, stop: stop, queue: make(chan sweep, sweepQueue), done: make(chan struct{}),
		keys: make(map[sweepKey]*sweepState), worked: make(chan struct{}), tell: opt.Told,
	}
	if s.tell == nil {
		s.tell = func(map[string]int, int, int) {}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
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

// Idle waits until nothing is queued or at work, or the sweeper is closed.
func (s *Sweeper) Idle(ctx context.Context) error {
	for {
		s.mu.Lock()
		busy := false
		for _, k := range s.keys {
			busy = busy || k.queued
		}
		worked := s.worked
		s.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-worked:
		case <-s.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// offer queues the keys of a plan that are not queued yet.
func (s *Sweeper) offer(x *Index, plan []Deletion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now.Before(s.pause) {
		return
	}
	var batch []Deletion
	for i, d := range plan {
		if k := s.keys[sweepKey{x, d.Key}]; k != nil && (k.queued || now.Before(k.again)) {
			continue
		}
		batch = append(batch, d)
		if len(batch) == sweepBatch {
			if !s.enqueue(x, batch, now) {
				s.deeds.Dropped += len(batch) + len(plan) - i - 1
				return
			}
			batch = nil
		}
	}
	if len(batch) > 0 && !s.enqueue(x, batch, now) {
		s.deeds.Dropped += len(batch)
	}
}

func (s *Sweeper) enqueue(x *Index, batch []Deletion, began time.Time) bool {
	select {
	case s.queue <- sweep{x, batch, began}:
	default:
		return false
	}
	for _, d := range batch {
		k := sweepKey{x, d.Key}
		if s.keys[k] == nil {
			s.keys[k] = &sweepState{}
		}
		s.keys[k].queued = true
	}
	return true
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

func (s *Sweeper) delete(ctx context.Context, batch sweep) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if s.now().Sub(batch.began) > PlanLife {
		s.forget(batch)
		return
	}
	errs := batch.index.Delete(ctx, batch.plan)
	if len(errs) > 0 && errors.Is(errs[0], ErrWithheld) {
		s.forget(batch)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var first error
	failed, denied := 0, 0
	gone := make(map[string]int)
	for i, d := range batch.plan {
		k := sweepKey{batch.index, d.Key}
		if errs == nil || errs[i] == nil {
			delete(s.keys, k)
			gone[d.Reason.String()]++
			continue
		}
		if failed++; first == nil {
			first = errs[i]
		}
		if errors.Is(errs[i], bucket.ErrDenied) {
			denied++
		}
		state := s.keys[k]
		state.queued, state.wait = false, longer(state.wait)
		state.again = now.Add(state.wait)
	}
	s.deeds.Deleted += len(batch.plan) - failed
	s.deeds.Failed += failed
	if denied == len(batch.plan) {
		s.delay = longer(s.delay)
		s.pause = now.Add(s.delay)
	} else {
		s.delay = 0
	}
	for k, state := range s.keys { // what failed and is not offered any more is gone
		if !state.queued && now.Sub(state.again) > sweepRetryTo {
			delete(s.keys, k)
		}
	}
	if first != nil && !errors.Is(first, context.Canceled) {
		s.log.Warn("sweeping failed for some keys", "index", batch.index.name, "keys", len(batch.plan), "failed", failed,
			"pause", s.delay, "error", first)
	}
	s.report(gone, failed)
	close(s.worked)
	s.worked = make(chan struct{})
}

// forget drops a batch that has waited too long, or that the rules withhold: a later reader offers what is still over.
func (s *Sweeper) forget(batch sweep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range batch.plan {
		delete(s.keys, sweepKey{batch.index, d.Key})
	}
	s.deeds.Dropped += len(batch.plan)
	s.report(nil, 0)
	close(s.worked)
	s.worked = make(chan struct{})
}

// report tells of a batch. s.mu is held, so that what is told adds up to Stats.
func (s *Sweeper) report(deleted map[string]int, failed int) {
	s.tell(deleted, failed, s.deeds.Dropped-s.told)
	s.told = s.deeds.Dropped
}

func longer(wait time.Duration) time.Duration { return min(max(2*wait, sweepRetry), sweepRetryTo) }
