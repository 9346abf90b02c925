package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumented: docs/operating.md lists each metric, with its labels, and none that is not exposed; what its alerts ask for is
// exposed too.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 150 {
		t.Errorf("it has %d lines", n)
	}
	families := scrape(t, busy())
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(indexd_[a-z_]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, row[1])
		f := families[row[1]]
		if f == nil {
			t.Errorf("%s is listed, and not exposed", row[1])
			continue
		}
		for _, l := range f.GetMetric()[0].GetLabel() {
			// Those of views are told once, at the first.
			if !strings.Contains(row[2], "`"+l.GetName()+"`") && !strings.HasPrefix(row[1], "indexd_view_") {
				t.Errorf("%s has a label %s that is not told", row[1], l.GetName())
			}
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "indexd_") && !slices.Contains(listed, name) {
			t.Errorf("%s is exposed, and not listed", name)
		}
	}
	for _, name := range regexp.MustCompile(`\b(?:indexd|process)_[a-z_]+\b`).FindAllString(string(text), -1) {
		if families[name] == nil && name != "process_" && !strings.HasSuffix(name, "_listen") {
			t.Errorf("%s is named, and not exposed", name)
		}
	}
}
