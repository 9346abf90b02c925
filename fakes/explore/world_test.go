package explore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/fakes/explore"
)

// solo explores one actor with no fault and returns its observations.
func solo(t *testing.T, s explore.Scenario, run func(context.Context, *explore.Env) error) []string {
	t.Helper()
	var log []string
	s.Name = t.Name()
	s.Actors = append([]explore.Actor{{Name: "solo", Run: run}}, s.Actors...)
	s.Check = func(f *explore.Final) error {
		log = f.Actor("solo").Log
		return f.Actor("solo").Err
	}
	explore.Run(t, s)
	return log
}

func seven(w *explore.World) {
	for _, k := range []bucket.Key{"p/1", "p/2", "p/3", "p/4", "p/5", "q", "o"} {
		w.Put(k, string(k), w.Now().Add(-time.Hour))
	}
}

// pages lists a prefix and logs each page.
func pages(req bucket.ListRequest) func(context.Context, *explore.Env) error {
	return func(ctx context.Context, env *explore.Env) error {
		return env.Objects().List(ctx, req, func(p bucket.Page) error {
			var keys []string
			for _, o := range p.Objects {
				keys = append(keys, string(o.Key))
			}
			env.Log(strings.Join(keys, " "), p.Sorted, p.Now.IsZero())
			return nil
		})
	}
}

func TestListing(t *testing.T) {
	for _, c := range []struct {
		name string
		s    explore.Scenario
		req  bucket.ListRequest
		want []string
	}{
		{"pages of two", explore.Scenario{}, bucket.ListRequest{Prefix: "p/"},
			[]string{"p/1 p/2 true false", "p/3 p/4 true false", "p/5 true false"}},
		{"a full last page", explore.Scenario{PageSize: 5}, bucket.ListRequest{Prefix: "p/"},
			[]string{"p/1 p/2 p/3 p/4 p/5 true false"}},
		{"an empty page", explore.Scenario{}, bucket.ListRequest{Prefix: "x"}, []string{" true false"}},
		{"after", explore.Scenario{}, bucket.ListRequest{Prefix: "p/", After: "p/3"}, []string{"p/4 p/5 true false"}},
		{"unsorted", explore.Scenario{Unsorted: true, PageSize: 3}, bucket.ListRequest{Prefix: "p/"},
			[]string{"p/5 p/4 p/3 false false", "p/2 p/1 false false"}},
		{"no time", explore.Scenario{NoStoreTime: true, PageSize: 9}, bucket.ListRequest{Prefix: "q"},
			[]string{"q true true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Setup = seven
			if got := solo(t, c.s, pages(c.req)); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestStoreAnswers(t *testing.T) {
	got := solo(t, explore.Scenario{Setup: seven}, func(ctx context.Context, env *explore.Env) error {
		store := env.Objects()
		at, err := store.Put(ctx, "n", strings.NewReader("new"))
		env.Log("put", at.Format(time.RFC3339), err)
		o, err := store.Head(ctx, "n")
		env.Log("head", o.Size, o.StoreTime.Equal(at), err)
		_, err = store.Head(ctx, "absent")
		env.Log(errors.Is(err, bucket.ErrNotExist))
		body, err := readAll(ctx, env, "p/1")
		env.Log(body, err)
		env.Log(store.Delete(ctx, []bucket.Key{"n", "absent"}), store.Delete(ctx, nil))
		_, err = store.Open(ctx, "n")
		env.Log(errors.Is(err, bucket.ErrNotExist))
		_, err = store.Put(ctx, "", nil)
		env.Log(errors.Is(err, bucket.ErrInvalidKey))
		stop := errors.New("stop")
		err = store.List(ctx, bucket.ListRequest{}, func(bucket.Page) error { return stop })
		env.Log(err == stop)
		return nil
	})
	want := []string{"put 2026-01-01T00:00:00Z <nil>", "head 3 true <nil>", "true", "p/1 <nil>", "[] []", "true", "true",
		"true"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnsortedStoreRefusesAfter(t *testing.T) {
	solo(t, explore.Scenario{Unsorted: true}, func(ctx context.Context, env *explore.Env) error {
		err := pages(bucket.ListRequest{After: "a"})(ctx, env)
		if !errors.Is(err, bucket.ErrUnsupported) {
			return fmt.Errorf("after: %w", err)
		}
		return nil
	})
}

// A page's slice is the driver's again after the callback: who keeps it finds it emptied.
func TestKeptPagesAreEmptied(t *testing.T) {
	solo(t, explore.Scenario{Setup: seven}, func(ctx context.Context, env *explore.Env) error {
		var kept []bucket.Object
		err := env.Objects().List(ctx, bucket.ListRequest{}, func(p bucket.Page) error {
			kept = p.Objects
			return nil
		})
		if err == nil && kept[0].Key != "" {
			return errors.New("the page is still whole")
		}
		return err
	})
}

// The clock moves between any two steps of the others, and nowhere else; skew is added to the host's clock only.
func TestClockActor(t *testing.T) {
	seen := map[string]bool{}
	explore.Run(t, explore.Scenario{
		Name: "clock",
		Actors: []explore.Actor{explore.Clock(time.Second, time.Minute), {
			Name: "reader", Skew: time.Hour, Run: func(ctx context.Context, env *explore.Env) error {
				now := env.Now()
				at, err := env.Objects().Put(ctx, "k", nil)
				env.Log(now.Format("15:04:05"), at.Format("15:04:05"))
				return err
			},
		}},
		Check: func(f *explore.Final) error {
			seen[f.Actor("reader").Log[0]] = true
			return nil
		},
	})
	want := []string{"01:00:00 00:00:00", "01:00:00 00:00:01", "01:00:00 00:01:01", "01:00:01 00:00:01",
		"01:00:01 00:01:01", "01:01:01 00:01:01"}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("not reached: %s", w)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("got %v", seen)
	}
}

// Two actors draw different bytes, each the same ones in every run (else the search would fail).
func TestRandIsPerActor(t *testing.T) {
	draw := func(_ context.Context, env *explore.Env) error {
		b := make([]byte, 8)
		_, err := env.Rand().Read(b)
		env.Point("drawn")
		env.Log(fmt.Sprintf("%x", b))
		return err
	}
	explore.Run(t, explore.Scenario{
		Name:   "rand",
		Actors: []explore.Actor{{Name: "a", Run: draw}, {Name: "b", Run: draw}},
		Check: func(f *explore.Final) error {
			if a, b := f.Actors[0].Log[0], f.Actors[1].Log[0]; a == b {
				return fmt.Errorf("both draw %s", a)
			}
			return nil
		},
	})
}
