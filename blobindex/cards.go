package blobindex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/blobindex/indexd/prune"
)

// A Card is one running item as people see it.
type Card struct {
	ID        string    `json:"id"`
	Subkey    string    `json:"subkey"`
	State     string    `json:"state"` // "running" or "unknown"
	StartedAt time.Time `json:"started_at"`
	LastSeen  time.Time `json:"last_seen_at"`
	Late      bool      `json:"late"`
	Title     string    `json:"title"`
	Owner     string    `json:"owner"`
	Progress  *float64  `json:"progress"` // 0 to 1, null if not known
	URL       string    `json:"url"`      // http or https, or empty
}

// Counts say what a view left out. Live is Shown + BeyondCap + Unresolved. Live, Shown, BeyondCap and Unresolved are of
// the items that the request asks for, the others of the whole namespace.
type Counts struct {
	Live       int `json:"live"`       // live items that nothing supersedes
	Shown      int `json:"shown"`      // cards
	BeyondCap  int `json:"beyond_cap"` // live, but older than the last card that there was room for
	Unresolved int `json:"unresolved"` // live, but the budget for resolving was spent
	Foreign    int `json:"foreign"`    // keys that are no item's
	BornLate   int `json:"born_late"`  // live items whose marker was stored more than the skew after the id's time
	Superseded int `json:"superseded"` // live items that a newer one supersedes
	Stale      int `json:"stale"`      // items past their TTL whose keys are still there
}

// A View is the cards of one namespace at one instant.
type View struct {
	Cards  []Card
	Counts Counts
	// Complete is false if the listing failed and this is the last good view; StaleSince is then the time, by the
	// same clock, of the first failure since, and Cause the error.
	Complete   bool
	StaleSince time.Time
	Cause      error
	Recent     []Ended   // the items that finished last, as many as were asked for
	AsOf       time.Time // the instant that it was judged at
	Clock      Clock     // whose clock that is
	Cost       Cost
}

// A CardsRequest says which cards to show. The zero value asks for the newest ones.
type CardsRequest struct {
	Limit  int    // the most cards, 1 to MaxCards; 0 means Options.Cards
	Subkey string // only items of this sub-key
	Owner  string // only items that the resolver says are this owner's
	Recent int    // how many of the items that finished last to tell beside, of the same listing; 0 to MaxCards
}

// MaxCards is the largest Limit, and the largest Recent, of a CardsRequest.
const MaxCards = 200

// ErrRequest is wrapped by the errors for requests that make no sense.
var ErrRequest = errors.New("blobindex: bad request")

// Cards returns the newest live items, resolved down the order of their start until there are enough or the budget is
// spent: ⌈keys/1000⌉ LIST and at most Options.Budget requests of the resolver. If the listing cannot be completed, the
// last good view of the same request is returned, marked stale; without one, the error is (as for List).
func (n *Namespace) Cards(ctx context.Context, req CardsRequest) (View, error) {
	req.Limit = or(req.Limit, n.x.cards)
	if req.Limit < 1 || req.Limit > MaxCards {
		return View{}, fmt.Errorf("%w: limit is %d; give 1 to %d", ErrRequest, req.Limit, MaxCards)
	}
	if req.Recent < 0 || req.Recent > MaxCards {
		return View{}, fmt.Errorf("%w: recent is %d; give 0 to %d", ErrRequest, req.Recent, MaxCards)
	}
	l, err := n.list(ctx)
	if err != nil {
		return n.lastGood(req, err)
	}
	known := n.knownDead()
	d := l.keys.Decide(l.now, known)
	r := resolution{n: n, d: d, req: req, budget: n.x.budget, status: make(map[string]Status)}
	if err := r.run(ctx); err != nil {
		return n.lastGood(req, err)
	}
	n.rememberDead(known, d.Buried())
	n.sweep(l, d)
	v := View{
		Cards: r.cards, Complete: true, AsOf: l.now, Clock: whose(l.store), Counts: r.counts(),
		Cost: Cost{List: l.pages, Get: r.spent},
	}
	if req.Recent > 0 {
		finished := d.Finished()
		v.Recent = ended(finished[:min(req.Recent, len(finished))])
	}
	n.x.views.put(viewKey{n.name, req}, v)
	return v, nil
}

// A resolution is one walk down the items of a decision.
type resolution struct {
	n      *Namespace
	d      *prune.Decision
	req    CardsRequest
	budget int
	spent  int

	status map[string]Status
	cards  []Card
	rest   int // live items after the last card, not known to be another owner's
}

// run walks, resolves what it needs and does not know yet, and walks again, since what a dead item hid may show now.
func (r *resolution) run(ctx context.Context) error {
	for {
		todo := r.walk()
		if len(todo) == 0 {
			return nil
		}
		if err := r.resolve(ctx, todo); err != nil {
			return err
		}
	}
}

// walk makes cards down the order, and returns the items to resolve before they can be known to be right.
func (r *resolution) walk() (todo []Target) {
	r.cards, r.rest = make([]Card, 0, r.req.Limit), 0
	reserved, broke := r.spent, false
	for _, it := range r.d.Shown() {
		if r.req.Subkey != "" && it.ID.Subkey() != r.req.Subkey {
			continue
		}
		status, known := r.status[it.ID.String()]
		if r.n.x.resolver == nil {
			status, known = Status{State: Running}, true
		}
		if known && r.req.Owner != "" && status.Owner != r.req.Owner {
			continue
		}
		if broke || len(r.cards)+len(todo) == r.req.Limit {
			r.rest++
			continue
		}
		if known {
			r.cards = append(r.cards, card(it, status))
			continue
		}
		t := r.n.target(it)
		if reserved += r.n.x.resolver.MaxRequests(t); reserved > r.budget {
			broke = true
			r.rest++
			continue
		}
		todo = append(todo, t)
	}
	return todo
}

func (n *Namespace) target(it prune.Item) Target {
	return Target{
		Index: n.x.name, Namespace: n.name, ID: it.ID, Marker: n.key(it.ID.String()), Body: it.Body,
	}
}

// resolve asks about the targets side by side, within the process's bound, and buries those that are over.
func (r *resolution) resolve(ctx context.Context, todo []Target) error {
	answers := make([]Status, len(todo))
	errs := make([]error, len(todo))
	var wg sync.WaitGroup
	for i, t := range todo {
		wg.Go(func() { answers[i], errs[i] = r.n.ask(ctx, t) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("resolving items of namespace %q: %w", r.n.name, err)
	}
	for i, t := range todo {
		id := t.ID.String()
		r.spent += answers[i].Requests
		if errs[i] != nil {
			r.n.x.log.Warn("resolving an item failed; it is shown as unknown", "index", t.Index,
				"namespace", t.Namespace, "id", id, "error", errs[i])
			answers[i] = Status{}
		}
		r.status[id] = answers[i]
		if answers[i].State.Over() {
			r.d.Bury(id)
		}
	}
	return nil
}

// resolveTimeout bounds one answer of a resolver: a card with the state unknown beats a page that does not come.
const resolveTimeout = 5 * time.Second

// ask asks the resolver about one item. A resolver that panics has said nothing.
func (n *Namespace) ask(ctx context.Context, t Target) (s Status, err error) {
	if err := n.x.resolves.acquire(ctx, n.name); err != nil {
		return Status{}, err
	}
	defer n.x.resolves.release()
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			s, err = Status{}, fmt.Errorf("the resolver panicked: %v", r)
		}
	}()
	return n.x.resolver.Resolve(ctx, t)
}

func card(it prune.Item, s Status) Card {
	return Card{
		ID: it.ID.String(), Subkey: it.ID.Subkey(), State: s.State.String(),
		StartedAt: it.ID.Time(), LastSeen: it.LastSeen, Late: it.Late,
		Title: s.Title, Owner: s.Owner, Progress: s.Progress, URL: s.URL,
	}
}

func (r *resolution) counts() Counts {
	c := r.d.Counts()
	out := Counts{
		Shown: len(r.cards), Foreign: c.Foreign, BornLate: c.BornLate, Superseded: c.Superseded, Stale: c.Stale,
		Live: len(r.cards) + r.rest,
	}
	if len(r.cards) == r.req.Limit {
		out.BeyondCap = r.rest
	} else {
		out.Unresolved = r.rest
	}
	return out
}

// sortedKeys returns the keys of a set, ascending.
func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
