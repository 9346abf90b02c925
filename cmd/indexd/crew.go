package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/prune"
)

// An actor is a simulated producer. It returns an error when its context ends, or when a request fails; it is then called
// again after a moment, as a supervisor would start it again.
type actor func(ctx context.Context, s *stage) error

// crew is everybody who acts in a demonstration: what a "running now" list has to cope with. At most eight items run at
// once, so that all of them are on the page.
func crew() []actor {
	all := []actor{crashLooper, longJob, skewedRerun, failing, silent}
	for worker := range 3 {
		all = append(all, shortJobs(worker))
	}
	return all
}

// perform lets the actors act until ctx ends, and waits for them. They begin one by one within a second: that all begin at
// once would be the list's worst case, and not what the comparison is about.
func (s *stage) perform(ctx context.Context, actors []actor) {
	var wg sync.WaitGroup
	for _, act := range actors {
		wg.Go(func() {
			_ = pause(ctx, rand.N(time.Second)) // its error is the context's, which ends the loop
			for ctx.Err() == nil {
				err := act(ctx, s)
				if ctx.Err() == nil && err != nil {
					s.log.Warn("a simulated producer failed and starts again", "error", err)
				}
				_ = pause(ctx, time.Second)
			}
		})
	}
	wg.Wait()
}

func card(title, owner, path string) blobindex.Labels {
	return blobindex.Labels{"title": title, "owner": owner, "url": "https://jobs.example.com/" + path}
}

// between is a random duration of that many seconds.
func between(least, most int) time.Duration {
	return time.Duration(least)*time.Second + rand.N(time.Duration(most-least)*time.Second)
}

// live keeps a run alive for some time, by heartbeats.
func (p *performance) live(ctx context.Context, d time.Duration) error {
	for ; d > demoBeat; d -= demoBeat {
		if err := pause(ctx, demoBeat); err != nil {
			return err
		}
		if err := p.beat(ctx); err != nil {
			return err
		}
	}
	return pause(ctx, d)
}

// crashLooper starts the same configuration again and again and never finishes: its runs fold into one card.
func crashLooper(ctx context.Context, s *stage) error {
	if _, err := s.start(ctx, "ingest-eu-west", card("Ingest EU west (crash loop)", "platform", "ingest-eu-west"), 0); err != nil {
		return err
	}
	return pause(ctx, between(3, 5))
}

// longJob runs three times as long as the TTL, and heartbeats.
func longJob(ctx context.Context, s *stage) error {
	p, err := s.start(ctx, "train-encoder-v7", card("Train encoder v7", "mara", "train-encoder-v7"), 0)
	if err != nil {
		return err
	}
	const steps = 3 * demoTTL / demoBeat
	for step := range steps {
		if err := p.progress(ctx, float64(step)/float64(steps)); err != nil {
			return err
		}
		if err := p.live(ctx, demoBeat); err != nil {
			return err
		}
		if err := p.beat(ctx); err != nil {
			return err
		}
	}
	return p.finish(ctx, prune.Done)
}

// skewedRerun runs one configuration twice, the second time on a host whose clock is so far behind that the new run's id is
// older than that of the run before.
func skewedRerun(ctx context.Context, s *stage) error {
	labels := card("Backfill invoices 2025", "billing", "backfill-invoices")
	for _, behind := range []time.Duration{0, 25 * time.Second} {
		p, err := s.start(ctx, "backfill-invoices", labels, behind)
		if err != nil {
			return err
		}
		if err := p.live(ctx, between(12, 15)); err != nil {
			return err
		}
		if err := p.finish(ctx, prune.Done); err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	// The first run of the next round must not look like the re-run of a round before it.
	return pause(ctx, between(3, 6))
}

// failing fails, every time.
func failing(ctx context.Context, s *stage) error {
	p, err := s.start(ctx, "render-preview", card("Render preview of broken.psd", "studio", "render-preview"), 0)
	if err != nil {
		return err
	}
	if err := p.live(ctx, between(7, 11)); err != nil {
		return err
	}
	if err := p.finish(ctx, prune.Failed); err != nil {
		return err
	}
	return pause(ctx, between(4, 8))
}

// silent says nothing after its second heartbeat: it turns late, then ages out.
func silent(ctx context.Context, s *stage) error {
	p, err := s.start(ctx, "export-"+digits(), card("Export to warehouse (host lost)", "analytics", "export"), 0)
	if err != nil {
		return err
	}
	if err := p.live(ctx, 3*demoBeat); err != nil {
		return err
	}
	return pause(ctx, demoTTL+between(8, 15))
}

// shortJobs runs one short job after the other, each of a configuration of its own.
func shortJobs(worker int) actor {
	return func(ctx context.Context, s *stage) error {
		if err := pause(ctx, time.Duration(worker)*time.Second/2); err != nil {
			return err
		}
		batch := digits()
		title := fmt.Sprintf("Thumbnails, batch %s", batch)
		p, err := s.start(ctx, "thumbs-"+batch, card(title, "media", "thumbs/"+batch), 0)
		if err != nil {
			return err
		}
		if err := p.live(ctx, between(3, 9)); err != nil {
			return err
		}
		return p.finish(ctx, prune.Done)
	}
}

func digits() string { return fmt.Sprintf("%06d", rand.N(1_000_000)) }
