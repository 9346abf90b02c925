package live_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/live"
)

// panics at the first listing.
type panics struct {
	bucket.Objects
	done *bool
}

func (p panics) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	if !*p.done {
		*p.done = true
		panic("of a driver")
	}
	return p.Objects.List(ctx, req, fn)
}

// TestPanic: a listing that panics is one that fails, and the next one is made.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, err := blobindex.New(panics{membucket.New(nil), new(bool)}, blobindex.Config{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := x.Namespace("team")
		if err != nil {
			t.Fatal(err)
		}
		h := live.New(nil)
		defer h.Close()
		if _, err := h.Cards(t.Context(), n, blobindex.CardsRequest{}); err == nil || !strings.Contains(err.Error(), "of a driver") {
			t.Errorf("the first: %v", err)
		}
		time.Sleep(live.DefaultMaxInterval)
		if _, err := h.Cards(t.Context(), n, blobindex.CardsRequest{}); err != nil {
			t.Errorf("the second: %v", err)
		}
	})
}
