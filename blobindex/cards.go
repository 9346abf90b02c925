package blobindex

import (
	"cmp"
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

// Counts say what a view left out. Live is Shown + BeyondCap + Unresolved. These four are of the items that the request
// asks for, as far as that is known: who owns an item is not known before it is resolved, so with an Owner BeyondCap and
// Unresolved count items of others too. The other counts are of the whole namespace.
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
// spent: what Snapshot takes and at most Options.Budget requests of the resolver. If the listing cannot be completed, the
// last good view of the same request is returned, marked stale; without one, the error is (as for Snapshot).
func (n *Namespace) Cards(ctx context.Context, req CardsRequest) (View, error) {
	req, err := n.Check(req)
	if err != nil {
		return View{}, err
	}
	begun := n.x.views.begin()
	s, err := n.Snapshot(ctx)
	if err != nil {
		return n.lastGood(req, err)
	}
	v, err := s.Cards(ctx, req)
	if err != nil {
		return n.lastGood(req, err)
	}
	v.Cost.List += s.Cost.List
	v.Cost.Get += s.Cost.Get
	n.x.views.put(n.name, req, v, begun)
	return v, nil
}

// Check returns the request with its defaults filled in; of two requests that ask for the same, it returns the same. The
// error is ErrRequest.
func (n *Namespace) Check(req CardsRequest) (CardsRequest, error) {
	req.Limit = cmp.Or(req.Limit, n.x.cards)
	if req.Limit < 1 || req.Limit > MaxCards {
		return req, fmt.Errorf("%w: limit is %d; give 1 to %d", ErrRequest, req.Limit, MaxCards)
	}
	if req.Recent < 0 || req.Recent > MaxCards {
		return req, fmt.Errorf("%w: recent is %d; give 0 to %d", ErrRequest, req.Recent, MaxCards)
	}
	return req, nil
}

// Cards returns the newest live items as of the snapshot, for at most Options.Budget requests of the resolver. What was
// resolved for one request serves the others; of several at once each item is asked about once. The Cost is what this call
// took. Errors: ErrRequest, and the context's; what was resolved by then stays.
func (s *Snapshot) Cards(ctx context.Context, req CardsRequest) (View, error) {
	req, err := s.n.Check(req)
	if err != nil {
		return View{}, err
	}
	r := resolution{s: s, n: s.n, req: req, budget: s.n.x.budget}
	v, err := r.run(ctx)
	if err != nil {
		return View{}, err
	}
	s.Settle()
	return v, nil
}

// A resolution is one walk down the items of a snapshot.
type resolution struct {
	s      *Snapshot
	n      *Namespace
	req    CardsRequest
	budget int
	spent  int

	cards []Card
	rest  int // live items after the last card, not known to be another owner's
}

// run walks, resolves what it needs and does not know yet, and walks again, since what a dead item hid may show now.
func (r *resolution) run(ctx context.Context) (View, error) {
	var v View
	if len(r.walk(&v)) == 0 {
		return v, nil
	}
	select {
	case r.s.turn <- struct{}{}:
		defer func() { <-r.s.turn }()
	case <-ctx.Done():
		return v, fmt.Errorf("resolving items of namespace %q: %w", r.n.name, ctx.Err())
	}
	for {
		todo := r.walk(&v)
		if len(todo) == 0 {
			return v, nil
		}
		if err := r.resolve(ctx, todo); err != nil {
			return v, err
		}
	}
}

// ownerBatch is how many items are asked about at once to find an owner's.
const ownerBatch = 256

// walk makes cards down the order, and returns the items to resolve before they can be known to be right. Without any, v is
// what it found.
func (r *resolution) walk(v *View) (todo []Target) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if todo = r.pick(); len(todo) > 0 {
		return todo
	}
	*v = View{
		Cards: r.cards, Complete: true, AsOf: r.s.AsOf, Clock: r.s.Clock, Counts: r.counts(), Cost: Cost{Get: r.spent},
	}
	if r.req.Recent > 0 {
		finished := r.s.decision.Finished()
		v.Recent = ended(finished[:min(r.req.Recent, len(finished))])
	}
	return nil
}

// pick is walk, with the snapshot's lock held.
func (r *resolution) pick() (todo []Target) {
	r.cards, r.rest = make([]Card, 0, min(r.req.Limit, 16)), 0
	reserved, broke := r.spent, false
	most := r.req.Limit
	if r.req.Owner != "" {
		most = max(most, ownerBatch) // most of those asked about may be somebody else's
	}
	for _, it := range r.s.decision.Shown() {
		if r.req.Subkey != "" && it.ID.Subkey() != r.req.Subkey {
			continue
		}
		status, known := Status{State: Running}, true
		if r.n.x.resolver != nil {
			var a answer
			a, known = r.s.answers[it.ID.String()]
			status = a.status
		}
		if known && r.req.Owner != "" && status.Owner != r.req.Owner {
			continue
		}
		if broke || len(r.cards) == r.req.Limit || len(r.cards)+len(todo) >= most {
			r.rest++
			continue
		}
		if known {
			r.cards = append(r.cards, card(it, status))
			continue
		}
		t := r.n.target(it)
		if reserved += r.n.maxRequests(t); reserved > r.budget {
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
	asked := r.n.x.now()
	answers := make([]Status, len(todo))
	errs := make([]error, len(todo))
	var wg sync.WaitGroup
	for i, t := range todo {
		wg.Go(func() { answers[i], errs[i] = r.n.ask(ctx, t) })
	}
	wg.Wait()
	ended := ctx.Err()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for i, t := range todo {
		id := t.ID.String()
		r.spent += answers[i].Requests
		if errs[i] != nil {
			if ended != nil {
				continue // it tells nothing of the item
			}
			r.n.x.log.Warn("resolving an item failed; it is shown as unknown", "index", t.Index,
				"namespace", t.Namespace, "id", id, "error", errs[i])
			answers[i] = Status{}
		}
		r.s.take(id, answer{status: answers[i], asked: asked, failed: errs[i] != nil})
	}
	if ended != nil {
		return fmt.Errorf("resolving items of namespace %q: %w", r.n.name, ended)
	}
	return nil
}

// maxRequests is what the resolver may cost; one that panics is asked all the same, and panics again where it is caught.
func (n *Namespace) maxRequests(t Target) (most int) {
	defer func() {
		if recover() != nil {
			most = 1
		}
	}()
	return max(0, n.x.resolver.MaxRequests(t))
}

// resolveTimeout bounds one answer of a resolver: a card with the state unknown beats a page that does not come.
const resolveTimeout = 5 * time.Second

// ask asks the resolver about one item, and waits for it no longer than resolveTimeout, also if it ignores its context:
// then it keeps its place among those that are asked until it returns.
func (n *Namespace) ask(ctx context.Context, t Target) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	if err := n.x.limits.resolve(ctx, n.x.name+"/"+n.name); err != nil {
		cancel()
		return Status{}, err
	}
	type result struct {
		status Status
		err    error
	}
	answers := make(chan result, 1)
	go func() {
		defer cancel()
		defer n.x.limits.resolves.release()
		s, err := n.resolve(ctx, t)
		answers <- result{s, err}
	}()
	select {
	case a := <-answers:
		return a.status, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answers: // it came with the deadline
		return a.status, a.err
	default:
		return Status{Requests: n.maxRequests(t)}, fmt.Errorf("the resolver did not answer: %w", ctx.Err())
	}
}

// resolve takes from the resolver what makes sense. One that panics has said nothing.
func (n *Namespace) resolve(ctx context.Context, t Target) (s Status, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = Status{}, fmt.Errorf("the resolver panicked: %v", r)
		}
	}()
	s, err = n.x.resolver.Resolve(ctx, t)
	s.Requests = max(0, s.Requests)
	if err == nil && !s.State.valid() {
		return Status{Requests: s.Requests}, fmt.Errorf("the resolver answered the undefined state %v", s.State)
	}
	if p := s.Progress; p != nil && !(*p >= 0 && *p <= 1) {
		s.Progress = nil // NaN among them, which JSON cannot spell
	}
	return s, err
}

func card(it prune.Item, s Status) Card {
	return Card{
		ID: it.ID.String(), Subkey: it.ID.Subkey(), State: s.State.String(),
		StartedAt: it.ID.Time(), LastSeen: it.LastSeen, Late: it.Late,
		Title: s.Title, Owner: s.Owner, Progress: s.Progress, URL: s.URL,
	}
}

func (r *resolution) counts() Counts {
	c := r.s.decision.Counts()
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
