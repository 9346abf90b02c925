package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune/janitor"
)

// passes are the passes of a server over its indexes: those that it makes at intervals, and those that are asked for over
// HTTP. All end, and let go of their leases, when the server is told to stop.
type passes struct {
	ctx    context.Context // of the server
	stop   context.CancelFunc
	store  cas.Store
	usable func(context.Context) error
	log    *slog.Logger
	count  func(index string, r janitor.Report, err error) // called with each pass that was no dry run; nil: nobody counts
	all    sync.WaitGroup
	late   context.Context // over when nobody waits any more for a pass to end

	mu    sync.Mutex // guards ended, and that nothing is added to all once it is
	ended bool
}

func newPasses(ctx context.Context, store cas.Store, usable func(context.Context) error, log *slog.Logger) *passes {
	p := &passes{store: store, usable: usable, log: log}
	p.ctx, p.stop = context.WithCancel(ctx)
	late, over := context.WithCancel(context.WithoutCancel(ctx))
	p.late = late
	context.AfterFunc(p.ctx, func() { time.AfterFunc(shutdownTime, over) })
	return p
}

func (p *passes) janitor(x *blobindex.Index, class lease.Class) *janitor.Janitor {
	return janitor.New(x, &janitor.Options{Class: class, Store: p.store, Usable: p.usable, Log: p.log})
}

// schedule prunes an index at intervals until the server is told to stop.
func (p *passes) schedule(x *blobindex.Index, every time.Duration) {
	told := func(r janitor.Report, err error) {
		p.counted(x, r, err)
		if err == nil {
			p.report(x.Name(), r)
		}
	}
	p.begin(func() { p.janitor(x, lease.Scheduler).Loop(p.ctx, &janitor.LoopOptions{Every: every, Told: told}) })
}

// errStopping is what a pass is told that is asked for when the server stops.
var errStopping = fmt.Errorf("the server is stopping: %w", context.Canceled)

// run makes a pass that somebody has asked for. It ends with ctx, and when the server is told to stop.
func (p *passes) run(ctx context.Context, x *blobindex.Index, opt *janitor.RunOptions) (r janitor.Report, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(errStopping) })()
	done := make(chan struct{})
	began := p.begin(func() {
		defer close(done)
		r, err = p.janitor(x, lease.Operator).Run(ctx, opt)
	})
	if !began {
		return r, errStopping
	}
	<-done
	if !opt.DryRun {
		p.counted(x, r, err)
	}
	if err != nil {
		return r, err
	}
	if !opt.DryRun {
		p.report(x.Name(), r)
	}
	return r, nil
}

func (p *passes) counted(x *blobindex.Index, r janitor.Report, err error) {
	if p.count != nil {
		p.count(x.Name(), r, err)
	}
}

// begin reports whether do has been begun.
func (p *passes) begin(do func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.all.Go(do)
	return true
}

// end ends all passes and waits until they have let go of their leases, but no longer than the server has to stop: of a store
// that does not answer, the leases open by themselves.
func (p *passes) end() {
	p.stop()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	released := make(chan struct{})
	go func() {
		p.all.Wait()
		close(released)
	}()
	select {
	case <-released:
	case <-p.late.Done():
	}
}

// report tells the log what a pass did.
func (p *passes) report(index string, r janitor.Report) {
	attrs := []slog.Attr{
		slog.String("index", index), slog.Uint64("term", r.Term), slog.Int("namespaces", r.Namespaces),
		slog.Int("deleted", total(r.Deleted)), slog.Int("failures", r.Failures), slog.Int("left", r.Left),
		slog.Int("deferred", len(r.Deferred)), slog.Int("slow", len(r.Slow)),
	}
	if r.Withheld != "" {
		attrs = append(attrs, slog.String("withheld", r.Withheld))
	}
	p.log.LogAttrs(p.ctx, slog.LevelInfo, "pass", attrs...)
}
