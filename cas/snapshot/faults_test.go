package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
)

// A stepped store calls before with the number of each request, from 1, and what it is; an answer that is not nil is given
// instead of the store's, after the request was carried out if it is in lost.
type stepped struct {
	snapshot.Store
	n      int
	before func(n int, what string) error
	lost   bool
}

// step is the answer to give, and whether to carry out the request for all that.
func (s *stepped) step(method string, key bucket.Key) (err error, anyway bool) {
	s.n++
	err = s.before(s.n, method+" "+strings.TrimPrefix(string(key), root))
	return err, err != nil && s.lost
}

func (s *stepped) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	if err, _ := s.step("LIST", bucket.Key(req.Prefix)); err != nil {
		return err
	}
	return s.Store.List(ctx, req, fn)
}

func (s *stepped) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	if err, _ := s.step("GET", key); err != nil {
		return nil, err
	}
	return s.Store.Open(ctx, key)
}

func (s *stepped) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	if err, _ := s.step("LOAD", key); err != nil {
		return cas.Object{}, err
	}
	return s.Store.Load(ctx, key)
}

func (s *stepped) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	err, anyway := s.step("PUT", key)
	if err == nil || anyway {
		at, putErr := s.Store.Put(ctx, key, body)
		return at, errors.Join(err, putErr)
	}
	return time.Time{}, err
}

func (s *stepped) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	err, anyway := s.step("SAVE", key)
	if err == nil || anyway {
		v, saveErr := s.Store.Save(ctx, key, body, p)
		return v, errors.Join(err, saveErr)
	}
	return "", err
}

func (s *stepped) Delete(ctx context.Context, keys []bucket.Key) []error {
	err, anyway := s.step("DELETE", keys[0])
	if err == nil || anyway {
		if errs := s.Store.Delete(ctx, keys); err == nil {
			return errs
		}
	}
	errs := make([]error, len(keys))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// reads are requests that have no outcome that could be unknown.
func reads(what string) bool { return what[0] == 'L' || what[0] == 'G' }

// lived is a store with a history: a generation that was retired an hour ago, the current one, and what a loser and a dead
// one have left.
func lived(t testing.TB, h *hand) *membucket.Bucket {
	t.Helper()
	b := h.store()
	s := tiny(t, b)
	publish(t, s, tree(1, "a", "b"), snapshot.Published)
	loser := tiny(t, b)
	if r, err := loser.Publish(t.Context(), func(add func(snapshot.Row) error) error {
		publish(t, s, tree(2, "a", "b"), snapshot.Published)
		return tree(7, "a")(add)
	}, nil); err != nil || r.Outcome != snapshot.Superseded {
		t.Fatalf("%+v, %v", r, err)
	}
	dead := tiny(t, &stepped{Store: b, before: func(_ int, what string) error {
		if strings.HasSuffix(what, "index") {
			return bucket.ErrDenied
		}
		return nil
	}})
	if _, err := dead.Publish(t.Context(), tree(8, "a"), nil); !errors.Is(err, bucket.ErrDenied) || !errors.Is(err, snapshot.ErrStage) {
		t.Fatal(err)
	}
	h.now = h.now.Add(time.Hour)
	if n := len(generations(t, b)); n != 4 {
		t.Fatalf("%d generations are there", n)
	}
	return b
}

// settled checks that one more publication and one sweep past the grace leave one generation alone.
func settled(t testing.TB, b *membucket.Bucket, h *hand) {
	t.Helper()
	s := tiny(t, b)
	publish(t, s, tree(99, "a", "b"), snapshot.Published)
	h.now = h.now.Add(snapshot.DefaultGrace + time.Second)
	if swept, err := s.Sweep(t.Context()); err != nil || swept.Kept > 0 {
		t.Errorf("the sweep: %+v, %v", swept, err)
	}
	only(t, b, holds(t, s, 99, "a", "b"))
}

// TestFaults: each request of a publication is struck, in each way. What was told is so, nobody ever reads anything but one
// of the two trees, whole, and the next publication needs no repair.
func TestFaults(t *testing.T) {
	for _, x := range []struct {
		name string
		err  error
		lost bool
	}{
		{"refused", bucket.ErrThrottled, false}, {"denied", bucket.ErrDenied, false}, {"not applied", bucket.ErrUnknown, false},
		{"applied, then lost", bucket.ErrUnknown, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			tally := map[string]int{}
			for at, struck := 1, true; struck; at++ {
				struck = false
				h := newHand()
				b := lived(t, h)
				what := "nothing"
				flaky := &stepped{Store: b, lost: x.lost, before: func(n int, is string) error {
					if n != at {
						return nil
					}
					if struck, what = true, is; reads(is) && x.err == bucket.ErrUnknown {
						return bucket.ErrThrottled
					}
					return x.err
				}}
				r, err := tiny(t, flaky).Publish(t.Context(), tree(3, "a", "b"), nil)
				want := int64(2)
				switch {
				case err == nil && r.Outcome == snapshot.Published:
					want = 3
				case err == nil, errors.Is(err, snapshot.ErrMissing), errors.Is(err, snapshot.ErrDamaged), errors.Is(err, snapshot.ErrLost):
					t.Errorf("%s: %+v, %v", what, r, err)
				case errors.Is(err, cas.ErrUnknown):
					t.Errorf("%s is unknown, though only one request was struck: %v", what, err)
				}
				tally[fmt.Sprint(r.Outcome, r.SweepErr != nil)]++
				holds(t, tiny(t, b), want, "a", "b")
				if want == 2 && r.ID.Number > 0 && r.Swept != (snapshot.Swept{}) {
					t.Errorf("%s: it has swept %+v", what, r.Swept)
				}
				settled(t, b, h)
			}
			if tally["true"]+tally["false"] == 0 || tally["publishedfalse"] == 0 || tally["publishedtrue"] == 0 {
				t.Errorf("not all was seen: %v", tally)
			}
		})
	}
}

// TestFaults_ForGood: what is refused at every request of a kind.
func TestFaults_ForGood(t *testing.T) {
	for what, want := range map[string]error{
		"SAVE pointer": cas.ErrUnknown, "PUT": snapshot.ErrStage, "SAVE generations": snapshot.ErrStage, "LIST": bucket.ErrThrottled,
		"LOAD pointer": bucket.ErrThrottled,
	} {
		for _, lost := range []bool{false, true} {
			h := newHand()
			b := lived(t, h)
			r, err := tiny(t, &stepped{Store: b, lost: lost, before: func(_ int, is string) error {
				switch {
				case !strings.HasPrefix(is, what):
					return nil
				case reads(is):
					return bucket.ErrThrottled
				}
				return bucket.ErrUnknown
			}}).Publish(t.Context(), tree(3, "a", "b"), nil)
			size := int64(2)
			if lost && strings.HasPrefix(what, "SAVE") { // it was carried out, and is found when it is looked for
				want, size = nil, 3
			}
			if !errors.Is(err, want) || want == snapshot.ErrStage && errors.Is(err, cas.ErrUnknown) {
				t.Errorf("%s, carried out %v: %+v, %v; want %v", what, lost, r, err, want)
			}
			holds(t, tiny(t, b), size, "a", "b")
			settled(t, b, h)
		}
	}
}

// TestSweep_Undeletable: keys that cannot be deleted are told, what can be is, and the publication stands.
func TestSweep_Undeletable(t *testing.T) {
	h := newHand()
	b := lived(t, h)
	locked := &stepped{Store: b, before: func(_ int, what string) error {
		if strings.HasPrefix(what, "DELETE") {
			return bucket.ErrDenied
		}
		return nil
	}}
	r, err := tiny(t, locked).Publish(t.Context(), tree(3, "a", "b"), nil)
	if err != nil || r.Outcome != snapshot.Published || !errors.Is(r.SweepErr, bucket.ErrDenied) || r.Swept.Generations > 0 ||
		r.Swept.Keys > 0 || !strings.Contains(r.SweepErr.Error(), `deleting "`+root) {
		t.Errorf("%+v, %v", r, err)
	}
	if swept, err := tiny(t, locked).Sweep(t.Context()); !errors.Is(err, bucket.ErrDenied) || swept.Keys > 0 {
		t.Errorf("%+v, %v", swept, err)
	}
	// Of what nobody can delete, the pointer does not grow.
	for i := range 20 {
		h.now = h.now.Add(time.Hour)
		if r, err := tiny(t, locked).Publish(t.Context(), tree(int64(10+i), "a"), nil); err != nil || r.Outcome != snapshot.Published {
			t.Fatal(err)
		}
	}
	if st, err := tiny(t, b).Status(t.Context()); err != nil || len(st.Retired) > 2 {
		t.Errorf("%d retired ones are noted, %v", len(st.Retired), err)
	}
	settled(t, b, h)
}

// TestSweep_Grace: a retired generation stays for the grace from when it was retired, by the store's clock, however old it
// is; the loser's and the dead's go at once when they can.
func TestSweep_Grace(t *testing.T) {
	h := newHand()
	b := h.store()
	host := start.Add(-1000 * time.Hour) // a host's clock that is nobody's
	s := on(t, b, &snapshot.Options{Now: func() time.Time { return host }})
	first := publish(t, s, tree(1, "a"), snapshot.Published)
	h.now = h.now.Add(24 * time.Hour)
	second := publish(t, s, tree(2, "a"), snapshot.Published)
	retired := h.now
	if second.Swept != (snapshot.Swept{Kept: 1}) {
		t.Errorf("%+v", second.Swept)
	}
	h.now = retired.Add(30 * time.Second)
	if third := publish(t, s, tree(3, "a"), snapshot.Published); third.Swept != (snapshot.Swept{Kept: 2}) {
		t.Errorf("%+v", third.Swept)
	}
	for _, x := range []struct {
		after time.Duration
		want  snapshot.Swept
	}{
		{59 * time.Second, snapshot.Swept{Kept: 2}},
		{61 * time.Second, snapshot.Swept{Generations: 1, Keys: 3, Kept: 1}},
		{89 * time.Second, snapshot.Swept{Kept: 1}},
		{91 * time.Second, snapshot.Swept{Generations: 1, Keys: 3}},
	} {
		h.now = retired.Add(x.after)
		if _, err := s.OpenID(t.Context(), first.ID); (err == nil) != (x.after <= 61*time.Second) {
			t.Errorf("after %v: %v", x.after, err)
		}
		if swept, err := s.Sweep(t.Context()); err != nil || swept != x.want {
			t.Errorf("after %v: %+v, %v; want %+v", x.after, swept, err, x.want)
		}
	}
	only(t, b, holds(t, s, 3, "a"))

	// By unchanged publications as well, and what is based on the current state stays.
	dead := &stepped{Store: b, before: func(_ int, what string) error {
		if strings.HasSuffix(what, "index") {
			return bucket.ErrDenied
		}
		return nil
	}}
	if _, err := on(t, dead, nil).Publish(t.Context(), tree(4, "a"), nil); err == nil {
		t.Fatal("it is not dead")
	}
	if r := publish(t, s, tree(3, "a"), snapshot.Unchanged); r.Swept != (snapshot.Swept{Kept: 1}) {
		t.Errorf("it may yet be published: %+v", r.Swept)
	}
	if r := publish(t, s, tree(5, "a"), snapshot.Published); r.Swept != (snapshot.Swept{Generations: 1, Keys: 2, Kept: 1}) {
		t.Errorf("it cannot be published any more: %+v", r.Swept)
	}
	h.now = h.now.Add(2 * time.Minute)
	if r := publish(t, s, tree(5, "a"), snapshot.Unchanged); r.Swept != (snapshot.Swept{Generations: 1, Keys: 3}) {
		t.Errorf("%+v", r.Swept)
	}
	only(t, b, holds(t, s, 5, "a"))
}

// timeless is a store that tells no time.
type timeless struct{ snapshot.Store }

func (s timeless) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return s.Store.List(ctx, req, func(p bucket.Page) error { p.Now = time.Time{}; return fn(p) })
}

func (s timeless) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	o, err := s.Store.Load(ctx, key)
	o.ModTime, o.StoreTime = time.Time{}, time.Time{}
	return o, err
}

// TestSweep_NoStoreTime: where the store tells no time, the host's clock does.
func TestSweep_NoStoreTime(t *testing.T) {
	host := start
	s := on(t, timeless{membucket.New(nil)}, &snapshot.Options{Now: func() time.Time { return host }})
	publish(t, s, tree(1, "a"), snapshot.Published)
	host = host.Add(time.Hour)
	if r := publish(t, s, tree(2, "a"), snapshot.Published); r.Swept.Kept != 1 || !r.Pointer.PublishedAt.Equal(host) {
		t.Errorf("%+v", r)
	}
	host = host.Add(59 * time.Second)
	if swept, err := s.Sweep(t.Context()); err != nil || swept.Kept != 1 {
		t.Errorf("%+v, %v", swept, err)
	}
	host = host.Add(2 * time.Second)
	if swept, err := s.Sweep(t.Context()); err != nil || swept.Generations != 1 {
		t.Errorf("%+v, %v", swept, err)
	}
}
