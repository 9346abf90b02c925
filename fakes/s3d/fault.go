package s3d

import (
	"cmp"
	"fmt"
	"net/http"
	"time"
)

// A Fault says which request is struck, and by what.
type Fault struct {
	Op    Op
	Key   func(key string) bool // nil: any; a listing's or batch's key is empty
	Text  string                // what Key says, for messages
	Nth   int                   // of the requests that match, counted from 1; 0 is 1
	Every bool                  // each request that matches from the n-th on
	Kind  Kind
}

// String names the fault as it is planned, such as "PutObject of b #2: reset before".
func (f Fault) String() string {
	op := string(f.Op)
	if op == "" {
		op = "any"
	}
	if f.Key != nil {
		op += " of " + cmp.Or(f.Text, "some keys")
	}
	every := ""
	if f.Every {
		every = " and on"
	}
	return fmt.Sprintf("%s #%d%s: %s", op, max(f.Nth, 1), every, f.Kind.text)
}

// A Kind is what a fault does. Kinds are made by the functions of this package.
type Kind struct {
	text    string
	hook    func() // runs first
	judge   func(*http.Request) (status int, code string)
	repeat  bool                     // what was sent is in the message of refuse
	delay   time.Duration            // then the request waits for so long
	hold    <-chan struct{}          // and for this
	late    bool                     // but its client does not
	partly  bool                     // then some of the request's body is read
	cut     cut                      // then the connection ends, nothing done
	refuse  *failure                 // then this is answered, nothing done
	lose    cut                      // the request is carried out; the connection ends without an answer
	instead *failure                 // the request is carried out; this is answered
	half    bool                     // the request is carried out; half of the answer's body is sent
	stall   <-chan struct{}          // and the rest when this is closed
	rewrite func(body []byte) []byte // the request is carried out; the answer's body is changed
}

// How a connection ends.
type cut int

const (
	whole cut = iota
	closed
	reset
)

// String says what the kind does, in the words of Fault.String.
func (k Kind) String() string { return k.text }

// ResetBefore resets the connection; the request is not carried out.
func ResetBefore() Kind { return Kind{text: "reset before", cut: reset} }

// DropBefore closes the connection in good order; the request is not carried out.
func DropBefore() Kind { return Kind{text: "drop before", cut: closed} }

// ResetAfter carries the request out and resets the connection.
func ResetAfter() Kind { return Kind{text: "reset after", lose: reset} }

// DropAfter carries the request out and closes the connection in good order, without an answer.
func DropAfter() Kind { return Kind{text: "drop after", lose: closed} }

// HalfRequest resets the connection when half of the request's body has been read; the request is not carried out.
func HalfRequest() Kind { return Kind{text: "half a request", partly: true, cut: reset} }

// Status answers an error and does nothing. An empty code sends no body, as a proxy might.
func Status(status int, code string) Kind {
	return Kind{text: fmt.Sprintf("status %d %s", status, code), refuse: &failure{status, code, "struck: " + code, nil}}
}

// StatusWith is Status with a message and headers.
func StatusWith(status int, code, message string, header http.Header) Kind {
	return Kind{text: fmt.Sprintf("status %d %s", status, code), refuse: &failure{status, code, message, header}}
}

// AppliedThenStatus carries the request out and answers an error all the same.
func AppliedThenStatus(status int, code string) Kind {
	return Kind{text: fmt.Sprintf("applied, then status %d %s", status, code),
		instead: &failure{status, code, "struck: " + code, nil}}
}

// AppliedLater answers an error now, or closes the connection if status is 0, and carries the request out when release is
// closed: later than who was answered may look. Settle waits for that.
func AppliedLater(release <-chan struct{}, status int, code string) Kind {
	k := Kind{text: "closed, applied later", hold: release, late: true, cut: closed}
	if status != 0 {
		k = Status(status, code)
		k.text, k.hold, k.late = k.text+", applied later", release, true
	}
	return k
}

// HalfBody carries the request out and breaks off in the middle of the answer's body.
func HalfBody() Kind { return Kind{text: "half a body", half: true} }

// StallBody carries the request out, sends half of the answer's body and no more until release is closed.
func StallBody(release <-chan struct{}) Kind {
	return Kind{text: "body stalls", half: true, stall: release}
}

// Rewrite carries the request out and changes the body of the answer; its length is then the new one's.
func Rewrite(text string, fn func([]byte) []byte) Kind {
	return Kind{text: "rewritten: " + text, rewrite: fn}
}

// Hold keeps the request until release is closed, or the server stops, and then carries it out, even if the client has
// gone away meanwhile.
func Hold(release <-chan struct{}) Kind { return Kind{text: "held", hold: release} }

// Delay keeps the request for so long and then carries it out, as Hold.
func Delay(d time.Duration) Kind { return Kind{text: fmt.Sprintf("delayed by %v", d), delay: d} }

// Judge asks fn about each request that it strikes: 0 lets it pass, any other status and code are answered as by Status.
func Judge(fn func(*http.Request) (status int, code string)) Kind {
	return Kind{text: "judged", judge: fn}
}

// Repeat is Status with a message that repeats the headers that came, as AWS does with what was signed.
func Repeat(status int, code string) Kind {
	k := Status(status, code)
	k.text, k.repeat = k.text+", repeating", true
	return k
}

// Before calls fn, and then carries the request out.
func Before(fn func()) Kind { return Kind{text: "before", hook: fn} }

type planned struct {
	fault Fault
	calls int
	fired bool
}

// Plan adds faults; their requests are counted from now on. Of several that match a request the first strikes.
func (s *Server) Plan(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		s.plan = append(s.plan, &planned{fault: f})
	}
}

// Forgive drops every planned fault.
func (s *Server) Forgive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = nil
}

// struck counts the request for each fault that it matches, and returns what strikes it.
func (s *Server) struck(c *call) Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kind Kind
	for _, p := range s.plan {
		f := p.fault
		if f.Op != AnyOp && f.Op != c.op || f.Key != nil && !f.Key(c.key) {
			continue
		}
		p.calls++
		n := max(f.Nth, 1)
		if (p.calls == n || f.Every && p.calls > n) && kind.text == "" {
			kind, p.fired = f.Kind, true
		}
	}
	return kind
}

func (s *Server) reportUnstruck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.plan {
		if !p.fired {
			s.t.Errorf("s3d: this fault never struck: %v", p.fault)
		}
	}
}
