package janitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/fakes/explore"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/prune/janitor"
)

// The explorer's store starts at this instant.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const teamPrefix = "_active_runs/team/"

func epochID(subkey string, at time.Time) itemid.ID {
	id, err := itemid.Epoch.Parse(fmt.Sprintf("%s_%013d", subkey, at.UnixMilli()))
	if err != nil {
		panic(err)
	}
	return id
}

// A store is what a process needs of a bucket.
type store interface {
	bucket.Objects
	cas.Store
}

// A worker observes when a pass begins to list: by then it has the lease, and has stamped the checkpoint.
type worker struct {
	store
	env *explore.Env
}

func (w worker) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	w.env.Log("work")
	return w.store.List(ctx, req, fn)
}

// A brute is a store on which the checkpoint is saved over whatever is there: the bug that the search must find.
type brute struct{ store }

func (b brute) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if key == checkpointKey && !p.Absent() {
		o, err := b.Load(ctx, key)
		if err != nil {
			return "", err
		}
		p = cas.IfMatch(o.Version)
	}
	return b.store.Save(ctx, key, body, p)
}

// latePasser lets the lease of whoever holds it expire, and then makes a pass. Of what a clock that moves at any time does, this
// leaves out only that it moves when the pass has begun.
func latePasser(name string, bug bool) explore.Actor {
	tick, pass := explore.Clock(lease.DefaultTTL+lease.Margin+time.Second).Run, passer(name, bug).Run
	return explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		return errors.Join(tick(ctx, env), pass(ctx, env))
	}}
}

// passer makes one pass. Its own clocks stand still, so that it never finds out by them that its lease has expired: it is the
// holder that was stopped between its check and its request, at each request.
func passer(name string, bug bool) explore.Actor {
	return explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		var on store = worker{env.Store(), env}
		if bug {
			on = brute{on}
		}
		x, err := blobindex.New(on, blobindex.Config{}, &blobindex.Options{
			Now: func() time.Time { return start }, Rand: env.Rand(),
		})
		if err != nil {
			return err
		}
		n := 0
		j := janitor.New(x, &janitor.Options{
			Store: on,
			Clock: lease.Clock{Wall: func() time.Time { return start }, Running: func() time.Duration { return 0 }},
			Document: &cas.Options{
				Now: func() time.Time { return start }, Nonce: func() string { n++; return name + strconv.Itoa(n) },
				Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
			},
		})
		r, err := j.Run(ctx, nil)
		how := "failed"
		switch {
		case r.Unguarded != "":
			how = "unguarded"
		case err == nil:
			how = "done"
		case errors.Is(err, lease.ErrHeld):
			how = "held"
		case errors.Is(err, lease.ErrLost):
			how = "lost"
		}
		env.Log(how, r.Term)
		return nil
	}}
}

// producer acts on the namespace, and observes whether that was acknowledged.
func producer(id itemid.ID, act func(context.Context, *blobindex.Namespace) error) explore.Actor {
	return explore.Actor{Name: "producer", Run: func(ctx context.Context, env *explore.Env) error {
		x, err := blobindex.New(env.Objects(), blobindex.Config{}, &blobindex.Options{
			Now: func() time.Time { return start }, Rand: env.Rand(),
		})
		if err != nil {
			return err
		}
		n, err := x.Namespace("team")
		if err == nil && act(ctx, n) == nil {
			env.Log("ack", id)
		}
		return err
	}}
}

// registrar registers an item whose older run is stale.
func registrar() explore.Actor {
	id := epochID("c", start)
	return producer(id, func(ctx context.Context, n *blobindex.Namespace) error {
		_, err := n.Register(ctx, id, nil)
		return err
	})
}

// beater beats for the stale item.
func beater() explore.Actor {
	id := epochID("c", start.Add(-3*time.Hour))
	return producer(id, func(ctx context.Context, n *blobindex.Namespace) error {
		_, err := n.Heartbeat(ctx, id)
		return err
	})
}

// shownIn is what a process that comes afterwards sees.
func shownIn(f *explore.Final) []string {
	rules, err := prune.Rules{}.WithDefaults()
	if err != nil {
		panic(err)
	}
	n := prune.NewNamespace(rules)
	for _, o := range f.Objects {
		if name, ok := strings.CutPrefix(string(o.Key), teamPrefix); ok {
			n.Add(name, o.Size, o.StoreTime)
		}
	}
	var ids []string
	for _, it := range n.Decide(f.Clock, nil).Shown() {
		ids = append(ids, it.ID.String())
	}
	return ids
}

// A passing is a scenario of passes beside a producer, with what must hold and what must have been tried.
type passing struct {
	done, held, lost, both, crashed, acks, faults int

	live string
}

// term is that of a document that is stored, 0 if there is none.
func term(f *explore.Final, key bucket.Key) (uint64, error) {
	o, ok := f.Object(key)
	if !ok {
		return 0, nil
	}
	var e struct{ Payload struct{ Term uint64 } }
	err := json.Unmarshal([]byte(o.Body), &e)
	return e.Payload.Term, err
}

// stamped holds every state to this: whoever works has stamped the checkpoint in a term of its own, and no later save takes
// that back.
func (p *passing) stamped(f *explore.Final) error {
	is, err := term(f, checkpointKey)
	if err != nil {
		return err
	}
	works := uint64(0)
	for _, a := range f.Actors {
		if slices.Contains(a.Log, "work") {
			works++
		}
	}
	if is < works {
		return fmt.Errorf("%d passes have begun to work, and the checkpoint is of term %d", works, is)
	}
	if !slices.Contains(shownIn(f), p.live) {
		return fmt.Errorf("%s is lost", p.live)
	}
	return nil
}

// judge holds the end to what was told.
func (p *passing) judge(f *explore.Final) error {
	if err := p.stamped(f); err != nil {
		return err
	}
	p.faults += len(f.Struck)
	is, _ := term(f, checkpointKey)
	terms := map[string]bool{}
	works := 0
	for _, a := range f.Actors {
		if slices.Contains(a.Log, "work") {
			works++
		}
		for _, line := range a.Log {
			word, rest, _ := strings.Cut(line, " ")
			of, _ := strconv.ParseUint(rest, 10, 64)
			switch word {
			case "ack":
				p.acks++
				if !slices.Contains(shownIn(f), rest) {
					return fmt.Errorf("%s was acknowledged and is lost: shown are %v", rest, shownIn(f))
				}
			case "unguarded":
				return fmt.Errorf("%s was not guarded", a.Name)
			case "held":
				if p.held++; slices.Contains(a.Log, "work") {
					return fmt.Errorf("%s worked, and was told that somebody else does", a.Name)
				}
			case "lost":
				if p.lost++; is <= of {
					return fmt.Errorf("%s has lost term %d, and the checkpoint is of term %d", a.Name, of, is)
				}
			case "done":
				if p.done++; terms[rest] || of == 0 || is < of {
					return fmt.Errorf("%s has done its pass in term %d; the checkpoint is of term %d", a.Name, of, is)
				}
				terms[rest] = true
			}
		}
		if a.Crashed {
			p.crashed++
		}
	}
	if works == 2 {
		p.both++
	}
	return nil
}

// scenario is actors on an index with a stale item and a live one.
func (p *passing) scenario(faults explore.Fault, actors ...explore.Actor) explore.Scenario {
	long, live := start.Add(-3*time.Hour), epochID("b", start.Add(-time.Hour))
	p.live = live.String()
	return explore.Scenario{
		Name: "pass ∥ pass", PageSize: 10, Faults: faults, Actors: actors,
		Setup: func(w *explore.World) {
			w.Put(bucket.Key(teamPrefix+epochID("c", long).String()), "", long)
			w.Put(bucket.Key(teamPrefix+live.String()), "", live.Time())
		},
		Invariant: p.stamped, Check: p.judge,
	}
}

func explored(t *testing.T, s explore.Scenario) {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("INDEXD_EXPLORE")); err == nil { // make explore
		s.Faults, s.MaxFaults, s.MaxStates = explore.AllFaults, n, 20_000_000
	}
	explore.Run(t, s)
}

// TestP10_Passes: two passes, through every reachable state, while the lease may expire at any time, with a crash or a lost
// answer at each step. Nobody works that has not stamped the checkpoint in a term of its own; no save takes a stamp back; who
// was told that its pass is done, was not dispossessed; what is live is shown in the end.
func TestP10_Passes(t *testing.T) {
	p := &passing{}
	explored(t, p.scenario(explore.AllFaults, passer("one", false), latePasser("two", false)))
	if p.done == 0 || p.held == 0 || p.lost == 0 || p.both == 0 || p.crashed == 0 || p.faults == 0 {
		t.Errorf("something was never tried: %+v", p)
	}
}

// TestP10_PassesBesideProducers: the same beside one that registers an item whose older run is stale, and one that beats for
// the stale item itself. What was acknowledged is shown in the end.
func TestP10_PassesBesideProducers(t *testing.T) {
	for name, of := range map[string]explore.Actor{"register": registrar(), "heartbeat": beater()} {
		t.Run(name, func(t *testing.T) {
			p := &passing{}
			explored(t, p.scenario(explore.AppliedLost|explore.CrashBefore, passer("one", false), latePasser("two", false), of))
			if p.done == 0 || p.held == 0 || p.lost == 0 || p.both == 0 || p.acks == 0 {
				t.Errorf("something was never tried: %+v", p)
			}
		})
	}
}

// TestP10_PassesFindsABug: where a dispossessed holder saves the checkpoint all the same, the search says so; else the tests
// above prove nothing.
func TestP10_PassesFindsABug(t *testing.T) {
	p := &passing{}
	_, err := explore.Search(t, p.scenario(0, passer("one", true), latePasser("two", true)))
	var failure *explore.Failure
	if !errors.As(err, &failure) || !strings.Contains(err.Error(), "checkpoint is of term") {
		t.Errorf("%v", err)
	}
}
