package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// errOver answers what an actor asks once the run is over, so that its code unwinds; nobody reads its results then.
var errOver = errors.New("explore: the run is over")

// unwindCalls is how many requests an actor may make after the run before its goroutine is ended under it: code that
// repeats until it succeeds would never end otherwise.
const unwindCalls = 1000

// An Env is the world as one actor sees it. Its methods may be called by several goroutines of the actor.
type Env struct {
	run   *run
	actor int
	rand  *lockedRand
}

// Objects is the store, with the faults of the schedule.
func (e *Env) Objects() bucket.Objects { return objects{e} }

// Store is Objects, with conditional writes.
func (e *Env) Store() interface {
	bucket.Objects
	cas.Store
} {
	return documents{objects{e}}
}

// Now reads the host's clock: the store's, plus the actor's Skew. It is a stop.
func (e *Env) Now() time.Time {
	a := e.ask(context.Background(), &request{op: opNow})
	return a.time
}

// Point is a stop without a request, where the other actors may go first or this one may crash.
func (e *Env) Point(label string) {
	e.ask(context.Background(), &request{op: opPoint, key: bucket.Key(label)})
}

// Rand is a source of bytes, the same in every run and another one for each actor. Reading from it is no stop.
func (e *Env) Rand() io.Reader { return e.rand }

// Log records what the actor observed or promised, for Check: the operands as fmt.Sprint formats them. It is no
// stop: nobody else acts between it and what the actor did before.
func (e *Env) Log(values ...any) {
	if !e.run.log(e.actor, strings.TrimSuffix(fmt.Sprintln(values...), "\n")) {
		e.gone()
	}
}

func (e *Env) tick(d time.Duration) {
	e.ask(context.Background(), &request{op: opTick, step: d})
}

// ask posts the request and waits until the scheduler has picked it.
func (e *Env) ask(ctx context.Context, r *request) answer {
	select {
	case <-e.run.over: // asked first: its contexts are cancelled then, and code that repeats must meet unwindCalls
		return e.gone()
	default:
	}
	if err := ctx.Err(); err != nil {
		return answer{err: err}
	}
	r.actor, r.text, r.reply = e.actor, r.describe(), make(chan answer, 1)
	if !e.run.post(r) {
		return e.gone()
	}
	select {
	case a := <-r.reply:
		return a
	case <-e.run.over:
		return e.gone()
	case <-ctx.Done():
		if !e.run.withdraw(r) {
			return e.gone()
		}
		return answer{err: ctx.Err()}
	}
}

// gone is the end of an actor that has crashed, or whose run is over: it stands still until the run is, then unwinds.
func (e *Env) gone() answer {
	<-e.run.over
	if e.run.countGone(e.actor) > unwindCalls {
		runtime.Goexit()
	}
	return answer{err: errOver, time: start}
}

// objects is bucket.Objects for one actor.
type objects struct{ env *Env }

var _ bucket.Objects = objects{}

func (o objects) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	if req.After != "" && o.env.run.scenario.Unsorted {
		return fmt.Errorf("listing %q after %q: %w", req.Prefix, req.After, bucket.ErrUnsupported)
	}
	var cont bucket.Key
	for page := 1; ; page++ {
		r := &request{op: opList, key: bucket.Key(req.Prefix), after: req.After, cont: cont, page: page}
		a := o.env.ask(ctx, r)
		if a.err != nil {
			return fmt.Errorf("listing %q: %w", req.Prefix, a.err)
		}
		if a.more {
			cont = a.page.Objects[len(a.page.Objects)-1].Key
		}
		if err := fn(a.page); err != nil {
			return err
		}
		// The slice is the driver's again: whoever kept it shall notice.
		clear(a.page.Objects)
		if !a.more {
			return nil
		}
	}
}

func (o objects) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if key == "" {
		return time.Time{}, fmt.Errorf("putting %q: %w", key, bucket.ErrInvalidKey)
	}
	var content strings.Builder
	if body != nil {
		if _, err := io.Copy(&content, bucket.ReadBody(ctx, body)); err != nil {
			return time.Time{}, fmt.Errorf("putting %q: %w", key, err)
		}
	}
	a := o.env.ask(ctx, &request{op: opPut, key: key, body: content.String()})
	return a.time, a.err
}

func (o objects) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	a := o.env.read(ctx, opOpen, key)
	if a.err != nil {
		return nil, a.err
	}
	return io.NopCloser(strings.NewReader(a.body)), nil
}

// read asks for one object.
func (e *Env) read(ctx context.Context, op op, key bucket.Key) answer {
	if key == "" {
		return answer{err: fmt.Errorf("reading %q: %w", key, bucket.ErrInvalidKey)}
	}
	return e.ask(ctx, &request{op: op, key: key})
}

func (o objects) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	a := o.env.read(ctx, opHead, key)
	return a.object, a.err
}

func (o objects) Delete(ctx context.Context, keys []bucket.Key) []error {
	errs := make([]error, len(keys))
	if o.env.run.scenario.ScatterDeletes {
		var all sync.WaitGroup
		for i, key := range keys {
			all.Go(func() { errs[i] = o.deleteOne(ctx, key) })
		}
		all.Wait()
	} else {
		for i, key := range keys {
			errs[i] = o.deleteOne(ctx, key)
		}
	}
	for _, err := range errs {
		if err != nil {
			return errs
		}
	}
	return nil
}

func (o objects) deleteOne(ctx context.Context, key bucket.Key) error {
	if key == "" {
		return fmt.Errorf("deleting %q: %w", key, bucket.ErrInvalidKey)
	}
	return o.env.ask(ctx, &request{op: opDelete, key: key}).err
}

// documents is cas.Store for one actor.
type documents struct{ objects }

var _ cas.Store = documents{}

func (d documents) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	a := d.env.read(ctx, opLoad, key)
	if a.err != nil {
		return cas.Object{}, a.err
	}
	return cas.Object{Body: []byte(a.body), Version: version(a.body), ModTime: a.object.StoreTime, StoreTime: a.time}, nil
}

func (d documents) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if err := p.Check(); err != nil {
		return "", err
	}
	if key == "" {
		return "", fmt.Errorf("saving %q: %w", key, bucket.ErrInvalidKey)
	}
	if a := d.env.ask(ctx, &request{op: opSave, key: key, body: string(body), on: p}); a.err != nil {
		return "", a.err
	}
	return version(string(body)), nil
}

// lockedRand is a ChaCha8 stream for several goroutines.
type lockedRand struct {
	mu     sync.Mutex
	source *rand.ChaCha8 // under mu
}

func newRand(actor int) *lockedRand {
	return &lockedRand{source: rand.NewChaCha8([32]byte{byte(actor), byte(actor >> 8), 0xd1})}
}

func (r *lockedRand) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Read(p)
}
