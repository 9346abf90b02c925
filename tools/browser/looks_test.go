package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// work fills a directory with a day at work: runs of several owners, one of them late, and what has come of others.
func work(t *testing.T, dir string) {
	t.Helper()
	now := time.Now()
	id := func(subkey string, ago time.Duration) string {
		return fmt.Sprintf("%s_%d", subkey, now.Add(-ago).UnixMilli())
	}
	for i := range 90 {
		ago := time.Duration((i*i*97)%7100) * time.Second
		outcome := "done"
		switch {
		case i%9 == 0:
			outcome = "failed"
		case i%13 == 0:
			outcome = "cancelled"
		}
		put(t, dir, id(fmt.Sprintf("thumbs-%02d", i), ago)+"~"+outcome, "", ago-min(ago/2, time.Duration(60+7*i)*time.Second))
	}
	for _, run := range []struct {
		subkey string
		ago    time.Duration
		labels string
	}{
		{"ingest-eu-west", 12 * time.Second, `{"title":"Ingest EU west","owner":"platform"}`},
		{"render-preview", 97 * time.Second, `{"title":"Render preview of broken.psd","owner":"studio"}`},
		{"backfill-invoices", 9 * time.Minute, `{"title":"Backfill invoices 2025","owner":"billing","url":"https://ci.example/2"}`},
		{"thumbs", 16 * time.Minute, `{"title":"Thumbnails, batch 037922","owner":"media"}`},
		{"reindex", 31 * time.Minute, `{"title":"Rebuild the search index","owner":"platform"}`},
		{"train-encoder-v7", 72 * time.Minute, `{"title":"Train encoder v7","owner":"mara","url":"https://ci.example/1"}`},
		{"export-660289", 50 * time.Minute, `{"title":"Export to warehouse","owner":"analytics"}`},
	} {
		put(t, dir, id(run.subkey, run.ago), run.labels, run.ago)
		if run.subkey == "export-660289" { // it has sent heartbeats, and sends no more
			put(t, dir, fmt.Sprintf("%s~%d", id(run.subkey, run.ago), now.Add(-20*time.Minute).UnixMilli()), "", 20*time.Minute)
		}
	}
	for i := range 4 {
		ago := time.Duration(80+9*i) * time.Minute
		put(t, dir, id(fmt.Sprintf("archive-%d", i), ago), `{"title":"Archive volume `+fmt.Sprint(i)+`","owner":"media"}`, ago)
	}
}

// TestLooks: from a phone of 320 pixels to a desktop nothing has to be scrolled sideways, in light and dark. What it looks like
// is kept.
func TestLooks(t *testing.T) {
	t.Parallel()
	b, dir := newTab(t), t.TempDir()
	s := serve(t, dir)
	work(t, dir)
	put(t, dir, fmt.Sprintf("%s_%d", strings.Repeat("w", 180), time.Now().UnixMilli()),
		`{"title":"`+strings.Repeat("W", 200)+`","owner":"`+strings.Repeat("o", 100)+`"}`, 0)
	for _, scheme := range []string{"light", "dark"} {
		b.prefers("prefers-color-scheme", scheme)
		for _, width := range []int64{320, 375, 768, 1200, 2560} {
			b.size(width, 800)
			for _, query := range []string{"", "?limit=50", "?state=late&owner=" + strings.Repeat("x", 60), "?namespace=none", "?index=no"} {
				if query != "" && (scheme == "dark" || width > 320) {
					continue // colours move nothing, and what has room at 320 has room
				}
				b.open(s.url + "/" + query)
				if wide := value[int64](b, `document.documentElement.scrollWidth`); wide > width {
					t.Errorf("%s at %d: the page is %d wide; beyond the edge: %s", query, width, wide, value[string](b,
						`[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + .5)
						.map((e) => e.tagName + "." + e.className).slice(0, 8).join(" ")`))
				}
			}
		}
	}
}

// TestScreenshots leaves what the page looks like among the artefacts.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	b, dir := newTab(t), t.TempDir()
	s := serve(t, dir)
	work(t, dir)
	for _, shot := range []struct {
		name, scheme  string
		width, height int64
		path          string
	}{
		{"light", "light", 1200, 820, "/"}, {"dark", "dark", 1200, 820, "/"}, {"phone", "light", 375, 740, "/"},
		{"phone-dark", "dark", 320, 640, "/"}, {"filtered", "light", 1200, 600, "/?owner=media&state=running"},
		{"no-match", "light", 1200, 500, "/?subkey=nothing"}, {"empty", "light", 1200, 500, "/?namespace=nobody"},
		{"wall", "dark", 1920, 1080, "/?limit=50"},
	} {
		b.size(shot.width, shot.height)
		b.prefers("prefers-color-scheme", shot.scheme)
		b.open(s.url + shot.path)
		b.until("it is live", pulse+` === "live"`)
		loaded := value[[]string](b, `performance.getEntriesByType("resource").map(e => e.name)`)
		if len(loaded) < 4 { // style, icon, scripts
			t.Errorf("%s: only %q was loaded", shot.name, loaded)
		}
		for _, from := range loaded {
			if !strings.HasPrefix(from, s.url+"/") {
				t.Errorf("%s: %s was loaded from elsewhere", shot.name, from)
			}
		}
		b.keep(shot.name)
	}
}

// TestReducedMotion: who wants nothing to move sees cards come without it.
func TestReducedMotion(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	s := serve(t, t.TempDir())
	s.register("first", "")
	moves := `getComputedStyle(document.querySelector("li.card.new")).animationName`
	for want, prefers := range map[string]string{"come": "no-preference", "none": "reduce"} {
		b.prefers("prefers-reduced-motion", prefers)
		b.open(s.url)
		id := s.register("moving", "")
		b.until("a new card", `!!document.querySelector("li.card.new")`)
		if got := value[string](b, moves); got != want {
			t.Errorf("%s: a new card has the animation %q", prefers, got)
		}
		s.finish(id, "done")
	}
}
