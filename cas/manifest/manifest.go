package manifest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/cas"
)

// Format is that of the document.
const Format = "manifest/1"

// Root is below which all manifests are.
const Root = "_indexd/manifest/"

// Of orphans: how old they have to be, by the store's time, before GC takes them.
const (
	DefaultGrace = 24 * time.Hour
	MinGrace     = time.Hour
)

// Errors beside those of package cas. Match them with errors.Is.
var (
	// ErrID: an entry of that id is there already, or the id is not usable.
	ErrID = errors.New("manifest: unusable id")
	// ErrNoEntry: there is no entry of that id.
	ErrNoEntry = errors.New("manifest: no such entry")
	// ErrState: the manifest is not in the state that the caller named.
	ErrState = errors.New("manifest: it has changed")
	// ErrUpload: a blob could not be uploaded.
	ErrUpload = errors.New("manifest: not uploaded")
	// ErrMissing: a blob that an entry references is not in the store.
	ErrMissing = errors.New("manifest: missing blob")
	// ErrGrace: a grace is shorter than MinGrace.
	ErrGrace = errors.New("manifest: unusable grace")
)

// A Store holds blobs and the document: any driver that is a cas.Store.
type Store interface {
	bucket.Objects
	cas.Store
}

// Options configures a Manifest; nil and zero fields mean the defaults.
type Options struct {
	// Grace is stored in a manifest that is created; default DefaultGrace.
	Grace time.Duration
	// Usable, if set, is asked before the first save, until it has returned nil, whether the store keeps its conditions. It
	// may be asked by several at once.
	Usable func(context.Context) error
	// Doc is handed on to the document.
	Doc *cas.Options
	// NewKey returns the key of a blob, 1 to 64 letters and digits that no other blob has or had; default 130 random bits.
	NewKey func() string
}

// A Manifest is one list. It makes no request until it is used, and is safe for concurrent use.
type Manifest struct {
	namespace, name string
	store           Store
	doc             *cas.Doc[list]
	opts            Options
	verified        atomic.Bool // Usable has returned nil
}

// New returns the manifest name of a namespace.
func New(store Store, namespace, name string, opts *Options) (*Manifest, error) {
	m := &Manifest{namespace: namespace, name: name, store: store}
	if opts != nil {
		m.opts = *opts
	}
	for _, s := range []string{namespace, name} {
		if err := itemid.CheckName(s); err != nil {
			return nil, fmt.Errorf("manifest %s/%s: %w", namespace, name, err)
		}
	}
	if m.opts.Grace == 0 {
		m.opts.Grace = DefaultGrace
	}
	if err := checkGrace(m.opts.Grace); err != nil {
		return nil, fmt.Errorf("manifest %s/%s: %w", namespace, name, err)
	}
	if m.opts.NewKey == nil {
		m.opts.NewKey = newKey
	}
	m.doc = cas.NewDoc[list](store, bucket.Key(m.root()+"list"), Format, m.opts.Doc)
	return m, nil
}

func checkGrace(d time.Duration) error {
	if d < MinGrace || d > 10*365*24*time.Hour {
		return fmt.Errorf("%w: %v; it is %v to ten years", ErrGrace, d, MinGrace)
	}
	return nil
}

func (m *Manifest) root() string { return Root + m.namespace + "/" + m.name + "/" }

func (m *Manifest) blob(key string) bucket.Key { return bucket.Key(m.root() + blobs + key) }

// blobs is where the blobs are, below the root of a manifest.
const blobs = "blobs/"

// A list is the payload of the document.
type list struct {
	GraceMS int64    `json:"grace_ms"`
	Entries []Entry  `json:"entries"`
	Reaping []string `json:"reaping"`
}

func (l *list) grace() time.Duration { return time.Duration(l.GraceMS) * time.Millisecond }

// An Entry is one line of the list.
type Entry struct {
	ID        string            `json:"id"`
	DedupeKey string            `json:"dedupe_key"` // empty: it displaces nothing
	Blobs     []Blob            `json:"blobs"`
	Size      int64             `json:"size"`   // bytes of all blobs
	Digest    string            `json:"digest"` // of the digests of the blobs
	AddedAt   time.Time         `json:"added_at"`
	Meta      map[string]string `json:"meta"`
}

// A Blob is one body of an entry.
type Blob struct {
	Key    string `json:"key"`    // below blobs/
	Name   string `json:"name"`   // for people, such as the name of the file
	Size   int64  `json:"size"`   // bytes
	Digest string `json:"digest"` // "sha256:" and 64 hexadecimal digits
}

// sum fills in what follows from the blobs.
func (e *Entry) sum() {
	h := sha256.New()
	e.Size = 0
	for _, b := range e.Blobs {
		e.Size += b.Size
		io.WriteString(h, b.Digest+"\n")
	}
	e.Digest = digest(h.Sum(nil))
}

func digest(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

// A State is a manifest as it was at one moment.
type State struct {
	Entries []Entry
	Reaping []string // blobs that are being deleted
	Grace   time.Duration
	// Tag names the state; no two states of a manifest, over all its incarnations, have the same.
	Tag string
}

// Load returns the manifest as it is now: 1 GET. ErrNotExist if there is none; errors else as of cas.Doc.Load.
func (m *Manifest) Load(ctx context.Context) (State, error) {
	s, err := m.doc.Load(ctx)
	if err != nil {
		return State{}, m.wrap("reading", err)
	}
	if err := s.Value.check(); err != nil {
		return State{}, m.wrap("reading", err)
	}
	return stateOf(s), nil
}

func stateOf(s cas.State[list]) State {
	return State{Entries: s.Value.Entries, Reaping: s.Value.Reaping, Grace: s.Value.grace(), Tag: tag(s)}
}

func tag(s cas.State[list]) string {
	if s.Seq == 0 {
		return ""
	}
	return s.Created.Nonce + "-" + strconv.FormatUint(s.Seq, 10)
}

func (m *Manifest) wrap(doing string, err error) error {
	return fmt.Errorf("%s manifest %s/%s: %w", doing, m.namespace, m.name, err)
}

// check refuses a payload that this package would not have written: what is derived from it deletes.
func (l *list) check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", cas.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	if err := checkGrace(l.grace()); err != nil {
		return wrong("its grace is %d ms", l.GraceMS)
	}
	if l.Entries == nil || l.Reaping == nil {
		return wrong("a member is missing")
	}
	ids, keys := map[string]bool{}, map[string]bool{}
	for _, e := range l.Entries {
		switch {
		case CheckID(e.ID) != nil || ids[e.ID]:
			return wrong("the id %.80q is unusable, or there twice", e.ID)
		case len(e.Blobs) == 0:
			return wrong("entry %.80q has no blob", e.ID)
		}
		ids[e.ID] = true
		for _, b := range e.Blobs {
			if CheckKey(b.Key) != nil || keys[b.Key] {
				return wrong("the blob %.80q of entry %.80q is unusable, or there twice", b.Key, e.ID)
			}
			keys[b.Key] = true
		}
	}
	for _, k := range l.Reaping {
		if CheckKey(k) != nil || keys[k] {
			return wrong("the blob %.80q is unusable, or referenced and journaled", k)
		}
		keys[k] = true
	}
	return nil
}

// index returns where the entry of an id is, or -1.
func (l *list) index(id string) int {
	return slices.IndexFunc(l.Entries, func(e Entry) bool { return e.ID == id })
}
