package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/labstack/echo/v4"
)

// maxBodies is how many answers are kept encoded; when there are more, all are dropped, and made again as they are asked for.
const maxBodies = 1024

// A bodyMemory keeps the answers to requests for cards as they are on the wire, so that making one is paid for once, by the
// first of those who look at the same view. Its zero value is empty. It is safe for concurrent use.
type bodyMemory struct {
	mu    sync.Mutex
	known map[bodyPlace]knownBody
}

type bodyPlace struct {
	index, namespace string
	req              blobindex.CardsRequest
}

// A knownBody is what a view came to; it is not changed any more.
type knownBody struct {
	of   bodySource
	body []byte
	tag  string
}

// A bodySource is all that a body is made of. The cards of a shared view are never changed, so that the same place in memory,
// which cannot be given to others while it is known here, means the same cards.
type bodySource struct {
	first      *blobindex.Card
	cards      int
	counts     blobindex.Counts
	complete   bool
	staleSince time.Time
}

func sourceOf(v blobindex.View) bodySource {
	of := bodySource{cards: len(v.Cards), counts: v.Counts, complete: v.Complete, staleSince: v.StaleSince}
	if len(v.Cards) > 0 {
		of.first = &v.Cards[0]
	}
	return of
}

// encode returns the body of a view, which a Hub returned.
func (m *bodyMemory) encode(at bodyPlace, v blobindex.View) (knownBody, error) {
	of := sourceOf(v)
	m.mu.Lock()
	k, ok := m.known[at]
	m.mu.Unlock()
	if ok && k.of == of {
		return k, nil
	}
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(cardsBody(v)); err != nil {
		return knownBody{}, err
	}
	k = knownBody{of, buf.Bytes(), tagOf(buf.Bytes())}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.known[at]; m.known == nil || !ok && len(m.known) >= maxBodies {
		m.known = make(map[bodyPlace]knownBody)
	}
	m.known[at] = k
	return k, nil
}

// A cardsAnswer is what api.GetCards200JSONResponse is, encoded before.
type cardsAnswer struct {
	knownBody
	judged
}

func (a cardsAnswer) VisitGetCardsResponse(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", echo.MIMEApplicationJSON)
	h.Set("ETag", a.tag)
	h.Set("Indexd-As-Of", *a.asOf)
	h.Set("Indexd-Clock", *a.clock)
	h.Set("Indexd-Cost", *a.cost)
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
