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
	RuleFuture     Rule = "future"     // it is dated too far ahead of its own store time, and is no item
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

// Explain tells why an item is shown or hidden now: what Snapshot takes, and the requests of the resolver for the item
// and, where they matter, for the live items of its sub-key that are newer. Errors: as for Snapshot; itemid.ErrInvalid.
func (n *Namespace) Explain(ctx context.Context, id itemid.ID) (Explanation, error) {
	if _, err := n.x.ParseID(ctx, id.String()); err != nil {
		return Explanation{}, fmt.Errorf("explaining %q: %w", id, err)
	}
	s, err := n.Snapshot(ctx)
	if err != nil {
		return Explanation{}, err
	}
	// The grammar that was known before may have been another one.
	if _, err := s.ruling.Rules.Grammar.Parse(id.String()); err != nil {
		return Explanation{}, fmt.Errorf("explaining %q: %w", id, err)
	}
	asked := Cost{}
	status, err := n.resolveRivals(ctx, s.decision, id, &asked)
	if err != nil {
		return Explanation{}, err
	}
	s.Cost.Get += asked.Get // nobody else has this snapshot
	s.Settle()
	e := s.explain(id, status)
	if s.ruling.Next != nil {
		e.Changes += fmt.Sprintf(" From %s on other rules count: %s.", stamp(s.ruling.From), s.ruling.Changes())
	}
	e.ID, e.AsOf, e.Clock, e.StartedAt, e.Cost = id.String(), s.AsOf, s.Clock, spellable(id.Time()), s.Cost
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
		if it.State != prune.Live || cost.Get+n.maxRequests(t) > n.x.budget {
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

func (s *Snapshot) explain(id itemid.ID, status Status) Explanation {
	n, rules := s.n, s.ruling.Rules
	it, ok := s.decision.Item(id.String())
	if !ok {
		return s.explainAbsent(id)
	}
	e := Explanation{BornLate: it.BornLate, Key: string(n.key(it.SeenBy))}
	if !it.LastSeen.IsZero() {
		e.LastSeen = &it.LastSeen
	}
	switch {
	case it.State == prune.Finished:
		gone := it.Ended.Add(rules.TTL + 2*rules.Skew)
		e.Rule, e.Key = RuleFinished, string(n.key(prune.TombstoneName(it.ID, it.Outcome)))
		e.Reason = fmt.Sprintf("It finished (%s): its earliest tombstone was stored at %s.", it.Outcome, stamp(it.Ended))
		e.ChangesAt, e.Changes = &gone, "It stays hidden; from then on the tombstone may be deleted."
	case it.State == prune.Stale:
		e.Rule = RuleStale
		e.Reason = fmt.Sprintf("Its latest sighting, %s, is older than the TTL of %v.", stamp(it.LastSeen), rules.TTL)
		e.Changes = "A heartbeat makes it live again; otherwise its keys may be deleted."
	case it.State == prune.Dead:
		e.Rule = RuleDead
		e.Reason = "The resolver said that it is over" + stateText(status) + "."
		e.Changes = "A final state is final: it stays hidden, and its keys may be deleted."
	case it.SupersededBy != "":
		s.explainSuperseded(&e, it)
	default:
		explainShown(&e, rules, it, status)
	}
	return e
}

func (s *Snapshot) explainAbsent(id itemid.ID) Explanation {
	rules := s.ruling.Rules
	name, stored, ok := s.decision.Future(id.String())
	if !ok {
		return Explanation{
			Rule:    RuleAbsent,
			Reason:  "No key of this item is listed: it was never registered here, or all of its keys were deleted.",
			Changes: "Registering it, or a heartbeat, makes it exist.",
		}
	}
	gone := stored.Add(rules.TTL)
	return Explanation{
		Rule: RuleFuture, Key: string(s.n.key(name)), ChangesAt: &gone,
		Reason: fmt.Sprintf("Its key is dated more than %v ahead of its own store time, %s: it counts as foreign.",
			rules.Skew, stamp(stored)),
		Changes: "It is never shown; from then on the key may be deleted.",
	}
}

func explainShown(e *Explanation, rules prune.Rules, it prune.Item, status Status) {
	stale := it.LastSeen.Add(rules.TTL)
	e.Shown, e.Rule, e.ChangesAt = true, RuleLive, &stale
	e.Reason = fmt.Sprintf("It is live: last seen at %s, within the TTL of %v, and no newer item of its sub-key supersedes "+
		"it%s.", stamp(it.LastSeen), rules.TTL, stateText(status))
	e.Changes = "Without a further heartbeat it goes stale then."
	if it.Late {
		e.Rule = RuleLate
		e.Reason = fmt.Sprintf("It is shown as late: its latest sighting, %s, is more than %v old.", stamp(it.LastSeen),
			rules.LateAfter)
	}
}

// explainSuperseded finds out when nothing supersedes the item any more: a live newer one supersedes it until it goes
// stale, and from then on only if the item was last received no later than that one.
func (s *Snapshot) explainSuperseded(e *Explanation, it prune.Item) {
	n, ttl := s.n, s.ruling.Rules.TTL
	e.Rule = RuleSuperseded
	e.Reason = fmt.Sprintf("The newer item %s of the same sub-key supersedes it.", it.SupersededBy)
	e.Changes = "A heartbeat of this item, received after every newer one has ended, shows it again."
	var until time.Time
	for _, newer := range s.decision.Items(it.ID.Subkey()) {
		if newer.ID.String() == it.ID.String() {
			break
		}
		if newer.ID.String() == it.SupersededBy {
			e.Key = string(n.key(newer.SeenBy))
			if newer.State == prune.Finished {
				e.Key = string(n.key(prune.TombstoneName(newer.ID, newer.Outcome)))
			}
		}
		word := newer.LastReceipt
		if newer.State == prune.Finished {
			word = newer.Ended
		}
		switch {
		case !it.LastReceipt.After(word):
			return // for good, as far as what is written goes
		case newer.State == prune.Live && newer.LastSeen.After(until):
			until = newer.LastSeen
		}
	}
	if until = until.Add(ttl); until.Before(it.LastSeen.Add(ttl)) {
		e.ChangesAt = &until
		e.Changes = "It shows then, unless a newer one is heard of again."
	}
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
