package castest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// Limits of a history: what a checker decides in moments.
const (
	clients      = 16
	perClient    = 18
	unknownEvery = 6 // one save in so many has its answer lost, or is lost itself
	checkTime    = time.Minute
)

// linearizable: what many clients were told, each with a store of its own, can be put in one order in which every answer is
// right, though answers get lost, and saves arrive after the loss. A history out of which one acknowledged save was taken
// cannot: else nothing was checked.
func linearizable(e *env) {
	h := e.history()
	unknown := 0
	for _, o := range h {
		if o.Output.(answer).outcome == open {
			unknown++
		}
	}
	if unknown*10 < len(h) {
		e.Errorf("the outcome of %d of %d operations is unknown; the check wants a tenth", unknown, len(h))
	}
	h = decided(h)
	if got := porcupine.CheckOperationsTimeout(register, h, checkTime); got != porcupine.Ok {
		e.Errorf("a history of %d operations, %d of them unknown, is %v linearizable:\n%s", len(h), unknown, got, describe(h))
	}
	without := withoutOne(h)
	if without == nil {
		e.Fatal("no save was read or built on by anybody")
	}
	if got := porcupine.CheckOperationsTimeout(register, without, checkTime); got != porcupine.Illegal {
		e.Errorf("a history without an acknowledged save that was built on is %v linearizable, want Illegal", got)
	}
}

// The outcomes of a call.
const (
	done = iota
	refused
	open
)

// A call is a Load, or a Save of a body on a condition: expect is the body that the version to be matched was of, and
// empty for IfAbsent.
type call struct {
	save         bool
	expect, body string
}

// An answer is what a client was told; body is that of a Load, empty if there was nothing.
type answer struct {
	outcome int
	body    string
}

// register is the store by the book. Its state is the body that is there; every body is saved once only.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out, now := input.(call), output.(answer), state.(string)
		switch {
		case !in.save:
			return out.body == now, now
		case out.outcome == refused:
			return in.expect != now, now
		}
		return in.expect == now, in.body
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// history lets clients load and save, and returns what they saw.
func (e *env) history() []porcupine.Operation {
	key, start := e.key(), time.Now()
	var mu sync.Mutex // guards h
	var h []porcupine.Operation
	var number atomic.Int64
	var wg, late sync.WaitGroup
	for id := range clients {
		s := &lossy{Store: e.another(), late: &late}
		wg.Go(func() {
			note := func(in call, out answer, begun time.Duration) {
				o := porcupine.Operation{ClientId: id, Input: in, Output: out, Call: int64(begun), Return: int64(time.Since(start))}
				if out.outcome == open {
					o.Return = math.MaxInt64
				}
				mu.Lock()
				defer mu.Unlock()
				h = append(h, o)
			}
			for range perClient / 2 {
				begun := time.Since(start)
				o, err := s.Load(e.Context(), key)
				p := cas.IfMatch(o.Version)
				if errors.Is(err, cas.ErrNotExist) {
					p, err = cas.IfAbsent(), nil
				}
				if err != nil {
					e.Errorf("Load: %v", err)
					return
				}
				note(call{}, answer{body: string(o.Body)}, begun)
				in := call{save: true, expect: string(o.Body), body: fmt.Sprintf("body %d", number.Add(1))}
				begun = time.Since(start)
				_, err = s.Save(e.Context(), key, []byte(in.body), p)
				outcome, err := outcomeOf(err)
				if err != nil {
					e.Errorf("Save: %v", err)
					return
				}
				note(in, answer{outcome: outcome}, begun)
			}
		})
	}
	wg.Wait()
	late.Wait()
	// What is there in the end, so that every save that took effect is seen by some Load: this one, or that of who saved
	// the next body.
	begun := time.Since(start)
	o, err := e.s.Load(e.Context(), key)
	if err != nil {
		e.Fatalf("Load at the end: %v", err)
	}
	return append(h, porcupine.Operation{
		Input: call{}, Output: answer{body: string(o.Body)}, Call: int64(begun), Return: int64(time.Since(start)),
	})
}

// decided leaves out the saves of unknown outcome that had no effect, which are those whose body no Load found, and gives
// the others the time by which they must have had theirs. It makes the search for an order short.
func decided(h []porcupine.Operation) []porcupine.Operation {
	seen := map[string]int64{}
	for _, o := range h {
		if body := o.Output.(answer).body; !o.Input.(call).save && body != "" {
			if at, ok := seen[body]; !ok || o.Return < at {
				seen[body] = o.Return
			}
		}
	}
	var kept []porcupine.Operation
	for _, o := range h {
		if o.Output.(answer).outcome == open {
			at, ok := seen[o.Input.(call).body]
			if !ok {
				continue
			}
			o.Return = at
		}
		kept = append(kept, o)
	}
	return kept
}

func outcomeOf(err error) (int, error) {
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, cas.ErrUnknown), errors.Is(err, cas.ErrThrottled): // not done is one way of unknown
		return open, nil
	case errors.Is(err, cas.ErrConflict):
		return refused, nil
	}
	return 0, err
}

// lossy loses saves and their answers, and lets some arrive later.
type lossy struct {
	cas.Store
	late *sync.WaitGroup
}

func (l *lossy) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if rand.N(unknownEvery) > 1 {
		return l.Store.Save(ctx, key, body, p)
	}
	switch rand.N(3) {
	case 0: // lost on the way
	case 1:
		l.Store.Save(ctx, key, body, p)
	case 2:
		l.late.Go(func() { l.Store.Save(ctx, key, body, p) })
	}
	return "", fmt.Errorf("the answer got lost: %w", cas.ErrUnknown)
}

// withoutOne takes out an acknowledged save on whose body another acknowledged one was made.
func withoutOne(h []porcupine.Operation) []porcupine.Operation {
	on := map[string]bool{}
	for _, o := range h {
		if in := o.Input.(call); in.save && o.Output.(answer).outcome == done {
			on[in.expect] = true
		}
	}
	for i, o := range h {
		if in := o.Input.(call); in.save && o.Output.(answer).outcome == done && on[in.body] {
			return append(append([]porcupine.Operation{}, h[:i]...), h[i+1:]...)
		}
	}
	return nil
}

func describe(h []porcupine.Operation) string {
	text := ""
	for _, o := range h {
		text += fmt.Sprintf("%d: [%d, %d] %s\n", o.ClientId, o.Call, o.Return, register.DescribeOperation(o.Input, o.Output))
	}
	return text
}
