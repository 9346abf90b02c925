package blobindex

import (
	"context"
	"strconv"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
)

// A RunState is what a resolver says of an item.
type RunState uint8

const (
	Unknown RunState = iota // nothing is known: the item is shown
	Running
	Succeeded
	FailedRun
	CancelledRun
	Gone
)

var runStates = [...]string{"unknown", "running", "succeeded", "failed", "cancelled", "gone"}

func (s RunState) valid() bool { return int(s) < len(runStates) }

// String is the state in lower case, or the number of an undefined one.
func (s RunState) String() string {
	if !s.valid() {
		return "RunState(" + strconv.Itoa(int(s)) + ")"
	}
	return runStates[s]
}

// Over tells whether the state is final: an item in it is dead, for good. An undefined state is not.
func (s RunState) Over() bool { return s >= Succeeded && s.valid() }

// A Target is the item that a resolver is asked about.
type Target struct {
	Index, Namespace string // Namespace is FlatNamespace in a flat index
	ID               itemid.ID
	Marker           bucket.Key // the key of its marker
	Body             int64      // the marker's length in bytes; -1 if no marker is listed
}

// A Status is a resolver's answer. The zero Status says that nothing is known.
type Status struct {
	State RunState
	Title string
	Owner string
	// URL is empty or an absolute http or https URL.
	URL string
	// Progress is between 0 and 1; nil if it is not known.
	Progress *float64
	// Requests is how many requests it took; it is set beside an error too.
	Requests int
}

// A Resolver finds out what has become of an item. It must be safe for concurrent use, should end with its context,
// and must answer a final state on positive evidence only: what cannot be found or read is Unknown or an error, since
// an item in a final state is hidden and its keys are deleted.
type Resolver interface {
	// MaxRequests is the most requests that Resolve may make for this target.
	MaxRequests(Target) int
	// Resolve tells the item's state. After an error the item is shown with the state unknown.
	Resolve(context.Context, Target) (Status, error)
}
