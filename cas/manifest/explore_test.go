package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/fakes/explore"
)

const (
	root    = manifest.Root + "team/models/"
	listKey = bucket.Key(root + "list")
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A part is an actor of a scenario, and what its save makes of the list; nil if it leaves the entries as they are.
type part struct {
	explore.Actor
	does func(was []line) []line
}

// A line is an entry, as far as what becomes of it goes.
type line struct{ id, dedupeKey string }

// A host is how a process has the manifest; zero is as the others have it.
type host struct {
	grace time.Duration // of a list that it creates; default MinGrace
	hasty bool          // gives up where it would have to wait
	tag   string        // that it adds to
	bug   func(manifest.Store) manifest.Store
}

// open is the manifest as an actor's process has it; its keys and nonces begin with the name, and it is told by them.
func (h host) open(env *explore.Env, name string) (*manifest.Manifest, manifest.Store) {
	n := 0
	next := func() string { n++; return name + strconv.Itoa(n) }
	var store manifest.Store = env.Store()
	if h.bug != nil {
		store = h.bug(store)
	}
	m, err := manifest.New(store, "team", "models", &manifest.Options{
		Grace: max(h.grace, manifest.MinGrace), NewKey: next,
		Doc: &cas.Options{
			Now: func() time.Time { return start }, Nonce: next,
			Wait: func(ctx context.Context, _ time.Duration) error {
				if h.hasty {
					return context.DeadlineExceeded
				}
				return ctx.Err()
			},
		},
	})
	if err != nil {
		panic(err)
	}
	return m, store
}

// told observes what a change was told: "won" with the number of its save and the blobs, "failed", or that it is unknown.
func told(env *explore.Env, c manifest.Change, err error) {
	switch {
	case err == nil:
		_, seq, _ := strings.Cut(c.State.Tag, "-")
		words := []any{"won", seq}
		for _, b := range c.Entry.Blobs {
			words = append(words, b.Key)
		}
		env.Log(words...)
	case errors.Is(err, cas.ErrUnknown):
		env.Log("unknown")
	default:
		env.Log("failed")
	}
}

func text(body string) manifest.Source {
	return manifest.Source{Name: "f", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }}
}

// writer adds one entry, of its name.
func (h host) writer(name, dedupeKey string) part {
	run := func(ctx context.Context, env *explore.Env) error {
		m, store := h.open(env, name)
		c, err := m.Add(ctx, manifest.AddRequest{
			ID: name, DedupeKey: dedupeKey, Sources: []manifest.Source{text(name)}, Create: true, Tag: h.tag,
		})
		told(env, c, err)
		if bug, ok := store.(*reapsAnyway); ok {
			bug.reap(ctx)
		}
		return nil
	}
	return part{explore.Actor{Name: name, Run: run}, func(was []line) []line {
		var is []line
		for _, l := range was {
			if dedupeKey == "" || l.dedupeKey != dedupeKey {
				is = append(is, l)
			}
		}
		return append(is, line{name, dedupeKey})
	}}
}

func writer(name, dedupeKey string) part { return host{}.writer(name, dedupeKey) }

func remover(name, id string) part {
	run := func(ctx context.Context, env *explore.Env) error {
		m, _ := host{}.open(env, name)
		c, err := m.Remove(ctx, id, "")
		told(env, c, err)
		return nil
	}
	return part{explore.Actor{Name: name, Run: run}, func(was []line) []line {
		var is []line
		for _, l := range was {
			if l.id != id {
				is = append(is, l)
			}
		}
		return is
	}}
}

func (h host) collector(name string) part {
	return part{Actor: explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		m, _ := h.open(env, name)
		_, _ = m.GC(ctx, nil) // what it did is looked at, and not what it says
		return nil
	}}}
}

func collector(name string) part { return host{}.collector(name) }

// lateCollector lets two hours pass, and then collects. Of what a clock that moves at any time does, this leaves out only
// that it moves when gc has begun to list, which gc does not see.
func (h host) lateCollector(name string) part {
	tick, collect := explore.Clock(2*time.Hour).Run, h.collector(name).Run
	return part{Actor: explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		return errors.Join(tick(ctx, env), collect(ctx, env))
	}}}
}

func clock(steps ...time.Duration) part { return part{Actor: explore.Clock(steps...)} }

// seeded is a manifest with an entry "old" of dedupe key "k", and an orphan.
func seeded(w *explore.World) { seedWith(w, manifest.MinGrace) }

func seedWith(w *explore.World, grace time.Duration) {
	putList(w, grace, `{"id":"old","dedupe_key":"k","blobs":[{"key":"s0","name":"f","size":3,"digest":"`+digestOf("old")+`"}],`+
		`"size":3,"digest":"sha256:y","added_at":"2026-01-01T00:00:00Z","meta":{}}`)
	w.Put(bucket.Key(root+"blobs/s0"), "old", start)
	w.Put(bucket.Key(root+"blobs/orphan"), "x", start)
}

// emptied is a manifest without entries.
func emptied(w *explore.World) { putList(w, manifest.MinGrace, "") }

func putList(w *explore.World, grace time.Duration, entries string) {
	w.Put(listKey, fmt.Sprintf(`{"format":"manifest/1","created":{"nonce":"s1","at":"2026-01-01T00:00:00Z"},"seq":1,"nonce":"s1",`+
		`"recent":[],"payload":{"grace_ms":%d,"entries":[%s],"reaping":[]}}`, grace.Milliseconds(), entries), start)
}

// explored searches a scenario for a state that breaks a promise. Its faults are those of `go test`, one in a run; `make
// explore` has all kinds, and MaxFaults of them in one run.
func explored(t *testing.T, s explore.Scenario, parts ...part) {
	t.Helper()
	most := max(s.MaxFaults, 1)
	s.MaxFaults = 1
	if n, err := strconv.Atoi(os.Getenv("INDEXD_EXPLORE")); err == nil {
		s.Faults, s.MaxFaults, s.MaxStates = explore.AllFaults, min(n, most), 20_000_000
	}
	j := newJudge(t, parts)
	explore.Run(t, j.of(s))
	j.wantAll()
}

// TestP8_WriterAndGC: a writer that is paused for longer than the grace, beside gc, under one fault or crash at any step.
func TestP8_WriterAndGC(t *testing.T) {
	explored(t, explore.Scenario{Setup: seeded, Faults: explore.AllFaults, MaxFaults: 2},
		writer("solo", "k"), collector("gc"), clock(2*time.Hour))
}

// TestP8_TwoWriters: two writers who displace each other's entry and the old one.
func TestP8_TwoWriters(t *testing.T) {
	explored(t, explore.Scenario{Setup: seeded, Faults: explore.AllFaults, MaxFaults: 2},
		writer("a", "k"), writer("b", "k"))
}

// TestP8_TwoWritersAndGC: the same, paused for longer than the grace, beside gc.
func TestP8_TwoWritersAndGC(t *testing.T) {
	explored(t, explore.Scenario{Setup: emptied, PageSize: 10},
		writer("a", "k"), writer("b", "k"), host{}.lateCollector("gc"))
}

// TestP8_Hasty: a writer who gives up where it would have to wait, so that it is told that the outcome is open, and its save
// comes late.
func TestP8_Hasty(t *testing.T) {
	lost := explore.NotApplied | explore.AppliedLost | explore.AppliedLate
	explored(t, explore.Scenario{Setup: seeded, Faults: lost, MaxFaults: 2},
		host{hasty: true}.writer("solo", "k"), collector("gc"), clock(2*time.Hour))
}

// TestP8_TwoCollectors: two gcs, none of which sees the other coming, beside one who removes the entry.
func TestP8_TwoCollectors(t *testing.T) {
	explored(t, explore.Scenario{
		Setup:    func(w *explore.World) { seeded(w); w.SetClock(start.Add(2 * time.Hour)) },
		PageSize: 10,
	}, remover("rm", "old"), collector("gc"), collector("gd"))
}

// TestP8_RemoveBesideGC: who removes an entry, a gc, and one who adds.
func TestP8_RemoveBesideGC(t *testing.T) {
	explored(t, explore.Scenario{Setup: seeded, PageSize: 10},
		remover("rm", "old"), writer("solo", "k"), host{}.lateCollector("gc"))
}

// TestP8_Absent: writers whose graces differ create the manifest, beside a gc of a third grace that must take nothing where
// there is none.
func TestP8_Absent(t *testing.T) {
	explored(t, explore.Scenario{Faults: explore.AppliedLost, PageSize: 10},
		writer("a", "k"), host{grace: 24 * time.Hour}.writer("b", ""), host{grace: 48 * time.Hour}.lateCollector("gc"))
}

// TestP8_GraceOfTheList: the grace is the list's own, whatever that of the processes is.
func TestP8_GraceOfTheList(t *testing.T) {
	for _, grace := range []time.Duration{manifest.MinGrace, 24 * time.Hour} {
		gone := 0
		j := newJudge(t, []part{host{grace: 25*time.Hour - grace}.collector("gc"), clock(2 * time.Hour)})
		s := j.of(explore.Scenario{Setup: func(w *explore.World) { seedWith(w, grace) }, Faults: explore.AllFaults})
		sound := s.Invariant
		s.Invariant = func(f *explore.Final) error {
			if _, there := f.Object(bucket.Key(root + "blobs/orphan")); !there {
				if gone++; grace > 2*time.Hour {
					return errors.New("the orphan is gone within the grace")
				}
			}
			return sound(f)
		}
		explore.Run(t, s)
		if grace < 2*time.Hour && gone == 0 {
			t.Error("the orphan never went")
		}
	}
}
