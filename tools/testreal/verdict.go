package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/realservers"
)

// A verdict is what a suite has shown of a server.
type verdict struct {
	suite                      realservers.Suite
	run, passed, known, failed int
	notRun                     int                     // cases that are listed to take too long
	seen                       []realservers.Deviation // the known ones that showed
	problems                   []string
	missed                     int      // of them, races that are lost at most times and were not
	notes                      []string // what else is to be told
	figures                    []string // what was measured, and is not judged
	results                    []result
	report                     *probe.Report // of the suite doctor
	took                       time.Duration
}

// figure is in a line that a test logs of what it measured.
var figure = regexp.MustCompile(`figures: (.*)`)

// judge holds results to the deviations that are listed of the server. Each other failure, each case that was skipped, each
// deviation that vanished or names no case, and a suite without cases is a problem. On a server that is unsound a race may fail
// in any way, listed or not.
func judge(s realservers.Server, suite realservers.Suite, results []result) verdict {
	v := verdict{suite: suite, run: len(results), results: results}
	problem := func(format string, args ...any) {
		v.failed++
		v.problems = append(v.problems, fmt.Sprintf("%s, %s: ", s.Name, suite)+fmt.Sprintf(format, args...))
	}
	listed, untried := map[string]realservers.Deviation{}, map[string][]string{}
	for _, d := range s.Deviations {
		switch {
		case d.Suite == suite && d.How == realservers.NotRun:
			v.notRun++
			untried[d.Why] = append(untried[d.Why], d.Case)
		case d.Suite == suite:
			listed[testName(d.Case)] = d
		}
	}
	for _, why := range slices.Sorted(maps.Keys(untried)) {
		v.notes = append(v.notes, fmt.Sprintf("not run: %s: %s", strings.Join(untried[why], ", "), why))
	}
	race := map[string]bool{}
	if s.Unsound {
		for _, name := range realservers.Races(suite) {
			race[testName(name)] = true
		}
	}
	for _, r := range results {
		for _, m := range figure.FindAllStringSubmatch(r.output, -1) {
			v.figures = append(v.figures, m[1])
		}
		d, ok := listed[r.name]
		delete(listed, r.name)
		if busy := realservers.Busy(); !ok && suite == busy.Suite && r.name == busy.Case {
			d, ok = busy, true
		}
		if !ok && race[r.name] {
			d, ok = realservers.Vary(suite, r.name), true
		}
		switch {
		case r.status == "pass" && (!ok || d.How == realservers.Sometimes):
			v.passed++
		case r.status == "pass":
			if race[r.name] {
				v.missed++
			}
			problem("%s passes now, although: %s", r.name, d.Why)
		case !ok:
			problem("%s: %s\n%s", r.name, r.status, tail(r.output))
		case !race[r.name] && !shows(r.output, d):
			problem("%s fails otherwise than by %q:\n%s", r.name, d.Seen, tail(r.output))
		default:
			v.known++
			v.seen = append(v.seen, d)
		}
	}
	for name := range listed {
		problem("there is no case %s", name)
	}
	if len(results) == 0 {
		problem("no case was run")
	}
	return v
}

// shows reports whether the output of a case tells of the deviation that is listed, and not of another one.
func shows(output string, d realservers.Deviation) bool {
	if d.Suite == realservers.Agreement {
		return strings.Contains(output, fmt.Sprintf("answers %q", d.Seen))
	}
	return slices.ContainsFunc(strings.Split(d.Seen, "|"), func(words string) bool { return strings.Contains(output, words) })
}

// testName is what package testing makes of a subtest's name, as far as ours go.
func testName(name string) string { return strings.ReplaceAll(name, " ", "_") }
