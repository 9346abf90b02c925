package ui

import (
	"fmt"
	"strings"
	"time"
)

// A Timeline is how many items started when. The template draws it as bars, and says it in a sentence.
type Timeline struct {
	From    time.Time
	Width   time.Duration // of a span
	Spans   []Span        // oldest first
	Earlier int           // running items that started before
	Total   time.Duration // what the spans stand for, the index's TTL
}

// A Span is how many items started in one piece of a Timeline, by what has become of them.
type Span struct {
	Running, Done, Failed, Cancelled int
}

func (s Span) total() int { return s.Running + s.Done + s.Failed + s.Cancelled }

func (s *Span) add(o Span) {
	s.Running += o.Running
	s.Done += o.Done
	s.Failed += o.Failed
	s.Cancelled += o.Cancelled
}

// words lists what is not zero: "3 running, 1 failed".
func (s Span) words() string {
	var out []string
	for _, c := range s.counts() {
		if c.Count > 0 {
			out = append(out, fmt.Sprintf("%d %s", c.Count, c.Name))
		}
	}
	return strings.Join(out, ", ")
}

// counts are in the order in which the parts of a bar stand on each other, from the ground.
func (s Span) counts() [4]Kind {
	return [4]Kind{{"running", s.Running}, {"failed", s.Failed}, {"cancelled", s.Cancelled}, {"done", s.Done}}
}

// The drawing, in lengths of its own: a bar and the gap beside it, how high the highest bar is, the least that can be seen, and the
// least count that fills the height, so that single items do not look like a rush.
const (
	barStep, barWidth = 10, 8
	barHeight         = 40.0
	barLeast          = 1.5
	barFull           = 4
)

// A Bar is one span as it is drawn.
type Bar struct {
	X, Width int
	Title    string
	Parts    []BarPart // from the ground up
}

// A BarPart is a rectangle; Class is what has become of the items.
type BarPart struct {
	Class     string
	Y, Height string
}

// ViewBox is the drawing's frame.
func (t *Timeline) ViewBox() string {
	return fmt.Sprintf("0 0 %d %g", barStep*len(t.Spans)-(barStep-barWidth), barHeight)
}

// Bars are the spans in which something started.
func (t *Timeline) Bars() []Bar {
	full := float64(max(t.Spans[t.peak()].total(), barFull))
	var out []Bar
	for i, s := range t.Spans {
		if s.total() == 0 {
			continue
		}
		b := Bar{X: barStep * i, Width: barWidth, Title: t.span(i) + ": " + s.words()}
		top := barHeight
		for _, c := range s.counts() {
			if c.Count == 0 {
				continue
			}
			h := max(barHeight*float64(c.Count)/full, barLeast)
			top = max(top-h, 0) // many thin parts on each other may not leave the frame
			b.Parts = append(b.Parts, BarPart{Class: c.Name, Y: length(top), Height: length(h)})
		}
		out = append(out, b)
	}
	return out
}

func length(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

func (t *Timeline) from(i int) time.Time { return t.From.Add(time.Duration(i) * t.Width).UTC() }

// layout is how the beginnings of spans are written: as exactly as they need to be told apart.
func (t *Timeline) layout() string {
	const day = 24 * time.Hour
	switch {
	case t.Width >= day:
		return "2 January"
	case t.Total > day/2:
		return "2 January 15:04"
	case t.Width < time.Minute:
		return "15:04:05"
	}
	return "15:04"
}

// span names one: "12:02 to 12:04 UTC".
func (t *Timeline) span(i int) string {
	return t.from(i).Format(t.layout()) + " to " + t.from(i+1).Format(t.layout()+" UTC")
}

// peak is the first of the spans in which most items started.
func (t *Timeline) peak() (most int) {
	for i, s := range t.Spans {
		if s.total() > t.Spans[most].total() {
			most = i
		}
	}
	return most
}

func (t *Timeline) sum() (all Span) {
	for _, s := range t.Spans {
		all.add(s)
	}
	return all
}

// Empty reports whether there is nothing to draw or to say.
func (t *Timeline) Empty() bool { return t == nil || t.sum().total() == 0 && t.Earlier == 0 }

// A Kind is how many items of a Timeline have come to the same; Name is its class as well.
type Kind struct {
	Name  string
	Count int
}

// Kinds are those that there are, as the drawing's legend.
func (t *Timeline) Kinds() (kinds []Kind) {
	for _, c := range t.sum().counts() {
		if c.Count > 0 {
			kinds = append(kinds, c)
		}
	}
	return kinds
}

// Since is how long ago the drawing begins.
func (t *Timeline) Since() string { return period(t.Total) }

// Says tells the drawing in words, but for the legend.
func (t *Timeline) Says() string {
	all, most := t.sum().total(), t.peak()
	out := fmt.Sprintf("%d started in the last %s.", all, period(t.Total))
	if all == 0 {
		out = fmt.Sprintf("None started in the last %s.", period(t.Total))
	}
	if n := t.Spans[most].total(); n > 1 && n < all {
		out += fmt.Sprintf(" At most %d in %s, from %s.", n, period(t.Width), t.from(most).Format(t.layout()+" UTC"))
	}
	switch {
	case t.Earlier == 1:
		out += " 1 that runs started earlier."
	case t.Earlier > 1:
		out += fmt.Sprintf(" %d that run started earlier.", t.Earlier)
	}
	return out
}

// period writes a length of time in its two largest units: "2 h", "1 h 30 min", "45 s".
func period(d time.Duration) string {
	var parts []string
	for _, u := range []struct {
		d    time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if n := d / u.d; n > 0 && len(parts) < 2 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.name))
		}
		d %= u.d
	}
	if len(parts) == 0 {
		return "1 s"
	}
	return strings.Join(parts, " ")
}
