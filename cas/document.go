package cas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Options configures a Doc; nil and zero fields mean the defaults.
type Options struct {
	// Now is the host's clock, of which only Birth.At is made; default time.Now.
	Now func() time.Time
	// Nonce returns what no other save has; default 130 random bits. An explorer of schedules numbers them.
	Nonce func() string
	// Wait pauses before a repetition; default a timer. It returns the context's error if that ends first.
	Wait func(ctx context.Context, d time.Duration) error
}

// A Doc is one document with a payload of type T. It holds no state of it but the newest that it has seen, below which it
// does not go back. It is safe for concurrent use.
type Doc[T any] struct {
	store  Store
	key    bucket.Key
	format string
	opts   Options

	mu   sync.Mutex // guards seen
	seen map[string]uint64
}

// A State is a document as it was at one moment.
type State[T any] struct {
	Value   T
	Version Version // what IfMatch takes; empty of an update that was won and has been built on since
	Seq     uint64  // saves of this incarnation, this one included
	Created Birth

	// ModTime and StoreTime are those of Object, zero after an update: a save answers neither.
	ModTime, StoreTime time.Time

	saved *envelope // nil of the zero State, which stands for an absent document
}

// NewDoc returns the document at key. format names the payload and its version, such as "lease/1": a document of another
// one is never read and never written over. It makes no request.
func NewDoc[T any](store Store, key bucket.Key, format string, opts *Options) *Doc[T] {
	d := &Doc[T]{store: store, key: key, format: format, seen: map[string]uint64{}}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Now == nil {
		d.opts.Now = time.Now
	}
	if d.opts.Nonce == nil {
		d.opts.Nonce = newNonce
	}
	if d.opts.Wait == nil {
		d.opts.Wait = wait
	}
	return d
}

// Key is where the document is.
func (d *Doc[T]) Key() bucket.Key { return d.key }

// Load returns the document as it is now. ErrNotExist if there is none; ErrCorrupt, ErrFormat if what is there is no such
// document; ErrBackwards if the store keeps serving an older one than it did.
func (d *Doc[T]) Load(ctx context.Context) (State[T], error) {
	l, err := d.load(ctx)
	if err != nil {
		return State[T]{}, err
	}
	return l.state()
}

// A loaded is a document with what it was read from.
type loaded[T any] struct {
	*envelope
	object Object
	key    bucket.Key
}

func (l *loaded[T]) state() (State[T], error) {
	s := State[T]{
		Version: l.object.Version, Seq: l.Seq, Created: l.Created, ModTime: l.object.ModTime, StoreTime: l.object.StoreTime,
		saved: l.envelope,
	}
	if err := value(l.Payload, &s.Value); err != nil {
		return State[T]{}, fmt.Errorf("reading document %q: its payload: %w: %w", l.key, ErrCorrupt, err)
	}
	return s, nil
}

// value decodes a payload. null is one only of what is stored so: it would else be read as something empty.
func value[T any](text []byte, into *T) error {
	if string(text) == "null" {
		if empty, err := payload(*into); err != nil || string(empty) != "null" {
			return errors.New("it is null")
		}
	}
	return strict(text, into)
}

// staleReads is how often a document that is older than one seen before is asked for again.
const staleReads = 5

func (d *Doc[T]) load(ctx context.Context) (*loaded[T], error) {
	for n := 1; ; n++ {
		l, err := d.loadOnce(ctx)
		if !errors.Is(err, ErrBackwards) || n == staleReads {
			return l, err
		}
		if over := d.opts.Wait(ctx, contended(n)); over != nil {
			return nil, fmt.Errorf("%w: %w", over, err)
		}
	}
}

func (d *Doc[T]) loadOnce(ctx context.Context) (*loaded[T], error) {
	o, err := d.store.Load(ctx, d.key)
	if err != nil {
		return nil, fmt.Errorf("reading document %q: %w", d.key, err)
	}
	if o.Version == "" {
		return nil, fmt.Errorf("reading document %q: %w", d.key, ErrNoVersion)
	}
	if len(o.Body) >= MaxSize {
		return nil, fmt.Errorf("reading document %q: %w: %d bytes", d.key, ErrTooLarge, len(o.Body))
	}
	e, err := decode(o.Body, d.format)
	if err != nil {
		return nil, fmt.Errorf("reading document %q: %w", d.key, err)
	}
	if newest := d.sight(e); e.Seq < newest {
		return nil, fmt.Errorf("reading document %q: %w: seq %d after %d", d.key, ErrBackwards, e.Seq, newest)
	}
	return &loaded[T]{envelope: e, object: o, key: d.key}, nil
}

// Reset gives the document, as it is in the store now, another incarnation with the same payload. It is for after a restore
// from a backup: whoever has seen later states refuses what was restored (ErrBackwards) until then. 1 GET, 1 PUT, nothing is
// repeated: after ErrUnknown, ErrConflict or ErrThrottled it may be called again. Errors else: those of Load.
func (d *Doc[T]) Reset(ctx context.Context) error {
	if err := d.reset(ctx); err != nil {
		return fmt.Errorf("resetting document %q: %w", d.key, err)
	}
	return nil
}

func (d *Doc[T]) reset(ctx context.Context) error {
	o, err := d.store.Load(ctx, d.key)
	if err != nil {
		return err
	}
	e, err := decode(o.Body, d.format)
	if err != nil {
		return err
	}
	body, err := next(nil, d.format, d.opts.Nonce(), d.opts.Now(), e.Payload).encode()
	if err != nil {
		return err
	}
	_, err = d.store.Save(ctx, d.key, body, IfMatch(o.Version))
	return err
}

// sight takes note of a state of the document and returns the newest seq that was seen of its incarnation.
func (d *Doc[T]) sight(e *envelope) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	newest := max(d.seen[e.Created.Nonce], e.Seq)
	if _, known := d.seen[e.Created.Nonce]; !known {
		clear(d.seen) // another incarnation has replaced the one before
	}
	d.seen[e.Created.Nonce] = newest
	return newest
}

// payload encodes a value, and holds it to what can be read again.
func payload[T any](v T) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding its payload: %w", err)
	}
	return text, nil
}
