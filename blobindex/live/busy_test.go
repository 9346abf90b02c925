package live_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/live"
)

// TestWritesWhileJudging: writes that come faster than what is shown can be worked out keep neither reads nor streams waiting;
// each shows what was acknowledged before it began.
func TestWritesWhileJudging(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const tooMany = 1000
		var h *live.Hub
		var n *blobindex.Namespace
		var armed, busy atomic.Bool
		var writes atomic.Int64
		n = space(t, newStore(), &blobindex.Options{Now: func() time.Time {
			// The clock is read while something is worked out: then somebody writes. There is an end to it, so that the test has one.
			if armed.Load() && busy.CompareAndSwap(false, true) {
				if i := writes.Add(1); i < tooMany {
					if _, err := h.Register(context.Background(), n, id(t, fmt.Sprint("during", i)), nil); err != nil {
						t.Error(err)
					}
				}
				busy.Store(false)
			}
			return time.Now()
		}})
		h = hub(t, nil)
		cards(t, h, n)
		stream := subscribe(t, h, n, "")
		next(t, stream)
		synctest.Wait()

		armed.Store(true)
		if _, err := h.Register(t.Context(), n, id(t, "before"), nil); err != nil {
			t.Fatal(err)
		}
		v, err := h.Cards(t.Context(), n, blobindex.CardsRequest{Subkey: "before"})
		if err != nil || ids(v) != "before " {
			t.Errorf("%+v, %v", v, err)
		}
		e := next(t, stream)
		armed.Store(false)
		if e.Kind != live.Upsert {
			t.Errorf("%+v", e)
		}
		if i := writes.Load(); i >= tooMany {
			t.Errorf("what is shown was worked out anew for each of %d writes before anybody saw it", i)
		}
	})
}
