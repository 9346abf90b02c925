package web

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

// Whatever differs between two views, each gets an answer of its own; the same view gets the same one.
func TestBodies(t *testing.T) {
	s := &Server{}
	var m bodyMemory
	at := bodyPlace{index: "running", namespace: "team"}
	answer := func(at bodyPlace, v blobindex.View) (body, header string, made bool) {
		t.Helper()
		a, ok := m.find(at, v)
		if !ok {
			var err error
			if a, err = m.keep(at, v, s.judged(v.AsOf, v.Clock, v.Cost)); err != nil {
				t.Fatal(err)
			}
		}
		w := httptest.NewRecorder()
		if err := a.VisitGetCardsResponse(w); err != nil {
			t.Fatal(err)
		}
		return w.Body.String(), fmt.Sprint(w.Header()), !ok
	}
	view := blobindex.View{
		Cards: []blobindex.Card{{ID: "a_1"}}, Counts: blobindex.Counts{Live: 1, Shown: 1}, Complete: true, AsOf: time.Unix(1, 0),
	}
	body, header, _ := answer(at, view)
	if again, sameHeader, made := answer(at, view); made || again != body || sameHeader != header {
		t.Errorf("the same view is answered with %s %s, made anew: %v; want %s %s", again, sameHeader, made, body, header)
	}
	for what, change := range map[string]func(*blobindex.View){
		"other cards":       func(v *blobindex.View) { v.Cards = []blobindex.Card{{ID: "b_1"}} },
		"no cards":          func(v *blobindex.View) { v.Cards = nil },
		"another count":     func(v *blobindex.View) { v.Counts.Stale++ },
		"an old view":       func(v *blobindex.View) { v.Complete = false },
		"since when":        func(v *blobindex.View) { v.StaleSince = time.Unix(2, 0) },
		"another instant":   func(v *blobindex.View) { v.AsOf = time.Unix(3, 0) },
		"another clock":     func(v *blobindex.View) { v.Clock = blobindex.HostClock },
		"what was paid for": func(v *blobindex.View) { v.Cost.List++ },
	} {
		answer(at, view)
		other := view
		change(&other)
		if otherBody, otherHeader, _ := answer(at, other); otherBody == body && otherHeader == header {
			t.Errorf("%s: the answer is the same", what)
		}
	}
	answer(at, view)
	if _, _, made := answer(bodyPlace{index: "running", namespace: "team2"}, view); !made {
		t.Error("another namespace is given what is known of this one")
	}
	for i := range 2 * maxBodies {
		answer(bodyPlace{namespace: fmt.Sprint("n", i)}, view)
		if len(m.known) > maxBodies {
			t.Fatalf("%d bodies are kept", len(m.known))
		}
	}
	view.Cards = []blobindex.Card{{ID: "a_1", Title: strings.Repeat("x", maxBodyBytes/10)}}
	for i := range 30 {
		answer(bodyPlace{namespace: fmt.Sprint("n", i%15)}, view)
		total := 0
		for _, k := range m.known {
			total += len(k.body)
		}
		if total > maxBodyBytes || total != m.bytes {
			t.Fatalf("bodies of %d bytes are kept, and %d are counted", total, m.bytes)
		}
	}
}
