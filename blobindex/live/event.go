package live

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/blobindex/indexd/blobindex"
)

// A Kind says what an event does.
type Kind string

// The kinds; the package documentation says how a client applies them.
const (
	Snapshot Kind = "snapshot"
	Upsert   Kind = "upsert"
	Remove   Kind = "remove"
	Stale    Kind = "stale"
)

// An Event is one step of a stream.
type Event struct {
	Kind Kind
	ID   string // <epoch>-<shape>-<seq>
	Prev string // the id of the event before it; empty if it is the first one
	// Reset: a snapshot for a client that wanted to go on from an id that there is no way on from.
	Reset bool
	// View tells the counts, the instant, the recent items if the shape has them, and whether the view is complete; its Cards
	// are all of a snapshot, and the new and changed ones of an upsert.
	View    blobindex.View
	Removed []string // ids, of a removal
	Data    []byte   // what Options.Encode made of it
}

// digest is the part of an event's id that names the shape.
func digest(req blobindex.CardsRequest) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %t %q %q", req.Limit, req.Recent, req.Timeline, req.Subkey, req.Owner))
	return hex.EncodeToString(sum[:6])
}

// position reads the id of an event of that epoch and shape.
func position(id, epoch, shape string) (seq uint64, ok bool) {
	text, ok := strings.CutPrefix(id, epoch+"-"+shape+"-")
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	return seq, err == nil && seq > 0 && strconv.FormatUint(seq, 10) == text
}

// diff returns the events that lead from one view to the next one of the same request, without their ids.
func diff(from, to blobindex.View) []Event {
	had := make(map[string]*blobindex.Card, len(from.Cards))
	for i := range from.Cards {
		had[from.Cards[i].ID] = &from.Cards[i]
	}
	var changed []blobindex.Card
	for _, c := range to.Cards {
		if old := had[c.ID]; old == nil || !sameCard(*old, c) {
			changed = append(changed, c)
		}
		delete(had, c.ID)
	}
	var events []Event
	if len(had) > 0 {
		gone := make([]string, 0, len(had))
		for id := range had {
			gone = append(gone, id)
		}
		slices.Sort(gone)
		events = append(events, Event{Kind: Remove, Removed: gone, View: bare(to)})
	}
	other := from.Counts != to.Counts || !slices.Equal(from.Recent, to.Recent) || to.Complete && !from.Complete
	if len(changed) > 0 || other && len(events) == 0 {
		e := Event{Kind: Upsert, View: bare(to)}
		e.View.Cards = changed
		events = append(events, e)
	}
	if from.Complete && !to.Complete {
		events = append(events, Event{Kind: Stale, View: bare(to)})
	}
	return events
}

// bare is a view without its cards.
func bare(v blobindex.View) blobindex.View {
	v.Cards, v.Cost = nil, blobindex.Cost{}
	return v
}

func sameCard(a, b blobindex.Card) bool {
	if (a.Progress == nil) != (b.Progress == nil) || a.Progress != nil && *a.Progress != *b.Progress {
		return false
	}
	a.Progress, b.Progress = nil, nil
	return a == b
}

// Apply returns what a client shows after an event, given what it showed before.
func (e Event) Apply(before blobindex.View) blobindex.View {
	after := e.View
	if e.Kind == Snapshot {
		return after
	}
	after.Cards = nil
	for _, c := range before.Cards {
		again := slices.ContainsFunc(e.View.Cards, func(n blobindex.Card) bool { return n.ID == c.ID })
		if !again && !slices.Contains(e.Removed, c.ID) {
			after.Cards = append(after.Cards, c)
		}
	}
	after.Cards = append(after.Cards, e.View.Cards...)
	slices.SortFunc(after.Cards, func(a, b blobindex.Card) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(b.ID, a.ID))
	})
	return after
}
