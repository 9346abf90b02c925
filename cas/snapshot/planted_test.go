package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/fakes/explore"
)

// Each of the types below plants a bug below the code of the package, where it acts as if the code had it.

// listed are the keys of generations, but for one of them.
func listed(ctx context.Context, s bucket.Objects, but string) (keys []bucket.Key) {
	_ = s.List(ctx, bucket.ListRequest{Prefix: root + "generations/"}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			if but == "" || !strings.Contains(string(o.Key), but) {
				keys = append(keys, o.Key)
			}
		}
		return nil
	})
	return keys
}

// clearsFirst deletes what is there before it stages its own.
type clearsFirst struct{ snapshot.Store }

func (c clearsFirst) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if key != pointerKey {
		_ = c.Delete(ctx, listed(ctx, c.Store, ""))
	}
	return c.Store.Save(ctx, key, body, p)
}

// flipsAnyway saves the pointer whatever it is by now.
type flipsAnyway struct{ snapshot.Store }

func (f flipsAnyway) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if key != pointerKey {
		return f.Store.Save(ctx, key, body, p)
	}
	_, err := f.Put(ctx, key, strings.NewReader(string(body)))
	return "saved", err
}

// readsFirst reads the pointer before it lists what it then holds to it.
type readsFirst struct {
	snapshot.Store
	pointer *cas.Object
}

func (r *readsFirst) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	if o, err := r.Store.Load(ctx, pointerKey); err == nil {
		r.pointer = &o
	}
	return r.Store.List(ctx, req, fn)
}

func (r *readsFirst) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	if o := r.pointer; o != nil && key == pointerKey {
		r.pointer = nil
		return *o, nil
	}
	return r.Store.Load(ctx, key)
}

// takesAll sweeps everything but the current generation.
type takesAll struct {
	snapshot.Store
	listed bool
}

func (a *takesAll) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	a.listed = true
	return a.Store.List(ctx, req, fn)
}

func (a *takesAll) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	o, err := a.Store.Load(ctx, key)
	if err == nil && a.listed && key == pointerKey {
		_, rest, _ := strings.Cut(string(o.Body), `"id":"`)
		current, _, _ := strings.Cut(rest, `"`)
		_ = a.Delete(ctx, listed(ctx, a.Store, current))
	}
	return o, err
}

// TestP9_Planted: the explorer finds each of these bugs; that it finds nothing where there is none is for the other tests.
func TestP9_Planted(t *testing.T) {
	for _, c := range []struct {
		name   string
		setup  func(*explore.World)
		actors func(bug host) []explore.Actor
		bug    host
		want   string // of the promise that is broken
	}{
		{
			name: "clear before staging", want: "has lost part 0", setup: seeded("2", snapshot.NoGrace),
			actors: func(bug host) []explore.Actor { return []explore.Actor{bug.publisher("a")} },
			bug:    host{bug: func(s snapshot.Store) snapshot.Store { return clearsFirst{s} }},
		}, {
			name: "flip without If-Match", want: "was told \"published", setup: seeded("2", snapshot.DefaultGrace),
			actors: func(bug host) []explore.Actor {
				return []explore.Actor{bug.publisher("a"), publisher("b"), changing("3")}
			},
			bug: host{bug: func(s snapshot.Store) snapshot.Store { return flipsAnyway{s} }},
		}, {
			name: "walk before the pointer is read", want: "the pointer went back to 2", setup: seeded("2", snapshot.DefaultGrace),
			actors: func(bug host) []explore.Actor {
				return []explore.Actor{bug.publisher("a"), publisher("b"), changing("3")}
			},
			bug: host{walksFirst: true},
		}, {
			name: "a sweep that reads the pointer before it lists", want: "has lost part 0", setup: seeded("2", snapshot.DefaultGrace),
			actors: func(bug host) []explore.Actor {
				return []explore.Actor{bug.sweeper("sweep"), publisher("a"), publisher("b"), changing("3")}
			},
			bug: host{bug: func(s snapshot.Store) snapshot.Store { return &readsFirst{Store: s} }},
		}, {
			name: "a sweep of everything but the current", want: " has lost ", setup: seeded("2", snapshot.DefaultGrace),
			actors: func(bug host) []explore.Actor { return []explore.Actor{bug.sweeper("sweep"), publisher("a")} },
			bug:    host{bug: func(s snapshot.Store) snapshot.Store { return &takesAll{Store: s} }},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := newJudge(t).of(explore.Scenario{Setup: c.setup, PageSize: 50}, c.actors(c.bug))
			_, err := explore.Search(t, broken)
			var found *explore.Failure
			if !errors.As(err, &found) || !strings.Contains(fmt.Sprint(found.Err), c.want) {
				t.Fatalf("%v, want one that says that %s", err, c.want)
			}
			t.Logf("%s\n%s\nfound: %s", found.Err, strings.Join(found.Steps, "\n"), found.Schedule)
			if again := explore.Replay(t, broken, found.Schedule); again == nil || again.Error() != found.Error() {
				t.Errorf("replayed, it is another failure: %v", again)
			}
		})
	}
}
