package blobindex

import (
	"fmt"
	"strings"
	"time"

	"github.com/blobindex/indexd/prune"
)

// A Ruling is by which rules an index is read at one instant, and whose they are.
type Ruling struct {
	// Rules are in force. Saved tells whether they are the index's own, saved in its bucket; else they are those of this
	// process, and Why says in a clause why.
	Rules prune.Rules
	Saved bool
	Why   string
	// Next are rules that have been announced and count from From on, by the store's clock; nil if there are none.
	Next *prune.Rules
	From time.Time
	// Quiet is the instant before which nothing is deleted, since a change is or was under way; zero if none is.
	Quiet time.Time
	// Differences are the rules that this process was given otherwise than they are saved, or announced if they are. With
	// any, it deletes nothing.
	Differences []Difference
	// Unsaved is why it could not be found out whether the rules are saved now, after they were not; nothing is deleted.
	Unsaved error
	// AsOf is the instant, by the clock Clock.
	AsOf  time.Time
	Clock Clock
}

// Withheld says in a clause why nothing may be deleted as far as rules go; empty if there is no such reason.
func (r Ruling) Withheld() string {
	switch {
	case len(r.Differences) > 0:
		return "the index's saved rules are others than those given here: " + r.Different()
	case !r.Quiet.IsZero():
		return fmt.Sprintf("the index's rules are changing; nothing is deleted before %s", stamp(r.Quiet))
	case r.Unsaved != nil:
		return fmt.Sprintf("the index's rules could not be saved: %v", r.Unsaved)
	}
	return ""
}

// Different lists the differences, such as "ttl is 1h here and 2h there".
func (r Ruling) Different() string {
	parts := make([]string, len(r.Differences))
	for i, d := range r.Differences {
		parts[i] = fmt.Sprintf("%s is %s here and %s there", d.Rule, d.Own, d.Saved)
	}
	return strings.Join(parts, ", ")
}

// Changes lists what an announcement changes, such as "ttl from 2h to 6h"; empty without one.
func (r Ruling) Changes() string {
	if r.Next == nil {
		return ""
	}
	var parts []string
	for _, d := range differences(r.Rules, *r.Next) {
		parts = append(parts, fmt.Sprintf("%s from %s to %s", d.Rule, d.Own, d.Saved))
	}
	return strings.Join(parts, ", ")
}

// A reading is what was found out about the rules at one time. It does not change.
type reading struct {
	schedule
	saved   bool
	why     string    // not saved: why
	unsaved error     // see Ruling
	state   string    // names the state of the document; that of no document is empty
	began   time.Time // by the host's clock, before it was asked for
	store   time.Time // the store's clock in the answer; zero if it told none
	final   bool      // it will not be found out otherwise
}

// ruling tells what the reading means at an instant.
func (r *reading) ruling(x *Index, at time.Time, clock Clock) Ruling {
	out := Ruling{
		Rules: r.at(at), Saved: r.saved, Why: r.why, Unsaved: r.unsaved, AsOf: at, Clock: clock,
	}
	if !r.saved {
		return out
	}
	if r.pending(at) {
		next := *r.next
		out.Next, out.From = &next, r.from
	}
	if r.quiet(at) {
		out.Quiet = r.from.Add(rulesQuiet)
	}
	target := r.target()
	out.Differences = differences(x.given.over(target, x.rules), target)
	return out
}
