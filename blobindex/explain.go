package blobindex

import (
	"context"
	"fmt"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
)

// A Rule is why an item is shown or hidden.
type Rule string

const (
	RuleLive       Rule = "live"       // shown
	RuleLate       Rule = "late"       // shown, though heartbeats are missing
	RuleAbsent     Rule = "absent"     // no key of it is listed
	RuleFinished   Rule = "finished"   // it has a tombstone
	RuleStale      Rule = "stale"      // its latest sighting is past the TTL
	RuleDead       Rule = "dead"       // the resolver says that it is over
	RuleSuperseded Rule = "superseded" // a newer item of its sub-key hides it
)

// An Explanation says whether an item is shown, by which key, which rule and whose clock, and when that will change.
type Explanation struct {
	ID        string     `json:"id"`
	Shown     bool       `json:"shown"` // not counting the cap and the budget of a view
	Rule      Rule       `json:"rule"`
	Key       string     `json:"key"`    // the object that decides; empty if there is none
	Reason    string     `json:"reason"` // one sentence
	AsOf      time.Time  `json:"as_of"`
	Clock     Clock      `json:"clock"`
	StartedAt time.Time  `json:"started_at"`
	LastSeen  *time.Time `json:"last_seen_at"`
	BornLate  bool       `json:"born_late"`
	// ChangesAt is when the answer changes if nothing more is written; null if it does not.
	ChangesAt *time.Time `json:"changes_at"`
	Changes   string     `json:"changes"` // one sentence: what would change it
	Cost      Cost       `json:"-"`
}

// Explain tells why an item is shown or hidden now: ⌈keys/1000⌉ LIST, and the requests of the resolver for the item
// and, where they matter, for the live items of its sub-key that are newer. Errors: as for List; itemid.ErrInvalid.
func (n *Namespace) Explain(ctx context.Context, id itemid.ID) (Explanation, error) {
	if _, err := n.x.rules.Grammar.Parse(id.String()); err != nil {
		return Explanation{}, fmt.Errorf("explaining %q: %w", id, err)
	}
	l, err := n.list(ctx)
	if err != nil {
		return Explanation{}, err
	}
	known := n.knownDead()
	d := l.keys.Decide(l.now, known)
	cost := Cost{List: l.pages}
	status, err := n.resolveRivals(ctx, d, id, &cost)
	if err != nil {
		return Explanation{}, err
	}
	n.rememberDead(known, d.Buried())
	e := n.explain(d, id, status)
	e.ID, e.AsOf, e.Clock, e.StartedAt, e.Cost = id.String(), l.now, whose(l.store), spellable(id.Time()), cost
	return e, nil
}

// resolveRivals asks about the live items of the sub-key, newest first down to id, since a dead one hides less.
func (n *Namespace) resolveRivals(ctx context.Context, d *prune.Decision, id itemid.ID, cost *Cost) (Status, error) {
	var mine Status
	if n.x.resolver == nil {
		return mine, nil
	}
	for _, it := range d.Items(id.Subkey()) {
		t := n.target(it)
		if it.State != prune.Live || cost.Get+n.x.resolver.MaxRequests(t) > n.x.budget {
			continue
		}
		s, err := n.ask(ctx, t)
		cost.Get += s.Requests
		if ctx.Err() != nil {
			return mine, fmt.Errorf("resolving %q: %w", it.ID, ctx.Err())
		}
		if err != nil {
			s = Status{} // shown as unknown, as on a card
			n.x.log.Warn("resolving an item failed; it counts as unknown", "index", t.Index, "namespace", t.Namespace,
				"id", it.ID.String(), "error", err)
		}
		if s.State.Over() {
			d.Bury(it.ID.String())
		}
		if it.ID.String() == id.String() {
			return s, nil
		}
		if !s.State.Over() {
			return mine, nil // it is live and newer: nothing else matters
		}
	}
	return mine, nil
}

func (n *Namespace) explain(d *prune.Decision, id itemid.ID, status Status) Explanation {
	rules := n.x.rules
	it, ok := d.Item(id.String())
	if !ok {
		return Explanation{
			Rule: RuleAbsent, Reason: "No key of this item is listed: it was never registered here, or all of its keys were deleted.",
			Changes: "Registering it, or a heartbeat, makes it exist.",
		}
	}
	e := Explanation{BornLate: it.BornLate, Key: string(n.key(it.SeenBy))}
	if !it.LastSeen.IsZero() {
		e.LastSeen = &it.LastSeen
	}
	stale := it.LastSeen.Add(rules.TTL)
	switch {
	case it.State == prune.Finished:
		gone := it.Ended.Add(rules.TTL + 2*rules.Skew)
		e.Rule, e.Key = RuleFinished, string(n.key(prune.TombstoneName(it.ID, it.Outcome)))
		e.Reason = fmt.Sprintf("It finished (%s): its earliest tombstone was stored at %s.", it.Outcome, stamp(it.Ended))
		e.ChangesAt, e.Changes = &gone, "It stays hidden; from then on the tombstone may be deleted."
	case it.State == prune.Stale:
		e.Rule = RuleStale
		e.Reason = fmt.Sprintf("Its latest sighting, %s, is older than the TTL of %v.", stamp(it.LastSeen), rules.TTL)
		e.Changes = "A heartbeat shows it again; otherwise its keys may be deleted."
	case it.State == prune.Dead:
		e.Rule = RuleDead
		e.Reason = "The resolver said that it is over" + stateText(status) + "."
		e.Changes = "A final state is final: it stays hidden, and its keys may be deleted."
	case it.SupersededBy != "":
		e.Rule = RuleSuperseded
		e.Reason = fmt.Sprintf("The newer item %s of the same sub-key supersedes it.", it.SupersededBy)
		e.Changes = n.supersededChanges(d, it)
		if by, ok := d.Item(it.SupersededBy); ok && by.State == prune.Live {
			// The newer one goes stale on its own; what was received after its last word shows then.
			if end := by.LastSeen.Add(rules.TTL); it.LastReceipt.After(by.LastReceipt) && end.Before(stale) {
				e.ChangesAt = &end
			}
		}
	default:
		e.Shown, e.Rule, e.ChangesAt = true, RuleLive, &stale
		e.Reason = fmt.Sprintf("It is live: last seen at %s, within the TTL of %v, and no newer item of its sub-key "+
			"supersedes it%s.", stamp(it.LastSeen), rules.TTL, stateText(status))
		e.Changes = "Without a further heartbeat it goes stale then."
		if it.Late {
			e.Rule = RuleLate
			e.Reason = fmt.Sprintf("It is shown as late: its last heartbeat, %s, is more than %v old.",
				stamp(it.LastSeen), rules.LateAfter)
		}
	}
	return e
}

func (n *Namespace) supersededChanges(d *prune.Decision, it prune.Item) string {
	by, ok := d.Item(it.SupersededBy)
	if ok && by.State != prune.Live {
		return fmt.Sprintf("That one is %s; a heartbeat of this item, received after that one's last word, shows it again.",
			by.State)
	}
	return "It shows again at its next heartbeat after the newer one has ended."
}

func stateText(s Status) string {
	if s.State == Unknown {
		return ""
	}
	return " (" + s.State.String() + ")"
}

// spellable cuts times that JSON cannot spell: some grammars reach beyond the year 9999.
func spellable(t time.Time) time.Time {
	if last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC); t.After(last) {
		return last
	}
	return t
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
