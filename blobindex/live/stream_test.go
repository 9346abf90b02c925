package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/live"
)

// ticked registers an item and waits for its event.
func ticked(t *testing.T, h *live.Hub, n *blobindex.Namespace, s *live.Stream, subkey string) live.Event {
	t.Helper()
	if _, err := h.Register(t.Context(), n, id(t, subkey), nil); err != nil {
		t.Fatal(err)
	}
	return next(t, s)
}

// TestResume: a stream goes on after an event of which all successors are kept; else it begins with all there is.
func TestResume(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		n, h := space(t, s, nil), hub(t, &live.Options{Buffer: 4})
		stream := subscribe(t, h, n, "")
		first := next(t, stream)
		other, err := h.Subscribe(t.Context(), n, blobindex.CardsRequest{Limit: 3}, "")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		elsewhere := next(t, other)
		events := []live.Event{first}
		for i := range 6 {
			events = append(events, ticked(t, h, n, stream, fmt.Sprint("s", i)))
		}
		last := events[6]
		seq := func(n string) string { return last.ID[:strings.LastIndex(last.ID, "-")+1] + n }
		for _, tc := range []struct {
			name, id string
			first    int // of events; -1: a snapshot
		}{
			{"none", "", -1}, {"the last", last.ID, 7}, {"the one before", events[5].ID, 6}, {"the oldest of use", events[2].ID, 3},
			{"one that has lost a successor", events[1].ID, -1}, {"the first", first.ID, -1}, {"of another shape", elsewhere.ID, -1},
			{"of another epoch", strings.Repeat("0", 16) + last.ID[16:], -1}, {"not yet", seq("8"), -1}, {"zero", seq("0"), -1},
			{"padded", seq("07"), -1}, {"signed", seq("+7"), -1}, {"no number", seq("x"), -1}, {"huge", seq("18446744073709551616"), -1},
			{"nonsense", "event: x", -1}, {"a space", last.ID + " ", -1},
		} {
			s := subscribe(t, h, n, tc.id)
			if tc.first < 0 {
				e := next(t, s)
				if e.Kind != live.Snapshot || e.ID != last.ID || e.Prev != last.Prev || e.Reset != (tc.id != "") || e.View.Counts.Live != 6 {
					t.Errorf("%s: it begins with %+v", tc.name, e)
				}
			} else {
				for _, want := range events[tc.first:] {
					if got := next(t, s); !cmp.Equal(got, want) {
						t.Errorf("%s: %s", tc.name, cmp.Diff(want, got))
					}
				}
			}
			if e, ready, err := s.TryNext(); err != nil || ready == nil {
				t.Errorf("%s: then comes %+v, %v", tc.name, e, err)
			}
			s.Close()
		}
		for i, e := range events[1:] {
			if e.Prev != events[i].ID {
				t.Errorf("%s comes after %s, not %s", e.ID, e.Prev, events[i].ID)
			}
		}
	})
}

// TestResume_AfterAPause: the state of a view and its epoch are kept for a while after the last viewer left.
func TestResume_AfterAPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore()
		n, h := space(t, s, nil), hub(t, nil)
		stream := subscribe(t, h, n, "")
		next(t, stream)
		e := ticked(t, h, n, stream, "a")
		stream.Close()
		time.Sleep(10 * time.Minute)
		s.put(t, root+id(t, "b").String())
		stream = subscribe(t, h, n, e.ID)
		again := next(t, stream)
		if again.Kind != live.Upsert || ids(again.View) != "b " || again.Prev != e.ID {
			t.Fatalf("after 10 minutes it goes on with %+v", again)
		}
		stream.Close()
		time.Sleep(live.DefaultHold + live.DefaultKeep + time.Second)
		stream = subscribe(t, h, n, again.ID)
		if e := next(t, stream); e.Kind != live.Snapshot || !e.Reset || e.ID[:16] == again.ID[:16] {
			t.Fatalf("after it is forgotten it begins with %+v", e)
		}
	})
}

// TestSlow: who falls behind is told so, and holds up nobody.
func TestSlow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := map[live.Happening]int{}
		n, h := space(t, newStore(), nil), hub(t, &live.Options{Buffer: 4, Observe: func(o live.Observation) {
			mu.Lock()
			defer mu.Unlock()
			seen[o.Kind]++
		}})
		slow, quick := subscribe(t, h, n, ""), subscribe(t, h, n, "")
		next(t, slow)
		next(t, quick)
		for i := range 4 {
			ticked(t, h, n, quick, fmt.Sprint("s", i))
		}
		if e := next(t, slow); e.Kind != live.Upsert {
			t.Fatalf("%+v", e)
		}
		ticked(t, h, n, quick, "x")
		ticked(t, h, n, quick, "y")
		if e, err := slow.Next(t.Context()); !errors.Is(err, live.ErrSlow) {
			t.Fatalf("who has lost events gets %+v, %v", e, err)
		}
		slow.Close()
		slow.Close()
		mu.Lock()
		defer mu.Unlock()
		if h.Streams() != 1 || seen[live.Slow] != 1 || seen[live.Opened] != 2 || seen[live.Ended] != 1 || seen[live.Listed] == 0 {
			t.Errorf("%d streams, observed %v", h.Streams(), seen)
		}
	})
}

// TestEncodedOnce: an event is encoded once for all streams of its shape.
func TestEncodedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		encoded := map[string]int{}
		n, h := space(t, newStore(), nil), hub(t, &live.Options{Encode: func(e live.Event) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			encoded[fmt.Sprint(e.ID, e.Kind, e.Reset)]++
			return []byte(ids(e.View)), nil
		}})
		var streams []*live.Stream
		for range 100 {
			streams = append(streams, subscribe(t, h, n, ""))
		}
		if _, err := h.Register(t.Context(), n, id(t, "a"), nil); err != nil {
			t.Fatal(err)
		}
		for _, s := range streams {
			next(t, s)
			if e := next(t, s); string(e.Data) != "a " || e.View.Cards != nil {
				t.Fatalf("%+v", e)
			}
		}
		for what, times := range encoded {
			if times != 1 {
				t.Errorf("%s: %d times", what, times)
			}
		}
		if len(encoded) != 2 {
			t.Errorf("encoded %v", encoded)
		}
	})
}

// TestBounds: views, shapes and streams are bounded; those that nobody uses make room.
func TestBounds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := space(t, newStore(), nil)
		team := func(name string) *blobindex.Namespace {
			n, err := n.Index().Namespace(name)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		h := hub(t, &live.Options{MaxViews: 2, MaxShapes: 2, MaxStreams: 4})
		for _, name := range []string{"a", "b", "c", "d"} {
			cards(t, h, team(name))
		}
		if st := h.Stats(); len(st) != 2 {
			t.Fatalf("%d views", len(st))
		}
		limit := func(name string, limit int) (*live.Stream, error) {
			return h.Subscribe(t.Context(), team(name), blobindex.CardsRequest{Limit: limit}, "")
		}
		var streams []*live.Stream
		for _, name := range []string{"a", "b"} {
			s, err := limit(name, 1)
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
		}
		if _, err := h.Cards(t.Context(), team("c"), blobindex.CardsRequest{}); !errors.Is(err, live.ErrTooMany) {
			t.Fatalf("a third view: %v", err)
		}
		s, err := limit("a", 2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := limit("a", 3); !errors.Is(err, live.ErrTooMany) {
			t.Fatalf("a third shape: %v", err)
		}
		s.Close()
		if s, err = limit("a", 3); err != nil {
			t.Fatalf("a shape in the place of one without streams: %v", err)
		}
		streams = append(streams, s)
		if s, err = limit("a", 3); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
		if _, err := limit("a", 3); !errors.Is(err, live.ErrTooMany) {
			t.Fatalf("a fifth stream: %v", err)
		}
		for _, s := range streams {
			s.Close()
		}
		cards(t, h, team("c"))
	})
}

// TestClose: whoever waits is told, and nothing goes on, even while many come and go; goleak looks for what is left.
func TestClose(t *testing.T) {
	for _, mode := range []string{"", "hang"} {
		inBubble(t, func(t *testing.T) {
			s := newStore()
			n, h := space(t, s, nil), live.New(nil)
			if mode == "" {
				cards(t, h, n)
			}
			s.set(mode)
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					for {
						stream, err := h.Subscribe(context.Background(), n, blobindex.CardsRequest{Limit: 1 + i%5}, "")
						if errors.Is(err, live.ErrClosed) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						for err == nil {
							_, err = stream.Next(context.Background())
						}
						stream.Close()
						if !errors.Is(err, live.ErrClosed) {
							t.Error(err)
						}
					}
				})
				wg.Go(func() {
					for {
						if _, err := h.Cards(context.Background(), n, blobindex.CardsRequest{}); err != nil {
							if !errors.Is(err, live.ErrClosed) {
								t.Error(err)
							}
							return
						}
						h.Register(context.Background(), n, id(t, fmt.Sprint("s", i)), nil)
						time.Sleep(time.Millisecond)
					}
				})
			}
			time.Sleep(100 * time.Millisecond)
			h.Close()
			h.Close()
			wg.Wait()
			if h.Streams() != 0 {
				t.Errorf("%d streams are left", h.Streams())
			}
		})
	}
}

// TestEndStreams: streams end, and no other begins, while reads and writes go on.
func TestEndStreams(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, h := space(t, newStore(), nil), hub(t, nil)
		stream := subscribe(t, h, n, "")
		next(t, stream)
		go h.EndStreams()
		if _, err := stream.Next(t.Context()); !errors.Is(err, live.ErrClosed) {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := h.Subscribe(t.Context(), n, blobindex.CardsRequest{}, ""); !errors.Is(err, live.ErrClosed) {
			t.Fatal(err)
		}
		if _, err := h.Register(t.Context(), n, id(t, "a"), nil); err != nil {
			t.Fatal(err)
		}
		if v := cards(t, h, n); ids(v) != "a " {
			t.Fatalf("%+v", v)
		}
	})
}

// A deed is one step of TestEvents_Property.
type deed struct{ What, Subkey, Which, Seconds int }

const (
	registerHere = iota
	registerElsewhere
	deleteElsewhere
	finishHere
	beatHere
	putForeign
	wait
	age
	breakStore
	mendStore
	openAgain
	readEvents
	compare
	deeds // their number
)

// TestEvents_Property: whatever happens here and elsewhere, who applies the events, from wherever they join, shows what the
// cards say.
func TestEvents_Property(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		req := blobindex.CardsRequest{Limit: rapid.IntRange(1, 4).Draw(r, "limit"), Recent: rapid.IntRange(0, 3).Draw(r, "recent")}
		if rapid.Bool().Draw(r, "filtered") {
			req.Subkey = "k1"
		}
		play := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) deed {
			return deed{
				rapid.IntRange(0, deeds-1).Draw(r, "what"), rapid.IntRange(0, 5).Draw(r, "subkey"),
				rapid.IntRange(0, 20).Draw(r, "which"), rapid.IntRange(1, 60).Draw(r, "seconds"),
			}
		}), 5, 40).Draw(r, "deeds")
		// Time in a bubble is not rapid's, which gives up after some.
		var wrong error
		inBubble(t, func(t *testing.T) { wrong = applied(t, req, append(play, deed{What: compare})) })
		if wrong != nil {
			r.Fatal(wrong)
		}
	})
}

// A follower applies the events of a stream.
type follower struct {
	*live.Stream
	shown blobindex.View
	last  string
}

// read applies what there is. It returns ErrSlow if it has lost some.
func (f *follower) read() error {
	for {
		e, ready, err := f.TryNext()
		if err != nil || ready != nil {
			return err
		}
		if e.Kind != live.Snapshot && e.Prev != f.last {
			return fmt.Errorf("%s follows %s, not %s", e.ID, f.last, e.Prev)
		}
		f.shown, f.last = e.Apply(f.shown), e.ID
	}
}

func applied(t *testing.T, req blobindex.CardsRequest, play []deed) error {
	s := newStore()
	n, h := space(t, s, nil), live.New(&live.Options{Buffer: 8})
	defer h.Close()
	var f follower
	reopen := func() (err error) {
		if f.Stream != nil {
			f.Close()
		}
		f.Stream, err = h.Subscribe(t.Context(), n, req, f.last)
		return err
	}
	read := func() error {
		synctest.Wait()
		err := f.read()
		if errors.Is(err, live.ErrSlow) {
			if err = reopen(); err == nil {
				err = f.read()
			}
		}
		return err
	}
	if err := reopen(); err != nil {
		return err
	}
	defer func() { f.Close() }()
	var known []itemid.ID
	for _, d := range play {
		var err error
		var item itemid.ID
		if len(known) > 0 {
			item = known[d.Which%len(known)]
		} else if d.What == deleteElsewhere || d.What == finishHere || d.What == beatHere {
			continue
		}
		switch d.What {
		case registerHere, registerElsewhere:
			time.Sleep(time.Nanosecond)
			item = id(t, fmt.Sprint("k", d.Subkey))
			known = append(known, item)
			if d.What == registerElsewhere {
				s.put(t, root+item.String())
			} else {
				_, err = h.Register(t.Context(), n, item, nil)
			}
		case deleteElsewhere:
			s.remove(t, root+item.String())
		case finishHere:
			_, err = h.Finish(t.Context(), n, item, blobindex.Failed)
			if s.failing() {
				err = nil // it wants to list the sightings
			}
		case beatHere:
			if _, err = h.Heartbeat(t.Context(), n, item); errors.Is(err, blobindex.ErrFinished) {
				err = nil
			}
		case putForeign:
			s.put(t, root+fmt.Sprint("foreign", d.Which))
		case wait:
			time.Sleep(time.Duration(d.Seconds) * time.Second)
		case age:
			time.Sleep(time.Duration(d.Seconds) * time.Minute)
			known = slices.DeleteFunc(known, func(i itemid.ID) bool { return time.Since(i.Time()) > 100*time.Minute })
		case breakStore:
			s.set("fail")
		case mendStore:
			s.set("")
		case openAgain:
			err = reopen()
		case readEvents:
			err = read()
		case compare:
			s.set("")
			time.Sleep(time.Minute) // it has recovered, and is listed
			if err = read(); err != nil {
				break
			}
			var v blobindex.View
			if v, err = h.Cards(t.Context(), n, req); err != nil {
				break
			}
			if v.Cost.List > 0 { // it has waited for a listing, of which the streams are told only now
				if err = read(); err != nil {
					break
				}
			}
			if got, want := say(f.shown), say(v); got != want {
				err = fmt.Errorf("the events show\n%s\nthe cards\n%s", got, want)
			}
		}
		if err != nil {
			return fmt.Errorf("%+v: %w", d, err)
		}
	}
	return nil
}

// say is what people see of a view.
func say(v blobindex.View) string {
	var b strings.Builder
	for _, c := range v.Cards {
		fmt.Fprintf(&b, "%s %v %v\n", c.ID, c.LastSeen, c.Late)
	}
	recent := slices.Clone(v.Recent)
	fmt.Fprintf(&b, "%+v %v %v", v.Counts, v.Complete, recent)
	return b.String()
}
