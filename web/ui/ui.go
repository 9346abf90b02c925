// Package ui is the pages that people look at: what they show (Page, ManifestPage, SnapshotPage, SignIn) and how (templates, a style
// sheet, a small script and an icon, all embedded). It knows no store and no server; package web fills the pages in. They work
// without the script, which only makes them tick and refresh.
package ui

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

// A Page is a view of one namespace, or a problem, with the pickers around it.
type Page struct {
	Indexes    []string
	Index      string // the one that is shown; empty if there is no such index
	Flat       bool   // it has no namespaces
	Namespaces []string
	Namespace  string
	Notice     string // a line of plain text, or empty
	Account    string // who is signed in, or empty
	View       *View  // nil if there is a Problem
	Problem    *Problem
}

// A View is what is running, and what finished lately, at one instant.
type View struct {
	Live, Shown int
	Cards       []Card
	Facts       []Fact
	AsOf        time.Time // when the view was judged
	Now         time.Time // what ages count to: AsOf, or later if the view is an old one
	HostClock   bool      // AsOf comes from the server's own clock
	Stale       bool
	StaleSince  time.Time
	Recent      []Ended
	Cost        string // "1 LIST + 3 GET"
	Price       string // "$0"
	Base        string // of the server's URLs, as the browser knows it
	API         string // the path below which the API tells the same
	Manifests   bool   // there is a page of them
	Snapshots   bool   // likewise
}

// A Card is one running item. Title is never empty; State is "running" or "unknown"; URL is an http or https URL, or empty.
type Card struct {
	ID, Title, Owner, URL, State string
	Late                         bool
	Started, LastSeen            time.Time
	Progress                     *float64 // 0 to 1
	ExplainURL                   string
}

// An Ended item is one that finished: Outcome is "done", "failed" or "cancelled".
type Ended struct {
	ID, Subkey, Outcome string
	Took                time.Duration
	Ended               time.Time
	ExplainURL          string
}

// A Fact is a count in words, with sentences that explain it. Name is its own on the page.
type Fact struct {
	Name, Count, Text, Help string
}

// A Problem is why there is no view.
type Problem struct {
	Title                string
	Status               int
	Code, Detail, Action string
	Retry                bool // it may pass by itself
}

// A File is an embedded file and its media type.
type File struct {
	Type string
	Body []byte
}

//go:embed page.html manifest.html snapshot.html signin.html app.css app.js icon.svg
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"age": age, "clock": clock, "until": until, "stamp": stamp, "millis": time.Time.UnixMilli, "percent": percent, "size": Size,
	"short": short,
}).ParseFS(files, "page.html", "manifest.html", "snapshot.html", "signin.html"))

// Asset returns the file that the page refers to as /ui/name.
func Asset(name string) (File, bool) {
	var kind string
	switch name {
	case "app.css":
		kind = "text/css; charset=utf-8"
	case "app.js":
		kind = "text/javascript; charset=utf-8"
	case "icon.svg":
		kind = "image/svg+xml"
	default:
		return File{}, false
	}
	body, err := files.ReadFile(name)
	return File{kind, body}, err == nil
}

// Render writes the page as HTML.
func Render(w io.Writer, p Page) error {
	return execute(w, "page.html", p)
}

func execute(w io.Writer, name string, data any) error {
	if err := pages.ExecuteTemplate(w, name, data); err != nil {
		return fmt.Errorf("rendering %s: %w", name, err)
	}
	return nil
}

// Headline says how much is running. It never says "none" of what is only not shown.
func (v *View) Headline() string {
	switch {
	case v.Live == 0:
		return "Nothing running"
	case v.Shown == v.Live:
		return fmt.Sprintf("%d running", v.Live)
	}
	return fmt.Sprintf("%d of %d running", v.Shown, v.Live)
}

// Final reports whether asking again would get the same answer.
func (p Page) Final() bool { return p.Problem != nil && p.Problem.Status < 500 }

// Age is how long the card has been running; less than nothing if its start lies ahead of the view's clock.
func (v *View) Age(c Card) time.Duration { return v.Now.Sub(c.Started) }

// Seen is how long ago the card was seen last.
func (v *View) Seen(c Card) time.Duration { return v.Now.Sub(c.LastSeen) }

// Ago is how long ago the item ended.
func (v *View) Ago(e Ended) time.Duration { return v.Now.Sub(e.Ended) }

// until writes how long it is until a start, to the full second above. The script ticks in the same form.
func until(age time.Duration) string { return "starts in " + clock(time.Second-1-age) }

// clock writes a duration as a stopwatch does: 0:07, 12:34, 1:02:03, 3 d 04:05:06. What is less than nothing (clocks
// differ) is 0:00. The script ticks in the same form.
func clock(d time.Duration) string {
	s := max(int64(d/time.Second), 0)
	days, h, m, s := s/86400, s/3600%24, s/60%60, s%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %02d:%02d:%02d", days, h, m, s)
	case h > 0:
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}

// age writes a duration in its largest unit: 7 s, 12 min, 3 h, 2 d. The script ticks in the same form.
func age(d time.Duration) string {
	s := max(int64(d/time.Second), 0)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 86400:
		return fmt.Sprintf("%d h", s/3600)
	}
	return fmt.Sprintf("%d d", s/86400)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func percent(p *float64) int { return int(*p * 100) }
