package explore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/explore"
)

// A counter of which each save is conditional: a body is the names of the savers, and so never comes back.

const tallyKey = "tally"

// adder adds its name once; how it takes a save of which the answer was lost is the scenario's.
func adder(name string, lost func(env *explore.Env, err error) (again bool)) explore.Actor {
	return explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		for {
			o, err := env.Store().Load(ctx, tallyKey)
			p := cas.IfMatch(o.Version)
			if errors.Is(err, cas.ErrNotExist) {
				p, err = cas.IfAbsent(), nil
			}
			if err != nil {
				return err
			}
			_, err = env.Store().Save(ctx, tallyKey, []byte(string(o.Body)+name), p)
			switch {
			case err == nil:
				env.Log("added", name)
				return nil
			case !errors.Is(err, cas.ErrConflict) && !(errors.Is(err, cas.ErrUnknown) && lost(env, err)):
				return err
			}
		}
	}}
}

func adders(lost func(env *explore.Env, err error) bool) explore.Scenario {
	return explore.Scenario{
		Name:   "two who save",
		Actors: []explore.Actor{adder("a", lost), adder("b", lost)},
		Check: func(f *explore.Final) error {
			o, _ := f.Object(tallyKey)
			for _, a := range f.Actors {
				n := strings.Count(o.Body, a.Name)
				if n > 1 || n == 0 && len(a.Log) > 0 {
					return fmt.Errorf("%s is there %d times, and was told %q", a.Name, n, a.Log)
				}
			}
			return nil
		},
	}
}

// TestSavesAreConditional: nothing is lost and nothing is there twice, where an open outcome is taken for what it is.
func TestSavesAreConditional(t *testing.T) {
	s := adders(func(*explore.Env, error) bool { return false })
	s.Faults, s.MaxFaults = explore.AllFaults, 2
	explore.Run(t, s)
}

// A save that is sent again, from what is there then, because its answer was lost.
func TestFindsWhatOnlyALostSaveShows(t *testing.T) {
	s := adders(func(*explore.Env, error) bool { return true })
	s.Actors = s.Actors[:1]
	everyKindBut(t, s, explore.AppliedLost|explore.AppliedLate)
	for _, kind := range []explore.Fault{explore.AppliedLost, explore.AppliedLate} {
		s.Faults = kind
		mustFind(t, s, "FAULT "+kind.String())
	}
}

// Who looks once whether a save of which the answer was lost is there, and says that it failed when it is not: one that is
// carried out late is found by nothing else.
func TestFindsWhatOnlyALateSaveShows(t *testing.T) {
	s := adders(func(env *explore.Env, err error) bool {
		o, loadErr := env.Store().Load(context.Background(), tallyKey)
		if loadErr == nil && strings.Contains(string(o.Body), "a") {
			env.Log("added a")
		} else if loadErr == nil || errors.Is(loadErr, cas.ErrNotExist) {
			env.Log("failed")
		}
		return false
	})
	s.Actors = s.Actors[:1]
	s.Check = func(f *explore.Final) error {
		if _, there := f.Object(tallyKey); there && slices.Contains(f.Actors[0].Log, "failed") {
			return errors.New("it was added, and is said to have failed")
		}
		return nil
	}
	everyKindBut(t, s, explore.AppliedLate)
	s.Faults = explore.AppliedLate
	mustFind(t, s, `network    carries out a: save "tally" "a" if absent`)
}

// TestLateSaveMeetsItsCondition: one that is carried out late is judged then, against what is there by then.
func TestLateSaveMeetsItsCondition(t *testing.T) {
	seen := map[string]bool{}
	explore.Run(t, explore.Scenario{
		Name: "late save", Faults: explore.AppliedLate,
		Setup: func(w *explore.World) { w.Put("k", "0", w.Now()) },
		Actors: []explore.Actor{
			{Name: "saver", Run: func(ctx context.Context, env *explore.Env) error {
				o, err := env.Store().Load(ctx, "k")
				if err == nil {
					_, err = env.Store().Save(ctx, "k", []byte("1"), cas.IfMatch(o.Version))
				}
				env.Log(errors.Is(err, cas.ErrUnknown), errors.Is(err, cas.ErrConflict), errors.Is(err, cas.ErrNotExist))
				return nil
			}},
			{Name: "deleter", Run: func(ctx context.Context, env *explore.Env) error {
				_ = env.Objects().Delete(ctx, []bucket.Key{"k"})
				_, _ = env.Store().Save(ctx, "k", []byte("2"), cas.IfAbsent())
				return nil
			}},
		},
		Check: func(f *explore.Final) error {
			o, _ := f.Object("k")
			seen[o.Body+" "+f.Actor("saver").Log[0]] = true
			return nil
		},
	})
	for _, end := range []string{
		"2 false false false", // saved, deleted, created
		"2 false true false",  // deleted and created before the save
		"2 false false true",  // saved while there was nothing
		"2 true false false",  // late, and refused or overtaken
		"1 true false false",  // late: its delete or create was later still
	} {
		if !seen[end] {
			t.Errorf("not reached: %s", end)
		}
	}
	if len(seen) < 5 || seen["1 false true false"] {
		t.Errorf("%v", seen)
	}
}

// TestMergingSaves: the merging search reaches the ends of the one that merges nothing, with saves that come late.
func TestMergingSaves(t *testing.T) {
	s := adders(func(*explore.Env, error) bool { return false })
	s.Faults = explore.AllFaults
	merged, few := ends(t, s)
	s.Unmerged = true
	whole, many := ends(t, s)
	if few.States != many.States || few.Schedules >= many.Schedules || len(merged) != len(whole) {
		t.Errorf("merged %v, unmerged %v", few, many)
	}
	for end := range whole {
		if merged[end] == 0 {
			t.Errorf("merging loses the end\n%s", end)
		}
	}
}
