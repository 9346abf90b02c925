package live

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
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
