package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// events writes what go test would: each line is an action, a test and, after another space, what it printed.
func events(t *testing.T, lines ...string) string {
	t.Helper()
	var b strings.Builder
	for _, line := range lines {
		cells := append(strings.SplitN(line, " ", 3), "", "")
		if cells[2] != "" {
			cells[2] += "\n"
		}
		if err := json.NewEncoder(&b).Encode(event{Action: cells[0], Test: cells[1], Output: cells[2]}); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestReadEvents(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  []result
		notes []string
		err   string // part of it; "" for none
	}{
		{"a test alone", []string{"run TestSoak", "output TestSoak === RUN", "pass TestSoak", "pass "},
			[]result{{"TestSoak", "pass", ""}}, nil, ""},
		{"subtests are cases", []string{"run TestReal", "run TestReal/a,_b", "output TestReal/a,_b     x_test.go:1: bad",
			"output TestReal/a,_b --- FAIL: TestReal/a,_b", "fail TestReal/a,_b", "run TestReal/c", "pass TestReal/c", "fail TestReal", "fail "},
			[]result{{"a,_b", "fail", "x_test.go:1: bad"}, {"c", "pass", ""}}, nil, ""},
		{"subtests of subtests", []string{"run TestReal", "run TestReal/V", "run TestReal/V/1", "pass TestReal/V/1", "pass TestReal/V", "pass TestReal", "pass "},
			[]result{{"V/1", "pass", ""}}, nil, ""},
		{"the test itself fails too", []string{"run TestReal", "run TestReal/a", "fail TestReal/a", "output TestReal own error", "fail TestReal", "fail "},
			[]result{{"TestReal", "fail", "own error"}, {"a", "fail", ""}}, nil, ""},
		{"the test itself only notes", []string{"run TestReal", "run TestReal/a", "fail TestReal/a", "output TestReal s: known deviation: odd", "fail TestReal", "fail "},
			[]result{{"a", "fail", ""}}, []string{"odd"}, ""},
		{"the test itself only logs", []string{"run TestReal", "run TestReal/a", "fail TestReal/a",
			"output TestReal 2026/12/01 08:44:41 Unsolicited response received on idle HTTP channel", "fail TestReal", "fail "},
			[]result{{"a", "fail", ""}}, nil, ""},
		{"the test itself fails", []string{"run TestReal", "run TestReal/a", "pass TestReal/a", "fail TestReal", "fail "},
			[]result{{"TestReal", "fail", ""}, {"a", "pass", ""}}, nil, ""},
		{"skipped", []string{"run TestReal", "output TestReal not set", "skip TestReal", "pass "},
			[]result{{"TestReal", "skip", "not set"}}, nil, ""},
		{"a test that knows deviations", []string{"run TestReal", "output TestReal     x_test.go:1: s: known deviation: odd: 1 keys refused",
			"pass TestReal", "pass "},
			[]result{{"TestReal", "pass", "x_test.go:1: s: known deviation: odd: 1 keys refused"}}, []string{"odd: 1 keys refused"}, ""},
		{"cut short", []string{"run TestReal", "output TestReal panic", "fail "},
			[]result{{"TestReal", "fail", "did not end\npanic"}}, nil, ""},
		{"not built", []string{"build-output  undefined: x", "fail "}, nil, nil, "undefined: x"},
		{"no tests", []string{"output  testing: warning: no tests to run", "pass "}, nil, nil, ""},
		{"no end", []string{"run TestReal", "pass TestReal"}, []result{{"TestReal", "pass", ""}}, nil, "did not end by themselves"},
		{"a failure of none of its tests", []string{"run TestReal", "pass TestReal", "output  exit status 2", "fail "},
			[]result{{"TestReal", "pass", ""}}, nil, "exit status 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, notes, err := readEvents(strings.NewReader(events(t, tt.lines...)))
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want one with %q", err, tt.err)
			}
		})
	}
}

// Lines that are no events, as before a build begins, are in the error.
func TestReadEvents_NoEvents(t *testing.T) {
	if _, _, err := readEvents(strings.NewReader("go: cannot find main module\n")); err == nil || !strings.Contains(err.Error(), "main module") {
		t.Errorf("error %v", err)
	}
}
