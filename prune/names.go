package prune

import (
	"strconv"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
)

// An Outcome is how an item finished; it is the signal in its tombstone's name.
type Outcome string

const (
	Done      Outcome = "done"
	Failed    Outcome = "failed"
	Cancelled Outcome = "cancelled"
)

// ParseOutcome returns the outcome spelled s.
func ParseOutcome(s string) (Outcome, bool) {
	switch o := Outcome(s); o {
	case Done, Failed, Cancelled:
		return o, true
	}
	return "", false
}

// HeartbeatName is the name of the heartbeat of id at the given time, cut to milliseconds.
func HeartbeatName(id itemid.ID, at time.Time) string {
	digits := strconv.FormatInt(at.UnixMilli(), 10)
	return id.String() + "~" + strings.Repeat("0", max(0, beatDigits-len(digits))) + digits
}

// TombstoneName is the name of the tombstone of id.
func TombstoneName(id itemid.ID, o Outcome) string { return id.String() + "~" + string(o) }

// SightingOf tells whether name is the marker or a heartbeat of id.
func SightingOf(id itemid.ID, name string) bool {
	rest, ok := strings.CutPrefix(name, id.String())
	if !ok {
		return false
	}
	if rest == "" {
		return true
	}
	_, ok = parseBeat(strings.TrimPrefix(rest, "~"))
	return ok && rest[0] == '~'
}
