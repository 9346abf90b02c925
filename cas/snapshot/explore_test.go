package snapshot_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/fakes/explore"
)

// source is the key of what is published: a number, that only grows. A tree has two files of that size.
const source = bucket.Key("source")

// A host is how a process publishes; zero is as the others do.
type host struct {
	bug        func(snapshot.Store) snapshot.Store
	walksFirst bool // planted: it looks at the source before it reads the pointer
	parts      int  // in which a tree is put; default 1
	grace      time.Duration
	once       bool // it reads
}

// open is the snapshot as an actor's process has it. A nonce is the actor's name, a number, "v" and what it walked, so that
// what is stored tells who published what.
func (h host) open(env *explore.Env, name string, walked *string) (*snapshot.Snapshot, *witness) {
	n := 0
	next := func() string { n++; return name + strconv.Itoa(n) + "v" + *walked }
	var store snapshot.Store = env.Store()
	if h.bug != nil {
		store = h.bug(store)
	}
	w := &witness{Store: store}
	s, err := snapshot.New(w, "team", "files", &snapshot.Options{
		Nonce: next, Now: func() time.Time { return start },
		Doc: &cas.Options{
			Now: func() time.Time { return start }, Nonce: next,
			Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		},
	})
	if err != nil {
		panic(err)
	}
	if h.parts != 2 {
		s.SetLimits(1<<20, 1<<20, 1)
	} else {
		s.SetLimits(1, 1<<20, 1)
	}
	return s, w
}

// A witness counts what somebody does who is not to do it.
type witness struct {
	snapshot.Store
	lists, deletes int
}

func (w *witness) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	w.lists++
	return w.Store.List(ctx, req, fn)
}

func (w *witness) Delete(ctx context.Context, keys []bucket.Key) []error {
	w.deletes++
	return w.Store.Delete(ctx, keys)
}

func look(ctx context.Context, s bucket.Objects) (string, error) {
	r, err := s.Open(ctx, source)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func treeOf(value string) snapshot.Walk {
	size, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		panic(err)
	}
	return tree(size, "a", "b")
}

// publisher publishes what the source has, and observes what it was told.
func (h host) publisher(name string) explore.Actor {
	return explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		walked := ""
		s, w := h.open(env, name, &walked)
		var lookErr error
		if h.walksFirst {
			walked, lookErr = look(ctx, env.Objects())
		}
		r, err := s.Publish(ctx, func(add func(snapshot.Row) error) error {
			if !h.walksFirst {
				walked, lookErr = look(ctx, env.Objects())
			}
			if lookErr != nil {
				return lookErr
			}
			return treeOf(walked)(add)
		}, &snapshot.PublishOptions{Grace: h.grace})
		switch {
		case errors.Is(err, cas.ErrUnknown):
			env.Log("unknown")
		case err != nil:
			env.Log("failed", kindOf(err))
		default:
			env.Log(r.Outcome, w.lists, w.deletes)
		}
		return nil
	}}
}

func publisher(name string) explore.Actor { return host{}.publisher(name) }

// kindOf are the errors that nobody may be told, whatever happens.
func kindOf(err error) string {
	for _, bad := range []error{snapshot.ErrMissing, snapshot.ErrDamaged, snapshot.ErrLost, cas.ErrCorrupt, cas.ErrBackwards} {
		if errors.Is(err, bad) {
			return "badly: " + err.Error()
		}
	}
	return "to an error of the store"
}

// reader reads twice, or once, and observes what it was given.
func (h host) reader(name string) explore.Actor {
	return explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		s, _ := h.open(env, name, new(string))
		for n := range 2 {
			if h.once && n > 0 {
				break
			}
			info, got, err := s.Read(ctx)
			if err != nil {
				env.Log("failed", kindOf(err))
				continue
			}
			words := []any{"read", info.ID}
			for _, r := range got {
				words = append(words, r.Path, r.Size)
			}
			env.Log(words...)
		}
		return nil
	}}
}

func (h host) sweeper(name string) explore.Actor {
	return explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		s, _ := h.open(env, name, new(string))
		if _, err := s.Sweep(ctx); err != nil {
			env.Log("failed", kindOf(err))
		}
		return nil
	}}
}

// changing is a source that changes at any moment.
func changing(values ...string) explore.Actor {
	return explore.Actor{Name: "source", Run: func(ctx context.Context, env *explore.Env) error {
		for _, v := range values {
			_, _ = env.Objects().Put(ctx, source, strings.NewReader(v)) // lost, it is one that does not change
		}
		return nil
	}}
}

// seeded is a snapshot of a source that had 1 and has the value now.
func seeded(value string, grace time.Duration) func(w *explore.World) {
	b := membucket.New(&membucket.Options{Now: func() time.Time { return start }})
	s, err := snapshot.New(b, "team", "files", &snapshot.Options{
		Nonce: func() string { return "seed1v1" }, Now: func() time.Time { return start },
		Doc: &cas.Options{Now: func() time.Time { return start }, Nonce: func() string { return "seed1v1" }},
	})
	if err == nil {
		_, err = s.Publish(context.Background(), treeOf("1"), &snapshot.PublishOptions{Grace: grace})
	}
	objects := map[bucket.Key]string{source: value}
	err = errors.Join(err, b.List(context.Background(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			r, err := b.Open(context.Background(), o.Key)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			objects[o.Key] = string(text)
		}
		return nil
	}))
	if err != nil {
		panic(err)
	}
	return func(w *explore.World) {
		for key, body := range objects {
			w.Put(key, body, start)
		}
	}
}

// first is a source of that value, and nothing published.
func first(value string) func(w *explore.World) {
	return func(w *explore.World) { w.Put(source, value, start) }
}

// wide reports whether this is `make explore`.
func wide() bool { return os.Getenv("INDEXD_EXPLORE") != "" }

// faults are those of `go test`, and those of `make explore`.
func faults(plain, wider explore.Fault) explore.Fault {
	if wide() {
		return wider
	}
	return plain
}

// explored searches a scenario, and wants it to have seen these outcomes.
func explored(t *testing.T, s explore.Scenario, saw []string, actors ...explore.Actor) {
	t.Helper()
	s.MaxStates = 50_000_000
	if s.PageSize == 0 {
		s.PageSize = 50
	}
	j := newJudge(t)
	explore.Run(t, j.of(s, actors))
	for _, what := range saw {
		if j.tally[what] == 0 {
			t.Errorf("the search never saw %s: %v", what, j.tally)
		}
	}
}

var (
	outcomes = []string{"a published", "a superseded", "b published", "b superseded"}
	readings = []string{"a published", "b published", "r read 1", "r read 2"}
)

// TestP9_TwoPublishers: two publishers that keep nothing of what they retire, and a source that changes at any moment.
func TestP9_TwoPublishers(t *testing.T) {
	explored(t, explore.Scenario{Setup: seeded("2", snapshot.NoGrace), Faults: faults(0, explore.AllFaults)}, outcomes,
		publisher("a"), publisher("b"), changing("3"))
}

// TestP9_InTheGrace: the same, where nothing that was retired goes.
func TestP9_InTheGrace(t *testing.T) {
	if !wide() {
		t.Skip("it is searched by make explore")
	}
	s := explore.Scenario{Setup: seeded("2", snapshot.DefaultGrace), Faults: explore.AllFaults}
	explored(t, s, outcomes,
		publisher("a"), publisher("b"), changing("3"))
}

// TestP9_Unchanged: the source changes from what is published, so that a publisher finds it unchanged or not.
func TestP9_Unchanged(t *testing.T) {
	explored(t, explore.Scenario{Setup: seeded("1", snapshot.NoGrace), Faults: faults(explore.CrashBefore, explore.AllFaults)},
		append([]string{"a unchanged"}, outcomes...), publisher("a"), publisher("b"), changing("2"))
}

// TestP9_Late: two publishers of one tree, any write of which may come late.
func TestP9_Late(t *testing.T) {
	explored(t, explore.Scenario{Setup: seeded("2", snapshot.DefaultGrace), Faults: explore.AppliedLate}, outcomes,
		publisher("a"), publisher("b"))
}

// TestP9_Reader: a reader beside two publishers that keep nothing of what they retire.
func TestP9_Reader(t *testing.T) {
	explored(t, explore.Scenario{Setup: seeded("2", snapshot.NoGrace), Faults: faults(0, explore.CrashAfter)}, readings,
		publisher("a"), publisher("b"), host{once: !wide()}.reader("r"), changing("3"))
}

// TestP9_ReaderOfParts: the same of trees in two parts, and one publisher.
func TestP9_ReaderOfParts(t *testing.T) {
	h := host{parts: 2}
	explored(t, explore.Scenario{Setup: seeded("2", snapshot.NoGrace), Faults: explore.AllFaults},
		[]string{"a published", "r read 1", "r read 2"}, h.publisher("a"), h.reader("r"))
}

// TestP9_FirstPublication: two publishers of what was never published.
func TestP9_FirstPublication(t *testing.T) {
	explored(t, explore.Scenario{Setup: first("1"), Faults: faults(0, explore.AllFaults)}, outcomes,
		publisher("a"), publisher("b"), changing("2"))
}

// TestP9_Alone: one publisher, and a sweep by hand, with each kind of fault and crash at any step.
func TestP9_Alone(t *testing.T) {
	explored(t, explore.Scenario{Setup: seeded("2", snapshot.NoGrace), Faults: explore.AllFaults},
		[]string{"a published"}, publisher("a"), host{}.sweeper("sweep"))
}

// TestP9_Pages: the same with listings of several pages, on a store without times and order.
func TestP9_Pages(t *testing.T) {
	explored(t, explore.Scenario{
		Setup: seeded("2", snapshot.NoGrace), Faults: explore.AllFaults, PageSize: 3, NoStoreTime: true, Unsorted: true,
	}, []string{"a published"}, publisher("a"), host{}.sweeper("sweep"))
}

// TestP9_Sweeper: a sweep by hand beside two publishers.
func TestP9_Sweeper(t *testing.T) {
	if !wide() {
		t.Skip("it is searched by make explore")
	}
	explored(t, explore.Scenario{Setup: seeded("2", snapshot.NoGrace), Faults: explore.CrashAfter}, outcomes,
		publisher("a"), publisher("b"), host{}.sweeper("sweep"))
}
