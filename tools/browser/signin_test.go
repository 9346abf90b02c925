package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// guarded serves a directory to those who have a token, and returns one that may read and register.
func guarded(t *testing.T, dir string) (*server, string) {
	t.Helper()
	needs(t)
	out, err := exec.Command(chromium.program, "token", "new", "--name", "mara", "--role", "producer", "--index", "running",
		"--namespace", "default").Output()
	if err != nil {
		t.Fatal(err)
	}
	token, snippet, _ := strings.Cut(string(out), "\n")
	config := filepath.Join(t.TempDir(), "indexd.yaml")
	if err := os.WriteFile(config, []byte(snippet), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, dir, "--config", config), strings.TrimSpace(token)
}

// TestSignIn: who has no token sees the form and nothing else, who signs in sees what changes, and who signs out sees nothing
// more. No script can read the cookie.
func TestSignIn(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	s, token := guarded(t, t.TempDir())
	s.token = token
	s.register("secret-run", `{"title":"A secret run"}`)
	b.do(chromedp.Navigate(s.url + "/?namespace=default&state=running"))
	b.until("the form", `location.pathname === "/signin" && !!document.querySelector("#token")`)
	if got := b.text(); strings.Contains(got, "secret") {
		t.Errorf("without a token the page says %s", got)
	}
	b.keep("sign-in")
	b.types("#token", "indexd_wrong"+kb.Enter)
	b.until("it is no token", `!!document.querySelector("#signin-problem")`)
	b.types("#token", token+kb.Enter)
	b.until("what was asked for", `location.search.includes("state=running") && !!`+card("secret-run_"))
	b.until("it is live", pulse+` === "live"`)
	s.register("another", "")
	b.until("it changes", `!!`+card("another_"))
	if strings.Contains(b.html(), token) || value[string](b, `document.cookie`) != "" || strings.Contains(value[string](b, `location.href`), token) {
		t.Error("the token can be read in the page")
	}
	cookies := call(b, network.GetCookies, network.GetCookiesParams{}).Cookies
	if len(cookies) != 1 || !cookies[0].HTTPOnly || cookies[0].SameSite != network.CookieSameSiteStrict {
		t.Errorf("cookies: %+v", cookies)
	}
	// Another tab of the same browser is signed out with this one, and finds out by itself.
	other := b.beside(true)
	other.open(s.url)
	other.until("it is live", pulse+` === "live"`)
	b.do(chromedp.Click(chromedp.CSS(".account button")))
	b.until("the form again", `location.pathname === "/signin"`)
	b.do(chromedp.Navigate(s.url))
	b.until("and nothing else", `location.pathname === "/signin"`)
	s.register("after-that", "")
	other.within(2*patience, "the other tab is signed out", `location.pathname === "/signin"`)
}
