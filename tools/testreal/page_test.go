package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/realservers"
)

func TestReport(t *testing.T) {
	known, ok := realservers.Find("gcsemulator")
	if !ok {
		t.Fatal("gcsemulator is not known")
	}
	var results []result
	for _, d := range known.Deviations {
		if d.Suite == realservers.Agreement {
			results = append(results, result{testName(d.Case), "fail", fmt.Sprintf("answers %q", d.Seen)})
		}
	}
	results = append(results, result{"read,_absent", "pass", ""})
	r := &report{machine: "2 cores", date: time.Date(2026, 12, 1, 2, 3, 4, 5, time.UTC)}
	v := judge(known, realservers.Agreement, results)
	v.notes, v.notRun = []string{"a|b is refused"}, 1
	r.add(server{name: "gcsemulator", version: "v9"}, known, v)

	page := r.page()
	for _, want := range []string{
		"made by `make compatibility`", "Made on 2026-12-01: 2 cores.", "\n## Google Cloud Storage\n", "| gcsemulator | v9 |",
		" 1 of 5, 1 not run |", "| gcsemulator | agreement | list, offsets | StartOffset and EndOffset are ignored |\n",
		"| gcsemulator | agreement | absent bucket | an absent bucket is created |\n", `| a\|b is refused |`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "## S3") {
		t.Error("the page has a protocol of which no server was run")
	}
	if table := r.table(); !strings.Contains(table, "gcsemulator  v9       agreement  5      1       4                 1        0") {
		t.Errorf("the table:\n%s", table)
	}
	if len(r.problems()) != 0 {
		t.Errorf("problems %q", r.problems())
	}
}

// TestReport_Doctors: only questions that somebody does not answer with yes have a line.
func TestReport_Doctors(t *testing.T) {
	finding := func(id probe.ID, v probe.Answer, disables ...probe.Feature) probe.Finding {
		return probe.Finding{ID: id, Question: "Is " + string(id) + " so?", Verdict: v, Disables: disables}
	}
	r := &report{}
	for name, findings := range map[string][]probe.Finding{
		"versitygw": {finding("date", probe.Yes), finding("put", probe.Yes), finding("create-only", probe.No, probe.CAS)},
		"rclone":    {finding("date", probe.Yes), finding("create-only", probe.Yes), finding("clock", probe.Unsure)},
		"SeaweedFS": nil, // not put to this suite
	} {
		known, _ := realservers.Find(name)
		v := verdict{suite: realservers.Doctor, seen: []realservers.Deviation{{Suite: realservers.Doctor, Case: "create-only", Why: "why"}}}
		if findings != nil {
			v.report = &probe.Report{Findings: findings}
		}
		r.rows = append(r.rows, row{server{name: name}, known, v})
	}
	slices.SortFunc(r.rows, func(a, b row) int { return strings.Compare(b.name, a.name) })
	page := r.page()
	for _, want := range []string{
		"\n| question | versitygw | rclone | ✗ disables |\n| --- | --- | --- | --- |\n", "\n| `create-only` Is create-only so? | ✗ | ✓ | cas |\n",
		"\n| `clock` Is clock so? |  | ? |  |\n", "\n✓ on each of them: `date`, `put`.\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "| why |") {
		t.Errorf("what the doctor says is told twice:\n%s", page)
	}
}

const putAndLooked = "put\n" + cardsMark + "\nby-a by-b\ndeleted\n" + cardsMark + "\nnone\n"

func TestByHandResults(t *testing.T) {
	text := "put /by-a_1\nput %2Fby-b_1\nindexd cards\ndelete /by-a_1 /by-b_1\nindexd cards"
	for _, tt := range []struct {
		out  string
		err  error
		want string
	}{
		{putAndLooked, nil, "a pass b pass"},
		{strings.Replace(putAndLooked, "by-b", "", 1), nil, "a pass b fail"},
		{strings.Replace(putAndLooked, "none", "by-a", 1), nil, "a fail b pass"},
		{"put\n" + cardsMark + "\nby-a by-b", nil, "script fail"},
		{putAndLooked, errBroken, "script fail"},
	} {
		var got []string
		for _, r := range byHandResults(text, tt.out, tt.err) {
			got = append(got, r.name, r.status)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q, %v: %q, want %q", tt.out, tt.err, got, tt.want)
		}
	}
	for _, s := range servers() {
		for _, name := range s.byHand {
			if text, err := scripts.ReadFile("testdata/" + name); err != nil || !byWhom.Match(text) {
				t.Errorf("%s: %v, or it puts nothing", name, err)
			}
		}
	}
}
