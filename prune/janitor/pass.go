package janitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
)

// newPass is a pass that has not begun.
func newPass(j *Janitor, opt *RunOptions) *pass {
	p := &pass{index: j.index, opt: opt, limit: opt.MaxDeletes, began: j.index.HostNow()}
	if p.limit <= 0 {
		p.limit = MaxDeletes
	}
	p.report = Report{Planned: make(map[string]int), Deleted: make(map[string]int)}
	return p
}

func (p *pass) run(ctx context.Context) error {
	if err := p.rules(ctx); err != nil || p.report.Withheld != "" {
		return err
	}
	if err := p.scan(ctx); err != nil {
		return err
	}
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

// A pass is one on its way.
type pass struct {
	index  *blobindex.Index
	opt    *RunOptions
	limit  int
	began  time.Time // of the listing, by the host's clock
	plan   []blobindex.Deletion
	report Report
}

// rules reads by which rules the pass goes, and whether it may go on.
func (p *pass) rules(ctx context.Context) (err error) {
	r, err := p.index.ReadRules(ctx)
	p.report.Ruling, p.report.AsOf, p.report.Clock, p.report.Withheld = r, r.AsOf, r.Clock, r.Withheld()
	return err
}

func (p *pass) scan(ctx context.Context) error {
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
	for _, d := range s.Plan() {
		p.report.Planned[d.Reason.String()]++
		if len(p.plan) == p.limit {
			p.report.Left++
			continue
		}
		p.plan = append(p.plan, d)
	}
	return nil
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
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("pruning index %q after %d of %d keys: %w", p.index.Name(), lo, len(p.plan), err)
		}
		if p.index.HostNow().Sub(p.began) > blobindex.PlanLife {
			p.report.Left += len(p.plan) - lo
			return nil
		}
		batch := p.plan[lo:min(lo+bucket.PageSize, len(p.plan))]
		errs := p.index.Delete(ctx, batch)
		if len(errs) > 0 && errors.Is(errs[0], blobindex.ErrWithheld) {
			p.report.Withheld = errs[0].Error()
			p.report.Left += len(p.plan) - lo
			return nil
		}
		for i, d := range batch {
			if errs == nil || errs[i] == nil {
				p.report.Deleted[d.Reason.String()]++
				continue
			}
			p.report.Failures++
			if len(p.report.Failed) < MaxErrors {
				p.report.Failed = append(p.report.Failed, KeyError{d.Key, errs[i]})
			}
		}
		if p.opt.Progress != nil {
			p.opt.Progress(lo+len(batch), len(p.plan))
		}
	}
	return nil
}
