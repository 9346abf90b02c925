package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/blobindex/indexd/fakes/realservers"
)

func TestJudge(t *testing.T) {
	known := func(how realservers.Manner) realservers.Deviation {
		return realservers.Deviation{Suite: realservers.Bucket, Case: "odd keys", Seen: "mangled", Why: "it mangles", How: how}
	}
	fail := result{"odd_keys", "fail", "was mangled"}
	for _, tt := range []struct {
		name       string
		deviations []realservers.Deviation
		results    []result
		want       [3]int // passed, known, failed
		problem    string // part of the one problem; "" for none
	}{
		{"all pass", nil, []result{{"a", "pass", ""}, {"b", "pass", ""}}, [3]int{2, 0, 0}, ""},
		{"none ran", nil, nil, [3]int{0, 0, 1}, "no case was run"},
		{"fails", nil, []result{fail}, [3]int{0, 0, 1}, "was mangled"},
		{"skipped", nil, []result{{"a", "skip", "not set"}}, [3]int{0, 0, 1}, "a: skip\nnot set"},
		{"known", []realservers.Deviation{known(realservers.Always)}, []result{fail}, [3]int{0, 1, 0}, ""},
		{"known to end the server", []realservers.Deviation{known(realservers.Ends)}, []result{fail}, [3]int{0, 1, 0}, ""},
		{"fails otherwise", []realservers.Deviation{known(realservers.Always)}, []result{{"odd_keys", "fail", "lost"}}, [3]int{0, 0, 1}, `otherwise than by "mangled"`},
		{"fails in the other way", []realservers.Deviation{{Suite: realservers.Bucket, Case: "odd keys", Seen: "torn|mangled"}}, []result{fail}, [3]int{0, 1, 0}, ""},
		{"fails in a third way", []realservers.Deviation{{Suite: realservers.Bucket, Case: "odd keys", Seen: "torn|gone"}}, []result{fail}, [3]int{0, 0, 1}, "otherwise"},
		{"vanished", []realservers.Deviation{known(realservers.Always)}, []result{{"odd_keys", "pass", ""}}, [3]int{0, 0, 1}, "passes now, although: it mangles"},
		{"sometimes", []realservers.Deviation{known(realservers.Sometimes)}, []result{{"odd_keys", "pass", ""}}, [3]int{1, 0, 0}, ""},
		{"sometimes, it fails", []realservers.Deviation{known(realservers.Sometimes)}, []result{fail}, [3]int{0, 1, 0}, ""},
		{"no such case", []realservers.Deviation{known(realservers.Sometimes)}, []result{{"a", "pass", ""}}, [3]int{1, 0, 1}, "no case odd_keys"},
		{"of another suite", []realservers.Deviation{{Suite: realservers.Soak, Case: "odd keys", Seen: "mangled"}}, []result{fail}, [3]int{0, 0, 1}, "was mangled"},
		{"not run", []realservers.Deviation{known(realservers.NotRun)}, []result{{"a", "pass", ""}}, [3]int{1, 0, 0}, ""},
		{"not run, but it was", []realservers.Deviation{known(realservers.NotRun)}, []result{fail}, [3]int{0, 0, 1}, "was mangled"},
		{"skipped, as listed", []realservers.Deviation{{Suite: realservers.Bucket, Case: "odd keys", Seen: "mangled"}}, []result{{"odd_keys", "skip", "mangled"}}, [3]int{0, 1, 0}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := judge(realservers.Server{Name: "server", Deviations: tt.deviations}, realservers.Bucket, tt.results)
			if got := [3]int{v.passed, v.known, v.failed}; got != tt.want {
				t.Errorf("passed, known, failed: %v, want %v", got, tt.want)
			}
			problems := strings.Join(v.problems, "\n")
			if (len(v.problems) == 1) != (tt.problem != "") || !strings.Contains(problems, tt.problem) {
				t.Errorf("problems %q, want one with %q", problems, tt.problem)
			}
		})
	}
}

// An answer must be the very one: "ok" is in many words.
func TestJudge_Answer(t *testing.T) {
	s := realservers.Server{Deviations: []realservers.Deviation{{Suite: realservers.Agreement, Case: "save", Seen: "ok"}}}
	if v := judge(s, realservers.Agreement, []result{{"save", "fail", `answers "500: a token"; documented is "412"`}}); v.failed != 1 {
		t.Errorf("%+v", v)
	}
	if v := judge(s, realservers.Agreement, []result{{"save", "fail", `answers "ok"; documented is "412"`}}); v.known != 1 {
		t.Errorf("%+v", v)
	}
}

// A race on an unsound server may end in any way; listed to be lost always, it may not be won. What is no race, and a server
// that is sound, are held to what is listed.
func TestJudge_Races(t *testing.T) {
	listed := realservers.Deviation{Suite: realservers.CAS, Case: "RacingCreates", Seen: "several won", How: realservers.Always}
	for _, tt := range []struct {
		name                string
		unsound             bool
		listed              []realservers.Deviation
		result              result
		known, failed, miss int
	}{
		{"unlisted", true, nil, result{"TornReads", "fail", "cut"}, 1, 0, 0},
		{"unlisted, won", true, nil, result{"TornReads", "pass", ""}, 0, 0, 0},
		{"otherwise than listed", true, []realservers.Deviation{listed}, result{"RacingCreates", "fail", "cut"}, 1, 0, 0},
		{"listed, won", true, []realservers.Deviation{listed}, result{"RacingCreates", "pass", ""}, 0, 1, 1},
		{"no race", true, nil, result{"Stale", "fail", "cut"}, 0, 1, 0},
		{"sound", false, nil, result{"TornReads", "fail", "cut"}, 0, 1, 0},
		{"sound, listed, won", false, []realservers.Deviation{listed}, result{"RacingCreates", "pass", ""}, 0, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := realservers.Server{Unsound: tt.unsound, Deviations: tt.listed}
			v := judge(s, realservers.CAS, []result{tt.result})
			if v.known != tt.known || v.failed != tt.failed || v.missed != tt.miss {
				t.Errorf("known, failed, missed: %d, %d, %d, want %d, %d, %d", v.known, v.failed, v.missed, tt.known, tt.failed, tt.miss)
			}
		})
	}
}

// What was measured is told, of cases that pass as of others.
func TestJudge_Figures(t *testing.T) {
	v := judge(realservers.Server{}, realservers.CAS, []result{{"a", "pass", "x_test.go:1: figures: 3 s"}, {"b", "fail", "no\nfigures: 4 s"}})
	if !slices.Equal(v.figures, []string{"3 s", "4 s"}) {
		t.Errorf("%q", v.figures)
	}
}

// TestKnown holds what is listed to itself: every server that is started is known, and no case is listed twice.
func TestKnown(t *testing.T) {
	for _, s := range servers() {
		known, ok := realservers.Find(s.name)
		if !ok || len(s.suites) < 2 || s.version == "" || s.pair && known.Protocol != realservers.S3 {
			t.Errorf("%s %s: known: %v, suites %q", s.name, s.version, ok, s.suites)
		}
		seen := map[string]bool{}
		for _, d := range known.Deviations {
			key := string(d.Suite) + "/" + d.Case
			if seen[key] || d.Seen == "" && d.How != realservers.NotRun || d.Why == "" || !slices.Contains(s.suites, d.Suite) {
				t.Errorf("%s: %s is listed twice, not told in full, or of a suite that is not run", s.name, key)
			}
			seen[key] = true
		}
	}
}
