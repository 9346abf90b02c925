package live

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

// errHanging is the cause of a stale view while a listing has not answered.
var errHanging = errors.New("live: the store has not answered yet")

// A view is the shared state of one namespace.
type view struct {
	h       *Hub
	n       *blobindex.Namespace
	epoch   string
	wake    chan struct{} // holds one: something has changed
	dropped chan struct{} // closed by who takes it off the Hub

	judging sync.Mutex // held while what is shown is worked out; taken before mu

	mu      sync.Mutex
	users   int // calls under way, and streams
	streams int
	left    time.Time // when the last user left
	open    bool      // it has or had users lately: the overlay is kept
	wakes   time.Time // when its goroutine looks what is due, if nothing stirs it before

	base     *blobindex.Snapshot // the last good listing
	listed   time.Time           // when it ended
	listing  *listing            // under way
	took     time.Duration       // by the last good one
	timeout  time.Duration       // of the next one
	interval time.Duration
	next     time.Time // before then nothing is listed
	cause    error     // why the view is stale; nil: it is not
	since    time.Time // when it became so, by the clock of the view

	overlay map[string]overlaid
	acks    uint64 // writes that were acknowledged
	shown   shown

	shapes map[blobindex.CardsRequest]*shape
	looked map[blobindex.CardsRequest]looked
	ended  error // the Hub is closed
	// version counts what is shown anew, and each time that it becomes stale or complete.
	version uint64
}

// shown is the listing with the overlay.
type shown struct {
	snapshot *blobindex.Snapshot
	base     *blobindex.Snapshot
	acks     uint64    // what was acknowledged by then is in it
	resume   time.Time // before then nothing is published
}

// An overlaid key, and the number of its acknowledgement.
type overlaid struct {
	key blobindex.Written
	ack uint64
}

// A listing is one that is under way for everybody.
type listing struct {
	began   time.Time
	acks    uint64 // what had been acknowledged when it began
	waiters int    // guarded by the view's mu
	cancel  context.CancelFunc
	done    chan struct{}
	// Set before done is closed.
	cost blobindex.Cost
	err  error
}

func newView(h *Hub, n *blobindex.Namespace) *view {
	var epoch [8]byte
	rand.Read(epoch[:]) // it does not fail
	return &view{
		h: h, n: n, epoch: hex.EncodeToString(epoch[:]), wake: make(chan struct{}, 1), dropped: make(chan struct{}),
		interval: h.opt.MinInterval, timeout: h.opt.ListTimeout,
		shapes: make(map[blobindex.CardsRequest]*shape), looked: make(map[blobindex.CardsRequest]looked),
	}
}

// stir has the goroutine of the view look at what has changed.
func (v *view) stir() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// enter counts a user. A view that was not open is listed before it answers: what was written meanwhile is not in its overlay.
func (v *view) enter() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.users++
	if !v.open {
		v.open, v.next, v.interval = true, time.Time{}, v.h.opt.MinInterval
	}
}

// leave ends what enter began.
func (v *view) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.users--
	v.left = time.Now()
	if v.users == 0 && v.wakes.After(v.closes()) {
		v.stir() // to be there when it closes
	}
}

// idle tells whether nobody uses the view, and since when.
func (v *view) idle() (since time.Time, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.left, v.users == 0
}

// expired tells whether the state of the view need not be kept any more.
func (v *view) expired(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.users == 0 && !v.open && !now.Before(v.forgotten())
}

// closes is when a view without users is not open any more, and forgotten when it goes. The lock is held.
func (v *view) closes() time.Time    { return v.left.Add(v.h.opt.Hold) }
func (v *view) forgotten() time.Time { return v.closes().Add(v.h.opt.Keep) }

// run is the goroutine of the view: it lists while there are streams, publishes what has changed, and tidies up.
func (v *view) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, publish, gone := v.step(time.Now())
		if gone && v.h.drop(v) {
			return
		}
		if publish && v.publish() == nil {
			continue
		}
		timer.Reset(wait)
		select {
		case <-v.wake:
		case <-timer.C:
		case <-v.dropped:
			return
		case <-v.h.ctx.Done():
			return
		}
	}
}

// step does what is due, and says what is left to do and when the next is due.
func (v *view) step(now time.Time) (wait time.Duration, publish, gone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer func() { v.wakes = now.Add(wait) }()
	if v.ended != nil {
		return time.Hour, false, false
	}
	if v.users == 0 {
		if v.open && !now.Before(v.closes()) {
			v.open, v.overlay = false, nil
			if v.listing != nil { // of a store that hangs: it would not know of what is written from now on
				v.listing.cancel()
				v.listing = nil
			}
		}
		if v.open {
			return v.closes().Sub(now), false, false
		}
		return v.forgotten().Sub(now), false, !now.Before(v.forgotten())
	}
	wait = time.Hour
	due := func(at time.Time) bool {
		wait = min(wait, at.Sub(now))
		return !now.Before(at)
	}
	if v.streams > 0 && v.listing == nil && due(v.next) {
		v.list(now)
	}
	if v.listing != nil && v.base != nil && v.cause == nil && due(v.listing.began.Add(v.patience())) {
		v.fail(errHanging)
	}
	if v.streams > 0 && v.base != nil && v.behind() && due(v.shown.resume) {
		return 0, true, false
	}
	return max(wait, 0), false, false
}

// behind tells whether some stream does not show yet what there is. The lock is held.
func (v *view) behind() bool {
	if v.dirty() {
		return true
	}
	buried := v.shown.snapshot.Buried()
	for _, sh := range v.shapes {
		if sh.streams > 0 && !sh.shows(v.version, buried) {
			return true
		}
	}
	return false
}

// dirty tells whether what is shown has to be worked out. The lock is held.
func (v *view) dirty() bool { return v.shown.base != v.base || v.shown.acks != v.acks }

// patience is how long a listing may take before a view counts as stale. The lock is held.
func (v *view) patience() time.Duration { return max(v.h.opt.Patience, 3*v.took) }

// busy sets the interval back, since something changes. The lock is held.
func (v *view) busy(now time.Time) {
	if v.cause == nil {
		v.interval = v.h.opt.MinInterval
		if soon := now.Add(v.interval); v.next.After(soon) {
			v.next = soon
		}
	}
	v.stir()
}

// fail marks the view stale. The lock is held.
func (v *view) fail(cause error) {
	v.cause = cause
	if v.since.IsZero() {
		v.since = v.clock()
		v.version++
	}
	v.stir()
}

// clock is the clock by which the view is judged, as far as it is known.
func (v *view) clock() time.Time {
	if now, _ := v.n.Index().StoreNow(); !now.IsZero() {
		return now
	}
	return v.n.Index().HostNow()
}

// list begins a listing. The lock is held.
func (v *view) list(now time.Time) *listing {
	ctx, cancel := context.WithTimeout(v.h.ctx, v.timeout)
	l := &listing{began: now, acks: v.acks, cancel: cancel, done: make(chan struct{})}
	started := v.h.run(func() {
		defer cancel()
		s, err := v.snapshot(ctx)
		v.finish(l, s, err, ctx.Err())
	})
	if !started {
		cancel()
		l.err = ErrClosed
		close(l.done)
		return l
	}
	v.listing = l
	return l
}

// finish takes the answer of a listing. What nobody waits for any more is not looked at.
func (v *view) finish(l *listing, s *blobindex.Snapshot, err, ended error) {
	v.mu.Lock()
	before := v.shown.snapshot
	v.mu.Unlock()
	if err == nil && before != nil {
		s.Follow(before)
	}
	v.mu.Lock()
	abandoned := v.listing != l
	now := time.Now()
	if !abandoned {
		v.listing = nil
		if err == nil {
			l.cost = s.Cost
			v.succeed(l, s, now)
		} else {
			l.err = err
			if v.ended != nil || v.h.ctx.Err() != nil {
				l.err = ErrClosed
			} else {
				v.retry(l, err, ended, now)
			}
		}
	}
	close(l.done)
	v.stir()
	v.mu.Unlock()
	if abandoned || errors.Is(l.err, ErrClosed) {
		return
	}
	if err != nil {
		v.h.opt.Log.Warn("listing failed", "index", v.n.Index().Name(), "namespace", v.n.Name(), "error", err)
	}
	v.h.observe(v, Observation{Kind: Listed, Err: err})
}

// succeed takes over a good listing. The lock is held.
func (v *view) succeed(l *listing, s *blobindex.Snapshot, now time.Time) {
	changed := v.base == nil || !v.base.SameKeys(s) || v.cause != nil
	if v.cause != nil {
		v.version++
	}
	v.base, v.cause, v.since = s, nil, time.Time{}
	v.listed, v.took = now, now.Sub(l.began)
	v.timeout = min(max(v.h.opt.ListTimeout, 3*v.took), max(longestListing, v.h.opt.ListTimeout))
	for name, o := range v.overlay {
		if o.ack <= l.acks {
			delete(v.overlay, name)
		}
	}
	if changed {
		v.interval = v.h.opt.MinInterval
	} else {
		v.interval = min(2*v.interval, v.h.opt.MaxInterval)
	}
	// One that takes longer than the interval leaves the store as long a pause.
	v.next = later(l.began.Add(v.interval), now.Add(min(v.took, v.interval)))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// retry takes note of a listing that failed. The lock is held.
func (v *view) retry(l *listing, err, ended error, now time.Time) {
	if errors.Is(ended, context.DeadlineExceeded) {
		v.timeout = min(2*v.timeout, max(longestListing, v.h.opt.ListTimeout))
	}
	failing := v.cause != nil && v.cause != errHanging
	v.fail(err)
	if !failing {
		v.interval = v.h.opt.MinInterval
	} else {
		v.interval = min(2*v.interval, max(v.h.opt.MinInterval, v.h.opt.MaxInterval/3)) // it may be back at any time
	}
	v.next = now.Add(v.interval)
}

// refresh waits until what there is is young enough, or stale. cost is that of the listing that it waited for.
func (v *view) refresh(ctx context.Context) (cost blobindex.Cost, err error) {
	v.mu.Lock()
	now := time.Now()
	switch {
	case v.ended != nil:
		defer v.mu.Unlock()
		return cost, v.ended
	case v.base != nil && v.listing != nil && v.cause == errHanging:
		defer v.mu.Unlock()
		return cost, nil // it would wait for the same listing in vain
	case v.listing == nil && now.Before(v.next):
		defer v.mu.Unlock()
		if v.base == nil {
			return cost, v.cause
		}
		return cost, nil
	}
	l := v.listing
	if l == nil {
		if l = v.list(now); v.listing != l {
			defer v.mu.Unlock()
			return cost, l.err
		}
	} else if v.base != nil && now.Before(v.next) {
		defer v.mu.Unlock()
		return cost, nil
	}
	l.waiters++
	var enough <-chan time.Time
	if v.base != nil {
		timer := time.NewTimer(l.began.Add(v.patience()).Sub(now))
		defer timer.Stop()
		enough = timer.C
	}
	v.stir()
	v.mu.Unlock()
	late := false
	select {
	case <-l.done:
	case <-enough:
		late = true
	case <-ctx.Done():
		err = fmt.Errorf("waiting for the listing of namespace %q: %w", v.n.Name(), ctx.Err())
	case <-v.h.ctx.Done():
		err = ErrClosed
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !late { // else it goes on for who comes next
		l.waiters--
	}
	v.abandon()
	switch {
	case err != nil:
		return cost, err
	case v.ended != nil:
		return cost, v.ended
	}
	select {
	case <-l.done:
		if l.err != nil && v.base == nil {
			return cost, l.err
		}
		return l.cost, nil
	default:
	}
	if v.listing == l && v.cause == nil {
		v.fail(errHanging)
	}
	return cost, nil
}

// abandon gives up a listing that nobody waits for. The lock is held.
func (v *view) abandon() {
	if l := v.listing; l != nil && l.waiters == 0 && v.streams == 0 {
		l.cancel()
		v.listing = nil
	}
}

// end ends the streams, and whoever waits.
func (v *view) end(err error) {
	v.mu.Lock()
	v.ended = err
	v.mu.Unlock()
	v.endStreams(err)
}

func (v *view) endStreams(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, sh := range v.shapes {
		sh.end(err)
	}
}
