package probe

import (
	"slices"
	"time"
)

// An Answer is that to one question.
type Answer string

// The answers. What could not be tried is unsure, and never yes.
const (
	Yes    Answer = "yes"
	No     Answer = "no"
	Unsure Answer = "unsure"
)

// A Feature is a part of indexd that a finding may disable.
type Feature string

// The features.
const (
	Markers Feature = "markers" // register, heartbeat, finish, and reading them
	Pruning Feature = "pruning" // deleting what is over
	CAS     Feature = "cas"     // documents that several writers change: manifests, leases, snapshots, rules of an index
)

// A Finding is what was found out about one question. Its JSON is stable.
type Finding struct {
	ID       ID        `json:"id"`
	Question string    `json:"question"`
	Verdict  Answer    `json:"verdict"`
	Seen     string    `json:"seen"`               // what was seen, or why it could not be tried
	Disables []Feature `json:"disables,omitempty"` // of a no only: what indexd refuses to do here
	Mend     string    `json:"mend,omitempty"`     // of a no only: how to get a yes
	Remark   string    `json:"remark,omitempty"`   // worth knowing; never counts
}

// A Report is what a run found. Its JSON is stable.
type Report struct {
	Format   string    `json:"format"` // ReportFormat
	Sites    []string  `json:"sites"`  // what was asked, in turn and at once
	Began    time.Time `json:"began"`  // by this host's clock
	Seconds  float64   `json:"seconds"`
	Complete bool      `json:"complete"` // false: the run ended early, and what it did not come to is missing
	Disabled []Feature `json:"disabled"`
	Findings []Finding `json:"findings"`
	Left     []string  `json:"left"` // keys that could not be deleted again, at most 20
}

// ReportFormat names the form of a Report's JSON.
const ReportFormat = "indexd-doctor/1"

// Find returns the finding with that id, nil if the question was not asked: not of this kind of store, or not yet.
func (r *Report) Find(id ID) *Finding {
	for i := range r.Findings {
		if r.Findings[i].ID == id {
			return &r.Findings[i]
		}
	}
	return nil
}

// sum fills Disabled, and puts the findings into the order of the questions.
func (r *Report) sum() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank(a.ID) - rank(b.ID) })
	r.Disabled = []Feature{}
	for _, f := range []Feature{Markers, Pruning, CAS} {
		if slices.ContainsFunc(r.Findings, func(x Finding) bool { return slices.Contains(x.Disables, f) }) {
			r.Disabled = append(r.Disabled, f)
		}
	}
}
