package janitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
)

// releaseLimit is how long letting go of the lease may take. Who cannot be reached in that time waits for it to expire.
const releaseLimit = 10 * time.Second

// A guard is the lease of a pass, and the checkpoint as the pass has saved it.
type guard struct {
	j     *Janitor
	held  *lease.Held
	saved cas.State[checkpoint]
}

// guard takes the lease and stamps the checkpoint. Without an error, a nil guard stands for a pass without, and the clause
// says why.
func (j *Janitor) guard(ctx context.Context, wait time.Duration) (*guard, string, error) {
	if j.lease == nil {
		return nil, "no store of documents was given", nil
	}
	if j.opts.Usable != nil {
		if err := j.opts.Usable(ctx); err != nil {
			return unguarded(err)
		}
	}
	g, err := j.acquire(ctx, wait)
	if err != nil {
		return unguarded(err)
	}
	return g, "", nil
}

// unguarded tells errors that will not pass, so that the index would never be pruned, from others. That a store is full is
// one of them: it takes no lease, and room is what a pass makes.
func unguarded(err error) (*guard, string, error) {
	never := errors.Is(err, cas.ErrUnsupported) || errors.Is(err, cas.ErrDenied) || errors.Is(err, bucket.ErrFull)
	if !never || errors.Is(err, cas.ErrUnknown) || errors.Is(err, lease.ErrHeld) || errors.Is(err, lease.ErrLost) {
		return nil, "", err
	}
	return nil, err.Error(), nil
}

func (j *Janitor) acquire(ctx context.Context, wait time.Duration) (*guard, error) {
	began := j.opts.Clock.Running()
	for {
		// Before the lease: its document may have been lost, and then only the checkpoint knows of its last term.
		was, err := j.loadCheckpoint(ctx)
		if err != nil {
			return nil, err
		}
		held, err := j.lease.Acquire(ctx, &lease.AcquireOptions{
			Wait: wait - (j.opts.Clock.Running() - began), After: was.Value.Term, Reason: "pass",
		})
		if err != nil {
			return nil, advised(err, bucket.Key(lease.Prefix+j.lease.Name()))
		}
		// A crash from here on leaves the lease to expire.
		g := &guard{j: j, held: held, saved: was}
		switch err := g.stamp(ctx); {
		case err == nil:
			return g, nil
		case !errors.Is(err, errOutpaced):
			g.release(ctx)
			return nil, err
		}
		// Another holder has been at work in our term or a later one. Nobody may acquire the lease until it is over, and we
		// wait like anybody else.
	}
}

// errOutpaced: the checkpoint is of a term that is not below ours.
var errOutpaced = errors.New("janitor: outpaced")

// stamp saves our term into the checkpoint, before anything else is done in it: from then on whoever held the lease before
// cannot save it any more. A crash behind it leaves that, and nothing done.
func (g *guard) stamp(ctx context.Context) error {
	ctx, cancel := g.held.Context(ctx)
	defer cancel()
	for n := 1; ; n++ {
		if term := g.saved.Value.Term; term >= g.held.Term() {
			return g.outpaced(ctx, term)
		}
		if err := g.held.Check(); err != nil {
			return err
		}
		saved, err := g.j.doc.Replace(ctx, g.saved, g.saved.Value.stamped(g.held.Term()))
		if err == nil && saved.Version == "" {
			err = cas.ErrConflict // ours, and somebody else's behind it
		}
		switch {
		case err == nil:
			g.saved = saved
			return nil
		case !moved(err) || n == maxStamps:
			return g.lostOr(fmt.Errorf("stamping the checkpoint of index %q: %w", g.j.index.Name(), err))
		}
		if g.saved, err = g.j.loadCheckpoint(ctx); err != nil {
			return g.lostOr(err)
		}
	}
}

// maxStamps is how often the stamp is tried on a checkpoint that somebody else keeps changing.
const maxStamps = 3

// moved tells whether the document is another one than was loaded, or gone, and nothing was saved.
func moved(err error) bool {
	return (errors.Is(err, cas.ErrConflict) || errors.Is(err, cas.ErrNotExist)) && !errors.Is(err, cas.ErrUnknown)
}

// outpaced lets go of a lease whose term has been overtaken, so that whoever is at work in the other one is waited for.
func (g *guard) outpaced(ctx context.Context, term uint64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	if err := g.held.Outpaced(ctx, term); err != nil {
		return fmt.Errorf("letting go of a lease of term %d, beside one of term %d: %w", g.held.Term(), term, err)
	}
	return errOutpaced
}

// end saves the checkpoint, while the lease is still held. A crash before it leaves the stamp.
func (g *guard) end(ctx context.Context, next checkpoint) error {
	ctx, cancel := g.held.Context(ctx)
	defer cancel()
	if err := g.held.Check(); err != nil {
		return err
	}
	_, err := g.j.doc.Replace(ctx, g.saved, next)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cas.ErrConflict) && moved(err):
		return fmt.Errorf("%w: somebody else has saved the checkpoint since: %w", lease.ErrLost, err)
	}
	return g.lostOr(fmt.Errorf("saving the checkpoint of index %q: %w", g.j.index.Name(), err))
}

// lostOr is err, unless the lease was lost meanwhile: then that is why, and err is what came of it.
func (g *guard) lostOr(err error) error {
	if lost := g.held.Check(); lost != nil && !errors.Is(err, lease.ErrLost) {
		return fmt.Errorf("%w: %w", lost, err)
	}
	return err
}

// release lets go of the lease, also where ctx is over.
func (g *guard) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	if err := g.held.Release(ctx); err != nil {
		g.j.opts.Log.Warn("the lease was not released, and has to expire", "index", g.j.index.Name(), "error", err)
	}
}
