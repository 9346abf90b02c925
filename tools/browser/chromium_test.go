package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is the longest that a test waits for what has no deadline of its own.
const patience = 15 * time.Second

// chromium is the browser that all tests share, and the program that they serve; both are made when the first test wants them.
var chromium struct {
	once    sync.Once
	program string
	ctx     context.Context
	stop    func()
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

// needs skips the test unless a browser is asked for, and starts it.
func needs(t *testing.T) {
	t.Helper()
	if os.Getenv("INDEXD_BROWSER") != "1" {
		t.Skip("drives a real Chromium: set INDEXD_BROWSER=1")
	}
	chromium.once.Do(func() { chromium.err = launch() })
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
}

func launch() error {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return fmt.Errorf("finding the browser (Debian: apt-get install --no-install-recommends chromium): %w", err)
	}
	dir, err := os.MkdirTemp("", "indexd-browser-")
	if err != nil {
		return err
	}
	chromium.program = filepath.Join(dir, "indexd")
	build := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", chromium.program, "./cmd/indexd")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w: %s", err, out)
	}
	ctx, stopAll := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Flag("headless", true), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(time.Minute), chromedp.WindowSize(1200, 900))
	ctx, stopBrowser := chromedp.NewContext(ctx)
	chromium.ctx = ctx
	chromium.stop = func() {
		stopBrowser()
		stopAll()
		os.RemoveAll(dir)
	}
	if err := chromedp.Do(ctx); err != nil {
		return fmt.Errorf("starting the browser: %w", err)
	}
	return nil
}

// A tab is one page in a browser of the test's own: with no cookie of another test's, and in another window.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	trouble  []string // dialogs, uncaught errors, and what the page's policy has refused
	requests []string // every URL that it asked for
}

// newTab opens an empty tab. Whatever trouble the page has had fails the test in the end.
func newTab(t *testing.T) *tab {
	t.Helper()
	needs(t)
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return (&tab{t: t, ctx: ctx}).begin()
}

// beside opens another tab in the same window, which hides the others, or in a window of its own.
func (b *tab) beside(window bool) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewWindow(window))
	b.t.Cleanup(cancel)
	return (&tab{t: b.t, ctx: ctx}).begin()
}

// show brings the tab to the front of its window.
func (b *tab) show() { b.t.Helper(); call(b, page.BringToFront, cdp.Empty{}) }

// watch makes the page keep what its policy refuses.
const watch = `window.refused = [];
addEventListener("securitypolicyviolation", (e) => refused.push(e.violatedDirective + " " + e.blockedURI));`

func (b *tab) begin() *tab {
	b.t.Helper()
	// The tab opens with the first thing that is asked of it, and lives as long as the context of that.
	err := chromedp.Listen(b.ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *page.EventJavascriptDialogOpening:
			b.trouble = append(b.trouble, "a dialog: "+ev.Message)
		case *runtime.EventExceptionThrown:
			b.trouble = append(b.trouble, "an error: "+ev.ExceptionDetails.Text)
		case *network.EventRequestWillBeSent:
			b.requests = append(b.requests, ev.Request.URL)
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, page.Enable, page.EnableParams{})
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
	b.t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, what := range b.trouble {
			b.t.Errorf("the page had trouble: %s", what)
		}
	})
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("driving the browser: %v", err)
	}
}

// call sends a command of the protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	res, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatalf("driving the browser: %v", err)
	}
	return res
}

// open goes to a URL and waits until the page's script runs.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.until("the script runs", `document.documentElement.classList.contains("scripted")`)
}

// value is what an expression is in the page.
func value[T any](b *tab, js string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// until waits until an expression is true in the page.
func (b *tab) until(what, js string) { b.t.Helper(); b.within(patience, what, js) }

// within fails the test unless an expression comes true in the page in time. It returns how long that took.
func (b *tab) within(limit time.Duration, what, js string) time.Duration {
	b.t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(b.ctx, limit+time.Second)
	defer cancel()
	look := time.NewTicker(30 * time.Millisecond)
	defer look.Stop()
	for {
		asked := time.Now()
		yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool](js))
		if yes && err == nil {
			return asked.Sub(begun)
		}
		if time.Since(begun) > limit || ctx.Err() != nil {
			b.t.Fatalf("%s: not within %v (%v); the page says: %s", what, limit, err, b.text())
		}
		<-look.C
	}
}

// types puts the focus into a field and types there, key by key.
func (b *tab) types(field, keys string) {
	b.t.Helper()
	b.until(field+" has the focus", fmt.Sprintf(`document.querySelector(%q)?.focus(), document.activeElement.matches(%q)`, field, field))
	b.do(chromedp.KeyEvent(keys))
}

// text is all that the page says.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	s, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return s
}

// html is the page as it stands, by the browser's tools and not by a script in it.
func (b *tab) html() string {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	s, err := chromedp.Run(ctx, chromedp.OuterHTML(chromedp.CSS("body")))
	if err != nil {
		return err.Error()
	}
	return s
}

// refused is what the policy of the page that is shown has refused.
func (b *tab) refused() string {
	b.t.Helper()
	return value[string](b, `refused.join(", ")`)
}

// size makes the tab as large as a device.
func (b *tab) size(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
	})
}

// prefers sets a media feature: "prefers-color-scheme", "dark".
func (b *tab) prefers(feature, value string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
	})
}

// keep leaves a screenshot of the whole page among the artefacts.
func (b *tab) keep(name string) {
	b.t.Helper()
	dir := os.Getenv("INDEXD_ARTIFACTS")
	if dir == "" {
		dir = b.t.ArtifactDir()
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err := errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

// only fails the test if the tab has asked anything of anybody but the server.
func (b *tab) only(url string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, asked := range b.requests {
		if !strings.HasPrefix(asked, url) {
			b.t.Errorf("the page asks for %s", asked)
		}
	}
}
