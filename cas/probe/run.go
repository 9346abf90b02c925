package probe

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Root is below which the keys of all runs are.
const Root = "_indexd/probe/"

// ErrSites: the sites do not lead to the same bucket.
var ErrSites = errors.New("probe: the endpoints do not show the same bucket")

// Run finds out what the bucket at the sites honours. It works on keys below Root that nobody else has, and deletes them
// before it returns, even after an error or the end of ctx; what a killed run left is deleted by the next one after an
// hour. What could not be tried is a finding that is unsure. The error is of the run itself: a site that cannot be
// reached, an absent bucket, credentials that may neither list nor write, the end of ctx; the report then has what was found
// until then, and is not complete.
//
// It sends about 4,200 requests, 2,500 of them writes, for which a cloud asks about 1.5 cents at list price, and takes some
// seconds on the same machine and about a minute across the Internet. A store that paces writes of one key is not pressed:
// fewer writers race there.
func Run(ctx context.Context, sites []Site, opts *Options) (*Report, error) {
	if len(sites) == 0 {
		return nil, errors.New("probe: no site was given")
	}
	r := newRun(sites, opts)
	err := r.all(ctx, steps)
	if err == nil {
		r.keepVerdict(ctx)
	}
	return r.end(ctx, err)
}

// A run is one on its way.
type run struct {
	sites []Site
	opts  Options
	root  string // of its own keys
	began time.Time

	mu       sync.Mutex // guards all below
	findings map[ID]*Finding
	denied   map[ID]bool  // unsure, since something was refused to us
	full     bool         // the store had no room for something
	made     []bucket.Key // to be deleted
	paced    bool         // the store asked for slower writes
	turns    int          // of the sites
	left     []string

	wrote atomic.Bool // there is something to delete

	can      access
	unquoted bool // versions go back without quotes
	brief    bool // only what is decisive
}

func newRun(sites []Site, opts *Options) *run {
	o := opts.withDefaults()
	return &run{
		sites: sites, opts: o, root: Root + strings.ToLower(rand.Text()) + "/", began: o.Now(), findings: map[ID]*Finding{},
		denied: map[ID]bool{},
	}
}

// A step answers some questions. Its error is the reason for which those that it left open are unsure, or of the run.
type step struct {
	name string
	asks []ID
	needs
	run func(ctx context.Context, r *run) error
}

// needs are what a step cannot do without.
type needs struct {
	write bool // write, read and delete
	cas   bool // versions that can be used
	list  bool // listings that work
}

// steps are in the order in which they run: what others rely on comes first.
var steps = []step{
	{"credentials", []ID{PermissionReader, PermissionProducer, PermissionJanitor}, needs{}, accessStep},
	{"a wrong secret", []ID{WrongSecret}, needs{}, wrongSecret},
	{"an absent bucket", []ID{AbsentBucket}, needs{}, absentBucket},
	{"settings", []ID{Versioning, SoftDelete, Retention, Lifecycle}, needs{}, settings},
	{"plain writes", []ID{Put, EmptyPut, ReadAfterWrite}, needs{write: true}, plainWrites},
	{"what is absent", []ID{AbsentObject}, needs{}, absentObject},
	{"clocks", []ID{Date, Clock, StoreTime, LastModified}, needs{write: true, list: true}, clocks},
	{"versions", []ID{Versions, VersionKind}, needs{write: true}, versions},
	{"create-only", []ID{CreateOnly}, needs{write: true, cas: true}, createOnly},
	{"creating again", []ID{CreateAfter, CreateOverMarker}, needs{write: true, cas: true}, createAgain},
	{"the right version", []ID{IfMatch, IfMatchQuoted, IfMatchUnquoted}, needs{write: true, cas: true}, rightVersion},
	{"stale versions", []ID{IfMatchStale}, needs{write: true, cas: true}, stale},
	{"versions of nothing", []ID{IfMatchAbsent}, needs{write: true, cas: true}, matchAbsent},
	{"impossible versions", []ID{Impossible}, needs{write: true, cas: true}, impossible},
	{"racing creates", []ID{RacingCreates}, needs{write: true, cas: true}, racingCreates},
	{"racing increments", []ID{RacingIncrements, ContendedLatency}, needs{write: true, cas: true}, racingIncrements},
	{"torn reads", []ID{TornReads, AbsentReads}, needs{write: true, cas: true}, tornReads},
	{"an upload that is overtaken", []ID{OvertakenUpload}, needs{write: true, cas: true}, overtaken},
	{"keys", []ID{IDKeys}, needs{write: true, list: true}, idKeys},
	{"odd keys", []ID{ControlKeys, PathAliases}, needs{write: true, list: true}, oddKeys},
	{"listings", []ID{ListAfterWrite, ListPrefix, ByteOrder, StartAfter, PageCap, URLEncoding}, needs{write: true}, listings},
	{"deletes", []ID{Delete, BatchDelete}, needs{write: true}, deletes},
	{"other conditions", []ID{ReadCondition, MetadataCondition, DeleteCondition, BatchDeleteCondition},
		needs{write: true, cas: true}, otherConditions},
}

// all runs the steps.
func (r *run) all(ctx context.Context, steps []step) error {
	for i, s := range steps {
		r.opts.Progress(i, len(steps), s.name)
		var err error
		if why := r.lacks(s.needs); why != "" {
			err = errors.New(why)
		} else {
			err = s.run(ctx, r)
		}
		if over := ctx.Err(); over != nil {
			return over
		}
		if isOfRun(err) {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err != nil {
			for _, id := range s.asks {
				if r.applies(id) {
					r.untried(id, err)
				}
			}
		}
	}
	r.opts.Progress(len(steps), len(steps), "")
	return nil
}

// lacks says why a step cannot be tried, or nothing.
func (r *run) lacks(n needs) string {
	switch {
	case n.write && r.can.tried && r.why() != "":
		return r.why()
	case n.cas && r.is(Versions, No):
		return "without versions there is nothing to name in a condition"
	case n.list && r.can.listing != nil:
		return "listings do not work here: " + r.plain(r.can.listing)
	}
	return ""
}

// end cleans up and reports.
func (r *run) end(ctx context.Context, err error) (*Report, error) {
	r.clean(ctx)
	if r.left == nil {
		r.left = []string{}
	}
	rep := &Report{
		Format: ReportFormat, Sites: []string{}, Began: r.began.UTC(), Complete: err == nil, Findings: []Finding{}, Left: r.left,
		Seconds: r.opts.Now().Sub(r.began).Seconds(),
	}
	for _, s := range r.sites {
		rep.Sites = append(rep.Sites, s.Name)
	}
	for _, f := range r.findings {
		if f.Verdict != "" { // else the run ended before it was answered
			rep.Findings = append(rep.Findings, *f)
		}
	}
	rep.sum()
	return rep, err
}

// finding returns the one with that id, new if there is none.
func (r *run) finding(id ID) *Finding {
	if f := r.findings[id]; f != nil {
		return f
	}
	f := &Finding{ID: id, Question: questions[rank(id)].text}
	r.findings[id] = f
	return f
}

// yes answers a question, unless it was answered already.
func (r *run) yes(id ID, format string, args ...any) {
	r.answer(id, Yes, fmt.Sprintf(format, args...), nil)
}

// unsure says why a question cannot be answered, unless it was answered already.
func (r *run) unsure(id ID, format string, args ...any) {
	r.answer(id, Unsure, fmt.Sprintf(format, args...), nil)
}

// untried is unsure for an error.
func (r *run) untried(id ID, err error) {
	r.unsure(id, "%s", r.plain(err))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, bucket.ErrDenied):
		r.denied[id] = true
	case errors.Is(err, bucket.ErrFull):
		r.full = true
	}
}

// no answers a question; the first no stays, and goes before whatever else was seen.
func (r *run) no(id ID, format string, args ...any) {
	r.answer(id, No, fmt.Sprintf(format, args...), questions[rank(id)].disables)
}

// noAs is no with other consequences than usual.
func (r *run) noAs(disables []Feature, id ID, format string, args ...any) {
	r.answer(id, No, fmt.Sprintf(format, args...), disables)
}

func (r *run) answer(id ID, v Answer, seen string, disables []Feature) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.finding(id)
	if f.Verdict == No || f.Verdict != "" && v != No {
		return
	}
	f.Verdict, f.Seen, f.Disables = v, seen, disables
	if v == No {
		f.Mend = questions[rank(id)].mend
	}
}

// remark adds a remark to a question that was answered.
func (r *run) remark(id ID, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.finding(id); f.Remark == "" {
		f.Remark = fmt.Sprintf(format, args...)
	} else {
		f.Remark += "; " + fmt.Sprintf(format, args...)
	}
}

// is reports whether a question was answered so.
func (r *run) is(id ID, v Answer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.findings[id]
	return f != nil && f.Verdict == v
}

// site returns one after another.
func (r *run) site() *Site {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns++
	return &r.sites[(r.turns-1)%len(r.sites)]
}

// key returns one below the run's own, and has it deleted at the end.
func (r *run) key(name string) bucket.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := bucket.Key(r.root + name)
	r.made = append(r.made, k)
	return k
}

// fatal is an error of the run.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// isOfRun tells the errors of a run from those of a question: nobody answered, or somebody who is not to be trusted.
func isOfRun(err error) bool {
	var own fatal
	var op *net.OpError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	return errors.As(err, &own) || errors.As(err, &op) || errors.As(err, &dns) || errors.As(err, &certificate) ||
		errors.As(err, &authority) || errors.As(err, &record) || errors.Is(err, io.EOF)
}

// plain is an error in one line, without where the run's own keys are.
func (r *run) plain(err error) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), r.root, "")
}
