package explore

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A node is a prefix that is still to be followed; nil is the empty one.
type node struct {
	parent *node
	last   choice
}

// choices spells the prefix out, from the start.
func (n *node) choices() []choice {
	var cs []choice
	for ; n != nil; n = n.parent {
		cs = append(cs, n.last)
	}
	slices.Reverse(cs)
	return cs
}

// A search is the state that its workers share.
type search struct {
	scenario Scenario

	checking sync.Mutex // held while Check or Invariant runs

	mu      sync.Mutex
	more    *sync.Cond        // of mu: stack, busy or failure has changed
	stack   []*node           // prefixes to follow, the deepest last
	busy    int               // workers that follow one
	seen    map[digest]bool   // states known, by run.key and run.keyAfter
	does    map[digest]string // behaviour of actors, by what they were told
	result  Result
	failure *Failure
}

// explore runs the workers until nothing is left to follow or something has failed.
func (s *search) explore(t *testing.T) {
	s.more = sync.NewCond(&s.mu)
	s.seen, s.does = map[digest]bool{}, map[digest]string{}
	s.stack = []*node{nil}
	began := time.Now()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				n, ok := s.pop()
				if !ok {
					return
				}
				synctest.Test(t, func(*testing.T) { s.follow(n) })
				s.release()
			}
		})
	}
	workers.Wait()
	s.result.Elapsed = time.Since(began)
	s.result.Exhaustive = s.failure == nil
}

// pop takes the deepest prefix; false if the search is at its end.
func (s *search) pop() (*node, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.stack) == 0 && s.busy > 0 && s.failure == nil {
		s.more.Wait()
	}
	if len(s.stack) == 0 || s.failure != nil {
		return nil, false
	}
	n := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	s.busy++
	s.result.Replays++
	return n, true
}

func (s *search) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.more.Broadcast()
}

// follow repeats the prefix and goes on from there, by the first choice that leads to a state not seen yet, until
// there is none. The other such choices are left on the stack.
func (s *search) follow(n *node) {
	r := startRun(&s.scenario, nil)
	defer r.end()
	err := s.advance(r, n.choices())
	for err == nil {
		var going bool
		if going, err = s.enter(r); err != nil || !going {
			break
		}
		var next choice
		if next, going = s.branch(r, n); !going {
			break
		}
		n = &node{parent: n, last: next}
		err = s.advance(r, []choice{next})
	}
	if err != nil {
		s.fail(r.choices, err)
	}
}

// advance lets the actors start if they have not, and takes the choices.
func (s *search) advance(r *run, cs []choice) error {
	if len(r.choices) == 0 {
		if err := s.settle(r); err != nil {
			return err
		}
	}
	for _, c := range cs {
		if err := r.take(c); err != nil {
			return fmt.Errorf("%w at step %d: %w", ErrNotDeterministic, len(r.choices)+1, err)
		}
		if err := s.settle(r); err != nil {
			return err
		}
	}
	return nil
}

// settle is run.settle, and holds what the actors do to what they did when they had been told the same.
func (s *search) settle(r *run) error {
	if err := r.settle(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Steps++
	for i := range r.actors {
		if r.actors[i].crashed {
			continue
		}
		told, does := r.behaviour(i)
		before, known := s.does[told]
		if !known {
			s.does[told] = does
		} else if before != does {
			return fmt.Errorf("%w at step %d: actor %s, told the same, does\n\t%s\nand did before\n\t%s",
				ErrNotDeterministic, len(r.choices), s.scenario.Actors[i].Name, does, before)
		}
	}
	return nil
}

// enter judges the state that r has arrived at; false if there is nothing to follow from there.
func (s *search) enter(r *run) (bool, error) {
	ended := r.ended()
	s.mu.Lock()
	key := r.key()
	seen := s.seen[key]
	if s.seen[key] = true; !seen {
		s.result.States++
	}
	if seen && !s.scenario.Unmerged {
		s.mu.Unlock()
		return false, nil
	}
	if ended {
		s.result.Schedules++
	}
	states := max(s.result.States, s.result.Schedules)
	s.mu.Unlock()
	if states > s.scenario.MaxStates {
		return false, fmt.Errorf("%w: more than %d states", ErrTooManyStates, s.scenario.MaxStates)
	}
	return !ended, s.judge(r, ended)
}

func (s *search) judge(r *run, ended bool) error {
	s.checking.Lock()
	defer s.checking.Unlock()
	return judge(&s.scenario, r, ended)
}

// branch picks the choice to go on with and leaves its siblings on the stack, so that the first of them is popped
// first; false if every choice leads to a known state.
func (s *search) branch(r *run, at *node) (choice, bool) {
	var fresh []choice
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.options() {
		if s.scenario.Unmerged {
			fresh = append(fresh, c)
		} else if key := r.keyAfter(c); !s.seen[key] {
			s.seen[key] = true
			fresh = append(fresh, c)
		}
	}
	if len(fresh) == 0 {
		return choice{}, false
	}
	for _, c := range slices.Backward(fresh[1:]) {
		s.stack = append(s.stack, &node{parent: at, last: c})
	}
	s.more.Broadcast()
	return fresh[0], true
}

// fail keeps the first failure and ends the search.
func (s *search) fail(cs []choice, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = &Failure{Scenario: s.scenario.Name, Err: err, Schedule: formatSchedule(cs)}
	}
	s.more.Broadcast()
}

// judge asks Invariant and, at the end, Check.
func judge(sc *Scenario, r *run, ended bool) error {
	var errs []error
	if sc.Invariant != nil {
		errs = append(errs, sc.Invariant(r.final()))
	}
	if ended && sc.Check != nil {
		errs = append(errs, sc.Check(r.final()))
	}
	return errors.Join(errs...)
}
