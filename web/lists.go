package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/web/api"
)

// Bounds of a page of a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

// A cursor names the last entry of the page before. Each page lists anew, so it is a place in the order, which stays
// where it is when entries come and go, and no number of entries.

var cursorText = base64.RawURLEncoding.Strict()

func badCursor() error {
	return badRequest("The cursor is none of this list.", "Give the next of the page before as it was, or leave it out.")
}

// page cuts the entries after the cursor's place, which after finds, to the limit. mark spells an entry's place.
func page[T any](all []T, limit *int, start int, mark func(T) string) (entries []T, next *string) {
	entries = all[start:]
	size := defaultPage
	if limit != nil {
		size = *limit
	}
	if len(entries) > size {
		entries = entries[:size]
		text := cursorText.EncodeToString([]byte(mark(entries[size-1])))
		next = &text
	}
	return entries, next
}

func readCursor(text *string) (place string, err error) {
	if text == nil {
		return "", nil
	}
	b, err := cursorText.DecodeString(*text)
	if err != nil || len(b) == 0 {
		return "", badCursor()
	}
	return string(b), nil
}

// ListItems is GET …/items.
func (s *Server) ListItems(ctx context.Context, r api.ListItemsRequestObject) (api.ListItemsResponseObject, error) {
	x, n, err := s.namespace(r.Index, r.Namespace)
	if err != nil {
		return nil, err
	}
	place, err := readCursor(r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	var last itemid.ID
	if place != "" {
		if last, err = x.ParseID(ctx, place); err != nil {
			return nil, badCursor()
		}
	}
	l, err := s.hub.List(ctx, n)
	if err != nil {
		return nil, storeProblem(err, reads)
	}
	grammar := x.Rules().Grammar // by which it was listed
	start := 0
	if place != "" {
		start = sort.Search(len(l.Items), func(i int) bool {
			id, err := grammar.Parse(l.Items[i].ID)
			return err == nil && id.Compare(last) < 0
		})
	}
	items, next := page(l.Items, r.Params.Limit, start, func(i blobindex.Live) string { return i.ID })
	body := api.Items{Items: make([]api.Item, len(items)), Next: next}
	for i, it := range items {
		body.Items[i] = api.Item{
			Id: it.ID, Subkey: it.Subkey, StartedAt: instant(it.StartedAt), LastSeenAt: instant(it.LastSeen),
			Late: it.Late, BornLate: it.BornLate,
		}
	}
	j := s.judged(l.AsOf, l.Clock, l.Cost)
	return api.ListItems200JSONResponse{
		Body:    body,
		Headers: api.ListItems200ResponseHeaders{IndexdAsOf: j.asOf, IndexdClock: j.clock, IndexdCost: j.cost},
	}, nil
}

// ListRecent is GET …/recent.
func (s *Server) ListRecent(ctx context.Context, r api.ListRecentRequestObject) (api.ListRecentResponseObject, error) {
	x, n, err := s.namespace(r.Index, r.Namespace)
	if err != nil {
		return nil, err
	}
	place, err := readCursor(r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	ended, id, isPlace := strings.Cut(place, " ")
	nanos, err := strconv.ParseInt(ended, 10, 64)
	if place != "" {
		if _, parseErr := x.ParseID(ctx, id); !isPlace || err != nil || parseErr != nil {
			return nil, badCursor()
		}
	}
	l, err := s.hub.Recent(ctx, n)
	if err != nil {
		return nil, storeProblem(err, reads)
	}
	start := 0
	if place != "" {
		last := time.Unix(0, nanos)
		start = sort.Search(len(l.Items), func(i int) bool {
			it := l.Items[i]
			return cmp.Or(it.EndedAt.Compare(last), strings.Compare(it.ID, id)) < 0
		})
	}
	items, next := page(l.Items, r.Params.Limit, start, func(it blobindex.Ended) string {
		return strconv.FormatInt(it.EndedAt.UnixNano(), 10) + " " + it.ID
	})
	body := api.Recent{Items: make([]api.Ended, len(items)), Next: next}
	for i, it := range items {
		body.Items[i] = api.Ended{
			Id: it.ID, Subkey: it.Subkey, Outcome: api.Outcome(it.Outcome),
			StartedAt: instant(it.StartedAt), EndedAt: instant(it.EndedAt),
		}
	}
	j := s.judged(l.AsOf, l.Clock, l.Cost)
	return api.ListRecent200JSONResponse{
		Body:    body,
		Headers: api.ListRecent200ResponseHeaders{IndexdAsOf: j.asOf, IndexdClock: j.clock, IndexdCost: j.cost},
	}, nil
}
