package ui

import (
	"fmt"
	"strings"
)

// A Filter is which items a page shows. An empty field asks for all.
type Filter struct {
	Subkey, Owner, State string
	Limit                int
	States               []string // that there are to choose from
	ClearURL             string   // the page without a filter
}

// Any reports whether it leaves anything out, but for the number of cards.
func (f Filter) Any() bool { return f.Subkey != "" || f.Owner != "" || f.State != "" }

// A More is a link to a page of more cards.
type More struct {
	Text, URL string
}

// Headline says how much is running. It never says "none" of what is only not shown, nor of what was not looked at.
func (v *View) Headline() string {
	f := v.Filter
	rest := v.Live - v.Shown
	switch {
	case v.Live == 0 && (f.Subkey != "" || f.Owner != ""):
		return "Nothing running matches"
	case v.Live == 0:
		return "Nothing running"
	case f.State != "" && v.Shown > 0:
		return v.ofState()
	case f.Owner != "" && rest > 0 && v.Shown == 0:
		return "None found" // whose the others are is not known
	case f.Owner != "" && rest > 0:
		return fmt.Sprintf("At least %d running", v.Shown)
	case rest == 0:
		return fmt.Sprintf("%d running", v.Live)
	}
	return fmt.Sprintf("%d of %d running", v.Shown, v.Live)
}

func (v *View) ofState() string {
	switch n := len(v.Cards); n {
	case 0:
		return fmt.Sprintf("None of %d is %s", v.Shown, v.Filter.State)
	case 1:
		return fmt.Sprintf("1 of %d is %s", v.Shown, v.Filter.State)
	default:
		return fmt.Sprintf("%d of %d are %s", n, v.Shown, v.Filter.State)
	}
}

// Among says what else there is that the filter was not held against, or is empty.
func (v *View) Among() string {
	rest := v.Live - v.Shown
	switch {
	case rest == 0:
		return ""
	case v.Filter.Owner != "":
		return fmt.Sprintf("Whose %d more are was not looked up.", rest)
	case v.Filter.State != "":
		return fmt.Sprintf("Only the newest %d of %d running are looked at.", v.Shown, v.Live)
	case len(v.Cards) == 0:
		return ""
	}
	return "Only the newest are shown here."
}

// Nothing says why a view that is filtered has no card.
func (v *View) Nothing() string {
	f := v.Filter
	var by []string
	if f.Subkey != "" {
		by = append(by, "of the sub-key “"+f.Subkey+"”")
	}
	if f.Owner != "" {
		by = append(by, "of the owner “"+f.Owner+"”")
	}
	what := strings.Join(append([]string{"running item"}, by...), " ")
	switch {
	case f.State != "" && v.Shown > 0:
		return fmt.Sprintf("None of the items shown is %s. Without the filter there are %d.", f.State, v.Shown)
	case v.Live > 0:
		return "No " + what + " was found among those that could be looked up."
	}
	return "There is no " + what + "."
}
