package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/web/api"
)

// A Check is one thing that a server is asked about by /readyz.
type Check struct {
	// Name is a word, such as "rules". Others may be told of it: it names nothing of the inside.
	Name string
	// Needed says that the server cannot do its work while the check fails, so that load balancers should leave.
	Needed bool
	// Do looks. It is called by one at a time, at most once a second, and its context ends after 5 s. kind says in a word what
	// was found; where it is empty, it is KindOK without an error, and the kind of the error else. The error is logged and not
	// told. The check fails if there is an error.
	Do func(context.Context) (kind string, err error)
}

// The kinds of what checks find, beside those that a check has of its own.
const (
	KindOK          = "ok"
	KindDenied      = "denied"
	KindThrottled   = "throttled"
	KindTimeout     = "timeout"
	KindMissing     = "missing"
	KindUnavailable = "unavailable"
)

const (
	readyTimeout = 5 * time.Second
	// readyFor is how long an answer of a check is told to others who ask: probes come from many sides at once.
	readyFor = time.Second
)

// kindOf is the kind of a check's error.
func kindOf(err error) string {
	switch {
	case err == nil:
		return KindOK
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	case errors.Is(err, bucket.ErrDenied):
		return KindDenied
	case errors.Is(err, bucket.ErrThrottled):
		return KindThrottled
	case errors.Is(err, bucket.ErrNotExist):
		return KindMissing
	}
	return KindUnavailable
}

// A finding is what a check has come to. Its fields but done are set before done is closed.
type finding struct {
	done chan struct{}
	at   time.Time
	kind string
	err  error
}

// A checker asks one check, once for all who want to know at the same time.
type checker struct {
	Check
	s *Server

	mu    sync.Mutex // guards what follows
	last  *finding   // nil: none
	going *finding   // nil: none
	told  string     // the kind that the log was told last
}

// look returns what is known and fresh, or waits for what is being found out, but no longer than readyTimeout: a check that does
// not keep to its context goes on, and nobody begins another one meanwhile.
func (c *checker) look(ctx context.Context) (kind string, err error) {
	f := c.enter()
	timer := time.NewTimer(readyTimeout)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.kind, f.err
	case <-timer.C:
		return KindTimeout, fmt.Errorf("checking the %s: %w", c.Name, context.DeadlineExceeded)
	case <-ctx.Done():
		return kindOf(ctx.Err()), ctx.Err()
	}
}

func (c *checker) enter() *finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.going != nil {
		return c.going
	}
	if c.last != nil {
		if age := c.s.opt.Now().Sub(c.last.at); age >= 0 && age < readyFor {
			return c.last
		}
	}
	f := &finding{done: make(chan struct{}), at: c.s.opt.Now()}
	c.going = f
	go c.find(f) // it ends with its context, and is waited for by who asks
	return f
}

func (c *checker) find(f *finding) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	f.kind, f.err = c.do(ctx)
	if f.kind == "" {
		f.kind = kindOf(f.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.going = f, nil
	c.tell(f)
	close(f.done)
}

// do turns a panic into an error: it is in a goroutine of our own, where it would end the process.
func (c *checker) do(ctx context.Context) (kind string, err error) {
	defer func() {
		if v := recover(); v != nil {
			c.s.panicked(ctx, "/readyz", v)
			kind, err = KindUnavailable, internal(nil)
		}
	}()
	return c.Do(ctx)
}

// tell logs what has changed: probes come every few seconds.
func (c *checker) tell(f *finding) {
	was := c.told
	if c.told = f.kind; was == f.kind {
		return
	}
	switch {
	case f.err != nil:
		c.s.opt.Log.Warn("check failed", "check", c.Name, "kind", f.kind, "error", f.err)
	case was != "":
		c.s.opt.Log.Info("check passed", "check", c.Name, "kind", f.kind)
	}
}

// Drain makes /readyz answer that the server is stopping, from now on, and changes nothing else. It reports whether somebody
// has asked for /readyz within the last 30 s, such as a load balancer, who should be given the time to leave.
func (s *Server) Drain() (watched bool) {
	s.draining.Store(true)
	last := s.askedReady.Load()
	return last != 0 && s.opt.Now().Sub(time.Unix(0, last)) < drainWatch
}

// drainWatch is within what who watches /readyz asks again.
const drainWatch = 30 * time.Second

// GetReadiness is GET /readyz: at most one LIST a second, whoever asks.
func (s *Server) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.GetReadinessResponseObject,
	error) {
	s.askedReady.Store(s.opt.Now().UnixNano())
	if s.draining.Load() {
		return nil, &problem{
			status: http.StatusServiceUnavailable, code: codeStopping, retry: true,
			detail: "The server is stopping.", action: "Send requests to another one.",
		}
	}
	checks := make([]api.Check, len(s.checks))
	errs := make([]error, len(s.checks))
	var all sync.WaitGroup
	for i, c := range s.checks {
		all.Go(func() {
			var kind string
			kind, errs[i] = c.look(ctx)
			checks[i] = api.Check{Name: c.Name, Kind: kind, Needed: c.Needed}
		})
	}
	all.Wait()
	for i, c := range s.checks {
		if errs[i] != nil && c.Needed {
			p := readyProblem(c.Name, errs[i])
			p.checks = checks
			return nil, p
		}
	}
	return api.GetReadiness200JSONResponse{Status: api.ReadinessStatusOk, Checks: checks}, nil
}

// storeCheck is the name of the check that the server makes of its bucket.
const storeCheck = "store"

// readyProblem says in safe words what is not ready. Why is in the log already.
func readyProblem(check string, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return &problem{status: p.status, code: p.code, detail: p.detail, action: p.action}
	}
	if check != storeCheck {
		return &problem{
			status: http.StatusServiceUnavailable, code: codeNotReady, retry: true,
			detail: "The server lacks something that it needs; checks tells what.", action: tryAgain,
		}
	}
	p := storeProblem(err, reads)
	if p.status < http.StatusInternalServerError || errors.Is(err, context.DeadlineExceeded) {
		p = &problem{
			status: http.StatusServiceUnavailable, code: codeUnavailable, retry: true,
			detail: "The store did not list the bucket in time.", action: tryAgain,
		}
	}
	p.cause = nil
	return p
}
