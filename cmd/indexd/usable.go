package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/blobindex/indexd/cas/probe"
)

// usable finds out whether the bucket keeps the conditions of writes: in seconds on the same machine, and with one request
// where that was found out within the last day. The errors are those of probe.Usable; cas.ErrUnsupported where the driver
// has no conditional writes.
func (b *lazyBucket) usable(ctx context.Context) error {
	o, err := b.get(ctx)
	if err != nil {
		return err
	}
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	_, err = probe.UsableAt(ctx, probe.Site{Name: "the bucket", Objects: o, Store: s, Extra: b.opened()}, nil)
	return err
}

const (
	trialTime = 5 * time.Minute // for a store that paces the writes of one object
	trialWait = 5 * time.Second // that a view is held up for
	// changeWait is what a change of a manifest is held up for: it cannot do without.
	changeWait = 30 * time.Second
)

// errOnTrial: it is not known yet whether the bucket keeps the conditions of writes.
var errOnTrial = errors.New("it is still being found out whether the bucket keeps the conditions of writes")

// A trial finds out whether a bucket keeps the conditions of writes, once for all who ask at the same time, and goes on when
// they have stopped waiting: a server's views must not wait for it.
type trial struct {
	ctx  context.Context // of the server
	stop context.CancelFunc
	late context.Context // over when nobody waits any more for what a try has made to be deleted
	find func(context.Context) error
	all  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	going    *finding   // nil: none
	last     *finding   // that has ended; nil: none
	patience time.Duration
}

// A finding is one try. Its err is set before done is closed.
type finding struct {
	done chan struct{}
	err  error
}

func newTrial(ctx context.Context, find func(context.Context) error) *trial {
	t := &trial{find: find, patience: trialWait}
	t.ctx, t.stop = context.WithCancel(ctx)
	late, over := context.WithCancel(context.WithoutCancel(ctx))
	t.late = late
	context.AfterFunc(t.ctx, func() { time.AfterFunc(shutdownTime, over) })
	return t
}

// waitFor sets how long who asks is held up at the most.
func (t *trial) waitFor(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.patience = d
}

// usable is what Sharing.Usable has to be: it answers errOnTrial to who has waited long enough.
func (t *trial) usable(ctx context.Context) error {
	f, patience := t.enter()
	return f.wait(ctx, patience)
}

// within is usable for who is held up for so long at the most.
func (t *trial) within(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		f, _ := t.enter()
		return f.wait(ctx, d)
	}
}

// wait is what was found, or errOnTrial.
func (f *finding) wait(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, errOnTrial)
	defer cancel()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter returns the try that goes on, or a new one, and how long to wait for it.
func (t *trial) enter() (*finding, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.going != nil {
		return t.going, t.patience
	}
	f := &finding{done: make(chan struct{})}
	t.going = f
	t.all.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, trialTime)
		defer cancel()
		f.err = t.find(ctx)
		t.mu.Lock()
		t.going, t.last = nil, f
		t.mu.Unlock()
		close(f.done)
	})
	return f, t.patience
}

// end stops what is being found out, and waits until what it has made is deleted, but no longer than the server has to stop:
// of a store that does not answer, the next try deletes that an hour later. Nobody may ask any more.
func (t *trial) end() {
	t.stop()
	deleted := make(chan struct{})
	go func() {
		t.all.Wait()
		close(deleted)
	}()
	select {
	case <-deleted:
	case <-t.late.Done():
	}
}
