package web

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/labstack/echo/v4"
)

// Bounds of the answers that are kept encoded. When there are more, all are dropped, and made again as they are asked for.
const (
	maxBodies    = 1024
	maxBodyBytes = 32 << 20 // of all of them
)

// A bodyMemory keeps the answers to requests for cards as they are on the wire, so that making one is paid for once, by the
// first of those who look at the same view. Its zero value is empty. It is safe for concurrent use.
type bodyMemory struct {
	mu    sync.Mutex
	known map[bodyPlace]knownBody
	bytes int // of their bodies
}

type bodyPlace struct {
	index, namespace string
	req              blobindex.CardsRequest
}

// A knownBody is what a view came to; it is not changed any more.
type knownBody struct {
	of     bodySource
	body   []byte
	header http.Header
}

// A bodySource is all that an answer is made of. The cards of a shared view are never changed, so that the same place in memory,
// which cannot be given to others while it is known here, means the same cards.
type bodySource struct {
	first            *blobindex.Card
	cards            int
	counts           blobindex.Counts
	complete         bool
	staleSince, asOf time.Time
	clock            blobindex.Clock
	cost             blobindex.Cost
}

func sourceOf(v blobindex.View) bodySource {
	of := bodySource{
		cards: len(v.Cards), counts: v.Counts, complete: v.Complete, staleSince: v.StaleSince, asOf: v.AsOf, clock: v.Clock, cost: v.Cost,
	}
	if len(v.Cards) > 0 {
		of.first = &v.Cards[0]
	}
	return of
}

// find returns the answer that a view came to, if it is the one that is known of its place.
func (m *bodyMemory) find(at bodyPlace, v blobindex.View) (cardsAnswer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.known[at]
	return cardsAnswer{k.body, k.header}, ok && k.of == sourceOf(v)
}

// keep encodes a view, which a Hub returned; said is what else is told of it.
func (m *bodyMemory) keep(at bodyPlace, v blobindex.View, said judged) (cardsAnswer, error) {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(cardsBody(v)); err != nil {
		return cardsAnswer{}, err
	}
	h := make(http.Header)
	h.Set("Content-Type", echo.MIMEApplicationJSON)
	h.Set("ETag", tagOf(buf.Bytes()))
	h.Set("Indexd-As-Of", *said.asOf)
	h.Set("Indexd-Clock", *said.clock)
	h.Set("Indexd-Cost", *said.cost)
	m.mu.Lock()
	defer m.mu.Unlock()
	was, ok := m.known[at]
	m.bytes += buf.Len() - len(was.body)
	if m.known == nil || !ok && len(m.known) >= maxBodies || m.bytes > maxBodyBytes {
		m.known, m.bytes = make(map[bodyPlace]knownBody), buf.Len()
	}
	m.known[at] = knownBody{sourceOf(v), buf.Bytes(), h}
	return cardsAnswer{buf.Bytes(), h}, nil
}

// A cardsAnswer is what api.GetCards200JSONResponse is, encoded before.
type cardsAnswer struct {
	body   []byte
	header http.Header
}

func (a cardsAnswer) VisitGetCardsResponse(w http.ResponseWriter) error {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(http.StatusOK)
	if res, ok := w.(*echo.Response); ok {
		if held, ok := res.Writer.(*heldResponse); ok {
			held.lend(a.body)
			return nil
		}
	}
	_, err := w.Write(a.body)
	return err
}
