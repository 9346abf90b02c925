package live_test

import (
	"testing"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/live"
)

// TestResume_OfEachShape: an id goes on with the request that it was told for, and with none that differs from it in anything.
func TestResume_OfEachShape(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, h := space(t, newStore(), nil), hub(t, nil)
		shapes := []blobindex.CardsRequest{
			{}, {Limit: 3}, {Subkey: "a"}, {Owner: "a"}, {Recent: 1}, {Timeline: true}, {Recent: 1, Timeline: true},
		}
		begin := func(req blobindex.CardsRequest, last string) (e live.Event, resumed bool) {
			s, err := h.Subscribe(t.Context(), n, req, last)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			e, ready, err := s.TryNext()
			if err != nil {
				t.Fatal(err)
			}
			return e, ready != nil
		}
		for _, told := range shapes {
			e, _ := begin(told, "")
			for _, asked := range shapes {
				if _, resumed := begin(asked, e.ID); resumed != (asked == told) {
					t.Errorf("an id of %+v goes on with %+v: %t", told, asked, resumed)
				}
			}
		}
	})
}
