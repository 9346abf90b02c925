package ui_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/blobindex/indexd/web/ui"
)

var variable = regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6})`)

// schemes are the colours of the style sheet, light and dark.
func schemes(t *testing.T) map[string]map[string]string {
	t.Helper()
	file, ok := ui.Asset("app.css")
	if !ok {
		t.Fatal("no style sheet")
	}
	light, rest, ok := strings.Cut(string(file.Body), "prefers-color-scheme: dark")
	if !ok {
		t.Fatal("there is no dark scheme")
	}
	dark, _, _ := strings.Cut(rest, "\n}\n")
	out := map[string]map[string]string{}
	for name, css := range map[string]string{"light": light, "dark": dark} {
		out[name] = map[string]string{}
		for _, m := range variable.FindAllStringSubmatch(css, -1) {
			out[name][m[1]] = m[2]
		}
	}
	return out
}

// luminance and contrast are as WCAG 2.2 defines them: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) != 7 {
		t.Fatalf("%q is no colour", hex)
	}
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// TestContrast: text is told from what it stands on by 4.5 to 1, and what is drawn, without being text, by 3 to 1, in both
// schemes.
func TestContrast(t *testing.T) {
	if c := contrast(t, "#ffffff", "#000000"); c != 21 {
		t.Fatalf("black on white is %g", c)
	}
	for name, colour := range schemes(t) {
		for _, p := range []struct {
			on    []string
			least float64
			what  []string
		}{
			{[]string{"ground", "panel"}, 4.5, []string{"ink", "soft", "link", "run", "late", "none", "fail"}},
			{[]string{"wash"}, 4.5, []string{"wash-ink"}},
			{[]string{"ground"}, 3, []string{"past", "edge"}},
			{[]string{"panel"}, 3, []string{"edge"}},
		} {
			for _, on := range p.on {
				for _, what := range p.what {
					if c := contrast(t, colour[what], colour[on]); c < p.least {
						t.Errorf("%s: %s on %s is %.2f to 1, want %g", name, what, on, c, p.least)
					}
				}
			}
		}
	}
}
