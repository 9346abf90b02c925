package janitor

import (
	"context"
	"log/slog"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
)

// MaxDeletes is how many keys one pass deletes at the most; the next pass goes on.
const MaxDeletes = 100_000

// MaxErrors is how many KeyErrors a Report holds.
const MaxErrors = 100

// A Class is as what the lease is held: by a scheduler or by an operator.
type Class = lease.Class

// Options configures a Janitor; nil and zero fields mean the defaults.
type Options struct {
	// Class is as what the lease is held; default lease.Operator.
	Class Class
	// Store is where the lease and the checkpoint are; nil means that passes are not guarded against each other.
	Store cas.Store
	// Usable tells, before each pass, whether the conditions of Store are real: nil if so; bucket.ErrUnsupported, ErrDenied
	// or ErrFull if not, so that passes are not guarded; any other error fails the pass. Nil means that they are.
	Usable func(context.Context) error
	// TTL is that of the lease; default lease.DefaultTTL.
	TTL time.Duration
	// Clock is for the lease.
	Clock lease.Clock
	// Document is for the documents of lease and checkpoint.
	Document *cas.Options
	// Log takes what Loop does; default: nothing is logged.
	Log *slog.Logger
}

// A Janitor works on one index. It is safe for concurrent use.
type Janitor struct {
	index *blobindex.Index
	opts  Options
	lease *lease.Lease         // nil without a store
	doc   *cas.Doc[checkpoint] // nil without a store
	wrong error                // with the options
}

// New returns the janitor of an index. It makes no request.
func New(index *blobindex.Index, opts *Options) *Janitor {
	j := &Janitor{index: index}
	if opts != nil {
		j.opts = *opts
	}
	if j.opts.Class == "" {
		j.opts.Class = lease.Operator
	}
	if j.opts.Log == nil {
		j.opts.Log = slog.New(slog.DiscardHandler)
	}
	if j.opts.Clock.Running == nil {
		began := time.Now()
		j.opts.Clock.Running = func() time.Duration { return time.Since(began) }
	}
	if j.opts.Store != nil {
		j.lease, j.wrong = lease.New(j.opts.Store, index.Prefix(), j.opts.Class, &lease.Options{
			TTL: j.opts.TTL, Clock: j.opts.Clock, Document: j.opts.Document,
		})
		j.doc = cas.NewDoc[checkpoint](j.opts.Store, checkpointKey(index.Prefix()), checkpointFormat, j.opts.Document)
	}
	return j
}

// RunOptions of one pass; nil and zero fields mean the defaults.
type RunOptions struct {
	// Namespace limits the pass to the namespace of that name; empty means the whole index.
	Namespace string
	// DryRun plans and deletes nothing, and needs no lease.
	DryRun bool
	// MaxDeletes bounds the deletes; 0 or less means the default, MaxDeletes.
	MaxDeletes int
	// Wait is how long to wait for a lease that somebody else holds; default not at all.
	Wait time.Duration
	// Full also deletes in namespaces that are left alone for a while after errors, and does not leave them alone for longer
	// if it fails there too.
	Full bool
	// Planned, if set, is called with each key of the plan, in order, before anything is deleted.
	Planned func(blobindex.Deletion)
	// Progress, if set, is called after each batch of deletes with the keys that are done and their total.
	Progress func(done, total int)
}

// A Report says what a pass did.
type Report struct {
	// Term is that of the lease; 0 if there was none.
	Term uint64
	// Unguarded says in a clause why the pass did not have a lease; empty if it had one, and if it needed none.
	Unguarded string

	Namespaces int
	Planned    map[string]int // keys by reason
	Deleted    map[string]int // keys by reason
	Failed     []KeyError     // the first MaxErrors of the keys that could not be deleted
	Failures   int            // their number
	Left       int            // keys planned, and left for the next pass: beyond MaxDeletes, or later than blobindex.PlanLife
	Deferred   []string       // namespaces that are left alone for a while after errors, though keys of them may go
	Slow       []string       // namespaces passed over, since their listing took too long
	Foreign    int            // keys that are no item's
	Pages      int            // LIST requests
	AsOf       time.Time
	Clock      blobindex.Clock
	// Ruling is by which rules the pass went.
	Ruling blobindex.Ruling
	// Withheld says why nothing may be deleted, if so: the store tells no time, or Ruling withholds it, in which case
	// nothing was listed.
	Withheld string
}

// A KeyError is a key that could not be deleted.
type KeyError struct {
	Key bucket.Key
	Err error
}

// Run makes one pass: it reads the shared rules, takes the lease, lists the index, plans, deletes, and lets go of the lease.
// Beside ⌈keys/1000⌉ LIST and the deletes that takes 3 GET and 4 PUT, and the renewals.
//
// Errors: lease.ErrHeld, a *lease.HeldError: somebody else is at work, and nothing was changed. lease.ErrLost: the lease was
// lost on the way. Else what was to be read or saved could not be, or the listing was not complete, or the context ended. What
// was done by then is in the report: before the last save, of the checkpoint, nothing is deleted after an error. Keys that
// could not be deleted are no error of the pass: see Report.Failures.
func (j *Janitor) Run(ctx context.Context, opt *RunOptions) (Report, error) {
	if opt == nil {
		opt = &RunOptions{}
	}
	p := newPass(j, opt)
	if j.wrong != nil {
		return p.report, j.wrong
	}
	err := p.run(ctx)
	return p.report, err
}
