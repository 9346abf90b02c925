package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A state is a scenario at rest: every actor waits at a stop, is finished or has crashed. All that can happen next
// follows from it, so that a state can be followed without running anything, as far as the behaviour of its actors
// is known.
type state struct {
	scenario *Scenario
	world    world
	strikes  []Strike
	elapsed  time.Duration // in the bubble
	pending  []*request    // in the order of choices
	actors   []progress
}

// progress is how far an actor has come.
type progress struct {
	answers digest // of its requests and their answers, in order
	crashed bool
	done    bool
	err     error
	log     []string
	logged  digest // of log
}

// A behaviour is what an actor has made of what it was told.
type behaviour struct {
	pending []*request
	done    bool
	err     error
	log     []string
	logged  digest
}

// told is the digest of what makes an actor behave as it does.
func (st *state) told(actor int) digest {
	return new(hasher).num(int64(actor)).sub(st.actors[actor].answers).num(int64(st.elapsed)).sum()
}

func (st *state) behaviour(actor int) behaviour {
	a := &st.actors[actor]
	b := behaviour{done: a.done, err: a.err, log: slices.Clone(a.log), logged: a.logged}
	for _, q := range st.pending {
		if q.actor == actor {
			b.pending = append(b.pending, q)
		}
	}
	return b
}

func (b behaviour) equal(c behaviour) bool {
	return b.done == c.done && errText(b.err) == errText(c.err) && b.logged == c.logged &&
		slices.EqualFunc(b.pending, c.pending, func(p, q *request) bool { return p.text == q.text })
}

// String is the behaviour as an error shows it.
func (b behaviour) String() string {
	var parts []string
	for _, q := range b.pending {
		parts = append(parts, q.text)
	}
	if b.done {
		parts = append(parts, fmt.Sprintf("finish with %v", b.err))
	}
	if len(b.log) > 0 {
		parts = append(parts, fmt.Sprintf("observe %q", b.log))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// clone shares nothing with st that either of them changes.
func (st *state) clone() *state {
	c := *st
	c.strikes, c.pending, c.actors = slices.Clone(st.strikes), slices.Clone(st.pending), slices.Clone(st.actors)
	for i := range c.actors {
		c.actors[i].log = slices.Clone(c.actors[i].log)
	}
	return &c
}

// step is the part of a choice that needs no actor to run: the store, the faults, and what the actor has been told
// or that it is gone.
func (st *state) step(c choice, q *request, e effect) {
	st.world, st.strikes = e.world, e.strikes
	if c.actor == len(st.actors) {
		return
	}
	if c.fault&Crashes == 0 {
		st.actors[c.actor].answers = e.answers
		st.pending = slices.DeleteFunc(st.pending, func(p *request) bool { return p == q })
		return
	}
	// Whatever else it had pending never reaches the store. Where it should, another schedule has it carried out first.
	st.actors[c.actor].crashed = true
	st.pending = slices.DeleteFunc(st.pending, func(p *request) bool { return p.actor == c.actor })
}

// behave puts the actor into the behaviour.
func (st *state) behave(actor int, b behaviour) {
	a := &st.actors[actor]
	a.done, a.err, a.log, a.logged = b.done, b.err, b.log, b.logged
	first := 0
	for first < len(st.pending) && st.pending[first].actor < actor {
		first++
	}
	rest := slices.DeleteFunc(slices.Clone(st.pending), func(q *request) bool { return q.actor == actor })
	st.pending = slices.Insert(rest, first, b.pending...)
}

// idle says that nothing can be chosen though the run is not at its end: the actors wait for time to pass.
func (st *state) idle() bool {
	return len(st.pending) == 0 && len(st.world.late) == 0 && !st.ended()
}

// ended says that every actor is finished or crashed and nothing is on its way.
func (st *state) ended() bool {
	for i := range st.actors {
		if !st.actors[i].done && !st.actors[i].crashed {
			return false
		}
	}
	return len(st.world.late) == 0
}

// options are all choices of the current state, in a fixed order: without a fault first.
func (st *state) options() []choice {
	var plain, faulty []choice
	striking := none
	if len(st.strikes) < st.scenario.MaxFaults {
		striking = st.scenario.Faults
	}
	index := 0
	for i, q := range st.pending {
		if index++; i == 0 || st.pending[i-1].actor != q.actor {
			index = 0
		}
		plain = append(plain, choice{actor: q.actor, index: index})
		for kinds, bit := q.faultsOf()&striking, Fault(1); bit <= kinds; bit <<= 1 {
			if kinds&bit != 0 {
				faulty = append(faulty, choice{actor: q.actor, index: index, fault: bit})
			}
		}
	}
	for i := range st.world.late {
		plain = append(plain, choice{actor: len(st.actors), index: i})
	}
	return append(plain, faulty...)
}

// request returns what c chooses.
func (st *state) request(c choice) (*request, error) {
	of := st.world.late
	if c.actor < len(st.actors) {
		of = slices.DeleteFunc(slices.Clone(st.pending), func(q *request) bool { return q.actor != c.actor })
	}
	if c.actor > len(st.actors) || c.index < 0 || c.index >= len(of) {
		return nil, fmt.Errorf("there is no request %s", c)
	}
	if q := of[c.index]; c.fault == none || c.actor < len(st.actors) && q.faultsOf()&c.fault != 0 {
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
func (st *state) effect(c choice, q *request) effect {
	var e effect
	e.strikes = st.strikes
	if c.actor == len(st.actors) {
		e.world, e.answer = st.scenario.apply(st.world.delivered(c.index), q)
		e.world = e.world.sealed()
		return e
	}
	e.world, e.answer = st.scenario.strike(st.world, q, c.fault)
	e.world = e.world.sealed()
	if c.fault != none {
		e.strikes = append(slices.Clip(st.strikes), Strike{c.fault, st.scenario.Actors[c.actor].Name})
	}
	h := new(hasher).sub(st.actors[c.actor].answers).str(q.text).num(int64(st.elapsed))
	e.answer.hash(h)
	e.answers = h.sum()
	return e
}

// key is the digest of the current state.
func (st *state) key() digest {
	return st.digest('s', effect{world: st.world, strikes: st.strikes}, -1, none)
}

// keyAfter is the digest of the state after c, before any actor has run on. It never equals one of key.
func (st *state) keyAfter(c choice) digest {
	q, err := st.request(c)
	if err != nil {
		panic(err) // options offers nothing else
	}
	return st.digest('p', st.effect(c, q), c.actor, c.fault)
}

func (st *state) digest(kind int64, e effect, moved int, fault Fault) digest {
	h := &hasher{buf: make([]byte, 0, 256)}
	h.num(kind).sub(e.world.digest).num(int64(st.elapsed)).num(int64(len(e.strikes)))
	for _, s := range e.strikes {
		h.num(int64(s.Kind)).str(s.Actor)
	}
	for i := range st.actors {
		switch a := &st.actors[i]; {
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

// final is the current state as Check sees it.
func (st *state) final() *Final {
	f := &Final{Clock: st.world.clock, Struck: slices.Clone(st.strikes)}
	for _, o := range st.world.objects {
		told := bucket.Object{Key: o.key, Size: int64(len(o.body)), StoreTime: o.time}
		f.Objects = append(f.Objects, Object{Object: told, Body: o.body})
	}
	for i := range st.actors {
		a := &st.actors[i]
		state := ActorState{Name: st.scenario.Actors[i].Name, Crashed: a.crashed, Log: slices.Clone(a.log)}
		if a.done && !a.crashed {
			state.Done, state.Err = true, a.err
		}
		f.Actors = append(f.Actors, state)
	}
	return f
}
