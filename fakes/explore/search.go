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

// A node is a prefix that is still to be followed; of the empty one only from is nil and last means nothing.
type node struct {
	parent *node
	last   choice
	from   *state // in which last is a choice; nil if that has not been kept
}

// choices spells the prefix out, from the start.
func (n *node) choices() []choice {
	var cs []choice
	for ; n.parent != nil; n = n.parent {
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
	more    *sync.Cond           // of mu: stack, busy or failure has changed
	stack   []*node              // prefixes to follow, the deepest last
	busy    int                  // workers that follow one
	seen    map[digest]bool      // states known, by state.key and state.keyAfter
	does    map[digest]behaviour // of actors, by state.told
	result  Result
	failure *Failure
}

// explore runs the workers until nothing is left to follow or something has failed.
func (s *search) explore(t *testing.T) {
	s.more = sync.NewCond(&s.mu)
	s.seen, s.does = map[digest]bool{}, map[digest]behaviour{}
	s.stack = []*node{{}}
	began := time.Now()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for n, ok := s.pop(); ok; n, ok = s.pop() {
				s.work(t, n)
			}
		})
	}
	workers.Wait()
	s.result.Elapsed = time.Since(began)
	s.result.Exhaustive = s.failure == nil
}

// work follows one prefix.
func (s *search) work(t *testing.T, n *node) {
	defer s.release()
	if s.scenario.Unmerged {
		s.bubble(t, n, func() { s.followWhole(n) })
	} else {
		s.follow(t, n)
	}
}

// bubble counts one run. A bubble that fails of itself (by a data race that was found in it) ends this goroutine.
func (s *search) bubble(t *testing.T, n *node, fn func()) {
	s.mu.Lock()
	s.result.Replays++
	s.mu.Unlock()
	ended := false
	defer func() {
		if !ended {
			s.fail(n.choices(), errors.New("the bubble has failed"))
		}
	}()
	synctest.Test(t, func(*testing.T) { fn() })
	ended = true
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
	return n, true
}

func (s *search) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.more.Broadcast()
}

// Which states that were computed are held to a run: each end, the first confirmAll of a search, and of the others one
// in confirmOne, by their digest.
const (
	confirmAll = 2000
	confirmOne = 256
)

// follow finds the state that the prefix leads to and leaves the choices that lead on to unknown states on the stack.
// The actors run only where one of them has been told what it has not been told before, and to confirm.
func (s *search) follow(t *testing.T, n *node) {
	st, known := s.foresee(n)
	var err error
	if !known {
		if st, err = s.replay(t, n); err != nil {
			return
		}
	}
	nth, err := s.enter(st)
	if err == nil && nth == 0 {
		return
	}
	if err == nil && known && (st.ended() || nth <= confirmAll || int(st.key()[0])%confirmOne == 0) {
		if st, err = s.confirm(t, n, st); err != nil {
			return
		}
	}
	if err == nil {
		err = s.judge(st)
	}
	if err != nil {
		s.fail(n.choices(), err)
		return
	}
	s.branch(st, n)
}

// foresee computes the state that the prefix leads to; false if that takes a run.
func (s *search) foresee(n *node) (*state, bool) {
	if n.from == nil {
		return nil, false
	}
	st := n.from.clone()
	n.from = nil // done with: the nodes of a deep prefix hold no states
	q, err := st.request(n.last)
	if err != nil {
		panic(err) // branch offers nothing else
	}
	st.step(n.last, q, st.effect(n.last, q))
	if actor := n.last.actor; actor < len(st.actors) && !st.actors[actor].crashed {
		s.mu.Lock()
		b, known := s.does[st.told(actor)]
		s.mu.Unlock()
		if !known {
			return nil, false
		}
		st.behave(actor, b)
	}
	return st, !st.idle()
}

// replay runs the prefix and returns the state that it leads to. An error has been reported.
func (s *search) replay(t *testing.T, n *node) (st *state, err error) {
	s.bubble(t, n, func() {
		r := startRun(&s.scenario, nil)
		defer r.end()
		if err = s.advance(r, n.choices()); err != nil {
			s.fail(r.choices, err)
			return
		}
		st = r.state.clone()
	})
	return st, err
}

// confirm runs a schedule of which the state that it leads to was computed. An error has been reported.
func (s *search) confirm(t *testing.T, n *node, want *state) (*state, error) {
	st, err := s.replay(t, n)
	if err == nil && st.key() != want.key() {
		err = fmt.Errorf("%w: the schedule does not lead where it should", ErrNotDeterministic)
		s.fail(n.choices(), err)
	}
	return st, err
}

// followWhole repeats the prefix in the current bubble and goes on to an end by the first choice each time. The other
// choices are left on the stack.
func (s *search) followWhole(n *node) {
	r := startRun(&s.scenario, nil)
	defer r.end()
	err := s.advance(r, n.choices())
	for err == nil {
		if _, err = s.enter(&r.state); err != nil {
			break
		}
		if err = s.judge(&r.state); err != nil || r.ended() {
			break
		}
		cs := r.options()
		s.push(n, nil, cs[1:])
		n = &node{parent: n, last: cs[0]}
		err = s.advance(r, cs[:1])
	}
	if err != nil {
		s.fail(r.choices, err)
	}
}

// advance lets the actors start if they have not, and takes the choices.
func (s *search) advance(r *run, cs []choice) error {
	if len(r.choices) == 0 {
		if err := s.settle(r, nil); err != nil {
			return err
		}
	}
	for _, c := range cs {
		if err := r.take(c); err != nil {
			return fmt.Errorf("%w at step %d: %w", ErrNotDeterministic, len(r.choices)+1, err)
		}
		if err := s.settle(r, &c); err != nil {
			return err
		}
	}
	return nil
}

// settle is run.settle after a choice, nil for the start. It learns what the actors do, and holds them to what they
// did when they had been told the same.
func (s *search) settle(r *run, c *choice) error {
	before := r.elapsed
	if err := r.settle(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Steps++
	for i := range r.actors {
		moved := c == nil || c.actor == i || r.elapsed != before
		if !moved || r.actors[i].crashed {
			continue
		}
		told, does := r.told(i), r.state.behaviour(i)
		if did, known := s.does[told]; !known {
			s.does[told] = does
		} else if !did.equal(does) {
			return fmt.Errorf("%w at step %d: actor %s, told the same, does\n\t%v\nand did before\n\t%v",
				ErrNotDeterministic, len(r.choices), s.scenario.Actors[i].Name, does, did)
		}
	}
	return nil
}

// enter counts the state and returns its number, from 1; 0 if it was known before.
func (s *search) enter(st *state) (nth int, err error) {
	key := st.key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen[key] {
		s.seen[key] = true
		s.result.States++
		nth = s.result.States
	}
	if st.ended() && (nth > 0 || s.scenario.Unmerged) {
		s.result.Schedules++
	}
	if max(s.result.States, s.result.Schedules) > s.scenario.MaxStates {
		return 0, fmt.Errorf("%w: more than %d states", ErrTooManyStates, s.scenario.MaxStates)
	}
	return nth, nil
}

// judge asks Invariant and, at the end, Check.
func (s *search) judge(st *state) error {
	s.checking.Lock()
	defer s.checking.Unlock()
	return st.judge()
}

func (st *state) judge() error {
	var errs []error
	if st.scenario.Invariant != nil {
		errs = append(errs, st.scenario.Invariant(st.final()))
	}
	if st.scenario.Check != nil && st.ended() {
		errs = append(errs, st.scenario.Check(st.final()))
	}
	return errors.Join(errs...)
}

// branch leaves the choices that lead to unknown states on the stack.
func (s *search) branch(st *state, at *node) {
	var cs []choice
	for _, c := range st.options() {
		key := st.keyAfter(c)
		s.mu.Lock()
		if !s.seen[key] {
			s.seen[key] = true
			cs = append(cs, c)
		}
		s.mu.Unlock()
	}
	s.push(at, st, cs)
}

// push leaves prefixes on the stack, so that the first of them is popped first.
func (s *search) push(at *node, from *state, cs []choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(cs) {
		s.stack = append(s.stack, &node{parent: at, last: c, from: from})
	}
	s.more.Broadcast()
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
