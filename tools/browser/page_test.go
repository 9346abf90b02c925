package browser

import (
	"fmt"
	"testing"
	"time"
)

// card is an expression: the card of a sub-key or of an id, or nothing.
func card(id string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("li.card")].find((c) => c.dataset.key.startsWith(%q))`, id)
}

const (
	pulse    = `document.getElementById("pulse").textContent`
	headline = `document.getElementById("headline").textContent`
)

// TestCardsComeAndGo: what is registered, finished and deleted here and elsewhere shows without a reload.
func TestCardsComeAndGo(t *testing.T) {
	t.Parallel()
	b, dir := newTab(t), t.TempDir()
	here, there := serve(t, dir), serve(t, dir)
	b.open(here.url)
	b.until("it is live", pulse+` === "live"`)
	value[bool](b, `window.same = true`) // is gone after a reload

	id := here.register("here", `{"title":"Train <b>v7</b>","owner":"mara"}`)
	t.Logf("registered here: %v", b.within(time.Second, "a card of what is registered here", `!!`+card("here_")))
	other := there.register("there", "")
	t.Logf("registered elsewhere: %v", b.within(3*time.Second, "a card of what is registered elsewhere", `!!`+card("there_")))
	if got := value[string](b, headline); got != "2 running" {
		t.Errorf("the headline says %q", got)
	}
	b.until("a card ticks", card("here_")+`.querySelector("[data-clock]").textContent > "0:01"`)

	here.finish(id, "failed")
	b.within(time.Second, "the card of what is finished goes", `!`+card("here_"))
	b.until("it stands in what finished", `document.querySelector(".recent tbody").innerText.includes("failed")`)
	remove(t, dir, other)
	t.Logf("deleted elsewhere: %v", b.within(4*time.Second, "the card of what is deleted elsewhere goes", `!`+card("there_")))
	b.until("nothing runs", headline+` === "Nothing running"`)
	if !value[bool](b, `window.same === true`) {
		t.Error("the page was loaded anew")
	}
	if got := b.refused(); got != "" {
		t.Errorf("the page's policy has refused %s", got)
	}
	b.only(here.url)
}

// TestAfterIdleness: where nothing changes the server looks seldom, and what another process registers then still shows within
// sixteen seconds; the next thing within three.
func TestAfterIdleness(t *testing.T) {
	t.Parallel()
	b, dir := newTab(t), t.TempDir()
	here, there := serve(t, dir), serve(t, dir)
	b.open(here.url)
	b.until("it is live", pulse+` === "live"`)
	b.within(time.Minute, "half a minute passes", `(window.begun ??= performance.now()) + 30000 < performance.now()`)
	there.register("late-riser", "")
	t.Logf("after idleness: %v", b.within(16*time.Second, "a card after idleness", `!!`+card("late-riser_")))
	there.register("next", "")
	t.Logf("and then: %v", b.within(3*time.Second, "the next card", `!!`+card("next_")))
}
