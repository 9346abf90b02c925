// Package dedupe decides which run of one sub-key supersedes which. It is pure: no clock, no I/O.
//
// A newer run (larger time, ties by id) that is live supersedes every older one. A newer run that is over (finished,
// stale or dead) supersedes only what was last received no later than its own last word. So the end of a re-run
// never brings a stale card back, and an older run that really goes on shows again at its next heartbeat.
package dedupe

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// An Instant is a point in time in nanoseconds since 1970-01-01 UTC. Never stands for "there is none" and is
// earlier than any other.
type Instant int64

// Never is the Instant of what did not happen.
const Never Instant = math.MinInt64

// A Run is one item, as far as superseding is concerned.
type Run struct {
	ID   string
	At   Instant // the time inside the id
	Live bool    // neither finished, stale nor dead
	// LastReceipt is the largest store time of the run's sightings; Never if none is listed.
	LastReceipt Instant
	// LastWord is when a run that is over was last heard of: its tombstone's store time, else its last receipt. It
	// is not looked at while the run is live.
	LastWord Instant
}

// Newest orders runs newest first: by time, descending, then by id, descending.
func Newest(a, b Run) int {
	return cmp.Or(cmp.Compare(b.At, a.At), strings.Compare(b.ID, a.ID))
}

// Supersedes tells whether newer, which must come before older in the order of Newest, supersedes it.
func Supersedes(newer, older Run) bool {
	return newer.Live || older.LastReceipt <= newer.LastWord
}

// Superseders appends to dst, for each run of one sub-key in the order of Newest, the index of the newest run that
// supersedes it, or -1. It takes n log n steps for n runs.
func Superseders(dst []int, runs []Run) []int {
	// latest[i] is the latest last word among the runs up to i: the end of time from the first live one on. It never
	// falls, so the first run whose latest reaches a receipt is the newest one that supersedes.
	latest := make([]Instant, len(runs))
	word := Never
	for i, r := range runs {
		by := -1
		if i > 0 && r.LastReceipt <= word {
			by, _ = slices.BinarySearch(latest[:i], r.LastReceipt)
		}
		dst = append(dst, by)
		if r.Live {
			word = math.MaxInt64
		} else {
			word = max(word, r.LastWord)
		}
		latest[i] = word
	}
	return dst
}
