package explore

import (
	"context"
	"fmt"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A Scenario is what to explore. It is used by several goroutines at once: its functions must keep no state outside
// of what they are given, but for Check and Invariant, which are called one at a time.
type Scenario struct {
	// Name stands at the head of a failure.
	Name string
	// Setup builds the store that every run starts with; nil is an empty store.
	// It is called for every run and must do the same each time.
	Setup func(*World)
	// Actors run at once. Their order names them in schedules.
	Actors []Actor
	// Check is called with every end state that can be reached (every actor finished or crashed, nothing on its way),
	// once for each; an error fails the run.
	Check func(*Final) error
	// Invariant, if set, is called with every state in which each actor waits at a stop, the first and the end states
	// included.
	Invariant func(*Final) error

	Faults    Fault // the faults that may strike; zero is none
	MaxFaults int   // in one run; zero is 1
	PageSize  int   // objects on a page of a listing; zero is 2
	MaxStates int   // reaching more of them fails the run, since it is not exhaustive then; zero is 1,000,000

	NoStoreTime    bool // the store tells no time: store times and Page.Now are zero
	Unsorted       bool // listings come in descending order, are not Sorted, and refuse After
	ScatterDeletes bool // the keys of one Delete are carried out in any order and not one after another

	// Unmerged follows every schedule to its end, equal states or not. Only small scenarios bear it; it is there to
	// hold the merging search to it.
	Unmerged bool
}

// An Actor is one process of a scenario.
type Actor struct {
	Name string
	// Run is the process. Its context is cancelled only after the run, never by a crash. It must end each goroutine
	// that it starts, and must not make requests after it has returned.
	Run func(ctx context.Context, env *Env) error
	// Skew is how far the clock of Env.Now is ahead of the store's.
	Skew time.Duration
}

// Clock is an actor that moves the store's clock on by each of the steps, at any time between the other actors'
// steps. No fault strikes it.
func Clock(steps ...time.Duration) Actor {
	return Actor{Name: "clock", Run: func(_ context.Context, env *Env) error {
		for _, d := range steps {
			env.tick(d)
		}
		return nil
	}}
}

// A Fault is a set of kinds of failure that may strike a request.
type Fault uint16

// The kinds. Writes are Put, Save and the delete of one key; reads are a page of a listing, Open, Head and Load. A Save
// judges its condition when it is carried out, and not before: one that is carried out late may find it broken.
const (
	Refused     Fault = 1 << iota // a write is not carried out and answers ErrThrottled
	NotApplied                    // a write is not carried out and answers ErrUnknown
	AppliedLost                   // a write is carried out and answers ErrUnknown
	AppliedLate                   // a write answers ErrUnknown and is carried out at any later step
	FailedRead                    // a read answers ErrThrottled; a listing's earlier pages have been delivered
	CrashBefore                   // the actor is gone at any stop; its pending requests are not carried out
	CrashAfter                    // the actor's write is carried out and the actor is gone before the answer

	StoreFaults = Refused | NotApplied | AppliedLost | AppliedLate | FailedRead
	Crashes     = CrashBefore | CrashAfter
	AllFaults   = StoreFaults | Crashes
)

// none is the outcome of a request that no fault strikes.
const none Fault = 0

var faultNames = [...]string{"refused", "not applied", "applied, answer lost", "answer lost, applied late", "read failed",
	"CRASH before", "CRASH after"}

// String names the kinds in f.
func (f Fault) String() string {
	s := ""
	for i, name := range faultNames {
		if f&(1<<i) != 0 {
			if s != "" {
				s += "; "
			}
			s += name
		}
	}
	if s == "" {
		return "none"
	}
	return s
}

// start is the store's clock at the beginning of a run, unless Setup sets another.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A World is the store before the run; Setup fills it.
type World struct{ w world }

// SetClock sets the store's clock. Without it, the clock starts at 2026-01-01 00:00:00 UTC.
func (w *World) SetClock(now time.Time) { w.w.clock = now }

// Now is the store's clock.
func (w *World) Now() time.Time { return w.w.clock }

// Put stores an object as if it had been accepted at the given store time.
func (w *World) Put(key bucket.Key, body string, at time.Time) {
	w.w = w.w.with(object{key: key, body: body, time: at})
}

// An Object is one object of a Final.
type Object struct {
	bucket.Object
	Body string
}

// A Final is what Check and Invariant judge. It belongs to them.
type Final struct {
	Objects []Object // in ascending order of their keys; store times are told even where the store tells none
	Clock   time.Time
	Actors  []ActorState // in the order of the scenario
	Struck  []Strike     // the faults of this run, in order
}

// Object returns the object of that key, and whether there is one.
func (f *Final) Object(key bucket.Key) (Object, bool) {
	for _, o := range f.Objects {
		if o.Key == key {
			return o, true
		}
	}
	return Object{}, false
}

// Actor returns the state of the first actor of that name; it panics if there is none.
func (f *Final) Actor(name string) ActorState {
	for _, a := range f.Actors {
		if a.Name == name {
			return a
		}
	}
	panic(fmt.Sprintf("explore: no actor %q", name))
}

// An ActorState tells what has become of an actor. In an end state it is either Done or Crashed.
type ActorState struct {
	Name    string
	Done    bool // Run has returned Err
	Crashed bool
	Err     error
	Log     []string // what it observed (Env.Log), in order
}

// A Strike is one fault that struck: its kind and whom.
type Strike struct {
	Kind  Fault
	Actor string
}

// withDefaults resolves the zero values of s.
func (s Scenario) withDefaults() Scenario {
	if s.MaxFaults == 0 {
		s.MaxFaults = 1
	}
	if s.PageSize == 0 {
		s.PageSize = 2
	}
	if s.MaxStates == 0 {
		s.MaxStates = 1_000_000
	}
	return s
}

// world builds the store that a run starts with.
func (s *Scenario) world() world {
	w := World{w: world{clock: start}}
	if s.Setup != nil {
		s.Setup(&w)
	}
	return w.w.sealed()
}
