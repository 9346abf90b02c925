package janitor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/blobindex/indexd/cas/lease"
)

// DefaultEvery is how often Loop makes a pass.
const DefaultEvery = 5 * time.Minute

// lastPause is how long Loop pauses at the most after passes that failed, if Every is not longer.
const lastPause = time.Hour

// LoopOptions of Loop; nil and zero fields mean the defaults.
type LoopOptions struct {
	// Every is how often to make a pass, give or take a tenth; default DefaultEvery.
	Every time.Duration
	// Told, if set, is called after each pass with what Run returned.
	Told func(Report, error)
}

// Loop makes passes until ctx ends: the first after a random part of Every, so that servers that start together do not work
// together; after passes that failed, each pause is twice as long as the one before, up to an hour. Where somebody else is at
// work (lease.ErrHeld), the pass is left to them, and nothing else changes. It returns when no pass is at work.
func (j *Janitor) Loop(ctx context.Context, opt *LoopOptions) {
	if opt == nil {
		opt = &LoopOptions{}
	}
	l := loop{j: j, every: opt.Every}
	if l.every <= 0 {
		l.every = DefaultEvery
	}
	t := time.NewTimer(rand.N(l.every))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		report, err := j.Run(ctx, nil)
		if ctx.Err() == nil || err == nil {
			l.note(report, err)
		}
		if opt.Told != nil {
			opt.Told(report, err)
		}
		t.Reset(l.pause())
	}
}

// A loop is what a Loop remembers from pass to pass.
type loop struct {
	j         *Janitor
	every     time.Duration
	failures  int // passes in a row
	unguarded bool
	withheld  bool
}

// pause is how long to wait for the next pass, give or take a tenth.
func (l *loop) pause() time.Duration {
	d := l.every
	for n := 1; n < l.failures && d < lastPause; n++ {
		d = min(2*d, lastPause)
	}
	return d - d/10 + rand.N(d/5+1)
}

// note logs what a pass has come to: what lasts, when it begins.
func (l *loop) note(r Report, err error) {
	log := l.j.opts.Log.With("index", l.j.index.Name())
	var held *lease.HeldError
	if errors.As(err, &held) {
		s := held.Status
		log.Info("lease_held", "class", string(s.Class), "since", s.Since, "expires", s.Expires)
		return
	}
	if is := r.Unguarded != ""; is != l.unguarded && (err == nil || is) {
		if l.unguarded = is; is {
			log.Warn("lease_unavailable", "why", r.Unguarded)
		} else {
			log.Info("lease_available")
		}
	}
	if err != nil {
		l.failures++
		log.Error("pass_failed", "failures", l.failures, "error", err)
		return
	}
	l.failures = 0
	if is := r.Withheld != ""; is != l.withheld {
		if l.withheld = is; is {
			log.Warn("nothing may be deleted", "why", r.Withheld)
		}
	}
	if r.Failures > 0 {
		log.Warn("some keys could not be deleted", "failed", r.Failures, "error", r.Failed[0].Err)
	}
}
