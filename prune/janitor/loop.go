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

// LoopOptions of Loop; nil and zero fields mean the defaults.
type LoopOptions struct {
	// Every is how often to make a pass, give or take a tenth; default DefaultEvery.
	Every time.Duration
	// Told, if set, is called after each pass with what Run returned.
	Told func(Report, error)
}

// Loop makes passes until ctx ends; the first after a random part of Every, so that servers that start together do not work
// together.
func (j *Janitor) Loop(ctx context.Context, opt *LoopOptions) {
	if opt == nil {
		opt = &LoopOptions{}
	}
	every := opt.Every
	if every <= 0 {
		every = DefaultEvery
	}
	t := time.NewTimer(rand.N(every))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		report, err := j.Run(ctx, nil)
		if errors.Is(err, lease.ErrHeld) {
			j.opts.Log.Info("lease_held", "index", j.index.Name())
		}
		if opt.Told != nil {
			opt.Told(report, err)
		}
		t.Reset(every - every/10 + rand.N(every/5+1))
	}
}
