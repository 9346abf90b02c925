package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/rivo/uniseg"
)

// table aligns rows of cells for people: two spaces between columns, the widths by what a terminal shows. Cells must be
// plain.
func table(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// plain makes a text that anybody may have put into the bucket safe to show on a terminal: what does not print (control
// characters, direction marks) becomes U+FFFD.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// humane spells a duration as people say it, in at most two units: 12s, 3m12s, 5h07m, 3d4h, 9d.
func humane(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	days, hours := int(d.Hours())/24, int(d.Hours())%24
	if hours == 0 {
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd%dh", days, hours)
}

// exact spells a duration as one writes it in the configuration: 2h, 1m30s, 45s.
func exact(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// inNamespace names where an answer comes from.
func (s *session) inNamespace() string {
	return fmt.Sprintf("namespace %q of index %q", s.namespace.Name(), s.index.Name())
}

// flags joins the words that are set.
func flags(words map[string]bool, order ...string) string {
	var set []string
	for _, w := range order {
		if words[w] {
			set = append(set, w)
		}
	}
	return strings.Join(set, ", ")
}
