package blobindex_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/prune"
	"github.com/google/go-cmp/cmp"
)

// TestTimeline: items stand in the span that they started in, by what has become of them, all of one listing.
func TestTimeline(t *testing.T) {
	w := newWorld(t)
	count := fakes.NewCounter(w.objects)
	n := w.team(count, blobindex.Options{})
	at := func(subkey string, ago time.Duration) itemid.ID { return w.id(subkey, -ago) }
	long := at("long", 110*time.Minute)
	register(t, n, at("now", 0), at("soon", -30*time.Second), at("five", 5*time.Minute), long,
		at("first", 2*time.Hour-time.Second))
	for i, o := range []blobindex.Outcome{blobindex.Done, blobindex.Failed, blobindex.Cancelled} {
		id := at(fmt.Sprint("over", i), 5*time.Minute)
		register(t, n, id)
		if _, err := n.Finish(t.Context(), id, o); err != nil {
			t.Fatal(err)
		}
	}
	register(t, n, at("again", 20*time.Minute), at("again", 10*time.Minute)) // the older one is superseded

	count.Reset()
	v := mustCards(t, n, blobindex.CardsRequest{Timeline: true, Recent: 8})
	if got := count.Reset(); got != (fakes.Counts{List: 1}) {
		t.Errorf("requests: %v", got)
	}
	now := w.store.Now()
	got := v.Timeline
	if got.Width != 2*time.Minute || !got.From.Equal(now.Add(-2*time.Hour).Truncate(2*time.Minute)) || len(got.Spans) != 61 {
		t.Fatalf("from %v, %d spans of %v at %v", got.From, len(got.Spans), got.Width, now)
	}
	want := map[time.Duration]blobindex.Span{
		0: {Running: 2}, 5 * time.Minute: {Running: 1, Done: 1, Failed: 1, Cancelled: 1}, 10 * time.Minute: {Running: 1},
		110 * time.Minute: {Running: 1}, 2*time.Hour - time.Second: {Running: 1},
	}
	for ago, span := range want {
		i := now.Add(-ago).Sub(got.From) / got.Width
		if got.Spans[i] != span {
			t.Errorf("%v ago: %+v, want %+v", ago, got.Spans[i], span)
		}
		got.Spans[i] = blobindex.Span{}
	}
	if !cmp.Equal(got.Spans, make([]blobindex.Span, 61)) || got.Earlier != 0 {
		t.Errorf("and besides: %+v", got)
	}

	v = mustCards(t, n, blobindex.CardsRequest{Timeline: true, Recent: 8, Subkey: "over1"})
	total := 0
	for _, span := range v.Timeline.Spans {
		total += span.Total()
	}
	if total != 1 || len(v.Recent) != 1 || v.Recent[0].Subkey != "over1" {
		t.Errorf("of one sub-key: %d started, recent %+v", total, v.Recent)
	}

	// What has gone on for longer than the TTL is running still.
	w.advance(time.Hour)
	if _, err := n.Heartbeat(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if v = mustCards(t, n, blobindex.CardsRequest{Timeline: true}); v.Timeline.Earlier != 1 {
		t.Errorf("%d started earlier, want 1", v.Timeline.Earlier)
	}
}

// TestTimeline_OldView: the last good view has the timeline that it had, for those who asked for one.
func TestTimeline_OldView(t *testing.T) {
	w := newWorld(t)
	faulty := fakes.NewFaulty(t, w.objects)
	n := w.team(faulty, blobindex.Options{})
	register(t, n, w.id("a", 0))
	whole := mustCards(t, n, blobindex.CardsRequest{Timeline: true, Recent: 8})
	faulty.Plan(fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.NotApplied(errors.New("down"))})
	if old := mustCards(t, n, blobindex.CardsRequest{Timeline: true}); old.Complete || !cmp.Equal(old.Timeline, whole.Timeline) {
		t.Errorf("old view: %+v", old)
	}
	if old := mustCards(t, n, blobindex.CardsRequest{}); old.Complete || old.Timeline != nil {
		t.Errorf("old view without a timeline: %+v", old)
	}
}

// TestTimeline_OfNoSuch: a view that had no timeline cannot stand in for one that has.
func TestTimeline_OfNoSuch(t *testing.T) {
	w := newWorld(t)
	faulty := fakes.NewFaulty(t, w.objects)
	n := w.team(faulty, blobindex.Options{})
	mustCards(t, n, blobindex.CardsRequest{})
	faulty.Plan(fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.NotApplied(errors.New("down"))})
	if v, err := n.Cards(t.Context(), blobindex.CardsRequest{Timeline: true}); err == nil {
		t.Errorf("it does: %+v", v)
	}
}

// TestTimeline_Widths: a TTL of any length is cut into pieces that people count in, at most 62 of them.
func TestTimeline_Widths(t *testing.T) {
	for ttl, width := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, 45 * time.Second: time.Second, 2 * time.Minute: 2 * time.Second,
		time.Hour: time.Minute, 2 * time.Hour: 2 * time.Minute, 24 * time.Hour: 30 * time.Minute,
		7 * 24 * time.Hour: 3 * time.Hour, 60 * 24 * time.Hour: 24 * time.Hour, 61 * 24 * time.Hour: 48 * time.Hour,
		10 * 365 * 24 * time.Hour: 61 * 24 * time.Hour,
	} {
		w := newWorld(t)
		rules := prune.Rules{TTL: ttl, Skew: min(ttl/2, time.Minute)}
		x, err := blobindex.New(w.objects, blobindex.Config{Rules: rules}, &blobindex.Options{Now: w.host.Now})
		if err != nil {
			t.Fatal(err)
		}
		got := mustCards(t, space(t, x, "team"), blobindex.CardsRequest{Timeline: true}).Timeline
		if end := got.From.Add(time.Duration(len(got.Spans)) * got.Width); got.TTL != ttl || got.Width != width || len(got.Spans) > 62 ||
			got.From.After(w.store.Now().Add(-ttl)) || !end.After(w.store.Now()) {
			t.Errorf("%v: %d spans of %v from %v to %v, want %v", ttl, len(got.Spans), got.Width, got.From, end, width)
		}
	}
}
