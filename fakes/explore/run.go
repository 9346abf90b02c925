package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// stuckAfter is how long, by the bubble's clock, actors may do nothing at all before they count as stuck.
const stuckAfter = 24 * time.Hour

// network is the name in a schedule of what carries out the requests that are on their way.
const network = "network"

// A run is one execution of a scenario in the current bubble. Its methods are the scheduler's, called by the bubble's
// first goroutine while all others are durably blocked, but for post, withdraw, log, finish and countGone. Requests
// and observations of the actors go straight into the state. The lock is for those five; the scheduler needs it only to
// be ordered before who wakes later.
type run struct {
	began   time.Time
	choices []choice
	trace   func(line string) // nil for none
	over    chan struct{}     // closed at the end: every actor unwinds
	signal  chan struct{}     // holds a token once an actor has posted or finished
	cancels []context.CancelFunc
	acting  sync.WaitGroup // the goroutines of act

	mu     sync.Mutex
	state           // under mu
	panics []string // under mu; of each actor's Run, with the stack
	gone   []int    // under mu; requests of each actor after the run
}

// startRun starts every actor in the current bubble.
func startRun(s *Scenario, trace func(string)) *run {
	r := &run{
		began: time.Now(), trace: trace, over: make(chan struct{}), signal: make(chan struct{}, 1),
		state:  state{scenario: s, world: s.world(), actors: make([]progress, len(s.Actors))},
		panics: make([]string, len(s.Actors)), gone: make([]int, len(s.Actors)),
	}
	for i := range s.Actors {
		ctx, cancel := context.WithCancel(context.Background())
		r.cancels = append(r.cancels, cancel)
		r.acting.Go(func() { r.act(ctx, i) })
	}
	return r
}

// act is the goroutine of an actor.
func (r *run) act(ctx context.Context, i int) {
	err := errors.New("the goroutine of Run was ended from inside (runtime.Goexit)")
	defer func() {
		p := recover()
		r.finish(i, err, p)
	}()
	err = r.scenario.Actors[i].Run(ctx, &Env{run: r, actor: i, rand: newRand(i)})
}

// end lets every goroutine of the bubble unwind. It waits here and not in synctest.Test, where time stands still for
// those that sleep.
func (r *run) end() {
	r.mu.Lock() // as in inspect
	close(r.over)
	r.mu.Unlock()
	for _, cancel := range r.cancels {
		cancel()
	}
	r.acting.Wait()
}

// post makes the request pending; false if its actor has crashed.
func (r *run) post(q *request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.actors[q.actor].crashed {
		return false
	}
	r.pending = append(r.pending, q)
	r.wake()
	return true
}

// withdraw takes the request back; false if its actor has crashed.
func (r *run) withdraw(q *request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = slices.DeleteFunc(r.pending, func(p *request) bool { return p == q })
	return !r.actors[q.actor].crashed
}

// log appends to the actor's observations; false if it has crashed.
func (r *run) log(actor int, line string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &r.actors[actor]
	if a.crashed {
		return false
	}
	a.log = append(a.log, line)
	a.logged = new(hasher).sub(a.logged).str(line).sum()
	return true
}

func (r *run) finish(actor int, err error, p any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &r.actors[actor]
	a.done, a.err = true, err
	if p != nil {
		r.panics[actor] = fmt.Sprintf("%v\n%s", p, debug.Stack())
	}
	r.wake()
}

func (r *run) countGone(actor int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone[actor]++
	return r.gone[actor]
}

func (r *run) wake() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// settle waits until every goroutine is blocked and there is something to choose, or nothing left to do. While
// nothing is pending, the bubble's time runs on to the timers that the actors wait for.
func (r *run) settle() error {
	for {
		synctest.Wait()
		r.elapsed = time.Since(r.began)
		if idle, err := r.inspect(); err != nil || !idle {
			return err
		}
		select {
		case <-r.signal: // a token of a step that is dealt with
		default:
		}
		timer := time.NewTimer(stuckAfter)
		select {
		case <-r.signal:
			timer.Stop()
		case <-timer.C:
			return fmt.Errorf("stuck: for %v no request is pending and not all actors are finished", stuckAfter)
		}
	}
}

// inspect puts the pending requests into the order of choices, finds what makes the run meaningless, and says whether
// the state is idle. It takes the lock, though everyone else is blocked: whoever a timer wakes next comes after it.
func (r *run) inspect() (idle bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.pending, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.actor, b.actor), cmp.Compare(a.op, b.op), cmp.Compare(a.key, b.key),
			cmp.Compare(a.text, b.text))
	})
	for i := range r.actors {
		if r.panics[i] != "" && !r.actors[i].crashed {
			return false, fmt.Errorf("actor %s panicked: %s", r.scenario.Actors[i].Name, r.panics[i])
		}
	}
	for i, q := range r.pending {
		name := r.scenario.Actors[q.actor].Name
		if r.actors[q.actor].done {
			return false, fmt.Errorf("actor %s made a request after its Run had returned: %s", name, q.text)
		}
		if i > 0 && r.pending[i-1].actor == q.actor && r.pending[i-1].text == q.text {
			return false, fmt.Errorf("actor %s has two equal requests pending, which no schedule can tell apart: %s", name, q.text)
		}
	}
	return r.idle(), nil
}

// take carries the choice out and lets its actor run on; settle must follow.
func (r *run) take(c choice) error {
	q, err := r.request(c)
	if err != nil {
		return err
	}
	e := r.effect(c, q)
	r.note(c, q, e)
	r.choices = append(r.choices, c)
	r.step(c, q, e)
	if c.actor < len(r.actors) && c.fault&Crashes == 0 {
		q.reply <- e.answer
	}
	return nil
}

// note traces one step as one line.
func (r *run) note(c choice, q *request, e effect) {
	if r.trace == nil {
		return
	}
	who, outcome := network, "carries out "+r.scenario.Actors[q.actor].Name+": "+q.text
	if c.actor < len(r.actors) {
		who, outcome = r.scenario.Actors[c.actor].Name, q.text
	}
	switch {
	case c.fault&Crashes != 0:
		outcome += " => " + c.fault.String()
	case c.fault != none:
		outcome += " => FAULT " + c.fault.String()
	default:
		outcome += " => " + e.answer.brief(q)
	}
	r.trace(fmt.Sprintf("%3d %-6s %-10s %s", len(r.choices)+1, c, who, outcome))
}
