package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// Defaults and limits of a lease.
const (
	DefaultTTL = 30 * time.Second
	// MinTTL is the shortest TTL: a holder renews every third of it, and stores take about one write of an object a second.
	MinTTL = 6 * time.Second
	// MaxTTL is the longest one.
	MaxTTL = time.Hour
	// Margin is what others wait beyond a holder's TTL.
	Margin = 5 * time.Second
	// Poll is how often who waits for a lease looks at it.
	Poll = 2 * time.Second
)

// Prefix is below what the documents of all leases are.
const Prefix = "_indexd/lease/"

const format = "lease/1"

// A Class is what others see of who holds a lease.
type Class string

// The classes.
const (
	Scheduler Class = "scheduler" // a server, which does so at intervals
	Operator  Class = "operator"  // a command that somebody runs
)

// String is with its article, for sentences; "nobody" for none.
func (c Class) String() string {
	switch c {
	case Scheduler:
		return "a scheduler"
	case Operator:
		return "an operator"
	}
	return "nobody"
}

// A Clock tells the time of this host in two ways; nil functions mean the host's.
type Clock struct {
	Wall    func() time.Time     // default time.Now
	Running func() time.Duration // since a moment of its own; it may stand still while the host sleeps
}

// Options configures a Lease; nil and zero fields mean the defaults.
type Options struct {
	// TTL is for how long a renewal is trusted; default DefaultTTL.
	TTL   time.Duration
	Clock Clock
	// Document is for the document.
	Document *cas.Options
}

// A Lease is one lease as one process sees it, which acquires it as one class. It is safe for concurrent use.
type Lease struct {
	name  string
	class Class
	ttl   time.Duration
	doc   *cas.Doc[record]
	clock clock
	watch watch
}

// A record is the payload; see the package comment.
type record struct {
	Term   uint64    `json:"term"`
	Class  Class     `json:"class"`
	TTL    int64     `json:"ttl_ms"`
	Opens  int64     `json:"opens_ms"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Errors. Match them with errors.Is.
var (
	// ErrHeld: somebody else holds the lease, or it has to be waited for. The error is a *HeldError.
	ErrHeld = errors.New("lease: held")
	// ErrLost: the lease is not ours any more, or cannot be trusted to be.
	ErrLost = errors.New("lease: lost")
	// ErrBroken: it was lost since somebody has ended its term by Break. The error matches ErrLost too.
	ErrBroken = errors.New("lease: broken")
	// ErrTerm: the lease is in another term, or not held.
	ErrTerm = errors.New("lease: another term")
)

// New returns the lease of that name, to be acquired as class. It makes no request. name is one or more parts joined by
// slashes, such as the prefix of an index; the caller must know the store's conditions to be real (package probe).
func New(store cas.Store, name string, class Class, opts *Options) (*Lease, error) {
	if opts == nil {
		opts = &Options{}
	}
	l := &Lease{name: name, class: class, ttl: opts.TTL, clock: newClock(opts.Clock)}
	if l.ttl == 0 {
		l.ttl = DefaultTTL
	}
	switch {
	case name == "" || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") || strings.Contains(name, "//"):
		return nil, fmt.Errorf("a lease is called %.80q: give it one or more parts joined by slashes", name)
	case class != Scheduler && class != Operator:
		return nil, fmt.Errorf("lease %q is to be held by a %.40q: choose %q or %q", name, string(class), string(Scheduler),
			string(Operator))
	case l.ttl < MinTTL || l.ttl > MaxTTL:
		return nil, fmt.Errorf("lease %q has a TTL of %v: give one of %v to %v", name, l.ttl, MinTTL, MaxTTL)
	}
	l.doc = cas.NewDoc[record](store, bucket.Key(Prefix+name), format, opts.Document)
	return l, nil
}

// Name is what the lease is called.
func (l *Lease) Name() string { return l.name }

// A Status is what anybody may see of a lease.
type Status struct {
	Name   string
	Term   uint64 // of the last acquisition
	Class  Class  // of the holder; empty if nobody holds it
	Since  time.Time
	Reason string
	// Expires is when the lease may be acquired if it is not renewed, by the store's clock: when the holder's TTL and Margin
	// are over. It is zero if nobody holds it and it does not have to be waited for, if the store tells no time, and of what
	// was saved just now, such as by Break.
	Expires time.Time
	// Within is how long it has to be waited for from now, as far as this process knows; 0 if it may be acquired.
	Within time.Duration
}

// A HeldError is why a lease could not be acquired. It matches ErrHeld.
type HeldError struct{ Status Status }

func (e *HeldError) Error() string {
	s := e.Status
	var text strings.Builder
	if s.Class != "" {
		fmt.Fprintf(&text, "lease %q is held by %v since %s", s.Name, s.Class, s.Since.UTC().Format(time.RFC3339))
	} else {
		fmt.Fprintf(&text, "lease %q has to be waited for", s.Name)
	}
	if s.Reason != "" {
		fmt.Fprintf(&text, " (%s)", s.Reason)
	}
	if !s.Expires.IsZero() {
		fmt.Fprintf(&text, "; it opens at %s", s.Expires.UTC().Format(time.RFC3339))
		if s.Class != "" {
			text.WriteString(", if it is not renewed")
		}
	}
	return text.String()
}

// Is makes it match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Status returns what is to be seen of the lease now; the zero one, with its name, if there is none. 1 GET. Errors: those of
// cas.Doc.Load.
func (l *Lease) Status(ctx context.Context) (Status, error) {
	s, err := l.load(ctx)
	if err != nil {
		return Status{Name: l.name}, err
	}
	return l.status(s), nil
}

// Break ends the term of whoever holds the lease, who finds out within a third of its TTL. The next acquisition waits for that
// TTL and Margin, since the holder may not know. 1 GET, 1 PUT. ErrTerm: the lease is in another term, or nobody holds it, and
// nothing was changed. Errors else: those of cas.Doc.Load and Replace; cas.ErrConflict if it changed just now.
func (l *Lease) Break(ctx context.Context, term uint64) (Status, error) {
	s, err := l.load(ctx)
	if err != nil {
		return Status{Name: l.name}, err
	}
	switch r := s.Value; {
	case s.Seq == 0:
		return Status{Name: l.name}, fmt.Errorf("lease %q has never been acquired: %w", l.name, ErrTerm)
	case r.Class == "":
		return l.status(s), fmt.Errorf("nobody holds lease %q, whose last term is %d: %w", l.name, r.Term, ErrTerm)
	case r.Term != term:
		return l.status(s), fmt.Errorf("lease %q is in term %d by now, not %d: %w", l.name, r.Term, term, ErrTerm)
	}
	next := record{Term: term, Opens: s.Value.TTL + Margin.Milliseconds(), Since: since(s, l.clock), Reason: brokenReason}
	if s, err = l.doc.Replace(ctx, s, next); err != nil {
		return Status{Name: l.name}, err
	}
	return l.status(s), nil
}

// brokenReason is what Break leaves in the document.
const brokenReason = "broken"

// load returns the document, the zero state if there is none.
func (l *Lease) load(ctx context.Context) (cas.State[record], error) {
	s, err := l.doc.Load(ctx)
	if errors.Is(err, cas.ErrNotExist) {
		return cas.State[record]{}, nil
	}
	if err != nil {
		return s, err
	}
	if err := s.Value.check(); err != nil {
		return s, fmt.Errorf("reading lease %q: %w: %w", l.name, cas.ErrCorrupt, err)
	}
	return s, nil
}

func (r record) check() error {
	const second = 1000
	switch {
	case r.Term == 0 || r.Term == math.MaxUint64:
		return fmt.Errorf("its term is %d", r.Term)
	case r.Class != "" && r.Class != Scheduler && r.Class != Operator:
		return fmt.Errorf("it is held by a %.40q", string(r.Class))
	case r.Class != "" && (r.TTL < second || r.TTL > MaxTTL.Milliseconds()):
		return fmt.Errorf("its TTL is %d ms", r.TTL)
	case r.Opens < 0 || r.Opens > (MaxTTL+Margin).Milliseconds():
		return fmt.Errorf("it opens after %d ms", r.Opens)
	}
	return checkReason(r.Reason) // it is shown to people
}

// opens is how long after the document was saved the lease may be acquired.
func (r record) opens() time.Duration {
	if r.Class != "" {
		return time.Duration(r.TTL)*time.Millisecond + Margin
	}
	return time.Duration(r.Opens) * time.Millisecond
}

// status is what a state says to others, with how long it has to be waited for as far as this process knows.
func (l *Lease) status(s cas.State[record]) Status {
	r := s.Value
	st := Status{Name: l.name, Term: r.Term, Class: r.Class, Since: r.Since, Reason: r.Reason}
	if opens := r.opens(); opens > 0 {
		st.Within = l.remaining(s)
		if !s.ModTime.IsZero() && !s.StoreTime.IsZero() {
			st.Expires = s.ModTime.Add(opens)
		}
	}
	return st
}

// since is now, by the store's clock if it told one.
func since(s cas.State[record], c clock) time.Time {
	if !s.StoreTime.IsZero() {
		return s.StoreTime.UTC()
	}
	return c.Wall().Round(0).UTC()
}
