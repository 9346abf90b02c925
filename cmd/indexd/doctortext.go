package main

import (
	"fmt"
	"strings"

	"github.com/blobindex/indexd/cas/probe"
)

// doctorJSON is the answer of doctor --json: the report of package probe, and what is in the indexes.
type doctorJSON struct {
	Bucket string `json:"bucket"`
	*probe.Report
	Foreign []foreignJSON `json:"foreign"`
	Costs   []costJSON    `json:"costs"`
}

func (a *app) printDoctor(d doctorJSON, asJSON bool) error {
	if asJSON {
		return a.printJSON(d)
	}
	return a.print(d.text())
}

// signs are the verdicts of a table.
var signs = map[probe.Answer]string{probe.Yes: "✓", probe.No: "✗", probe.Unsure: "?"}

// text is the report for people: a line for each question, then what each no is about, then the indexes.
func (d *doctorJSON) text() string {
	var b strings.Builder
	var rows [][]string
	counts := map[probe.Answer]int{}
	for _, f := range d.Findings {
		rows = append(rows, []string{signs[f.Verdict], string(f.ID), f.Question})
		counts[f.Verdict]++
	}
	b.WriteString(table(rows))
	for _, f := range d.Findings {
		b.WriteString(detail(f))
	}
	fmt.Fprintf(&b, "\n%d yes, %d no, %d not to be found out, in %.1f s", counts[probe.Yes], counts[probe.No], counts[probe.Unsure],
		d.Seconds)
	switch {
	case !d.Complete:
		b.WriteString("; not complete")
	case len(d.Disabled) == 0:
		b.WriteString("; everything can be used here")
	default:
		fmt.Fprintf(&b, "; not to be used here: %s", d.disabled())
	}
	b.WriteString("\n")
	if len(d.Left) > 0 {
		fmt.Fprintf(&b, "could not be deleted again: %s\n", plain(strings.Join(d.Left, ", ")))
	}
	for _, f := range d.Foreign {
		b.WriteString(f.text())
	}
	for _, c := range d.Costs {
		b.WriteString(c.text())
	}
	return b.String()
}

// detail is what is to be said of a finding beyond its line: nothing of a plain yes.
func detail(f probe.Finding) string {
	if f.Verdict == probe.Yes && f.Remark == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s %s: %s\n", signs[f.Verdict], f.ID, plain(f.Seen))
	if f.Remark != "" {
		fmt.Fprintf(&b, "  remark: %s\n", plain(f.Remark))
	}
	if f.Verdict != probe.No {
		return b.String()
	}
	disables := "nothing that indexd relies on"
	if len(f.Disables) > 0 {
		one := doctorJSON{Report: &probe.Report{Disabled: f.Disables}}
		disables = one.disabled()
	}
	fmt.Fprintf(&b, "  disables: %s\n  mend: %s\n", disables, strings.ReplaceAll(f.Mend, "\n", "\n        "))
	return b.String()
}

func (f foreignJSON) text() string {
	if f.Count == 0 {
		return fmt.Sprintf("index %q: no foreign keys\n", f.Index)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "index %q: %d foreign keys, which are never shown as items", f.Index, f.Count)
	if f.Count > len(f.Keys) {
		fmt.Fprintf(&b, "; the first %d", len(f.Keys))
	}
	b.WriteString(":\n")
	for _, k := range f.Keys {
		fmt.Fprintf(&b, "  %s\n", plain(string(k)))
	}
	return b.String()
}

func (c costJSON) text() string {
	where := fmt.Sprintf("index %q", c.Index)
	if c.Namespace != "" {
		where = fmt.Sprintf("namespace %q of index %q, with %d keys", c.Namespace, c.Index, c.Keys)
	}
	price := "this store charges nothing for them"
	if c.USD > 0 {
		price = fmt.Sprintf("$%.2f at list price", c.USD)
	}
	return fmt.Sprintf("a day of one dashboard on %s: up to %d lists and %d gets; %s\n", where, c.Lists, c.Gets, price)
}
