package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/blobindex/indexd/cas"
)

// AcquireOptions says how to acquire; nil and zero fields mean at once, or not at all.
type AcquireOptions struct {
	// Wait is how long to wait for a lease that is held, looking at it every Poll.
	Wait time.Duration
	// After is the greatest term of the lease that is known of from elsewhere, such as a checkpoint. The acquisition's is
	// greater. Where the lease's own document does not know of it, it was deleted, and its holder may not know: the lease
	// is waited for.
	After uint64
	// Reason tells others in a word or two why it is held; at most 80 characters that can be printed. It must name nobody.
	Reason string
}

// Acquire makes us the holder. 1 GET, 1 PUT if it is free. ErrHeld, a *HeldError: somebody else was at the end of Wait, or
// of ctx. An acquisition that is on its way when ctx ends is given two seconds more, and let go of again. cas.ErrUnknown: the
// lease may be held by us, whom nobody waits for longer than TTL and Margin. Errors else: those of cas.Doc.Load and Replace.
// The caller must Release what it gets, on every path.
func (l *Lease) Acquire(ctx context.Context, opt *AcquireOptions) (*Held, error) {
	if opt == nil {
		opt = &AcquireOptions{}
	}
	if err := checkReason(opt.Reason); err != nil {
		return nil, fmt.Errorf("acquiring lease %q: %w", l.name, err)
	}
	began := l.clock.Running()
	var held *HeldError // of the last look that was not cut off
	for again := 0; ; {
		h, err := l.try(ctx, opt)
		switch {
		case err == nil:
			h.begin()
			return h, nil
		case held != nil && ctx.Err() != nil && !errors.Is(err, cas.ErrUnknown):
			return nil, fmt.Errorf("%w: %w", ctx.Err(), held)
		case !errors.As(err, &held):
			return nil, err
		}
		if held.Status.Within == 0 && again < 3 {
			again++ // it changed while we looked, and is free
			continue
		}
		left := opt.Wait - (l.clock.Running() - began)
		if left <= 0 {
			return nil, err
		}
		t := time.NewTimer(min(Poll, left))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("%w: %w", ctx.Err(), held)
		case <-t.C:
		}
	}
}

func checkReason(reason string) error {
	n := 0
	for _, r := range reason {
		if n++; n > 80 || r < ' ' || r > '~' {
			return fmt.Errorf("its reason is %.100q: give at most 80 printable ASCII characters", reason)
		}
	}
	return nil
}

// try looks once and takes what is free. What it returns is not renewed yet.
func (l *Lease) try(ctx context.Context, opt *AcquireOptions) (*Held, error) {
	s, err := l.load(ctx)
	if err != nil {
		return nil, err
	}
	if s.Value.Term < opt.After {
		return nil, l.await(ctx, s, opt.After)
	}
	if st := l.status(s); st.Within > 0 {
		return nil, &HeldError{st}
	}
	if s.Value.Term == math.MaxUint64-1 {
		return nil, fmt.Errorf("acquiring lease %q: no term can follow on %d", l.name, s.Value.Term)
	}
	next := record{Term: s.Value.Term + 1, Class: l.class, TTL: l.ttl.Milliseconds(), Since: since(s, l.clock), Reason: opt.Reason}
	late, cancel := endLater(ctx)
	defer cancel()
	from := l.clock.now()
	saved, err := l.doc.Replace(late, s, next)
	switch {
	case beaten(s, saved, err):
		return nil, l.overtaken(ctx, err)
	case err != nil:
		return nil, fmt.Errorf("acquiring lease %q: %w", l.name, err)
	}
	h := newHeld(l, saved, from)
	if ctx.Err() != nil { // nobody wants it any more, or should wait for it
		return nil, errors.Join(fmt.Errorf("acquiring lease %q: %w", l.name, ctx.Err()), h.Release(late))
	}
	return h, nil
}

// endLater returns a context that ends a moment after ctx. A save that is cut off may be carried out all the same, and what
// became of it is then known to nobody.
func endLater(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWord, cancel) })
	return late, func() {
		stop()
		cancel()
	}
}

// lastWord is for how long who is told to stop waits for what became of an acquisition.
const lastWord = 2 * time.Second

// beaten tells of a save on base whether somebody else was faster, or has built on it already. That there is nothing to
// create the document in has another reason.
func beaten(base, saved cas.State[record], err error) bool {
	if err == nil {
		return saved.Version == ""
	}
	deleted := base.Seq > 0 && errors.Is(err, cas.ErrNotExist)
	return !errors.Is(err, cas.ErrUnknown) && (deleted || errors.Is(err, cas.ErrConflict))
}

// overtaken tells who was faster.
func (l *Lease) overtaken(ctx context.Context, err error) error {
	s, loadErr := l.load(ctx)
	if loadErr != nil {
		return fmt.Errorf("acquiring lease %q: %w", l.name, errors.Join(err, loadErr))
	}
	return &HeldError{l.status(s)}
}

// await makes a document that does not know of term after know of it, and of that its holder may be at work. A crash leaves
// that, or nothing.
func (l *Lease) await(ctx context.Context, s cas.State[record], after uint64) error {
	ttl := max(l.ttl, DefaultTTL, time.Duration(s.Value.TTL)*time.Millisecond)
	if after >= math.MaxUint64-1 {
		return fmt.Errorf("acquiring lease %q: no term can follow on %d", l.name, after)
	}
	next := record{Term: after, Opens: (ttl + Margin).Milliseconds(), Since: since(s, l.clock), Reason: "its document was lost"}
	saved, err := l.doc.Replace(ctx, s, next)
	switch {
	case beaten(s, saved, err):
		return l.overtaken(ctx, err)
	case err != nil:
		return fmt.Errorf("acquiring lease %q: %w", l.name, err)
	}
	return &HeldError{l.status(saved)}
}
