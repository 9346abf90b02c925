package janitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas/lease"
)

// A pass is one on its way.
type pass struct {
	j      *Janitor
	index  *blobindex.Index
	opt    *RunOptions
	limit  int
	guard  *guard     // nil: without one
	was    checkpoint // of the passes before; zero without a guard
	began  time.Time  // of the listing, by the host's clock
	plan   []blobindex.Deletion
	last   []blobindex.Deletion // of namespaces that failed before: behind the others, whose room they would take
	failed map[string]bool      // namespaces where a key could not be deleted
	open   map[string]bool      // namespaces of which some keys that may go were not tried
	report Report
}

// newPass is a pass that has not begun.
func newPass(j *Janitor, opt *RunOptions) *pass {
	p := &pass{j: j, index: j.index, opt: opt, limit: opt.MaxDeletes, failed: map[string]bool{}, open: map[string]bool{}}
	if p.limit <= 0 {
		p.limit = MaxDeletes
	}
	p.report = Report{Planned: make(map[string]int), Deleted: make(map[string]int)}
	return p
}

func (p *pass) run(ctx context.Context) error {
	if p.opt.Namespace != "" {
		if _, err := p.index.Namespace(p.opt.Namespace); err != nil {
			return err
		}
	}
	if err := p.rules(ctx); err != nil || p.report.Withheld != "" {
		return err
	}
	if p.opt.DryRun {
		return p.work(ctx)
	}
	g, why, err := p.j.guard(ctx, p.opt.Wait)
	if p.report.Unguarded = why; err != nil {
		return err
	}
	if g == nil {
		return p.work(ctx)
	}
	defer g.release(ctx)
	p.guard, p.was, p.report.Term = g, g.saved.Value, g.held.Term()
	if err = p.guarded(ctx); errors.Is(err, lease.ErrLost) {
		err = fmt.Errorf("pruning index %q: %s: %w", p.index.Name(), p.lostText(), err)
	}
	return err
}

// guarded works as long as the lease is held, and tells the next pass.
func (p *pass) guarded(ctx context.Context) error {
	held, cancel := p.guard.held.Context(ctx)
	defer cancel()
	if err := p.work(held); err != nil {
		return p.guard.lostOr(err)
	}
	if p.report.Withheld != "" {
		return nil // it did not come to its end
	}
	return p.guard.end(ctx, p.was.after(p))
}

// lostText says what a pass has done that does not hold its lease any more.
func (p *pass) lostText() string {
	done := p.done()
	if done == 0 {
		return "the lease was lost before anything was deleted; prune again"
	}
	return fmt.Sprintf("the lease was lost after %d of %d keys; what was deleted was proven to be over; prune again to go on",
		done, len(p.plan))
}

// work lists, plans and deletes.
func (p *pass) work(ctx context.Context) error {
	if err := p.scan(ctx); err != nil {
		return err
	}
	p.join()
	p.trust(ctx)
	if p.opt.Planned != nil {
		for _, d := range p.plan {
			p.opt.Planned(d)
		}
	}
	if p.opt.DryRun || p.report.Withheld != "" {
		return nil
	}
	return p.delete(ctx)
}

// rules reads by which rules the pass goes, and whether it may go on.
func (p *pass) rules(ctx context.Context) (err error) {
	r, err := p.index.ReadRules(ctx)
	p.report.Ruling, p.report.AsOf, p.report.Clock, p.report.Withheld = r, r.AsOf, r.Clock, r.Withheld()
	return err
}

func (p *pass) scan(ctx context.Context) error {
	p.began = p.index.HostNow()
	if p.opt.Namespace == "" {
		stats, err := p.index.Scan(ctx, p.add)
		p.report.Namespaces, p.report.Pages, p.report.Slow = stats.Namespaces, stats.Pages, stats.Slow
		p.report.AsOf, p.report.Clock = stats.AsOf, stats.Clock
		p.report.Foreign += stats.Foreign
		return err
	}
	n, err := p.index.Namespace(p.opt.Namespace)
	if err != nil {
		return err
	}
	s, err := n.Snapshot(ctx)
	if err != nil {
		return err
	}
	p.report.Namespaces, p.report.Pages, p.report.AsOf, p.report.Clock = 1, s.Cost.List, s.AsOf, s.Clock
	return p.add(s)
}

func (p *pass) add(s *blobindex.Snapshot) error {
	p.report.Foreign += s.Counts().Foreign
	if p.report.Ruling = s.Ruling(); p.report.Ruling.Withheld() != "" {
		// Changed since the pass began. What was planned of other namespaces goes no more either: see Index.Delete.
		p.report.Withheld = p.report.Ruling.Withheld()
	}
	name := s.Namespace().Name()
	f, failing := p.was.Namespaces[name]
	deferred := failing && !p.opt.Full && f.deferred(s.AsOf)
	plan := &p.plan
	if failing {
		plan = &p.last
	}
	for d := range s.Planned {
		if deferred { // and there is something to delete
			p.report.Deferred = append(p.report.Deferred, name)
			p.open[name] = true
			return nil
		}
		p.report.Planned[d.Reason.String()]++
		if len(*plan) == p.limit {
			p.report.Left++
			p.open[name] = true
			continue
		}
		*plan = append(*plan, d)
	}
	return nil
}

// join puts the plan together.
func (p *pass) join() {
	room := min(p.limit-len(p.plan), len(p.last))
	p.leave(p.last[room:])
	p.plan, p.last = append(p.plan, p.last[:room]...), nil
}

// trust decides whether the plan may be carried out: by the store's clock, or by the host's if a fresh write shows that
// the two agree.
func (p *pass) trust(ctx context.Context) {
	if p.report.Withheld != "" || p.report.Clock == blobindex.StoreClock || len(p.plan) == 0 {
		return
	}
	if p.opt.DryRun {
		p.report.Withheld = "the store tells no time with a listing; only a pass that may write can compare the clocks"
		return
	}
	store, host, err := p.index.CheckHostClock(ctx)
	if err != nil {
		p.report.Withheld = fmt.Sprintf("the store tells no time with a listing, and comparing the clocks failed: %v", err)
		return
	}
	skew := p.report.Ruling.Rules.Skew
	switch apart := host.Sub(store); {
	case store.IsZero():
		p.report.Withheld = fmt.Sprintf("the store tells no time at all (this host's clock: %s)",
			host.UTC().Format(time.RFC3339))
	case apart > skew || apart < -skew:
		p.report.Withheld = fmt.Sprintf("the clocks are more than %v apart (store %s, this host %s)", skew,
			store.UTC().Format(time.RFC3339), host.UTC().Format(time.RFC3339))
	}
}

// delete carries out the plan. A crash at any point leaves a part of it, which is as safe as the whole.
func (p *pass) delete(ctx context.Context) error {
	for lo := 0; lo < len(p.plan); lo += bucket.PageSize {
		if err := p.mayGoOn(ctx); err != nil {
			p.leave(p.plan[lo:])
			return err
		}
		if p.index.HostNow().Sub(p.began) > blobindex.PlanLife {
			p.leave(p.plan[lo:])
			return nil
		}
		batch := p.plan[lo:min(lo+bucket.PageSize, len(p.plan))]
		errs := p.index.Delete(ctx, batch)
		if len(errs) > 0 && errors.Is(errs[0], blobindex.ErrWithheld) {
			p.report.Withheld = errs[0].Error()
			p.leave(p.plan[lo:])
			return nil
		}
		p.count(batch, errs, ctx.Err() != nil)
		if p.opt.Progress != nil {
			p.opt.Progress(lo+len(batch), len(p.plan))
		}
	}
	return nil
}

// mayGoOn asks the lease too: after the process was stopped for a while, no timer has ended ctx yet.
func (p *pass) mayGoOn(ctx context.Context) error {
	if p.guard != nil {
		if err := p.guard.held.Check(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("pruning index %q after %d of %d keys: %w", p.index.Name(), p.done(), len(p.plan), err)
	}
	return nil
}

// done are the keys of which it is known what became of them.
func (p *pass) done() int {
	done := p.report.Failures
	for _, n := range p.report.Deleted {
		done += n
	}
	return done
}

// count takes note of a batch. Of keys whose delete was cut off nothing is known, and nothing is said against their namespace.
func (p *pass) count(batch []blobindex.Deletion, errs []error, cutOff bool) {
	for i, d := range batch {
		switch {
		case errs == nil || errs[i] == nil:
			p.report.Deleted[d.Reason.String()]++
		case cutOff:
			p.leave(batch[i : i+1])
		default:
			p.failed[d.Namespace] = true
			p.report.Failures++
			if len(p.report.Failed) < MaxErrors {
				p.report.Failed = append(p.report.Failed, KeyError{d.Key, errs[i]})
			}
		}
	}
}

// leave takes note of keys that are left for the next pass.
func (p *pass) leave(plan []blobindex.Deletion) {
	p.report.Left += len(plan)
	for _, d := range plan {
		p.open[d.Namespace] = true
	}
}

// unsure tells whether the pass cannot say that a namespace went through without an error, nor that it did not.
func (p *pass) unsure(name string) bool { return p.open[name] || slices.Contains(p.report.Slow, name) }
