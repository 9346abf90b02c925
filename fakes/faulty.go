package fakes

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// TB is what NewFaulty needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A Faulty is a store on which planned faults strike. It is safe for concurrent use; which of several calls at once is
// the n-th is then left to chance.
type Faulty struct {
	inner bucket.Objects
	t     TB

	mu   sync.Mutex
	plan []*planned // under mu; a planned one's fields too, but for its fault
}

type planned struct {
	fault Fault
	calls int  // that matched
	fired bool // it has had its effect
}

var _ bucket.Objects = (*Faulty)(nil)

// NewFaulty decorates inner. At the end of the test each planned fault that never fired is an error of the test: a
// test that injects nothing proves nothing.
func NewFaulty(t TB, inner bucket.Objects, faults ...Fault) *Faulty {
	t.Helper()
	f := &Faulty{inner: inner, t: t}
	f.Plan(faults...)
	t.Cleanup(f.reportUnfired)
	return f
}

// Plan adds faults; their calls are counted from now on. A fault without a kind, or of a kind that means nothing for
// its op, ends the test.
func (f *Faulty) Plan(faults ...Fault) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range faults {
		if fault.Kind.text == "" || fault.Nth < 0 || fault.Op != AnyOp && fault.Kind.on != nil && !fault.Kind.on(fault.Op) {
			f.t.Fatalf("fakes: this fault can never strike: %v", fault)
			return
		}
		f.plan = append(f.plan, &planned{fault: fault})
	}
}

func (f *Faulty) reportUnfired() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.plan {
		if !p.fired {
			f.t.Errorf("fakes: a planned fault never fired (%d calls matched): %v", p.calls, p.fault)
		}
	}
}

// A call is one call of the decorator with the faults that strike it.
type call struct {
	f      *Faulty
	op     Op
	struck []*planned
}

// begin counts the call and picks its faults. Kinds that mean nothing for op never strike it.
func (f *Faulty) begin(op Op, keys ...bucket.Key) call {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := call{f: f, op: op}
	for _, p := range f.plan {
		if p.fault.Kind.on != nil && !p.fault.Kind.on(op) || !p.fault.matches(op, keys) {
			continue
		}
		p.calls++
		if p.fault.Every || p.calls == max(p.fault.Nth, 1) {
			c.struck = append(c.struck, p)
		}
	}
	return c
}

func (c call) fire(p *planned) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	p.fired = true
}

// before runs the hooks and hangs. The error, if any, is the answer to the call.
func (c call) before(ctx context.Context) error {
	for _, p := range c.struck {
		if p.fault.Kind.before != nil {
			c.fire(p)
			p.fault.Kind.before()
		}
	}
	for _, p := range c.struck {
		if !p.fault.Kind.hang {
			continue
		}
		c.fire(p)
		<-ctx.Done()
		if c.op == Put || c.op == Delete {
			return fmt.Errorf("hanging in %v: %w, %w", c.op, bucket.ErrUnknown, context.Cause(ctx))
		}
		return fmt.Errorf("hanging in %v: %w", c.op, context.Cause(ctx))
	}
	return nil
}

// prevented is before and, if that lets the call pass, refused.
func (c call) prevented(ctx context.Context, key bucket.Key) error {
	if err := c.before(ctx); err != nil {
		return err
	}
	return c.refused(key)
}

// after runs the hooks that follow the store's answer.
func (c call) after() {
	for _, p := range c.struck {
		if p.fault.Kind.after != nil {
			c.fire(p)
			p.fault.Kind.after()
		}
	}
}

// refused is the error that is answered for the key instead of calling the store, if any.
func (c call) refused(key bucket.Key) error {
	return c.first(key, func(k Kind) error { return k.refuse })
}

// lost is the error that is answered for the key after the store has carried out the call, if any.
func (c call) lost(key bucket.Key) error {
	return c.first(key, func(k Kind) error { return k.lose })
}

func (c call) first(key bucket.Key, of func(Kind) error) error {
	for _, p := range c.struck {
		if err := of(p.fault.Kind); err != nil && p.fault.Key.matches(key) {
			c.fire(p)
			return fmt.Errorf("%v %q (planned): %w", c.op, key, err)
		}
	}
	return nil
}

// time is t as the faults let it be told.
func (c call) time(t time.Time) time.Time {
	for _, p := range c.struck {
		if p.fault.Kind.time != nil {
			c.fire(p)
			t = p.fault.Kind.time(t)
		}
	}
	return t
}

// Put stores an object, but for the faults.
func (f *Faulty) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	c := f.begin(Put, key)
	if err := c.prevented(ctx, key); err != nil {
		return time.Time{}, err
	}
	t, err := f.inner.Put(ctx, key, body)
	c.after()
	if err != nil {
		return t, err
	}
	if err := c.lost(key); err != nil {
		return time.Time{}, err
	}
	return c.time(t), nil
}

// Open opens a body, but for the faults.
func (f *Faulty) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	c := f.begin(Open, key)
	if err := c.prevented(ctx, key); err != nil {
		return nil, err
	}
	body, err := f.inner.Open(ctx, key)
	c.after()
	return body, err
}

// Head tells about an object, but for the faults.
func (f *Faulty) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	c := f.begin(Head, key)
	if err := c.prevented(ctx, key); err != nil {
		return bucket.Object{}, err
	}
	o, err := f.inner.Head(ctx, key)
	c.after()
	if err == nil {
		o.StoreTime = c.time(o.StoreTime)
	}
	return o, err
}

// Delete deletes objects, but for the faults.
func (f *Faulty) Delete(ctx context.Context, keys []bucket.Key) []error {
	c := f.begin(Delete, keys...)
	errs := make([]error, len(keys))
	if err := c.before(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	var pass []bucket.Key // to the store; of the i-th, where[i] is the place in keys
	var where []int
	for i, key := range keys {
		if errs[i] = c.refused(key); errs[i] == nil {
			pass, where = append(pass, key), append(where, i)
		}
	}
	if len(pass) > 0 {
		for i, err := range f.inner.Delete(ctx, pass) {
			errs[where[i]] = err
		}
	}
	c.after()
	for _, i := range where {
		if errs[i] == nil {
			errs[i] = c.lost(keys[i])
		}
	}
	for _, err := range errs {
		if err != nil {
			return errs
		}
	}
	return nil
}
