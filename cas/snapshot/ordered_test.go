package snapshot_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas/snapshot"
)

// TestCase_WalkedBefore: B reads the pointer and walks, A publishes whole, B goes on: it is superseded, whatever it has
// walked, and touches nothing.
func TestCase_WalkedBefore(t *testing.T) {
	for _, size := range []int64{1, 3, 2} { // as it was, another one, and as A has published
		b := membucket.New(nil)
		publish(t, tiny(t, b), tree(1, "a", "b"), snapshot.Published)
		w := &witness{Store: b}
		var a snapshot.Result
		r, err := tiny(t, w).Publish(t.Context(), func(add func(snapshot.Row) error) error {
			a = publishWith(t, tiny(t, b), tree(2, "a", "b"), &snapshot.PublishOptions{Grace: time.Hour}, snapshot.Published)
			return tree(size, "a", "b")(add)
		}, nil)
		if err != nil || r.Outcome != snapshot.Superseded || r.Pointer != a.Pointer || r.Tag != a.Tag || r.Swept != (snapshot.Swept{}) ||
			w.lists != 1 || w.deletes != 0 {
			t.Errorf("%+v, %v, after %d listings and %d deletes", r, err, w.lists, w.deletes)
		}
		holds(t, tiny(t, b), 2, "a", "b")
	}
}

// TestCase_FlippedAfter: A stages, B claims a higher number and finishes, A's flip changes nothing.
func TestCase_FlippedAfter(t *testing.T) {
	b := membucket.New(nil)
	publish(t, tiny(t, b), tree(1, "a", "b"), snapshot.Published)
	var was map[bucket.Key]string
	var later snapshot.Result
	held := &stepped{Store: b, before: func(_ int, what string) error {
		if what == "SAVE pointer" {
			later = publish(t, tiny(t, b), tree(3, "a", "b"), snapshot.Published)
			was = content(t, b)
		}
		return nil
	}}
	w := &witness{Store: held}
	r, err := tiny(t, w).Publish(t.Context(), tree(2, "a", "b"), nil)
	if err != nil || r.Outcome != snapshot.Superseded || r.ID.Number != 2 || later.ID.Number != 3 || r.Pointer != later.Pointer ||
		w.lists != 1 || w.deletes != 0 {
		t.Errorf("%+v, %v, after %d listings and %d deletes; the other is %v", r, err, w.lists, w.deletes, later.ID)
	}
	// B's own sweep has taken what A had staged: that could not be published any more.
	as(t, b, was)
	if slices.Contains(generations(t, b), r.ID.String()) {
		t.Errorf("the generations are %q", generations(t, b))
	}
	holds(t, tiny(t, b), 3, "a", "b")
}

// TestCase_C18_PublisherWokenUp: a publisher is stopped before each of its requests for longer than any grace, while another
// one publishes twice and sweeps. What it then does harms nothing, and what it leaves goes.
func TestCase_C18_PublisherWokenUp(t *testing.T) {
	tally := map[snapshot.Outcome]int{}
	for at, held := 1, true; held; at++ {
		held = false
		h := newHand()
		b := lived(t, h)
		what, flipped := "", false
		r, err := tiny(t, &stepped{Store: b, before: func(n int, is string) error {
			if n != at {
				flipped = flipped || is == "SAVE pointer" && !held
				return nil
			}
			held, what = true, is
			for _, size := range []int64{50, 51} {
				publish(t, tiny(t, b), tree(size, "a", "b"), snapshot.Published)
				h.now = h.now.Add(48 * time.Hour)
				if _, err := tiny(t, b).Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}
			return nil
		}}).Publish(t.Context(), tree(60, "a", "b"), nil)
		want, size := snapshot.Superseded, int64(51)
		if flipped || at == 1 || !held {
			want = snapshot.Published
		}
		if at == 1 || !held { // it had not begun, or was not stopped
			size = 60
		}
		if err != nil || r.Outcome != want {
			t.Errorf("stopped before %s: %+v, %v; want it %s", what, r, err, want)
		}
		tally[r.Outcome]++
		holds(t, tiny(t, b), size, "a", "b")
		settled(t, b, h)
	}
	if tally[snapshot.Superseded] < 5 || tally[snapshot.Published] < 3 {
		t.Errorf("%v", tally)
	}
}

// TestPublish_KilledAnywhere: a publisher that is killed before or after each of its requests leaves one tree or the other,
// and nothing that stays.
func TestPublish_KilledAnywhere(t *testing.T) {
	killed := errors.New("killed")
	for _, after := range []bool{false, true} {
		for at, dead := 1, true; dead; at++ {
			dead = false
			h := newHand()
			b := lived(t, h)
			flipped := false
			gone := &stepped{Store: b, lost: after}
			gone.before = func(n int, what string) error {
				dead = dead || n == at
				flipped = flipped || what == "SAVE pointer" && (n < at || n == at && after)
				if n < at {
					return nil
				}
				gone.lost = after && n == at // what it still asks for, it does not ask any more
				return killed
			}
			_, _ = tiny(t, gone).Publish(t.Context(), tree(3, "a", "b"), nil)
			size := int64(2)
			if flipped {
				size = 3
			}
			holds(t, tiny(t, b), size, "a", "b")
			settled(t, b, h)
		}
	}
}

// TestCase_SweepBetween: between the two requests of a sweep one publishes whole, and another one stages on top of that:
// nothing of theirs is taken.
func TestCase_SweepBetween(t *testing.T) {
	for _, between := range []int{1, 2} {
		b := membucket.New(nil)
		publish(t, tiny(t, b), tree(1, "a", "b"), snapshot.Published)
		publish(t, tiny(t, b), tree(2, "a", "b"), snapshot.Published)
		staged := false
		sweep := tiny(t, &stepped{Store: b, before: func(n int, _ string) error {
			if n != between {
				return nil
			}
			publish(t, tiny(t, b), tree(3, "a", "b"), snapshot.Published)
			held := errors.New("held")
			_, err := tiny(t, &stepped{Store: b, before: func(_ int, what string) error {
				if what == "SAVE pointer" {
					staged = true
					return held
				}
				return nil
			}}).Publish(t.Context(), tree(4, "a", "b"), nil)
			if !errors.Is(err, held) {
				t.Error(err)
			}
			return nil
		}})
		swept, err := sweep.Sweep(t.Context())
		if err != nil || !staged || swept.Generations != 0 {
			t.Errorf("before request %d: %+v, %v", between, swept, err)
		}
		if n := len(generations(t, b)); n != 4 {
			t.Errorf("before request %d: %d generations are left", between, n)
		}
	}
}
