package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas/snapshot"
)

// A hooked store calls a function before each request that opens an object.
type hooked struct {
	snapshot.Store
	open func(bucket.Key)
}

func (h hooked) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	h.open(key)
	return h.Store.Open(ctx, key)
}

// sweeping publishes before the n-th object that is opened, without a grace, each time n is in at.
func sweeping(t *testing.T, b snapshot.Store, at func(n int) bool) hooked {
	n, size := 0, int64(1)
	return hooked{b, func(bucket.Key) {
		if n++; at(n) {
			size++
			publishWith(t, tiny(t, b), tree(size, "a", "b"), &snapshot.PublishOptions{Grace: snapshot.NoGrace}, snapshot.Published)
		}
	}}
}

// TestRead_Swept: a reader whose generation is swept under it begins again, and gets another one, whole; when that happens
// to it each time, it is told so, and not that a part is missing.
func TestRead_Swept(t *testing.T) {
	for at := 1; at <= 3; at++ {
		b := membucket.New(nil)
		publish(t, tiny(t, b), tree(1, "a", "b"), snapshot.Published)
		holds(t, on(t, sweeping(t, b, func(n int) bool { return n == at }), nil), 2, "a", "b")
	}
	b := membucket.New(nil)
	publish(t, tiny(t, b), tree(1, "a", "b"), snapshot.Published)
	n := 0
	_, got, err := on(t, sweeping(t, b, func(int) bool { n++; return true }), nil).Read(t.Context())
	var swept *snapshot.SweptError
	if !errors.As(err, &swept) || !errors.Is(err, snapshot.ErrSwept) || errors.Is(err, snapshot.ErrMissing) || got != nil {
		t.Fatalf("Read: %d rows, %v", len(got), err)
	}
	if n != 6 || swept.Current.ID.Number != swept.ID.Number+1 || swept.Tag == "" {
		t.Errorf("it began %d times, %+v", n, swept)
	}
	for n := 1; n < 6; n++ { // the fifth time it begins again is the last
		c := membucket.New(nil)
		publish(t, tiny(t, c), tree(1, "a", "b"), snapshot.Published)
		holds(t, on(t, sweeping(t, c, func(m int) bool { return m < n }), nil), int64(n), "a", "b")
	}
}

// TestOpen: what is opened is read whole, also when another one is published meanwhile, in the grace; without, it is
// missing.
func TestOpen(t *testing.T) {
	b := membucket.New(nil)
	s := tiny(t, b)
	publish(t, s, tree(1, "a", "b", "c"), snapshot.Published)
	g, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s, tree(2, "a"), snapshot.Published)
	var got []string
	collect := func(r snapshot.Row) error { got = append(got, fmt.Sprint(r.Path, r.Size)); return nil }
	if err := g.Stream(t.Context(), collect); err != nil || strings.Join(got, " ") != "a1 b1 c1" || g.Info().Rows != 3 {
		t.Errorf("%q, %v", got, err)
	}
	stop := errors.New("stop")
	if err := g.Stream(t.Context(), func(snapshot.Row) error { return stop }); err != stop {
		t.Errorf("%v, want the error of the function as it is", err)
	}
	old, err := s.OpenID(t.Context(), g.Info().ID)
	got = nil
	if err != nil || old.Stream(t.Context(), collect) != nil || strings.Join(got, " ") != "a1 b1 c1" ||
		old.Info().Digest != g.Info().Digest || old.Info().Parts != 3 {
		t.Errorf("a retired one: %q, %+v, %v", got, old.Info(), err)
	}
	publishWith(t, s, tree(3, "a"), &snapshot.PublishOptions{Grace: snapshot.NoGrace}, snapshot.Published)
	if err := g.Stream(t.Context(), collect); !errors.Is(err, snapshot.ErrMissing) || !strings.Contains(err.Error(), "000000") {
		t.Errorf("one that was swept: %v", err)
	}
}

// TestOpenID_Swept: a generation that is not there any more is told with what is current instead.
func TestOpenID_Swept(t *testing.T) {
	b := membucket.New(nil)
	s := tiny(t, b)
	first := publish(t, s, tree(1, "a"), snapshot.Published)
	second := publishWith(t, s, tree(2, "a"), &snapshot.PublishOptions{Grace: snapshot.NoGrace}, snapshot.Published)
	other, err := snapshot.ParseID(someID)
	if err != nil {
		t.Fatal(err)
	}
	for what, id := range map[string]snapshot.ID{"swept": first.ID, "never there": other} {
		_, err := s.OpenID(t.Context(), id)
		var swept *snapshot.SweptError
		if !errors.As(err, &swept) || swept.ID != id || swept.Current != second.Pointer || swept.Tag != second.Tag {
			t.Errorf("%s: %v", what, err)
		}
	}
	if g, err := s.OpenID(t.Context(), second.ID); err != nil || g.Info() != second.Pointer {
		t.Errorf("the current one: %v", err)
	}
	_, err = on(t, sweeping(t, b, func(int) bool { return true }), nil).OpenID(t.Context(), second.ID)
	if !errors.Is(err, snapshot.ErrSwept) || errors.Is(err, snapshot.ErrMissing) {
		t.Errorf("one that is swept while it is opened: %v", err)
	}
	// A lifecycle rule takes a retired one: nobody misses it.
	third := publishWith(t, s, tree(9, "a"), &snapshot.PublishOptions{Grace: time.Hour}, snapshot.Published)
	publish(t, s, tree(8, "a"), snapshot.Published)
	remove(t, b, file(third.ID, "index"))
	if _, err = s.OpenID(t.Context(), third.ID); !errors.Is(err, snapshot.ErrSwept) {
		t.Errorf("a retired one without index: %v", err)
	}
}

// TestPage: by prefix, after a path, within a limit, across parts, and without a request for parts that have none of it.
func TestPage(t *testing.T) {
	all := []string{"a", "a-b", "a/1", "a/2", "a/3", "a0", "b", "b/1", "b/\xf4\x8f\xbf\xbf", "c"}
	for size := 1; size < 5; size++ { // rows in a part
		b := membucket.New(nil)
		s := on(t, b, nil)
		s.SetLimits(size*65-20, 1<<20, 1)
		publish(t, s, tree(1, all...), snapshot.Published)
		opened := 0
		g, err := on(t, hooked{b, func(bucket.Key) { opened++ }}, nil).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{"", "a", "a/", "a/2", "b/", "c", "0", "d", "b0"} {
			for _, after := range append([]string{"", "0", "a/15", "z"}, all...) {
				for limit := 1; limit < 5; limit++ {
					var want []string
					for _, p := range all {
						if strings.HasPrefix(p, prefix) && p > after {
							want = append(want, p)
						}
					}
					wantMore := len(want) > limit
					want = want[:min(limit, len(want))]
					opened = 0
					rows, more, err := g.Page(t.Context(), prefix, after, limit)
					var got []string
					for _, r := range rows {
						got = append(got, r.Path)
					}
					if err != nil || !slices.Equal(got, want) || more != wantMore || len(want) == 0 && opened > 1 || opened > limit+1 {
						t.Errorf("%d to a part, prefix %q after %q, %d: %q, %v, %v after %d requests; want %q, %v", size, prefix, after,
							limit, got, more, err, opened, want, wantMore)
					}
				}
			}
		}
	}
}
