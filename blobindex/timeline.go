package blobindex

import (
	"slices"
	"time"

	"github.com/blobindex/indexd/prune"
)

// A Timeline counts items by when they started, over the TTL before the instant of a view: the running ones and those that
// finished and have a tombstone still. It is told from ids and outcomes alone; no resolver is asked for it. Items that a newer
// run of their sub-key hides are not in it.
type Timeline struct {
	TTL     time.Duration // that the view was judged by
	From    time.Time     // when the first span begins
	Width   time.Duration // of a span; each begins at a multiple of it, so that a later view moves no item to another span
	Spans   []Span        // oldest first; the last one is under way
	Earlier int           // running items that started before From and have gone on by their heartbeats
}

// A Span is how many items started within one piece of a Timeline, by what has become of them.
type Span struct {
	Running, Done, Failed, Cancelled int
}

// Total is how many items started in the span.
func (s Span) Total() int { return s.Running + s.Done + s.Failed + s.Cancelled }

// maxSpans is about how many spans a TTL is cut into at most: as many bars as a phone can tell apart.
const maxSpans = 60

// spanWidths are pieces of time that people count in.
var spanWidths = [...]time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

// spanWidth is the smallest of these that cuts the TTL into no more than maxSpans, or as many whole days as it takes.
func spanWidth(ttl time.Duration) time.Duration {
	least := (ttl + maxSpans - 1) / maxSpans
	for _, w := range spanWidths {
		if w >= least {
			return w
		}
	}
	const day = 24 * time.Hour
	return (least + day - 1) / day * day
}

// lookBack adds to a view of the snapshot what the request asks of when items started and ended. The snapshot's lock is
// held.
func (s *Snapshot) lookBack(v *View, req CardsRequest) {
	if req.Recent == 0 && !req.Timeline {
		return
	}
	other := func(it prune.Item) bool { return req.Subkey != "" && it.ID.Subkey() != req.Subkey }
	finished := slices.DeleteFunc(s.decision.Finished(), other)
	if req.Recent > 0 {
		v.Recent = ended(finished[:min(req.Recent, len(finished))])
	}
	if !req.Timeline {
		return
	}
	t := newTimeline(s.AsOf, s.ruling.Rules.TTL)
	for _, it := range s.decision.Shown() {
		if !other(it) {
			t.add(it)
		}
	}
	for _, it := range finished {
		t.add(it)
	}
	v.Timeline = t
}

func newTimeline(now time.Time, ttl time.Duration) *Timeline {
	width := spanWidth(ttl)
	t := &Timeline{TTL: ttl, From: now.Add(-ttl).Truncate(width), Width: width}
	t.Spans = make([]Span, now.Sub(t.From)/width+1)
	return t
}

func (t *Timeline) add(it prune.Item) {
	started := it.ID.Time()
	if started.Before(t.From) {
		if it.State == prune.Live {
			t.Earlier++
		}
		return
	}
	// What starts ahead of the clock, as far as the skew allows, is in the last span.
	span := &t.Spans[min(started.Sub(t.From)/t.Width, time.Duration(len(t.Spans)-1))]
	switch it.Outcome {
	case Done:
		span.Done++
	case Failed:
		span.Failed++
	case Cancelled:
		span.Cancelled++
	default:
		span.Running++
	}
}
