package blobindex_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
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

// teamOf opens the index as one process does. Its host's clock is a stop of the explorer only where the scenario moves
// the clock.
func teamOf(env *explore.Env, moves bool, rules prune.Rules, opt blobindex.Options) *blobindex.Namespace {
	opt.Now, opt.Rand = func() time.Time { return start }, env.Rand()
	if moves {
		opt.Now = env.Now
	}
	x, err := blobindex.New(env.Objects(), blobindex.Config{Rules: rules}, &opt)
	if err != nil {
		panic(err)
	}
	n, err := x.Namespace("team")
	if err != nil {
		panic(err)
	}
	return n
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

// reader is a reader with a sweeper; it observes each complete view.
func reader(views int, moves bool) explore.Actor {
	return explore.Actor{Name: "reader", Run: func(ctx context.Context, env *explore.Env) error {
		sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: func() time.Time { return start }})
		defer sweeper.Close()
		n := teamOf(env, moves, prune.Rules{}, blobindex.Options{Sweeper: sweeper})
		for range views {
			v, err := n.Cards(ctx, blobindex.CardsRequest{})
			if err == nil && v.Complete {
				env.Log("view " + strings.Join(cardIDs(v), " "))
			}
			if err := sweeper.Idle(ctx); err != nil {
				return err
			}
		}
		return nil
	}}
}

func pruner(moves bool) explore.Actor {
	return explore.Actor{Name: "pruner", Run: func(ctx context.Context, env *explore.Env) error {
		n := teamOf(env, moves, prune.Rules{}, blobindex.Options{})
		_, err := janitor.New(n.Index(), nil).Run(ctx, nil)
		return err
	}}
}

// registrar registers items one after the other and observes each acknowledgement.
func registrar(ids ...itemid.ID) explore.Actor {
	return explore.Actor{Name: "registrar", Run: func(ctx context.Context, env *explore.Env) error {
		n := teamOf(env, false, prune.Rules{}, blobindex.Options{})
		for _, id := range ids {
			if _, err := n.Register(ctx, id, nil); err == nil {
				env.Log("ack " + id.String())
			}
		}
		return nil
	}}
}

// acknowledged returns what an actor observed as acknowledged.
func acknowledged(f *explore.Final, actor string) []string {
	var ids []string
	for _, line := range f.Actor(actor).Log {
		if id, ok := strings.CutPrefix(line, "ack "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func allShown(f *explore.Final, ids ...string) error {
	shown := shownIn(f)
	for _, id := range ids {
		if !slices.Contains(shown, id) {
			return fmt.Errorf("%s is lost: shown are %v", id, shown)
		}
	}
	return nil
}

func run(t *testing.T, s explore.Scenario) {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("INDEXD_EXPLORE")); err == nil && s.Faults != 0 {
		s.MaxFaults, s.MaxStates = n, 20_000_000 // make explore
	}
	explore.Run(t, s)
}

// sharedBucket is what the producers of the race find: a stale item with a heartbeat, a finished one whose sightings are
// still there, an older run of the new item's sub-key, and a foreign object.
func sharedBucket(w *explore.World) {
	long := start.Add(-3 * time.Hour)
	old, done := epochID("c", long), epochID("a", start.Add(-10*time.Minute))
	for name, at := range map[string]time.Time{
		old.String(): long, prune.HeartbeatName(old, long.Add(30*time.Minute)): long.Add(30 * time.Minute),
		done.String(): start.Add(-10 * time.Minute), prune.TombstoneName(done, prune.Done): start.Add(-time.Minute),
		epochID("c", start.Add(-time.Hour)).String(): start.Add(-time.Hour),
	} {
		w.Put(bucket.Key(teamPrefix+name), "", at)
	}
	w.Put("_active_runs/team2/x", "keep", long)
}

// A tally counts over all end states what must not be zero, so that a search that tried nothing fails.
type tally struct{ acks, views, deletes, faults int }

func (c *tally) take(f *explore.Final) {
	c.acks += len(acknowledged(f, "registrar"))
	for _, line := range f.Actor("reader").Log {
		if strings.HasPrefix(line, "view ") {
			c.views++
		}
	}
	if _, ok := f.Object(bucket.Key(teamPrefix + epochID("c", start.Add(-3*time.Hour)).String())); !ok {
		c.deletes++
	}
	c.faults += len(f.Struck)
}

// TestP1_RegisterReaderSweepPrune is the race that kills a shared list: registering beside a reader with its sweep and a
// janitor's pass, through every reachable state, with a fault or a crash at each step. The item survives, in every end
// state, what finished stays hidden, and foreign keys are untouched.
func TestP1_RegisterReaderSweepPrune(t *testing.T) {
	fresh, other := epochID("c", start), epochID("b", start)
	done := epochID("a", start.Add(-10*time.Minute)).String()
	var count tally
	run(t, explore.Scenario{
		Name: "register ∥ reader with sweep ∥ prune", Setup: sharedBucket, Faults: explore.AllFaults, PageSize: 3,
		Actors: []explore.Actor{registrar(fresh, other), reader(1, false), pruner(false)},
		Check: func(f *explore.Final) error {
			count.take(f)
			if o, ok := f.Object("_active_runs/team2/x"); !ok || o.Body != "keep" {
				return errors.New("a foreign object was touched")
			}
			if slices.Contains(shownIn(f), done) {
				return fmt.Errorf("%s, which is finished, is back", done)
			}
			for _, line := range f.Actor("reader").Log {
				if strings.Contains(line, done) {
					return fmt.Errorf("a reader saw %s, which is finished: %s", done, line)
				}
			}
			return allShown(f, acknowledged(f, "registrar")...)
		},
	})
	if count.acks == 0 || count.views == 0 || count.deletes == 0 || count.faults == 0 {
		t.Errorf("something was never tried: %+v", count)
	}
}

// TestP1_ReadYourWrite: a view that is begun after a registration was acknowledged holds the item, whatever a pass and
// another reader's sweep do meanwhile.
func TestP1_ReadYourWrite(t *testing.T) {
	fresh := epochID("c", start)
	views := 0
	run(t, explore.Scenario{
		Name: "register, then read ∥ prune", Setup: sharedBucket, Faults: explore.AllFaults, PageSize: 3,
		Actors: []explore.Actor{
			{Name: "registrar", Run: func(ctx context.Context, env *explore.Env) error {
				n := teamOf(env, false, prune.Rules{}, blobindex.Options{})
				if _, err := n.Register(ctx, fresh, nil); err != nil {
					return nil
				}
				if v, err := n.Cards(ctx, blobindex.CardsRequest{}); err == nil && v.Complete {
					env.Log("view " + strings.Join(cardIDs(v), " "))
				}
				return nil
			}},
			pruner(false), reader(1, false),
		},
		Check: func(f *explore.Final) error {
			for _, line := range f.Actor("registrar").Log {
				if views++; !strings.Contains(line, fresh.String()) {
					return fmt.Errorf("%s was acknowledged before the view that misses it: %s", fresh, line)
				}
			}
			return nil
		},
	})
	if views == 0 {
		t.Error("no view was ever complete")
	}
}

// TestP3_DeclaredDead: a resolver says that the newest run of a sub-key is over, to one reader with a sweep, while an older
// run beats on: the dead one is in no view, the one that goes on shows once the dead one is swept, and the keys of no other
// item go.
func TestP3_DeclaredDead(t *testing.T) {
	dead, going := epochID("c", start.Add(-5*time.Minute)), epochID("c", start.Add(-10*time.Minute))
	bystander := epochID("d", start.Add(-5*time.Minute))
	swept := 0
	run(t, explore.Scenario{
		Name: "dead by the resolver ∥ heartbeat", Faults: explore.AllFaults, PageSize: 3,
		Setup: func(w *explore.World) {
			w.Put(bucket.Key(teamPrefix+dead.String()), "", start.Add(-5*time.Minute))
			w.Put(bucket.Key(teamPrefix+going.String()), "", start.Add(-10*time.Minute))
			w.Put(bucket.Key(teamPrefix+prune.HeartbeatName(going, start.Add(-time.Minute))), "", start.Add(-time.Minute))
			w.Put(bucket.Key(teamPrefix+bystander.String()), "", start.Add(-5*time.Minute))
		},
		Actors: []explore.Actor{
			{Name: "reader", Run: func(ctx context.Context, env *explore.Env) error {
				sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: func() time.Time { return start }})
				defer sweeper.Close()
				n := teamOf(env, false, prune.Rules{}, blobindex.Options{Sweeper: sweeper, Resolver: overs(dead)})
				for range 2 {
					if v, err := n.Cards(ctx, blobindex.CardsRequest{}); err == nil && v.Complete {
						env.Log("view " + strings.Join(cardIDs(v), " "))
					}
					if err := sweeper.Idle(ctx); err != nil {
						return err
					}
				}
				return nil
			}},
			{Name: "producer", Run: func(ctx context.Context, env *explore.Env) error {
				if _, err := teamOf(env, false, prune.Rules{}, blobindex.Options{}).Heartbeat(ctx, going); err == nil {
					env.Log("ack " + going.String())
				}
				return nil
			}},
		},
		Check: func(f *explore.Final) error {
			for _, line := range f.Actor("reader").Log {
				if strings.Contains(line, dead.String()) || !strings.Contains(line, bystander.String()) {
					return fmt.Errorf("a wrong view: %s", line)
				}
			}
			if _, ok := f.Object(bucket.Key(teamPrefix + dead.String())); !ok {
				swept++
				if err := allShown(f, acknowledged(f, "producer")...); err != nil {
					return err
				}
			}
			return allShown(f, bystander.String())
		},
	})
	if swept == 0 {
		t.Error("the dead one was never swept")
	}
}

// TestP1_SharedListLosesIt runs the same cast, with the same faults, on a shared list: one JSON object that the registrar,
// the reader with its clean-up and the pruner read, change and write back. The explorer must find that an acknowledged
// item is lost; otherwise the test above proves nothing.
func TestP1_SharedListLosesIt(t *testing.T) {
	const key = "list.json"
	change := func(ctx context.Context, objects bucket.Objects, f func([]string) []string) error {
		var ids []string
		r, err := objects.Open(ctx, key)
		if err != nil {
			return err
		}
		defer r.Close()
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, &ids); err != nil {
			return err
		}
		if body, err = json.Marshal(f(ids)); err != nil {
			return err
		}
		_, err = objects.Put(ctx, key, strings.NewReader(string(body)))
		return err
	}
	without := func(stale string) func(ctx context.Context, env *explore.Env) error {
		return func(ctx context.Context, env *explore.Env) error {
			return change(ctx, env.Objects(), func(ids []string) []string {
				return slices.DeleteFunc(ids, func(id string) bool { return id == stale })
			})
		}
	}
	for _, faults := range []explore.Fault{0, explore.AllFaults} {
		_, err := explore.Search(t, explore.Scenario{
			Name: "a shared list", Faults: faults,
			Setup: func(w *explore.World) { w.Put(key, `["old","older"]`, start) },
			Actors: []explore.Actor{
				{Name: "registrar", Run: func(ctx context.Context, env *explore.Env) error {
					err := change(ctx, env.Objects(), func(ids []string) []string { return append(ids, "fresh") })
					if err == nil {
						env.Log("ack fresh")
					}
					return nil
				}},
				{Name: "reader", Run: without("old")},
				{Name: "pruner", Run: without("older")},
			},
			Check: func(f *explore.Final) error {
				o, _ := f.Object(key)
				for _, id := range acknowledged(f, "registrar") {
					if !strings.Contains(o.Body, id) {
						return fmt.Errorf("%s is lost: the list is %s", id, o.Body)
					}
				}
				return nil
			},
		})
		var found *explore.Failure
		if !errors.As(err, &found) || !strings.Contains(err.Error(), "fresh is lost") {
			t.Fatalf("the shared list lost nothing: %v", err)
		}
		t.Logf("found: %s", found.Schedule)
	}
}

// TestP1_HeartbeatCrossesDelete: an item goes stale; a pass finds it so, and its producer beats again before, while or
// after its keys are deleted. Once that heartbeat is acknowledged the item shows, at every interleaving.
func TestP1_HeartbeatCrossesDelete(t *testing.T) {
	id := epochID("c", start.Add(-2*time.Hour))
	run(t, explore.Scenario{
		Name: "heartbeat ∥ prune ∥ clock", Faults: explore.AllFaults,
		Setup: func(w *explore.World) {
			w.Put(bucket.Key(teamPrefix+id.String()), "", start.Add(-2*time.Hour))
			w.Put(bucket.Key(teamPrefix+prune.HeartbeatName(id, start.Add(-time.Hour))), "", start.Add(-time.Hour))
		},
		Actors: []explore.Actor{
			{Name: "producer", Run: func(ctx context.Context, env *explore.Env) error {
				n := teamOf(env, true, prune.Rules{}, blobindex.Options{})
				if _, err := n.Heartbeat(ctx, id); err == nil {
					env.Log("ack " + id.String())
				}
				return nil
			}},
			pruner(false),
			explore.Clock(time.Hour+time.Second, time.Minute),
		},
		Check: func(f *explore.Final) error { return allShown(f, acknowledged(f, "producer")...) },
	})
}

// finisher finishes an item and observes the acknowledgement.
func finisher(id itemid.ID) explore.Actor {
	return explore.Actor{Name: "finisher", Run: func(ctx context.Context, env *explore.Env) error {
		n := teamOf(env, false, prune.Rules{}, blobindex.Options{})
		if _, err := n.Finish(ctx, id, blobindex.Done); err == nil {
			env.Log("ack " + id.String())
		}
		return nil
	}}
}

// TestP1_FinishStaysFinished: finishing beside a late heartbeat of another process, a reader's sweep and a pass: once the
// finish is acknowledged the item is hidden, and the older run that it superseded does not come back.
func TestP1_FinishStaysFinished(t *testing.T) {
	old, id := epochID("c", start.Add(-time.Hour)), epochID("c", start.Add(-time.Minute))
	run(t, explore.Scenario{
		Name: "finish ∥ heartbeat ∥ prune", Faults: explore.AllFaults,
		Setup: func(w *explore.World) {
			w.Put(bucket.Key(teamPrefix+old.String()), "", start.Add(-time.Hour))
			w.Put(bucket.Key(teamPrefix+id.String()), "", start.Add(-time.Minute))
		},
		Actors: []explore.Actor{
			finisher(id),
			{Name: "beater", Run: func(ctx context.Context, env *explore.Env) error {
				_, _ = teamOf(env, false, prune.Rules{}, blobindex.Options{}).Heartbeat(ctx, id) // either way
				return nil
			}},
			pruner(false),
		},
		Check: func(f *explore.Final) error {
			if done := acknowledged(f, "finisher"); len(done) > 0 && len(shownIn(f)) > 0 {
				return fmt.Errorf("%s is finished, and shown are %v", id, shownIn(f))
			}
			return nil
		},
	})
}

// beats: an item that lives by its heartbeats alone beats on, and its producer deletes the needless ones, while a listing
// runs on a store that lists in descending order: it can pass the place of a later heartbeat before that is written, and
// come to that of an earlier one after it was deleted. A view that calls itself complete must show the item.
func beats(producer prune.Rules, steps ...time.Duration) explore.Scenario {
	id := epochID("c", start.Add(-3*time.Hour))
	return explore.Scenario{
		Name: "needless heartbeats ∥ listing ∥ clock", Unsorted: true, PageSize: 1,
		Setup: func(w *explore.World) {
			w.Put(bucket.Key(teamPrefix+id.String()), "", start.Add(-3*time.Hour))
			// A foreign key between the heartbeats, so that a page can end there.
			w.Put(bucket.Key(teamPrefix+prune.HeartbeatName(id, start)+"x"), "", start)
		},
		Actors: []explore.Actor{
			{Name: "producer", Run: func(ctx context.Context, env *explore.Env) error {
				n := teamOf(env, true, producer, blobindex.Options{})
				for range 3 {
					if _, err := n.Heartbeat(ctx, id); err != nil {
						return err
					}
				}
				env.Log("ack " + id.String())
				return nil
			}},
			{Name: "reader", Run: func(ctx context.Context, env *explore.Env) error {
				first := bucket.Key(teamPrefix + prune.HeartbeatName(id, start))
				if _, err := env.Objects().Head(ctx, first); err != nil {
					return nil // it comes before the first heartbeat: nothing is promised yet
				}
				v, err := teamOf(env, true, prune.Rules{}, blobindex.Options{}).Cards(ctx, blobindex.CardsRequest{})
				if err == nil && v.Complete {
					env.Log("view " + strings.Join(cardIDs(v), " "))
				}
				return nil
			}},
			explore.Clock(steps...),
		},
		Check: func(f *explore.Final) error {
			for _, line := range f.Actor("reader").Log {
				if !strings.Contains(line, id.String()) {
					return fmt.Errorf("a complete view misses %s: %s", id, line)
				}
			}
			return allShown(f, acknowledged(f, "producer")...)
		},
	}
}

// TestP1_NeedlessHeartbeats: with the listing limit of the rules, no listing that is called complete misses the item.
func TestP1_NeedlessHeartbeats(t *testing.T) {
	for _, steps := range [][]time.Duration{{time.Millisecond, time.Millisecond}, {61 * time.Second, 61 * time.Second}, {3 * time.Minute, time.Minute}} {
		run(t, beats(prune.Rules{}, steps...))
	}
}

// TestP1_NeedlessTooSoon plants the bug that the listing limit is there for: a producer that takes a heartbeat for
// needless as soon as a later one is there. The explorer must find the view that misses the item.
func TestP1_NeedlessTooSoon(t *testing.T) {
	_, err := explore.Search(t, beats(prune.Rules{ListingLimit: 1}, time.Millisecond, time.Millisecond))
	var found *explore.Failure
	if !errors.As(err, &found) || !strings.Contains(err.Error(), "misses") {
		t.Fatalf("the planted bug was not found: %v", err)
	}
}
