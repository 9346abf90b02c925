package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/realservers"
)

// page is docs/compatibility.md.
func (r *report) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Compatibility

What each server was seen to do; not what its makers say. This page is made by `+"`make compatibility`"+`, which installs the
servers, starts them and runs the tests on them. Do not edit it.

Made on %s: %s. One server at a time ran, on the loopback interface.

- **bucket**: the contract of package `+"`bucket`"+` through indexd's driver, by the steps of `+"`buckettest`"+`.
- **agreement**: whether the server answers as its service documents.
- **blobindex**: vectors and behaviours of the index itself.
- **cas**: conditional writes through indexd's driver, by the steps of `+"`castest`"+`, and eight processes that change one document.
- **doctor**: what `+"`indexd doctor`"+` says of the server: each question is a case, and so are its exit status and its cleaning up.
- **soak**: producers, readers and pruners as real processes that are killed at random, for a minute.
- **manifest**: producers and a collector of one manifest as real processes, which are killed at random and go through a proxy that
  breaks, delays and repeats requests, for half a minute or one and a half.
- **snapshot**: four processes that publish 20,000 files of two directories in turn, some of which are killed at random, and four
  that hold each read to what was published, for a minute.
- **by hand**: markers put and deleted by clients that are not indexd's.

A number is how many cases passed. Where it says "of", the others are deviations, which are listed; any other failure, and a
deviation that is gone, would have kept this page from being made. An empty cell is a suite that the server was not put to.
`, r.date.Format("2006-01-02"), r.machine)
	for _, protocol := range []realservers.Protocol{realservers.S3, realservers.GCS} {
		rows := r.of(protocol)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", protocol)
		summary(&b, rows)
		doctors(&b, rows)
		b.WriteString("\nOther deviations:\n\n")
		deviations(&b, rows)
	}
	return b.String()
}

func (r *report) of(protocol realservers.Protocol) []row {
	var rows []row
	for _, row := range r.rows {
		if row.known.Protocol == protocol {
			rows = append(rows, row)
		}
	}
	return rows
}

// names are the servers of the rows, each once.
func names(rows []row) []string {
	var all []string
	for _, row := range rows {
		if !slices.Contains(all, row.name) {
			all = append(all, row.name)
		}
	}
	return all
}

// summary has a line for each server and a column for each suite.
func summary(b *strings.Builder, rows []row) {
	suites := suiteNames()
	cells := []string{"server", "version"}
	for _, suite := range suites {
		cells = append(cells, string(suite))
	}
	line(b, cells...)
	line(b, slices.Repeat([]string{"---"}, len(cells))...)
	for _, name := range names(rows) {
		counts := map[realservers.Suite]string{}
		version := ""
		for _, row := range rows {
			if row.name == name {
				version = row.version
				counts[row.suite] = fmt.Sprint(row.passed)
				if row.passed != row.run {
					counts[row.suite] = fmt.Sprintf("%d of %d", row.passed, row.run)
				}
				if row.notRun > 0 {
					counts[row.suite] += fmt.Sprintf(", %d not run", row.notRun)
				}
			}
		}
		cells := []string{name, version}
		for _, suite := range suites {
			cells = append(cells, counts[suite])
		}
		line(b, cells...)
	}
}

// doctors has a line for each question to which some server's answer is not yes, and a column for each server.
func doctors(b *strings.Builder, rows []row) {
	var asked []probe.ID
	var servers []string
	answers, findings := map[string]*probe.Report{}, map[probe.ID]probe.Finding{}
	for _, row := range rows {
		if row.report == nil {
			continue
		}
		servers, answers[row.name] = append(servers, row.name), row.report
		for _, f := range row.report.Findings {
			known, ok := findings[f.ID]
			if !ok {
				asked = append(asked, f.ID)
			}
			if !ok || len(f.Disables) > len(known.Disables) {
				findings[f.ID] = f
			}
		}
	}
	if len(servers) == 0 {
		return
	}
	b.WriteString("\nWhat `indexd doctor` says (✓ yes, ✗ no, ? not to be found out), and what indexd does not do on a server with " +
		"that ✗:\n\n")
	line(b, append(append([]string{"question"}, servers...), "✗ disables")...)
	line(b, slices.Repeat([]string{"---"}, len(servers)+2)...)
	var same []string
	for _, id := range asked {
		cells, differs := []string{fmt.Sprintf("`%s` %s", id, findings[id].Question)}, false
		for _, server := range servers {
			sign := ""
			if f := answers[server].Find(id); f != nil {
				sign = signs[f.Verdict]
				differs = differs || f.Verdict != probe.Yes
			}
			cells = append(cells, sign)
		}
		var disables []string
		for _, f := range findings[id].Disables {
			disables = append(disables, string(f))
		}
		if !differs {
			same = append(same, fmt.Sprintf("`%s`", id))
			continue
		}
		line(b, append(cells, strings.Join(disables, ", "))...)
	}
	fmt.Fprintf(b, "\n✓ on each of them: %s.\n", strings.Join(same, ", "))
}

// deviations are told in words, but for those of the doctor, which has a table of its own.
func deviations(b *strings.Builder, rows []row) {
	line(b, "server", "suite", "case", "what it does")
	line(b, "---", "---", "---", "---")
	for _, row := range rows {
		for _, d := range row.seen {
			if d.Suite == realservers.Doctor {
				continue
			}
			why := d.Why
			if d.How == realservers.Sometimes {
				why += " (sometimes)"
			}
			line(b, row.name, string(row.suite), d.Case, why)
		}
		for _, note := range row.notes {
			line(b, row.name, string(row.suite), "", note)
		}
	}
}

func line(b *strings.Builder, cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", `\|`)
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}
