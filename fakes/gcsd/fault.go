package gcsd

import (
	"cmp"
	"fmt"
	"time"
)

// TB is what Plan needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// A Fault says which request is struck, and by what.
type Fault struct {
	Op    Op
	Name  string             // of the object; empty: any
	Where func(Request) bool // nil: any
	Text  string             // what Where says, for messages
	Nth   int                // of the requests that match, from 1; 0 is 1
	Every bool               // each request that matches, whatever Nth says
	Kind  Kind
}

// String names the fault as it is planned, such as "Insert of a #2: reset".
func (f Fault) String() string {
	what := cmp.Or(string(f.Op), "any")
	if f.Name != "" {
		what += " of " + f.Name
	}
	if f.Where != nil {
		what += " where " + cmp.Or(f.Text, "it is so")
	}
	if f.Every {
		return what + " every: " + f.Kind.text
	}
	return fmt.Sprintf("%s #%d: %s", what, max(f.Nth, 1), f.Kind.text)
}

// A Kind is what a fault does. Kinds are made by the functions of this package.
type Kind struct {
	text    string
	before  func()
	after   func()
	delay   time.Duration            // before the request is carried out
	later   <-chan struct{}          // closed when the request is to be carried out, after its answer
	partly  bool                     // the body is not read to its end
	refuse  bool                     // the server does not carry the request out
	status  int                      // answered instead
	reason  string                   // of status
	repeat  bool                     // with what was sent for a message
	cut     cut                      // of the connection
	stall   <-chan struct{}          // the other half is sent when this is closed
	rewrite func(body []byte) []byte // of the answer
}

// String says what the kind does.
func (k Kind) String() string { return k.text }

type cut int

const (
	whole cut = iota
	closed
	reset
	half
)

// Status answers an error, with a reason such as "rateLimitExceeded", and carries nothing out.
func Status(code int, reason string) Kind {
	return Kind{text: fmt.Sprintf("status %d", code), refuse: true, status: code, reason: reason}
}

// AppliedThenStatus carries the request out and answers an error all the same, as a proxy in between may.
func AppliedThenStatus(code int) Kind {
	return Kind{text: fmt.Sprintf("applied, then status %d", code), status: code, reason: "backendError"}
}

// Reset breaks the connection before anything is carried out.
func Reset() Kind { return Kind{text: "reset", refuse: true, cut: reset} }

// Drop closes the connection before anything is carried out.
func Drop() Kind { return Kind{text: "closed", refuse: true, cut: closed} }

// AppliedThenReset carries the request out and breaks the connection.
func AppliedThenReset() Kind { return Kind{text: "applied, then reset", cut: reset} }

// AppliedThenDrop carries the request out and closes the connection in good order, without an answer.
func AppliedThenDrop() Kind { return Kind{text: "applied, then closed", cut: closed} }

// HalfRequest breaks the connection when some of the request's body has been read, 64 KiB at the most; it is not carried
// out.
func HalfRequest() Kind { return Kind{text: "half a request", refuse: true, partly: true, cut: reset} }

// AppliedLater answers an error now, or closes the connection if code is 0, and carries the request out when release is
// closed: later than who was answered may look. Settle waits for that.
func AppliedLater(release <-chan struct{}, code int, reason string) Kind {
	k := Kind{text: "closed, applied later", refuse: true, cut: closed, later: release}
	if code != 0 {
		k.text, k.cut, k.status, k.reason = fmt.Sprintf("status %d, applied later", code), whole, code, reason
	}
	return k
}

// Delay keeps the request for so long before it is carried out, even if its client goes away meanwhile.
func Delay(d time.Duration) Kind { return Kind{text: fmt.Sprintf("delayed by %v", d), delay: d} }

// Half answers half of the body, of the whole's length, and closes the connection.
func Half() Kind { return Kind{text: "half a body", cut: half} }

// Repeat is Status with a message that repeats the headers that came.
func Repeat(code int, reason string) Kind {
	k := Status(code, reason)
	k.text, k.repeat = k.text+", repeating", true
	return k
}

// Stall answers half of the body, and no more until release is closed.
func Stall(release <-chan struct{}) Kind { return Kind{text: "body stalls", cut: half, stall: release} }

// Rewrite changes the body of the answer; its length is then the new one's.
func Rewrite(text string, fn func([]byte) []byte) Kind {
	return Kind{text: "rewritten: " + text, rewrite: fn}
}

// Before calls fn before the request is carried out, and waits for it: a delay is a fn that waits.
func Before(text string, fn func()) Kind { return Kind{text: "before: " + text, before: fn} }

// After calls fn once the request has been carried out and before it is answered, and waits for it.
func After(text string, fn func()) Kind { return Kind{text: "after: " + text, after: fn} }

type planned struct {
	Fault
	matched int
	fired   bool
}

// Plan adds faults; their requests are counted from now on. At the end of the test each one that never fired is an error:
// a test that injects nothing proves nothing.
func (s *Server) Plan(t TB, faults ...Fault) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		p := &planned{Fault: f}
		s.plan = append(s.plan, p)
		t.Cleanup(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !p.fired {
				t.Errorf("gcsd: a planned fault never fired (%d requests matched): %v", p.matched, p.Fault)
			}
		})
	}
}

// strike returns the fault that befalls the request, of several the first one of the plan. Under mu.
func (s *Server) strike(r Request) Kind {
	var kind *Kind
	for _, p := range s.plan {
		if p.Op != AnyOp && p.Op != r.Op || p.Name != "" && p.Name != r.Name || p.Where != nil && !p.Where(r) {
			continue
		}
		p.matched++
		if kind == nil && (p.Every || p.matched == max(p.Nth, 1)) {
			p.fired = true
			kind = &p.Kind
		}
	}
	if kind == nil {
		return Kind{}
	}
	return *kind
}

// postpone carries the request out once it is released, and nobody reads the answer.
func (s *Server) postpone(r *request, release <-chan struct{}) {
	s.late.Go(func() {
		select {
		case <-release:
			s.answer(r)
		case <-s.quit:
		}
	})
}

// Settle waits until every request that was to be applied later has been. Their releases must be closed.
func (s *Server) Settle() { s.late.Wait() }
