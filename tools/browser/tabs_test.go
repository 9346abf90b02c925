package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestCase_C53_EightTabs: a browser opens six connections to a server over HTTP/1.1. Eight tabs in one window, of which seven
// are hidden, all load and show what has happened meanwhile when they are looked at.
func TestCase_C53_EightTabs(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir())
	g := newGate(t, s)
	tabs := []*tab{newTab(t)}
	for len(tabs) < 8 {
		tabs = append(tabs, tabs[0].beside(false))
	}
	for _, b := range tabs {
		b.show()
		b.open(g.url)
		b.until("it is live", pulse+` === "live"`)
	}
	s.register("meanwhile", "")
	for i, b := range tabs {
		b.show()
		b.until(fmt.Sprintf("tab %d shows what happened", i), `!!`+card("meanwhile_"))
		b.until("it is live", pulse+` === "live"`)
	}
	await(t, "the hidden tabs hold no stream", func() bool { return g.streams.Load() == 1 })
}

// TestCase_C53_EightWindows: all eight are looked at, on a wall, and must leave connections for each other.
func TestCase_C53_EightWindows(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir())
	g := newGate(t, s)
	windows := []*tab{newTab(t)}
	for len(windows) < 8 {
		windows = append(windows, windows[0].beside(true))
	}
	for _, b := range windows {
		b.open(g.url)
	}
	await(t, "some hold streams", func() bool { return g.streams.Load() == 4 })
	s.register("watched", "")
	for i, b := range windows {
		b.until(fmt.Sprintf("window %d shows what is registered", i), `!!`+card("watched_"))
		b.until("it is live", pulse+` === "live"`)
	}
	if n := g.streams.Load(); n != 4 {
		t.Errorf("they hold %d streams, want 4 of the 6 connections", n)
	}
	// One that goes leaves its turn to another.
	for _, b := range windows[:4] {
		b.do(chromedp.Navigate("about:blank"))
	}
	await(t, "the others have all taken turns", func() bool { return g.streams.Load() == 4 })
}

// TestHiddenTabSleeps: a tab that nobody sees holds no stream and asks nothing; when it is seen again it asks at once.
func TestHiddenTabSleeps(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir())
	g := newGate(t, s)
	b := newTab(t)
	b.open(g.url)
	await(t, "the tab holds a stream", func() bool { return g.streams.Load() == 1 })
	front := b.beside(false)
	front.show()
	await(t, "the hidden tab has given up its stream", func() bool { return g.streams.Load() == 0 })
	if got := value[string](b, pulse); got != "paused" {
		t.Errorf("a hidden tab says %q", got)
	}
	asked := func() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.requests) }
	before := asked()
	id := s.register("unseen", "")
	front.within(patience, "time passes", `(window.begun ??= performance.now()) + 3000 < performance.now()`)
	if n := asked() - before; n != 0 {
		t.Errorf("a hidden tab has asked %d times", n)
	}
	b.show()
	b.until("it shows what has come", `!!`+card("unseen_"))
	await(t, "it holds a stream again", func() bool { return g.streams.Load() == 1 })
	s.finish(id, "done")
	b.until("it is live", `!`+card("unseen_")+` && `+pulse+` === "live"`)
}

// TestWithoutStreams: where something on the way lets no stream through, the page asks every other second and loses nothing.
func TestWithoutStreams(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir())
	g := newGate(t, s)
	g.closed.Store(true)
	b := newTab(t)
	b.open(g.url)
	s.register("polled", "")
	b.until("a card all the same", `!!`+card("polled_"))
	g.closed.Store(false)
	await(t, "the stream is opened once it can be", func() bool { return g.streams.Load() == 1 })
	b.until("it is live", pulse+` === "live"`)
}
