package main

import (
	"strings"
	"testing"

	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/realservers"
)

// sound is a report that answers all that must be answered with yes.
func sound() *probe.Report {
	r := &probe.Report{}
	for _, id := range decisive {
		r.Findings = append(r.Findings, probe.Finding{ID: id, Verdict: probe.Yes, Seen: "seen"})
	}
	return r
}

// TestDoctorResults judges reports by what is listed of a server that overwrites: a no that is gone, one that is not
// listed, a question that was left out, and a run that ends otherwise than it says are found.
func TestDoctorResults(t *testing.T) {
	listed := []realservers.Deviation{
		{Suite: realservers.Doctor, Case: "exit status", Seen: "3: cas", Why: "why"},
		{Suite: realservers.Doctor, Case: "create-only", Seen: "✗ it was carried out", Why: "why"},
	}
	overwrites := func() *probe.Report {
		r := sound()
		*r.Find(probe.CreateOnly) = probe.Finding{ID: probe.CreateOnly, Verdict: probe.No, Seen: "it was carried out"}
		r.Disabled = []probe.Feature{probe.CAS}
		return r
	}
	late := func(seen string) func(*probe.Report) {
		return func(r *probe.Report) {
			r.Findings = append(r.Findings, probe.Finding{ID: probe.ContendedLatency, Verdict: probe.No, Seen: seen})
		}
	}
	for _, tt := range []struct {
		name    string
		listed  []realservers.Deviation
		report  *probe.Report
		change  func(*probe.Report)
		status  int
		failed  int
		problem string
	}{
		{"sound", nil, sound(), nil, 0, 0, ""},
		{"as listed", listed, overwrites(), nil, 3, 0, ""},
		{"the no is gone", listed, sound(), nil, 0, 2, "create-only passes now"},
		{"it is not listed", nil, overwrites(), nil, 3, 2, "✗ it was carried out"},
		{"another no", listed, overwrites(), func(r *probe.Report) { r.Find(probe.CreateOnly).Seen = "it was lost" }, 3, 1, "fails otherwise"},
		{"unsure instead of no", listed, overwrites(), func(r *probe.Report) { r.Find(probe.CreateOnly).Verdict = probe.Unsure }, 3, 1,
			"? it was carried out"},
		{"another status", listed, overwrites(), nil, 1, 1, "1: cas"},
		{"no status", listed, overwrites(), nil, 0, 1, "0: cas"},
		{"a status without a reason", nil, sound(), nil, 3, 1, "3:"},
		{"more is disabled", listed, overwrites(), func(r *probe.Report) { r.Disabled = []probe.Feature{probe.Pruning, probe.CAS} }, 3, 1,
			"3: pruning cas"},
		{"a busy machine", nil, sound(), late("median 3s, 99th percentile 9s"), 0, 0, ""},
		{"late otherwise", nil, sound(), late("it was lost"), 0, 1, "contended-latency fails otherwise"},
		{"a question is left out", nil, sound(), func(r *probe.Report) { r.Find(probe.TornReads).ID = "other" }, 0, 1,
			"torn-reads: fail\nnot answered"},
		{"keys are left", nil, sound(), func(r *probe.Report) { r.Left = []string{"_indexd/probe/x"} }, 0, 1, "left: _indexd/probe/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change != nil {
				tt.change(tt.report)
			}
			v := judge(realservers.Server{Deviations: tt.listed}, realservers.Doctor, doctorResults(tt.report, tt.status))
			problems := strings.Join(v.problems, "\n")
			if v.failed != tt.failed || !strings.Contains(problems, tt.problem) {
				t.Errorf("%d failed, want %d, %q:\n%s", v.failed, tt.failed, tt.problem, problems)
			}
			if len(v.figures) != 1 {
				t.Errorf("figures %q", v.figures)
			}
		})
	}
}
