package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/cas"
)

// Format is that of the pointer.
const Format = "snapshot/1"

// Root is below which all snapshots are.
const Root = "_indexd/snapshot/"

// Of retired generations: for how long they are kept for who reads them.
const (
	DefaultGrace = time.Minute
	MaxGrace     = 24 * time.Hour
)

// Errors beside those of package cas. Match them with errors.Is.
var (
	// ErrRow: a row cannot be published, or rows are not in order.
	ErrRow = errors.New("snapshot: unusable row")
	// ErrWalk: the walk failed, and nothing was published.
	ErrWalk = errors.New("snapshot: the walk failed")
	// ErrStage: what was walked could not be put, and nothing was published.
	ErrStage = errors.New("snapshot: not staged")
	// ErrEmpty: there are no rows, and there were some.
	ErrEmpty = errors.New("snapshot: it would be empty")
	// ErrMissing: a part of the generation that is current is not in the store.
	ErrMissing = errors.New("snapshot: missing part")
	// ErrDamaged: a part of the generation that is current is not as it was published.
	ErrDamaged = errors.New("snapshot: damaged part")
	// ErrLost: there is no pointer, and generations that were made to follow on one.
	ErrLost = errors.New("snapshot: the pointer is missing")
	// ErrSwept: the generation is not there any more, because another one was published.
	ErrSwept = errors.New("snapshot: the generation was swept")
)

// A Store holds parts and the pointer: any driver that is a cas.Store.
type Store interface {
	bucket.Objects
	cas.Store
}

// A Class is what readers see of who published.
type Class string

// The classes.
const (
	Scheduler Class = "scheduler" // a server, which does so at intervals
	Operator  Class = "operator"  // a command, or a client
)

// Options configures a Snapshot; nil and zero fields mean the defaults.
type Options struct {
	// Class is who publishes; default Operator.
	Class Class
	// Usable, if set, is asked before the first publication, until it has returned nil, whether the store keeps its
	// conditions. It may be asked by several at once.
	Usable func(context.Context) error
	// Doc is handed on to the pointer; its Wait also pauses before a claim is sent again.
	Doc *cas.Options
	// Now is the host's clock, for stores that tell no time; default time.Now.
	Now func() time.Time
	// Nonce returns what no other generation has or had, of letters and digits; default 130 random bits.
	Nonce func() string
	// Spool is the directory for rows that wait to be staged, where they are more than a few MiB; default os.TempDir.
	Spool string
}

// A Snapshot is one snapshot. It makes no request until it is used, and is safe for concurrent use.
type Snapshot struct {
	namespace, name string
	store           Store
	doc             *cas.Doc[pointer]
	opts            Options
	limit           limits
	wait            func(context.Context, time.Duration) error
	verified        atomic.Bool // Usable has returned nil
}

// New returns the snapshot name of a namespace.
func New(store Store, namespace, name string, opts *Options) (*Snapshot, error) {
	s := &Snapshot{namespace: namespace, name: name, store: store, limit: defaultLimits(), wait: wait}
	if opts != nil {
		s.opts = *opts
	}
	for _, part := range []string{namespace, name} {
		if err := itemid.CheckName(part); err != nil {
			return nil, fmt.Errorf("snapshot %s/%s: %w", namespace, name, err)
		}
	}
	if s.opts.Class == "" {
		s.opts.Class = Operator
	}
	if s.opts.Class != Operator && s.opts.Class != Scheduler {
		return nil, fmt.Errorf("snapshot %s/%s: it is to be published by a %.40q", namespace, name, string(s.opts.Class))
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.opts.Nonce == nil {
		s.opts.Nonce = rand.Text
	}
	if s.opts.Doc != nil && s.opts.Doc.Wait != nil {
		s.wait = s.opts.Doc.Wait
	}
	s.doc = cas.NewDoc[pointer](store, bucket.Key(s.root()+"pointer"), Format, s.opts.Doc)
	return s, nil
}

func (s *Snapshot) root() string { return Root + s.namespace + "/" + s.name + "/" }

// generations is where they are, below the root of a snapshot. Their files are not in directories of their own: on a directory
// each generation would leave one behind.
const generations = "generations/"

func (s *Snapshot) key(id ID, file string) bucket.Key {
	return bucket.Key(s.root() + generations + id.String() + "_" + file)
}

// cutFile parts what is below generations in a key.
func cutFile(rest string) (id ID, file string, ok bool) {
	text, file, _ := strings.Cut(rest, "_")
	id, err := ParseID(text)
	return id, file, err == nil && file != "" && !strings.Contains(file, "/")
}

func (s *Snapshot) wrap(doing string, err error) error {
	return fmt.Errorf("%s snapshot %s/%s: %w", doing, s.namespace, s.name, err)
}

// usable asks once whether the store keeps its conditions.
func (s *Snapshot) usable(ctx context.Context) error {
	if s.opts.Usable == nil || s.verified.Load() {
		return nil
	}
	if err := s.opts.Usable(ctx); err != nil {
		return err
	}
	s.verified.Store(true)
	return nil
}

// A base is a state of the pointer, in an id.
type base struct {
	created string // nonce of the incarnation; empty for there being no pointer
	seq     uint64
}

func baseOf(s cas.State[pointer]) base { return base{s.Created.Nonce, s.Seq} }

func (b base) String() string {
	if b == (base{}) {
		return "0.0"
	}
	return b.created + "." + strconv.FormatUint(b.seq, 10)
}

// An ID is one attempt to publish a generation, and that generation if the attempt won.
type ID struct {
	Number uint64 // of the generation; a loser may have the same as a winner
	nonce  string
	base   base
}

// String is as in keys; ParseID reads it.
func (id ID) String() string { return fmt.Sprintf("%020d-%s-%v", id.Number, id.nonce, id.base) }

// ParseID reads an id.
func ParseID(text string) (ID, error) {
	var id ID
	number, rest, _ := strings.Cut(text, "-")
	nonce, on, _ := strings.Cut(rest, "-")
	created, seq, _ := strings.Cut(on, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	q, err2 := strconv.ParseUint(seq, 10, 64)
	if created == "0" && q == 0 {
		created = ""
	}
	id = ID{n, nonce, base{created, q}}
	// A number that far up is nobody's, and leaves room to count on.
	if err != nil || err2 != nil || n == 0 || n > math.MaxInt64 || !word(nonce) || (created == "") != (q == 0) ||
		created != "" && !word(created) || id.String() != text {
		return ID{}, fmt.Errorf("%.120q is no id of a generation", text)
	}
	return id, nil
}

func word(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// MarshalText is String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is ParseID.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}

// A pointer is the payload of the document.
type pointer struct {
	GraceMS int64     `json:"grace_ms"`
	Current Info      `json:"current"`
	Retired []retired `json:"retired"` // that may still be there, oldest first
}

// Info tells of a published generation.
type Info struct {
	ID          ID        `json:"id"`
	Rows        int64     `json:"rows"`
	Parts       int       `json:"parts"`
	Bytes       int64     `json:"bytes"` // of the parts, as they are stored
	IndexBytes  int64     `json:"index_bytes"`
	IndexDigest string    `json:"index_digest"`
	Digest      string    `json:"digest"` // of the rows: equal for equal listings
	Class       Class     `json:"class"`  // of who published it
	PublishedAt time.Time `json:"published_at"`
}

// A retired generation was current until since, by the store's clock; or, of the last one, until the pointer was saved.
type retired struct {
	ID    ID        `json:"id"`
	Since time.Time `json:"since"`
}

func (p *pointer) grace() time.Duration { return time.Duration(p.GraceMS) * time.Millisecond }

func (p *pointer) check() error {
	switch c := p.Current; {
	case p.GraceMS < 0 || p.GraceMS > MaxGrace.Milliseconds():
		return fmt.Errorf("%w: its grace is %d ms", cas.ErrCorrupt, p.GraceMS)
	case c.ID.Number == 0 || c.Rows < 0 || c.Parts < 0 || c.Parts > maxParts || c.Bytes < 0 || c.IndexBytes <= 0:
		return fmt.Errorf("%w: what it says of generation %d cannot be", cas.ErrCorrupt, c.ID.Number)
	case c.Class != Scheduler && c.Class != Operator:
		return fmt.Errorf("%w: it was published by a %.40q", cas.ErrCorrupt, string(c.Class))
	}
	return nil
}

// load returns the pointer, the zero state if there is none.
func (s *Snapshot) load(ctx context.Context) (cas.State[pointer], error) {
	state, err := s.doc.Load(ctx)
	if errors.Is(err, cas.ErrNotExist) {
		return cas.State[pointer]{}, nil
	}
	if err == nil {
		if err = state.Value.check(); err != nil {
			err = fmt.Errorf("reading %q: %w", s.doc.Key(), err)
		}
	}
	return state, err
}

// tag names a state of the pointer to clients; empty for there being none.
func tag(s cas.State[pointer]) string {
	if s.Seq == 0 {
		return ""
	}
	return baseOf(s).String()
}
