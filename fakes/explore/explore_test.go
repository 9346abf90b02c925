package explore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/fakes/explore"
)

// The shared list, as the product replaces it: read, append or prune, write back.

const listKey = "list.json"

func readList(ctx context.Context, env *explore.Env) ([]string, error) {
	body, err := env.Objects().Open(ctx, listKey)
	if errors.Is(err, bucket.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var items []string
	return items, json.NewDecoder(body).Decode(&items)
}

func writeList(ctx context.Context, env *explore.Env, items []string) error {
	body, err := json.Marshal(items)
	if err != nil {
		return err
	}
	_, err = env.Objects().Put(ctx, listKey, bytes.NewReader(body))
	return err
}

func listRegistrar(id string) explore.Actor {
	return explore.Actor{Name: id, Run: func(ctx context.Context, env *explore.Env) error {
		items, err := readList(ctx, env)
		if err != nil {
			return err
		}
		if err := writeList(ctx, env, append(items, id)); err != nil {
			return err
		}
		env.Log("acknowledged", id)
		return nil
	}}
}

func listPruner(ctx context.Context, env *explore.Env) error {
	items, err := readList(ctx, env)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(items, func(id string) bool { return id == "stale" })
	return writeList(ctx, env, kept)
}

// acknowledged returns the ids that the actors logged as registered.
func acknowledged(f *explore.Final) []string {
	var ids []string
	for _, a := range f.Actors {
		for _, line := range a.Log {
			if id, ok := strings.CutPrefix(line, "acknowledged "); ok {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

var errItemLost = errors.New("an acknowledged item is lost")

func sharedList() explore.Scenario {
	return explore.Scenario{
		Name:   "shared list",
		Setup:  func(w *explore.World) { w.Put(listKey, `["stale"]`, w.Now()) },
		Actors: []explore.Actor{listRegistrar("a"), listRegistrar("b"), {Name: "pruner", Run: listPruner}},
		Check: func(f *explore.Final) error {
			list, _ := f.Object(listKey)
			for _, id := range acknowledged(f) {
				if !strings.Contains(list.Body, `"`+id+`"`) {
					return fmt.Errorf("%w: %s of %s", errItemLost, id, list.Body)
				}
			}
			return nil
		},
	}
}

func TestSharedListLosesAnItem(t *testing.T) {
	_, err := explore.Search(t, sharedList())
	var failure *explore.Failure
	if !errors.As(err, &failure) || !errors.Is(err, errItemLost) {
		t.Fatalf("the search found no lost item: %v", err)
	}
	if len(failure.Steps) != 6 || len(failure.Objects) != 1 || !strings.Contains(err.Error(), failure.Schedule) {
		t.Errorf("six steps and one object expected:\n%v", err)
	}
	t.Log(err)
	if again := explore.Replay(t, sharedList(), failure.Schedule); !errors.Is(again, errItemLost) {
		t.Errorf("the schedule %q does not replay: %v", failure.Schedule, again)
	}
	if err := explore.Replay(t, sharedList(), "0k-0k-1k-1k-2k-2k"); err != nil {
		t.Errorf("one after another, nothing is lost, but: %v", err)
	}
}

// One object per item, as the product keeps it.

func registrar(id string) explore.Actor {
	return explore.Actor{Name: id, Run: func(ctx context.Context, env *explore.Env) error {
		if _, err := env.Objects().Put(ctx, bucket.Key("run/"+id), nil); err != nil {
			return err
		}
		env.Log("acknowledged", id)
		return nil
	}}
}

func pruner(ctx context.Context, env *explore.Env) error {
	var stale []bucket.Key
	err := env.Objects().List(ctx, bucket.ListRequest{Prefix: "run/"}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			if strings.HasPrefix(string(o.Key), "run/stale") {
				stale = append(stale, o.Key)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(env.Objects().Delete(ctx, stale)...)
}

func onePerItem() explore.Scenario {
	return explore.Scenario{
		Name: "one object per item",
		Setup: func(w *explore.World) {
			w.Put("run/stale1", "", w.Now())
			w.Put("run/stale2", "", w.Now())
			w.Put("other", "", w.Now())
		},
		Actors: []explore.Actor{registrar("a"), registrar("b"), {Name: "pruner", Run: pruner}},
		Faults: explore.AllFaults,
		Check: func(f *explore.Final) error {
			for _, id := range acknowledged(f) {
				if _, ok := f.Object(bucket.Key("run/" + id)); !ok {
					return fmt.Errorf("%w: %s", errItemLost, id)
				}
			}
			if _, ok := f.Object("other"); !ok {
				return errors.New("a foreign object is gone")
			}
			p := f.Actor("pruner")
			_, one := f.Object("run/stale1")
			_, two := f.Object("run/stale2")
			if p.Done && p.Err == nil && (one || two) {
				return errors.New("the pruner succeeded and left a stale item")
			}
			return nil
		},
	}
}

func TestOneObjectPerItemLosesNothing(t *testing.T) {
	result := explore.Run(t, onePerItem())
	if !result.Exhaustive || result.Schedules < 20 {
		t.Errorf("not much explored: %v", result)
	}
}

// A counter that repeats its increment after a lost answer is right but for that.
func TestFindsWhatOnlyALostAnswerShows(t *testing.T) {
	s := explore.Scenario{
		Name: "append with a retry",
		Actors: []explore.Actor{{Name: "appender", Run: func(ctx context.Context, env *explore.Env) error {
			for {
				items, err := readList(ctx, env)
				if err != nil {
					return err
				}
				err = writeList(ctx, env, append(items, "x"))
				if !errors.Is(err, bucket.ErrUnknown) && !errors.Is(err, bucket.ErrThrottled) {
					return err
				}
			}
		}}},
		Check: func(f *explore.Final) error {
			if list, _ := f.Object(listKey); f.Actor("appender").Done && strings.Count(list.Body, "x") > 1 {
				return fmt.Errorf("applied twice: %s", list.Body)
			}
			return nil
		},
	}
	everyKindBut(t, s, explore.AppliedLost|explore.AppliedLate)
	for _, kind := range []explore.Fault{explore.AppliedLost, explore.AppliedLate} {
		s.Faults = kind
		mustFind(t, s, "FAULT "+kind.String())
	}
}

// A worker takes a job by deleting it and then does it, on the spot. It copes with every answer that it may get, and
// a crash at any of its stops is harmless: the job is still there. Only a delete whose answer nobody lives to see
// loses the job.
func TestFindsWhatOnlyACrashAfterShows(t *testing.T) {
	s := explore.Scenario{
		Name:  "take a job",
		Setup: func(w *explore.World) { w.Put("job", "", w.Now()) },
		Actors: []explore.Actor{{Name: "worker", Run: func(ctx context.Context, env *explore.Env) error {
			for env.Objects().Delete(ctx, []bucket.Key{"job"}) != nil {
				if _, err := env.Objects().Head(ctx, "job"); errors.Is(err, bucket.ErrNotExist) {
					break
				}
			}
			env.Log("did the job")
			return nil
		}}},
		Check: func(f *explore.Final) error {
			if _, there := f.Object("job"); !there && len(f.Actor("worker").Log) == 0 {
				return errors.New("the job is gone and nobody did it")
			}
			return nil
		},
	}
	everyKindBut(t, s, explore.CrashAfter)
	s.Faults = explore.CrashAfter
	mustFind(t, s, "CRASH after")
}

// A reader that takes a listing that broke off for a whole one.
func TestFindsWhatOnlyAFailedReadShows(t *testing.T) {
	for name, read := range map[string]func(context.Context, *explore.Env) (int, error){
		"list": func(ctx context.Context, env *explore.Env) (n int, err error) {
			env.Objects().List(ctx, bucket.ListRequest{}, func(p bucket.Page) error {
				n += len(p.Objects)
				return nil
			})
			return n, nil
		},
		"head": func(ctx context.Context, env *explore.Env) (n int, err error) {
			for _, key := range []bucket.Key{"a", "b", "c"} {
				if _, err := env.Objects().Head(ctx, key); err == nil {
					n++
				}
			}
			return n, nil
		},
	} {
		s := explore.Scenario{
			Name: name,
			Setup: func(w *explore.World) {
				for _, key := range []bucket.Key{"a", "b", "c"} {
					w.Put(key, "", w.Now())
				}
			},
			Actors: []explore.Actor{{Name: "reader", Run: func(ctx context.Context, env *explore.Env) error {
				n, err := read(ctx, env)
				env.Log(n)
				return err
			}}},
			Check: func(f *explore.Final) error {
				if r := f.Actor("reader"); r.Done && r.Log[0] != "3" {
					return fmt.Errorf("%s of 3 objects, and no error", r.Log[0])
				}
				return nil
			},
		}
		everyKindBut(t, s, explore.FailedRead)
		s.Faults = explore.FailedRead
		mustFind(t, s, "FAULT read failed")
	}
}

// A write that is carried out long after its answer was lost undoes a later one.
func TestFindsWhatOnlyALateWriteShows(t *testing.T) {
	s := explore.Scenario{
		Name: "late",
		Actors: []explore.Actor{{Name: "writer", Run: func(ctx context.Context, env *explore.Env) error {
			for _, body := range []string{"1", "2"} {
				_, err := env.Objects().Put(ctx, "k", strings.NewReader(body))
				if err != nil {
					_, err = env.Objects().Put(ctx, "k", strings.NewReader(body))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}}},
		Check: func(f *explore.Final) error {
			if o, _ := f.Object("k"); f.Actor("writer").Done && o.Body != "2" {
				return fmt.Errorf("the body is %q", o.Body)
			}
			return nil
		},
	}
	everyKindBut(t, s, explore.AppliedLate)
	s.Faults = explore.AppliedLate
	mustFind(t, s, "network    carries out writer: put \"k\" \"1\"")
}

// everyKindBut explores s with all faults but those, and wants no failure.
func everyKindBut(t *testing.T, s explore.Scenario, kinds explore.Fault) {
	t.Helper()
	s.Faults = explore.AllFaults &^ kinds
	explore.Run(t, s)
}

// mustFind explores s, wants a failure that replays, and the words in one of its steps.
func mustFind(t *testing.T, s explore.Scenario, words string) {
	t.Helper()
	_, err := explore.Search(t, s)
	var failure *explore.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("%s with faults %v: nothing found", s.Name, s.Faults)
	}
	if !strings.Contains(strings.Join(failure.Steps, "\n"), words) {
		t.Errorf("no step says %q:\n%v", words, err)
	}
	var again *explore.Failure
	if !errors.As(explore.Replay(t, s, failure.Schedule), &again) || again.Error() != failure.Error() {
		t.Errorf("replayed, it is another failure:\n%v\nand was\n%v", again, failure)
	}
}

// ends collects the end states of a search, each as one text, whole.
func ends(t *testing.T, s explore.Scenario) (map[string]int, explore.Result) {
	t.Helper()
	all := map[string]int{}
	s.Check = func(f *explore.Final) error {
		all[fmt.Sprintf("%+v", *f)]++
		return nil
	}
	return all, explore.Run(t, s)
}

func TestMergingReachesTheSameEnds(t *testing.T) {
	small := onePerItem()
	small.Actors = small.Actors[1:]
	scattered := small
	scattered.ScatterDeletes = true
	list := sharedList()
	list.Faults = explore.AppliedLost | explore.Crashes
	clocked := onePerItem()
	clocked.Faults = explore.AppliedLate
	clocked.Actors = append(clocked.Actors[1:], explore.Clock(1, 1))
	twice := small
	twice.Faults, twice.MaxFaults = explore.AppliedLost|explore.CrashBefore, 2
	logging := explore.Scenario{Name: "logging", Faults: explore.CrashBefore,
		Setup: func(w *explore.World) { w.Put("k", "", w.Now()) },
		Actors: []explore.Actor{points("other", 1), {Name: "reader", Run: func(ctx context.Context, env *explore.Env) error {
			_, err := env.Objects().Head(ctx, "k")
			env.Log("saw it", err == nil)
			env.Point("last")
			return nil
		}}, {Name: "deleter", Run: func(ctx context.Context, env *explore.Env) error {
			return errors.Join(env.Objects().Delete(ctx, []bucket.Key{"k"})...)
		}}},
	}
	for _, s := range []explore.Scenario{small, scattered, list, clocked, twice, logging} {
		merged, few := ends(t, s)
		s.Unmerged = true
		whole, many := ends(t, s)
		if few.States != many.States || few.Schedules >= many.Schedules {
			t.Errorf("%s: merged %v, unmerged %v", s.Name, few, many)
		}
		for end := range whole {
			if merged[end] == 0 {
				t.Errorf("%s: merging loses the end\n%s", s.Name, end)
			}
		}
		if len(merged) != len(whole) {
			t.Errorf("%s: %d ends merged, %d unmerged", s.Name, len(merged), len(whole))
		}
	}
}

// points is an actor of n steps that touch nothing.
func points(name string, n int) explore.Actor {
	return explore.Actor{Name: name, Run: func(_ context.Context, env *explore.Env) error {
		for i := range n {
			env.Point(fmt.Sprint(i))
		}
		return nil
	}}
}

func TestCountsAreThoseOfCombinatorics(t *testing.T) {
	binomial := func(n, k int) int {
		b := 1
		for i := 1; i <= k; i++ {
			b = b * (n - k + i) / i
		}
		return b
	}
	for _, c := range []struct{ m, n int }{{0, 0}, {1, 0}, {1, 1}, {2, 3}, {5, 4}, {6, 6}} {
		s := explore.Scenario{Name: fmt.Sprint(c), Actors: []explore.Actor{points("m", c.m), points("n", c.n)}}
		merged := explore.Run(t, s)
		if want := (c.m + 1) * (c.n + 1); merged.States != want || merged.Schedules != 1 {
			t.Errorf("%v merged: %d states, %d ends, want %d and 1", c, merged.States, merged.Schedules, want)
		}
		s.Unmerged = true
		whole := explore.Run(t, s)
		if want := binomial(c.m+c.n, c.n); whole.Schedules != want || whole.Replays != want {
			t.Errorf("%v unmerged: %d schedules, %d replays, want %d", c, whole.Schedules, whole.Replays, want)
		}
	}
}

func TestObservationsOfDeleteAreAnySubset(t *testing.T) {
	keys := []bucket.Key{"a", "b", "c"}
	s := explore.Scenario{
		Name: "scattered",
		Setup: func(w *explore.World) {
			for _, k := range keys {
				w.Put(k, "", w.Now())
			}
		},
		Actors: []explore.Actor{{Name: "deleter", Run: func(ctx context.Context, env *explore.Env) error {
			return errors.Join(env.Objects().Delete(ctx, keys)...)
		}}},
		Faults: explore.Crashes,
	}
	for scatter, want := range map[bool]int{false: 4, true: 8} {
		left := map[string]bool{}
		s.ScatterDeletes = scatter
		s.Check = func(f *explore.Final) error {
			var rest []string
			for _, o := range f.Objects {
				rest = append(rest, string(o.Key))
			}
			left[strings.Join(rest, "")] = true
			return nil
		}
		explore.Run(t, s)
		if len(left) != want {
			t.Errorf("scattered %v: a crash leaves %v, want %d sets", scatter, left, want)
		}
	}
}

// readAll is the body of an object, for actors.
func readAll(ctx context.Context, env *explore.Env, key bucket.Key) (string, error) {
	body, err := env.Objects().Open(ctx, key)
	if err != nil {
		return "", err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	return string(b), err
}
