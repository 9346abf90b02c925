package web

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/web/api"
)

// lastInstant is the last one that RFC 3339 can spell; ids of some grammars reach further.
var lastInstant = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// instant makes a time fit for the wire.
func instant(t time.Time) time.Time {
	if t.After(lastInstant) {
		return lastInstant
	}
	return t.UTC()
}

func instantOrNull(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	i := instant(*t)
	return &i
}

// judged is what the headers of an answer say about it.
type judged struct {
	asOf, clock, cost *string
}

func (s *Server) judged(asOf time.Time, clock blobindex.Clock, cost blobindex.Cost) judged {
	at, whose := instant(asOf).Format(time.RFC3339Nano), string(clock)
	price := "list=" + strconv.Itoa(cost.List) + ", get=" + strconv.Itoa(cost.Get) + ", usd=" +
		usd(s.opt.Prices.usd(cost))
	return judged{&at, &whose, &price}
}

func usd(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// GetCards is GET …/cards.
func (s *Server) GetCards(ctx context.Context, r api.GetCardsRequestObject) (api.GetCardsResponseObject, error) {
	_, n, err := s.namespace(r.Index, r.Namespace)
	if err != nil {
		return nil, err
	}
	req := cardsRequest(r.Params.Limit, r.Params.Subkey, r.Params.Owner)
	v, err := s.cards(ctx, n, req)
	if err != nil {
		return nil, err
	}
	at := bodyPlace{r.Index, n.Name(), req}
	if known, ok := s.bodies.find(at, v); ok {
		return known, nil
	}
	return s.bodies.keep(at, v, s.judged(v.AsOf, v.Clock, v.Cost))
}

// cardsRequest is what a query asks for.
func cardsRequest(limit *int, subkey, owner *string) (req blobindex.CardsRequest) {
	if limit != nil {
		req.Limit = *limit
	}
	if subkey != nil {
		req.Subkey = *subkey
	}
	if owner != nil {
		req.Owner = *owner
	}
	return req
}

// cards is the one way in which the API and the page get at a view. Its error is a problem.
func (s *Server) cards(ctx context.Context, n *blobindex.Namespace, req blobindex.CardsRequest) (blobindex.View, error) {
	v, err := s.hub.Cards(ctx, n, req)
	if err != nil {
		return v, storeProblem(err, reads)
	}
	return v, nil
}

func cardsBody(v blobindex.View) api.Cards {
	body := api.Cards{
		Cards: make([]api.Card, len(v.Cards)), Counts: counts(v.Counts), Complete: v.Complete,
		StaleSince: instantOrNull(&v.StaleSince),
	}
	for i, c := range v.Cards {
		body.Cards[i] = api.Card{
			Id: c.ID, Subkey: c.Subkey, State: api.CardState(c.State), StartedAt: instant(c.StartedAt),
			LastSeenAt: instant(c.LastSeen), Late: c.Late, Title: c.Title, Owner: c.Owner, Progress: share(c.Progress),
			Url: webURL(c.URL),
		}
	}
	return body
}

func counts(c blobindex.Counts) api.Counts {
	return api.Counts{
		Live: c.Live, Shown: c.Shown, BeyondCap: c.BeyondCap, Unresolved: c.Unresolved, Foreign: c.Foreign,
		BornLate: c.BornLate, Superseded: c.Superseded, Stale: c.Stale,
	}
}

// share is a progress from 0 to 1, or nothing: a resolver may be anybody's.
func share(p *float64) *float64 {
	if p == nil || !(*p >= 0 && *p <= 1) {
		return nil
	}
	return p
}

// webURL returns s if it is an absolute http or https URL, else nothing: a link must not run a script.
func webURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return ""
	}
	return s
}

// ExplainItem is GET …/items/{id}/explain.
func (s *Server) ExplainItem(ctx context.Context, r api.ExplainItemRequestObject) (api.ExplainItemResponseObject, error) {
	x, n, err := s.namespace(r.Index, r.Namespace)
	if err != nil {
		return nil, err
	}
	id, err := x.ParseID(ctx, r.Id)
	if err != nil {
		return nil, storeProblem(err, reads)
	}
	e, err := n.Explain(ctx, id)
	if err != nil {
		return nil, storeProblem(err, reads)
	}
	j := s.judged(e.AsOf, e.Clock, e.Cost)
	return api.ExplainItem200JSONResponse{
		Body: api.Explanation{
			Id: e.ID, Shown: e.Shown, Rule: api.ExplanationRule(e.Rule), Key: e.Key, Reason: e.Reason,
			AsOf: instant(e.AsOf), Clock: api.ExplanationClock(e.Clock), StartedAt: instant(e.StartedAt),
			LastSeenAt: instantOrNull(e.LastSeen), BornLate: e.BornLate, ChangesAt: instantOrNull(e.ChangesAt),
			Changes: e.Changes,
		},
		Headers: api.ExplainItem200ResponseHeaders{IndexdAsOf: j.asOf, IndexdClock: j.clock, IndexdCost: j.cost},
	}, nil
}
