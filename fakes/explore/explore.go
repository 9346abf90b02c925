package explore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Errors inside a Failure that are not about what the actors did; match them with errors.Is.
var (
	// ErrNotDeterministic: an actor that was told the same did not do the same; the search proves nothing.
	ErrNotDeterministic = errors.New("scenario is not deterministic")
	// ErrTooManyStates: the search has hit Scenario.MaxStates and is not exhaustive.
	ErrTooManyStates = errors.New("too many states")
)

// A Result tells what a search did.
type Result struct {
	Schedules  int           // end states that were judged; with Unmerged, schedules from start to end
	States     int           // distinct states
	Replays    int           // runs, each in a bubble of its own
	Steps      int           // steps of all runs, the repeated ones included
	Elapsed    time.Duration // by the host's clock
	Exhaustive bool          // every reachable state was visited
}

// String is the result as one line.
func (r Result) String() string {
	rate := float64(r.Replays) / max(r.Elapsed.Seconds(), 1e-9)
	return fmt.Sprintf("%d end states, %d states, %d replays (%.0f/s), %d steps in %v, exhaustive %v",
		r.Schedules, r.States, r.Replays, rate, r.Steps, r.Elapsed.Round(time.Millisecond), r.Exhaustive)
}

// A Failure is a schedule that breaks a promise, or that shows the search to be meaningless.
type Failure struct {
	Scenario string
	Err      error    // of Check or Invariant, or what went wrong; Unwrap returns it
	Schedule string   // for Replay
	Steps    []string // one line per step: number, choice, actor, request, outcome
	Objects  []string // the store at that point, one line per object
}

// Error spells the failure out over several lines.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "explore: scenario %q: %v\n", f.Scenario, f.Err)
	for _, line := range f.Steps {
		b.WriteString(line + "\n")
	}
	b.WriteString("store:\n")
	for _, line := range f.Objects {
		b.WriteString("    " + line + "\n")
	}
	fmt.Fprintf(&b, "replay: %q", f.Schedule)
	return b.String()
}

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// Run explores the scenario and fails the test, with the schedule, if a promise breaks or the search is not
// exhaustive.
func Run(t *testing.T, s Scenario) Result {
	t.Helper()
	result, err := Search(t, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("explore: scenario %q: %v", s.Name, result)
	return result
}

// Search is Run for a test that wants the failure itself: the error is a *Failure, the first that was found.
func Search(t *testing.T, s Scenario) (Result, error) {
	t.Helper()
	search := &search{scenario: s.withDefaults()}
	search.explore(t)
	if search.failure == nil {
		return search.result, nil
	}
	f := search.failure
	again, err := replay(t, search.scenario, f.Schedule)
	f.Steps, f.Objects = again.Steps, again.Objects
	if err != nil {
		f.Err = errors.Join(f.Err, fmt.Errorf("%w: it does not replay: %w", ErrNotDeterministic, err))
	}
	return search.result, f
}

// Replay runs one schedule of the scenario, as a Failure prints it. The error is a *Failure with what Invariant says
// of each state on the way and Check of the end, if the schedule goes that far; nil if neither objects.
func Replay(t *testing.T, s Scenario, schedule string) error {
	t.Helper()
	f, err := replay(t, s.withDefaults(), schedule)
	if err != nil {
		f.Err = err
	}
	if f.Err != nil {
		return f
	}
	return nil
}

// replay traces one schedule. The error says that the schedule could not be followed; what it shows is in the failure.
func replay(t *testing.T, s Scenario, schedule string) (*Failure, error) {
	f := &Failure{Scenario: s.Name, Schedule: schedule}
	cs, err := parseSchedule(schedule)
	if err != nil {
		return f, err
	}
	synctest.Test(t, func(*testing.T) {
		r := startRun(&s, func(line string) { f.Steps = append(f.Steps, line) })
		defer r.end()
		f.Err = r.settleAndJudge()
		for i, c := range cs {
			if f.Err != nil {
				break
			}
			if err = r.take(c); err != nil {
				err = fmt.Errorf("the schedule does not fit the scenario at step %d: %w", i+1, err)
				break
			}
			f.Err = r.settleAndJudge()
		}
		for _, o := range r.final().Objects {
			f.Objects = append(f.Objects, fmt.Sprintf("%q %q %s", o.Key, o.Body, o.StoreTime.Format(time.RFC3339Nano)))
		}
	})
	return f, err
}

func (r *run) settleAndJudge() error {
	if err := r.settle(); err != nil {
		return err
	}
	return r.judge()
}
