package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/web/ui"
)

func render(t *testing.T, p ui.Page) string {
	t.Helper()
	var b strings.Builder
	if err := ui.Render(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDurations(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration][2]string{
		-time.Minute:                     {"starts in 1:00", "0 s"}, // clocks differ
		-31500 * time.Millisecond:        {"starts in 0:32", "0 s"},
		-time.Millisecond:                {"starts in 0:01", "0 s"},
		0:                                {"0:00", "0 s"},
		7900 * time.Millisecond:          {"0:07", "7 s"},
		59 * time.Second:                 {"0:59", "59 s"},
		time.Minute:                      {"1:00", "1 min"},
		time.Hour - time.Second:          {"59:59", "59 min"},
		time.Hour + 62*time.Second:       {"1:01:02", "1 h"},
		24*time.Hour - time.Second:       {"23:59:59", "23 h"},
		49*time.Hour + 61*time.Second:    {"2 d 01:01:01", "2 d"},
		100*24*time.Hour + 5*time.Minute: {"100 d 00:05:00", "100 d"},
	} {
		html := render(t, ui.Page{View: &ui.View{Live: 1, Shown: 1, Now: now, AsOf: now, Cards: []ui.Card{{
			ID: "x", Title: "x", State: "running", Started: now.Add(-d), LastSeen: now.Add(-d),
		}}}})
		for _, w := range want {
			if !strings.Contains(html, ">"+w+"</time>") {
				t.Errorf("%v is not written as %q", d, w)
			}
		}
	}
}

func TestHeadlines(t *testing.T) {
	for want, v := range map[string]ui.View{
		"Nothing running": {}, "3 running": {Live: 3, Shown: 3}, "8 of 37 running": {Live: 37, Shown: 8},
		"0 of 4 running": {Live: 4},
	} {
		html := render(t, ui.Page{View: &v})
		if !strings.Contains(html, ">"+want+"</h1>") {
			t.Errorf("no %q: %s", want, html)
		}
		if empty := strings.Contains(html, "No item is registered here"); empty != (v.Live == 0) {
			t.Errorf("%q with the words for an empty list: %v", want, empty)
		}
	}
}

func TestAssets(t *testing.T) {
	for _, name := range []string{"app.css", "app.js", "icon.svg"} {
		if a, ok := ui.Asset(name); !ok || len(a.Body) == 0 || a.Type == "" {
			t.Errorf("%s: %v", name, a)
		}
	}
	for _, name := range []string{"page.html", "ui.go", "", ".", "../ui.go"} {
		if _, ok := ui.Asset(name); ok {
			t.Errorf("%q is handed out", name)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 10_188: "9.9 KiB", 10_189: "10 KiB",
		1<<20 - 1: "1.0 MiB", 1 << 20: "1.0 MiB", 20 << 20: "20 MiB", 5 << 30: "5.0 GiB", 1<<63 - 1: "8.0 EiB",
	} {
		if got := ui.Size(n); got != want {
			t.Errorf("ui.Size(%d) = %q, want %q", n, got, want)
		}
	}
}
