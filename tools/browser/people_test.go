package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestFilters: what is filled in stands in the URL, and what is left empty does not.
func TestFilters(t *testing.T) {
	t.Parallel()
	b, dir := newTab(t), t.TempDir()
	s := serve(t, dir)
	work(t, dir)
	b.open(s.url)
	const keys = `[...document.querySelectorAll("li.card")].map((c) => c.dataset.key.split("_")[0]).sort().join(" ")`
	search := func() string { return value[string](b, `location.search`) }

	b.types("#filter-owner", "platform"+kb.Enter)
	b.until("only platform's", keys+` === "ingest-eu-west reindex"`)
	if got := search(); got != "?index=running&namespace=default&owner=platform" {
		t.Errorf("the URL asks for %q", got)
	}
	s.register("more-of-it", `{"owner":"platform"}`)
	s.register("of-another", `{"owner":"studio"}`)
	b.until("and the new one", keys+` === "ingest-eu-west more-of-it reindex"`)
	if got := value[string](b, headline); got != "3 running" {
		t.Errorf("the headline says %q", got)
	}
	b.types("#filter-subkey", "nothing"+kb.Enter)
	b.until("nothing matches", headline+` === "Nothing running matches"`)
	if got := b.text(); !strings.Contains(got, "There is no running item of the sub-key “nothing” of the owner “platform”.") ||
		strings.Contains(got, "No item is registered here") {
		t.Errorf("an empty filter says: %s", got)
	}
	b.do(chromedp.Click(chromedp.CSS("#filter a")))
	b.until("all again", headline+` === "8 of 13 running"`)
	b.do(chromedp.Click(chromedp.CSS("a.owner")))
	b.until("the owner's, by the card", `location.search.includes("owner=")`)
	b.open(s.url + "/?state=late")
	b.until("the late one", keys+` === "export-660289"`)
}

// TestCase_C52_HostileLabels: whatever a label holds is text on the page; no script of its runs and nothing is asked of
// anybody.
func TestCase_C52_HostileLabels(t *testing.T) {
	t.Parallel()
	b, dir := newTab(t), t.TempDir()
	s := serve(t, dir)
	now := time.Now().UnixMilli()
	hostile := []string{
		`<img src=x onerror=\"window.pwned=1\">`, `\" onmouseover=\"window.pwned=1`, `</script><script>window.pwned=1</script>`,
		`javascript:window.pwned=1`, `a\r\nevent: x\r\n\r\ndata: y`, `a\u2028b`, `<svg onload=\"window.pwned=1\">`, `{{.}}`,
	}
	for i, h := range hostile {
		put(t, dir, fmt.Sprintf("k%d_%d", i, now+int64(i)), `{"title":"`+h+`","owner":"`+h+`","url":"`+h+`"}`, 0)
	}
	b.open(s.url + "/?limit=50")
	b.until("all are there", `document.querySelectorAll("li.card").length === 8`)
	put(t, dir, fmt.Sprintf("<img src=x onerror=alert(1)>_%d", now), `{"title":"`+hostile[0]+`","url":"https://ci.example/"}`, 0)
	b.until("one more, by the script", `document.querySelectorAll("li.card").length === 9`)
	text := b.text()
	for _, want := range []string{`<img src=x onerror="window.pwned=1">`, `</script><script>window.pwned=1</script>`, `<img src=x onerror=alert(1)>`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q as it is: %s", want, text)
		}
	}
	for what, js := range map[string]string{
		"a script has run":       `window.pwned !== undefined`,
		"an element was made":    `!!document.querySelector("main img, main script, main iframe, [onerror], [onload], [onmouseover]")`,
		"a link leads to script": `[...document.links].some((a) => !["http:", "https:"].includes(a.protocol))`,
	} {
		if value[bool](b, js) {
			t.Error(what)
		}
	}
	if got := b.refused(); got != "" {
		t.Errorf("the page's policy had to refuse %s", got)
	}
	b.only(s.url)
}

// TestKeyboard: the tab key reaches the filters and the cards in their order, and what has the focus keeps it while the page
// changes.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	s := serve(t, t.TempDir())
	id := s.register("kept", `{"title":"Kept","owner":"mara","url":"https://ci.example/1"}`)
	b.open(s.url)
	var order []string
	const at = `(() => { const e = document.activeElement; return e.id || e.name || e.className || (e.closest("li.card") ? "card" : "") || e.textContent.trim() })()`
	for range 12 {
		b.do(chromedp.KeyEvent(kb.Tab))
		order = append(order, value[string](b, at))
	}
	if got := strings.Join(order, " "); !strings.HasPrefix(got,
		"skip pick-index pick-namespace filter-subkey filter-owner filter-state Filter card owner card") {
		t.Errorf("the tab key goes through %s", got)
	}
	b.do(chromedp.Focus(chromedp.CSS("li.card h2 a")))
	outline := value[string](b, `getComputedStyle(document.activeElement).outlineStyle`)
	other := s.register("newer", "")
	b.until("another card comes before it", `document.querySelectorAll("li.card")[1]?.dataset.key.startsWith("kept_")`)
	if !value[bool](b, `document.activeElement.textContent === "Kept"`) || outline == "none" {
		t.Errorf("the focus (outline %q) is lost to %q", outline, value[string](b, at))
	}
	s.finish(other, "done")
	b.until("it goes again", `document.querySelectorAll("li.card").length === 1`)
	if !value[bool](b, `document.activeElement.textContent === "Kept"`) {
		t.Errorf("the focus is lost to %q", value[string](b, at))
	}
	b.do(chromedp.Focus(chromedp.CSS("#filter-subkey")), chromedp.KeyEvent("half"))
	s.finish(id, "done")
	b.until("all are gone", `!document.querySelector("li.card")`)
	if got := value[string](b, `document.activeElement.value`); got != "half" {
		t.Errorf("what was being typed is %q now", got)
	}
	// It is said to those who do not see it.
	b.until("it is announced", `document.getElementById("announce").textContent === "Nothing running"`)
}

// TestFocusOfACardThatGoes: the keyboard goes on in what is running, not at the top of the page.
func TestFocusOfACardThatGoes(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	s := serve(t, t.TempDir())
	id := s.register("going", `{"url":"https://ci.example/1"}`)
	b.open(s.url)
	b.do(chromedp.Focus(chromedp.CSS("li.card h2 a")))
	s.finish(id, "done")
	b.until("the card goes", `!`+card("going_"))
	if !value[bool](b, `document.activeElement.id === "main"`) {
		t.Errorf("the focus is at %q", value[string](b, `document.activeElement.tagName`))
	}
}

// TestStoreGoesAway: the last good view stays, marked with its time, and all comes back by itself.
func TestStoreGoesAway(t *testing.T) {
	t.Parallel()
	b, dir := newTab(t), filepath.Join(t.TempDir(), "bucket")
	s := serve(t, dir)
	s.register("before", "")
	b.open(s.url)
	b.until("a card", `!!`+card("before_")+` && `+pulse+` === "live"`)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	b.until("the view is marked as an old one", `document.querySelector("main .banner")?.innerText.includes("This is an old view.")`)
	says := value[string](b, `document.querySelector("main .banner").innerText`)
	year := fmt.Sprint(time.Now().UTC().Year())
	if strings.Count(says, year) != 2 || value[string](b, pulse) != "old view" || value[string](b, headline) != "1 running" {
		t.Errorf("the old view says %q and %q", says, b.text())
	}
	b.keep("old-view")
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	b.within(20*time.Second, "it is a good one again", `!document.querySelector("main .banner") && `+pulse+` === "live"`)
	s.register("after", "")
	b.until("and goes on", `!!`+card("after_"))
}

// TestServerGoesAway: the page says since when it is alone, keeps what it showed, and goes on when there is a server again.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	b, dir := newTab(t), t.TempDir()
	s := serve(t, dir)
	g := newGate(t, s)
	id := s.register("before", "")
	b.open(g.url)
	b.until("it is live", pulse+` === "live" && !!`+card("before_"))
	s.stop()
	b.until("it says so", pulse+` === "reconnecting"`)
	if !value[bool](b, `!!`+card("before_")+` || document.body.innerText.includes("What is running is not known")`) {
		t.Errorf("without a server the page says %s", b.text())
	}
	g.to(serve(t, dir))
	b.within(40*time.Second, "it has found the new server", pulse+` === "live" && !!`+card("before_"))
	remove(t, dir, id)
	b.until("and goes on", `!`+card("before_"))
}

// TestWithoutScript: the page is whole without its script, and loads itself anew.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	s := serve(t, t.TempDir())
	s.register("plain", `{"title":"Plain"}`)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Navigate(s.url))
	says := func(want string) func() bool {
		return func() bool { return strings.Contains(b.html(), want) }
	}
	await(t, "the card", says("Plain"))
	s.register("next", `{"title":"The next one"}`)
	await(t, "the page loads itself anew", says("The next one"))
}
