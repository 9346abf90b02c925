package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// A result is what became of one case.
type result struct {
	name   string // of the subtest, without the test that it is of; of a test without subtests its own
	status string // pass, fail, skip
	output string
}

// An event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Test, Output, Package, ImportPath string
}

// A testRun collects the events of one package's tests.
type testRun struct {
	status map[string]string // by test, "" while it goes on
	output map[string]*strings.Builder
	order  []string // tests in the order in which they began
	notes  []string
	rest   strings.Builder
	ended  string // pass, fail, skip: the package
}

// note is in a line that a test logs about a deviation that it knows of by itself.
var note = regexp.MustCompile(`known deviation: (.*)`)

// logged is a line of package log, which no test of ours writes; net/http's transport does, of a server that answers unasked.
var logged = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `)

// readEvents returns what became of each case, and what tests told of deviations. Its error says why these are not all there is: the package was not built, or
// ended otherwise than by its tests.
func readEvents(r io.Reader) ([]result, []string, error) {
	t := testRun{status: map[string]string{}, output: map[string]*strings.Builder{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(&t.rest, lines.Text()) // some errors are told before there are events
			continue
		}
		t.take(e)
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("reading the events of go test: %w", err)
	}
	results := t.results()
	failed := slices.ContainsFunc(results, func(r result) bool { return r.status == "fail" })
	if t.ended == "" || t.ended == "fail" && !failed {
		return results, t.notes, fmt.Errorf("the tests did not end by themselves:\n%s", tail(t.rest.String()))
	}
	return results, t.notes, nil
}

func (t *testRun) take(e event) {
	switch {
	case e.Test == "" && (e.Action == "output" || e.Action == "build-output"):
		t.rest.WriteString(e.Output)
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		t.ended = e.Action
	case e.Test == "":
	case e.Action == "run":
		t.order = append(t.order, e.Test)
		t.status[e.Test] = ""
		t.output[e.Test] = &strings.Builder{}
	case e.Action == "output" && t.output[e.Test] != nil:
		t.output[e.Test].WriteString(e.Output)
		if m := note.FindStringSubmatch(e.Output); m != nil {
			t.notes = append(t.notes, m[1])
		}
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		t.status[e.Test] = e.Action
	}
}

// results are those of the tests without subtests, and of others that failed, or were skipped, by themselves.
func (t *testRun) results() []result {
	var all []result
	for _, name := range t.order {
		r := result{name, t.status[name], words(t.output[name].String())}
		if r.status == "" {
			r.status, r.output = "fail", "did not end\n"+r.output
		}
		if t.parent(name) && !t.byItself(name, r) {
			continue
		}
		if _, sub, ok := strings.Cut(name, "/"); ok {
			r.name = sub
		}
		all = append(all, r)
	}
	return all
}

func (t *testRun) parent(name string) bool {
	return slices.ContainsFunc(t.order, func(other string) bool { return strings.HasPrefix(other, name+"/") })
}

// byItself reports whether a test with subtests failed for a reason of its own. Errors and logs look alike: where a subtest
// failed too, whatever the test itself printed is taken for an error, but for what it knows of deviations.
func (t *testRun) byItself(name string, r result) bool {
	if r.status == "pass" {
		return false
	}
	below := slices.ContainsFunc(t.order, func(other string) bool {
		return strings.HasPrefix(other, name+"/") && t.status[other] != "pass" && t.status[other] != "skip"
	})
	own := slices.DeleteFunc(strings.Split(r.output, "\n"), func(line string) bool {
		return line == "" || note.MatchString(line) || logged.MatchString(line)
	})
	return r.status == "skip" || !below || len(own) > 0
}

// words leaves out the lines with which package testing frames what a test prints.
func words(output string) string {
	var kept []string
	for line := range strings.SplitSeq(output, "\n") {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "=== ") || strings.HasPrefix(text, "--- ") {
			continue
		}
		kept = append(kept, text)
	}
	return strings.Join(kept, "\n")
}
