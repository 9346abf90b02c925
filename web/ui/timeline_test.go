package ui_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/web/ui"
)

// timeline is one over two hours before noon, of bars of two minutes, with the given spans at its end.
func timeline(last ...ui.Span) *ui.Timeline {
	t := &ui.Timeline{
		From: time.Date(2026, time.March, 1, 10, 0, 0, 0, time.UTC), Width: 2 * time.Minute, Total: 2 * time.Hour,
		Spans: make([]ui.Span, 61),
	}
	copy(t.Spans[len(t.Spans)-len(last):], last)
	return t
}

func TestTimeline_Says(t *testing.T) {
	long := timeline(ui.Span{Done: 2}, ui.Span{})
	long.Total, long.Width = 24*time.Hour, 30*time.Minute
	days := timeline(ui.Span{Done: 2}, ui.Span{Done: 1})
	days.Total, days.Width = 60*24*time.Hour, 24*time.Hour
	short := timeline(ui.Span{Done: 1}, ui.Span{Failed: 2})
	short.Total, short.Width = 90*time.Second, 2*time.Second
	for want, got := range map[string]*ui.Timeline{
		"1 started in the last 2 h.":                                             timeline(ui.Span{Running: 1}),
		"2 started in the last 2 h.":                                             timeline(ui.Span{Running: 1, Failed: 1}),
		"5 started in the last 2 h. At most 3 in 2 min, from 11:58 UTC.":         timeline(ui.Span{Running: 1, Done: 2}, ui.Span{Failed: 2}),
		"4 started in the last 2 h. At most 2 in 2 min, from 11:58 UTC.":         timeline(ui.Span{Done: 2}, ui.Span{Done: 2}),
		"2 started in the last 1 d.":                                             long,
		"3 started in the last 60 d. At most 2 in 1 d, from 29 April UTC.":       days,
		"3 started in the last 1 min 30 s. At most 2 in 2 s, from 10:02:00 UTC.": short,
		"None started in the last 2 h. 1 that runs started earlier.":             {Spans: make([]ui.Span, 1), Total: 2 * time.Hour, Earlier: 1},
		"None started in the last 2 h. 3 that run started earlier.":              {Spans: make([]ui.Span, 1), Total: 2 * time.Hour, Earlier: 3},
	} {
		if got.Says() != want || got.Empty() {
			t.Errorf("says %q, want %q", got.Says(), want)
		}
	}
	var none *ui.Timeline
	if !none.Empty() || !timeline().Empty() {
		t.Error("where nothing started there is something to draw")
	}
}

// TestTimeline_Bars: every bar stands in the frame, whatever the counts are, and what is not zero can be seen.
func TestTimeline_Bars(t *testing.T) {
	for _, spans := range [][]ui.Span{
		{{Running: 1}}, {{Running: 20_000}}, {{Running: 20_000, Done: 1, Failed: 1, Cancelled: 1}, {Done: 1}},
		{{Done: 3}, {Running: 1, Failed: 1, Cancelled: 1, Done: 1}},
	} {
		bars := timeline(spans...).Bars()
		if len(bars) != len(spans) {
			t.Fatalf("%+v: %d bars", spans, len(bars))
		}
		highest := 0.0
		for i, b := range bars {
			if b.X+b.Width > 608 || b.X != 10*(61-len(spans)+i) {
				t.Errorf("%+v: a bar at %d", spans, b.X)
			}
			for _, p := range b.Parts {
				y, h := number(t, p.Y), number(t, p.Height)
				if y < 0 || h < 1 || y+h > 40.01 {
					t.Errorf("%+v: a part at %s of %s", spans, p.Y, p.Height)
				}
				highest = max(highest, 40-y)
			}
		}
		// Four of them reach the top; a single one is no rush.
		if want := min(10*float64(spans[0].Running+spans[0].Done), 40); len(spans) == 1 && highest != want || highest < min(want, 30) {
			t.Errorf("%+v: the highest bar is %g", spans, highest)
		}
	}
	if b := timeline(ui.Span{Running: 1, Failed: 2}).Bars()[0]; b.Title != "12:00 to 12:02 UTC: 1 running, 2 failed" ||
		b.Parts[0].Class != "running" || b.Parts[1].Class != "failed" {
		t.Errorf("%+v", b)
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestTimeline_Drawn: with no style of its own, which the page's policy forbids, and told in words beside.
func TestTimeline_Drawn(t *testing.T) {
	drawn := timeline(ui.Span{Running: 1}, ui.Span{Done: 3})
	html := render(t, ui.Page{View: &ui.View{Live: 1, Shown: 1, Timeline: drawn}})
	svg := html[strings.Index(html, "<svg"):strings.Index(html, "</svg>")]
	if strings.Contains(svg, "style") || strings.Count(svg, "<rect") != 2 || !strings.Contains(svg, `role="img"`) {
		t.Error(svg)
	}
	for _, want := range []string{drawn.Says(), "<b>1</b> running", "<b>3</b> done", "2 h ago"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q in %s", want, html)
		}
	}
	if strings.Contains(html, "of all owners") {
		t.Error("a timeline of all is told to be one of other owners too")
	}
	html = render(t, ui.Page{View: &ui.View{Timeline: drawn, Filter: ui.Filter{Owner: "mara"}}})
	if !strings.Contains(html, "these are of all owners") {
		t.Error("a timeline beside one owner's cards does not tell whose it is")
	}
	if html = render(t, ui.Page{View: &ui.View{Timeline: timeline()}}); strings.Contains(html, "<svg") {
		t.Error("nothing is drawn as something")
	}
	if crowd := render(t, ui.Page{View: &ui.View{Live: 20_000, Timeline: crowded()}}); len(crowd) > 40<<10 {
		t.Errorf("%d bytes for 20,000 items", len(crowd))
	}
}

// crowded is a timeline with something of everything in every span.
func crowded() *ui.Timeline {
	t := timeline()
	for i := range t.Spans {
		t.Spans[i] = ui.Span{Running: 300, Done: 20, Failed: 5, Cancelled: 3}
	}
	return t
}
