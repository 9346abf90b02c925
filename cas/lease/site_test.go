package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// key is where the lease of these tests is, which is called "running".
const key = bucket.Key(lease.Prefix + "running")

// patience is until a lease of the default TTL that is not renewed may be taken.
const patience = lease.DefaultTTL + lease.Margin

// A fate is what becomes of one save on its way to the store and back.
type fate int

const (
	fine       fate = iota
	lostBefore      // never arrives, and nobody says so
	lostAfter       // carried out, and the answer is lost
	late            // unknown, and carried out after the next Load
	hangs           // never arrives, and is not answered
	hangsAfter      // carried out, and not answered
	hangsLate       // carried out after the next Load, and not answered
	tardy           // carried out at once, and answered a second later
	denied          // refused for good
	slow            // refused, for it came too soon
)

// A wire is what lies between one process and the store.
type wire struct {
	cas.Store
	timeless bool          // the store tells no time
	shifted  time.Duration // of the store's clock in its answers, since it was set

	mu      sync.Mutex // guards what follows
	down    bool       // nothing is answered
	fates   []fate     // of the next saves; then all is fine
	pending []func()
	before  func() // once, before the next save
	loads   int
	saves   []time.Time
}

func (w *wire) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	w.mu.Lock()
	w.loads++
	down := w.down
	w.mu.Unlock()
	if down {
		<-ctx.Done()
		return cas.Object{}, ctx.Err()
	}
	o, err := w.Store.Load(ctx, key)
	if err != nil && !errors.Is(err, cas.ErrNotExist) {
		return o, err
	}
	w.land()
	if w.timeless {
		o.ModTime, o.StoreTime = time.Time{}, time.Time{}
	} else if err == nil {
		o.StoreTime = o.StoreTime.Add(w.shifted)
	}
	return o, err
}

// land carries out what is late.
func (w *wire) land() {
	w.mu.Lock()
	pending := w.pending
	w.pending = nil
	w.mu.Unlock()
	for _, save := range pending {
		save()
	}
}

func (w *wire) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	w.mu.Lock()
	w.saves = append(w.saves, time.Now())
	is := fine
	switch {
	case w.down:
		is = hangs
	case len(w.fates) > 0:
		is, w.fates = w.fates[0], w.fates[1:]
	}
	if is == late || is == hangsLate {
		w.pending = append(w.pending, func() { w.Store.Save(context.Background(), key, body, p) })
	}
	before := w.before
	w.before = nil
	w.mu.Unlock()
	if before != nil {
		before()
	}
	if is == lostAfter || is == hangsAfter {
		w.Store.Save(ctx, key, body, p)
	}
	switch is {
	case lostBefore, lostAfter, late:
		return "", fmt.Errorf("no answer: %w", cas.ErrUnknown)
	case hangs, hangsAfter, hangsLate:
		<-ctx.Done()
		return "", fmt.Errorf("no answer: %w: %w", cas.ErrUnknown, ctx.Err())
	case tardy:
		v, err := w.Store.Save(ctx, key, body, p)
		select {
		case <-time.After(time.Second):
			return v, err
		case <-ctx.Done():
			return "", fmt.Errorf("cut off: %w: %w", cas.ErrUnknown, ctx.Err())
		}
	case denied:
		return "", fmt.Errorf("no: %w", cas.ErrDenied)
	case slow:
		return "", fmt.Errorf("slow down: %w", cas.ErrThrottled)
	}
	return w.Store.Save(ctx, key, body, p)
}

// set makes everything hang, or nothing any more.
func (w *wire) set(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

// first has fn done before the next save.
func (w *wire) first(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = fn
}

// meet tells what becomes of the next saves.
func (w *wire) meet(fates ...fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fates = fates
}

// reset returns how many requests there were since the last time, and when the saves were.
func (w *wire) reset() (loads int, saves []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	loads, saves = w.loads, w.saves
	w.loads, w.saves = 0, nil
	return loads, saves
}

// A site is a store with the processes that share a lease on it.
type site struct {
	t *testing.T
	*membucket.Bucket
}

// inBubble runs a test on a store in a bubble.
func inBubble(t *testing.T, run func(t *testing.T, s site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(t, site{t, membucket.New(nil)}) })
}

// A process is one that wants the lease.
type process struct {
	*lease.Lease
	*wire
	t *testing.T
}

func (s site) process(class lease.Class, opts *lease.Options) process {
	s.t.Helper()
	w := &wire{Store: s.Bucket}
	l, err := lease.New(w, "running", class, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	return process{l, w, s.t}
}

// acquire returns the lease, of that term. Its end is the test's at the latest.
func (p process) acquire(term uint64, opt *lease.AcquireOptions) *lease.Held {
	p.t.Helper()
	h, err := p.Acquire(p.t.Context(), opt)
	if err != nil {
		p.t.Fatalf("acquiring: %v", err)
	}
	p.t.Cleanup(func() {
		p.set(false)
		h.Release(context.WithoutCancel(p.t.Context()))
	})
	if h.Term() != term || h.Check() != nil {
		p.t.Fatalf("acquired term %d, %v, want %d", h.Term(), h.Check(), term)
	}
	return h
}

// refused checks that the lease is not to be had, and returns why.
func (p process) refused(opt *lease.AcquireOptions) lease.Status {
	p.t.Helper()
	h, err := p.Acquire(p.t.Context(), opt)
	if err == nil {
		h.Release(p.t.Context())
	}
	var held *lease.HeldError
	if !errors.As(err, &held) || !errors.Is(err, lease.ErrHeld) {
		p.t.Fatalf("acquiring: %v, want a HeldError", err)
	}
	return held.Status
}

// after returns how long acquiring took that waits as long as it needs.
func (p process) after(term uint64, opt lease.AcquireOptions) time.Duration {
	p.t.Helper()
	began := time.Now()
	opt.Wait = time.Hour
	p.acquire(term, &opt)
	return time.Since(began)
}

func release(t *testing.T, h *lease.Held) {
	t.Helper()
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantHeld checks that a lease is still held, by its context too; wantLost that it is not.
func wantHeld(t *testing.T, h *lease.Held) {
	t.Helper()
	synctest.Wait()
	ctx, cancel := h.Context(t.Context())
	defer cancel()
	if err := h.Check(); err != nil || ctx.Err() != nil {
		t.Fatalf("Check: %v, and the context: %v", err, context.Cause(ctx))
	}
}

func wantLost(t *testing.T, h *lease.Held) {
	t.Helper()
	ctx, cancel := h.Context(t.Context())
	defer cancel()
	if err := h.Check(); !errors.Is(err, lease.ErrLost) || !errors.Is(context.Cause(ctx), lease.ErrLost) {
		t.Fatalf("Check: %v, and the context: %v, want ErrLost", err, context.Cause(ctx))
	}
}

// payload is what the document holds.
func (s site) payload() lease.Payload {
	s.t.Helper()
	var d struct{ Payload lease.Payload }
	if err := json.Unmarshal([]byte(s.body()), &d); err != nil {
		s.t.Fatal(err)
	}
	return d.Payload
}

// body is the document as it is stored; empty if there is none.
func (s site) body() string {
	s.t.Helper()
	o, err := s.Load(s.t.Context(), key)
	if err != nil && !errors.Is(err, cas.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(o.Body)
}

func (s site) remove() {
	s.t.Helper()
	if errs := s.Delete(s.t.Context(), []bucket.Key{key}); errs != nil {
		s.t.Fatal(errs)
	}
}

func (s site) put(body string) {
	s.t.Helper()
	if _, err := s.Put(s.t.Context(), key, strings.NewReader(body)); err != nil {
		s.t.Fatal(err)
	}
}

// within checks that a wait was of that length, and a poll longer at most.
func within(t *testing.T, got, want time.Duration) {
	t.Helper()
	if got <= want || got > want+lease.Poll {
		t.Errorf("it was waited for for %v, want more than %v, and %v more at most", got, want, lease.Poll)
	}
}
