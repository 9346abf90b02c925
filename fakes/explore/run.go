package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// stuckAfter is how long, by the bubble's clock, actors may do nothing at all before they count as stuck.
const stuckAfter = 24 * time.Hour

// network is the name in a schedule of what carries out the requests that are on their way.
const network = "network"

// A run is one execution of a scenario in the current bubble. Its methods are the scheduler's, called by the bubble's
// first goroutine while all others are durably blocked, but for post, withdraw, log, finish and countGone.
type run struct {
	scenario *Scenario
	world    world
	strikes  []Strike
	began    time.Time
	choices  []choice
	trace    func(line string) // nil for none
	over     chan struct{}     // closed at the end: every actor unwinds
	signal   chan struct{}     // holds a token once an actor has posted or finished
	cancels  []context.CancelFunc

	mu      sync.Mutex
	pending []*request // under mu; in the order of choices after settle
	actors  []actorRun // under mu
}

type actorRun struct {
	done    bool
	err     error
	panic   string // of its Run, with the stack
	crashed bool
	log     []string
	logged  digest // of log
	answers digest // of its requests and their answers, in order
	gone    int    // requests after the run
}

// startRun starts every actor in the current bubble.
func startRun(s *Scenario, trace func(string)) *run {
	r := &run{
		scenario: s, world: s.world(), began: time.Now(), trace: trace,
		over: make(chan struct{}), signal: make(chan struct{}, 1), actors: make([]actorRun, len(s.Actors)),
	}
	for i := range s.Actors {
		ctx, cancel := context.WithCancel(context.Background())
		r.cancels = append(r.cancels, cancel)
		go r.act(ctx, i)
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

// end lets every goroutine of the bubble unwind.
func (r *run) end() {
	for _, cancel := range r.cancels {
		cancel()
	}
	close(r.over)
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
		a.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
	}
	r.wake()
}

func (r *run) countGone(actor int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.actors[actor].gone++
	return r.actors[actor].gone
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
		if err := r.inspect(); err != nil {
			return err
		}
		if len(r.pending) > 0 || len(r.world.late) > 0 || r.ended() {
			return nil
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

// inspect puts the pending requests into the order of choices, and finds what makes the run meaningless.
func (r *run) inspect() error {
	slices.SortFunc(r.pending, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.actor, b.actor), cmp.Compare(a.op, b.op), cmp.Compare(a.key, b.key),
			cmp.Compare(a.text, b.text))
	})
	for i := range r.actors {
		if a := &r.actors[i]; a.panic != "" && !a.crashed {
			return fmt.Errorf("actor %s panicked: %s", r.scenario.Actors[i].Name, a.panic)
		}
	}
	for i, q := range r.pending {
		name := r.scenario.Actors[q.actor].Name
		if r.actors[q.actor].done {
			return fmt.Errorf("actor %s made a request after its Run had returned: %s", name, q.text)
		}
		if i > 0 && r.pending[i-1].actor == q.actor && r.pending[i-1].text == q.text {
			return fmt.Errorf("actor %s has two equal requests pending, which no schedule can tell apart: %s", name, q.text)
		}
	}
	return nil
}

// ended says that every actor is finished or crashed and nothing is on its way.
func (r *run) ended() bool {
	for i := range r.actors {
		if !r.actors[i].done && !r.actors[i].crashed {
			return false
		}
	}
	return len(r.world.late) == 0
}

// options are all choices of the current state, in a fixed order: without a fault first.
func (r *run) options() []choice {
	var plain, faulty []choice
	striking := none
	if len(r.strikes) < r.scenario.MaxFaults {
		striking = r.scenario.Faults
	}
	index := 0
	for i, q := range r.pending {
		if index++; i == 0 || r.pending[i-1].actor != q.actor {
			index = 0
		}
		plain = append(plain, choice{actor: q.actor, index: index})
		for kinds, bit := q.faultsOf()&striking, Fault(1); bit <= kinds; bit <<= 1 {
			if kinds&bit != 0 {
				faulty = append(faulty, choice{actor: q.actor, index: index, fault: bit})
			}
		}
	}
	for i := range r.world.late {
		plain = append(plain, choice{actor: len(r.actors), index: i})
	}
	return append(plain, faulty...)
}

// request returns what c chooses.
func (r *run) request(c choice) (*request, error) {
	of := r.world.late
	if c.actor < len(r.actors) {
		of = slices.DeleteFunc(slices.Clone(r.pending), func(q *request) bool { return q.actor != c.actor })
	}
	if c.actor > len(r.actors) || c.index < 0 || c.index >= len(of) {
		return nil, fmt.Errorf("there is no request %s", c)
	}
	if q := of[c.index]; c.fault == none || c.actor < len(r.actors) && q.faultsOf()&c.fault != 0 {
		return q, nil
	}
	return nil, fmt.Errorf("no fault %q can strike the request of %s", c.fault, c)
}

// An effect is what a choice brings about before any actor has run on.
type effect struct {
	world   world
	answer  answer
	answers digest // of the actor, this answer included
	strikes []Strike
}

// effect computes what c, the choice of q, brings about.
func (r *run) effect(c choice, q *request) effect {
	var e effect
	e.strikes = r.strikes
	if c.actor == len(r.actors) {
		w := r.world
		w.late = slices.Delete(slices.Clone(w.late), c.index, c.index+1)
		e.world, e.answer = r.scenario.apply(w, q)
		e.world = e.world.sealed()
		return e
	}
	e.world, e.answer = r.scenario.strike(r.world, q, c.fault)
	if c.fault != none {
		e.strikes = append(slices.Clip(r.strikes), Strike{c.fault, r.scenario.Actors[c.actor].Name})
	}
	h := new(hasher).sub(r.actors[c.actor].answers).str(q.text).num(int64(r.elapsed()))
	e.answer.hash(h)
	e.answers = h.sum()
	return e
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
	r.world, r.strikes = e.world, e.strikes
	if c.actor == len(r.actors) {
		return nil
	}
	a := &r.actors[c.actor]
	if c.fault&Crashes != 0 {
		// Whatever else it had pending never reaches the store. Where it should, the schedule has it carried out first.
		a.crashed = true
		r.pending = slices.DeleteFunc(r.pending, func(p *request) bool { return p.actor == c.actor })
		return nil
	}
	a.answers = e.answers
	r.pending = slices.DeleteFunc(r.pending, func(p *request) bool { return p == q })
	q.reply <- e.answer
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

// elapsed is the time that has passed in the bubble.
func (r *run) elapsed() time.Duration { return time.Since(r.began) }

// key is the digest of the current state.
func (r *run) key() digest {
	return r.digest('s', effect{world: r.world, strikes: r.strikes}, -1, none)
}

// keyAfter is the digest of the state after c, before any actor has run on. It never equals one of key.
func (r *run) keyAfter(c choice) digest {
	q, err := r.request(c)
	if err != nil {
		panic(err) // options offers nothing else
	}
	return r.digest('p', r.effect(c, q), c.actor, c.fault)
}

func (r *run) digest(kind int64, e effect, moved int, fault Fault) digest {
	h := &hasher{buf: make([]byte, 0, 256)}
	h.num(kind).sub(e.world.digest).num(int64(r.elapsed())).num(int64(len(e.strikes)))
	for _, s := range e.strikes {
		h.num(int64(s.Kind)).str(s.Actor)
	}
	for i := range r.actors {
		switch a := &r.actors[i]; {
		case a.crashed, i == moved && fault&Crashes != 0:
			h.num('c').sub(a.logged)
		case i == moved:
			h.num('r').sub(e.answers)
		case a.done:
			h.num('d').sub(a.logged).str(errText(a.err))
		default:
			h.num('r').sub(a.answers)
		}
	}
	return h.sum()
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return "error: " + err.Error()
}

// behaviour tells what an actor has been told, as a digest, and what it made of that.
func (r *run) behaviour(actor int) (told digest, does string) {
	a := &r.actors[actor]
	told = new(hasher).num(int64(actor)).sub(a.answers).num(int64(r.elapsed())).sum()
	var b strings.Builder
	for _, q := range r.pending {
		if q.actor == actor {
			b.WriteString(q.text + "; ")
		}
	}
	if a.done {
		b.WriteString("finished; " + errText(a.err))
	}
	if a.logged != (digest{}) {
		fmt.Fprintf(&b, "observed %x: %s", a.logged[:4], a.log[len(a.log)-1])
	}
	return told, b.String()
}

// final is the current state as Check sees it.
func (r *run) final() *Final {
	f := &Final{Clock: r.world.clock, Struck: slices.Clone(r.strikes)}
	for _, o := range r.world.objects {
		told := bucket.Object{Key: o.key, Size: int64(len(o.body)), StoreTime: o.time}
		f.Objects = append(f.Objects, Object{Object: told, Body: o.body})
	}
	for i := range r.actors {
		a := &r.actors[i]
		state := ActorState{Name: r.scenario.Actors[i].Name, Crashed: a.crashed, Log: slices.Clone(a.log)}
		if a.done && !a.crashed {
			state.Done, state.Err = true, a.err
		}
		f.Actors = append(f.Actors, state)
	}
	return f
}
