package blobindex

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/prune"
)

// Sharing is how an Index gets at the rules that all who work on it share.
type Sharing struct {
	// Store holds the document; as a rule the same bucket that holds the items.
	Store cas.Store
	// Save lets reading save the index's own rules where none are saved, and tidy up after a change. Whoever deletes by
	// itself should set it; a mere reader needs no right to write.
	Save bool
	// Usable, if set, is asked before the first save, until it has returned nil, whether the store keeps its conditions;
	// the call that is about to save waits for it. One that does not keep them is an error that matches
	// cas.ErrUnsupported; any other one says that it could not be found out.
	Usable func(context.Context) error
	// Told, if set, is called when the rules have been read for the first time, and whenever they have changed, by the call
	// that has read them.
	Told func(Ruling)
}

// A rulebook is what an Index knows of its rules.
type rulebook struct {
	x       *Index
	doc     *cas.Doc[rulesDocument] // nil: the index shares no rules
	sharing Sharing

	mu       sync.Mutex // guards what follows
	last     *reading   // nil: nothing was read yet
	going    *consulting
	told     string // what was told last
	never    string // why saving is not tried any more
	verified bool   // Usable has returned nil
}

// A consulting is one caller's reading, for which others wait. Its fields but done are set before done is closed.
type consulting struct {
	done  chan struct{}
	ended bool // else it was given up with its caller's context
	r     *reading
	err   error
}

// errNone: the index was opened without Options.Shared.
var errNone = fmt.Errorf("the index was opened without a store for them: %w", cas.ErrUnsupported)

func newRulebook(x *Index, sharing *Sharing) (*rulebook, error) {
	b := &rulebook{x: x}
	if sharing == nil {
		b.last = &reading{schedule: schedule{current: x.rules}, why: "none are shared", final: true}
		return b, nil
	}
	if x.rules.ListingLimit > RulesLife {
		return nil, fmt.Errorf("%w: listing_limit is %v; where rules are shared it is at most %v", ErrRequest, x.rules.ListingLimit,
			RulesLife)
	}
	if err := wholeMilliseconds(x.rules); err != nil {
		return nil, err
	}
	b.sharing = *sharing
	b.doc = cas.NewDoc[rulesDocument](sharing.Store, RulesKey(x.prefix), RulesFormat, &cas.Options{Now: x.now})
	return b, nil
}

// consult returns what is known of the rules, no older than RulesLife, or read now if that is asked for; requests is how
// many it made itself. Callers share one request and its failure.
func (b *rulebook) consult(ctx context.Context, fresh bool) (r *reading, requests int, err error) {
	for {
		r, c, mine := b.enter(fresh)
		if c == nil {
			return r, 0, nil
		}
		if mine {
			r, err = b.look(ctx, c)
			return r, 1, err
		}
		select {
		case <-c.done:
			if c.ended {
				return c.r, 0, c.err
			}
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// enter returns what is known, else the reading that goes on, or a new one that the caller has to make.
func (b *rulebook) enter(fresh bool) (r *reading, c *consulting, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.last; r != nil && (r.final || !fresh && elapsed(r.began, b.x.now()) <= RulesLife) {
		return r, nil, false
	}
	if b.going != nil {
		return nil, b.going, false
	}
	b.going = &consulting{done: make(chan struct{})}
	return nil, b.going, true
}

func (b *rulebook) look(ctx context.Context, c *consulting) (*reading, error) {
	defer func() { // after a panic as well: others wait
		b.mu.Lock()
		defer b.mu.Unlock()
		if c.ended && c.err == nil {
			b.last = c.r
		}
		b.going = nil
		close(c.done)
	}()
	r, err := b.read(ctx)
	c.r, c.err, c.ended = r, err, err == nil || ctx.Err() == nil
	if err == nil {
		b.tell(r)
	}
	return r, err
}

// read asks the store, and saves what may be saved.
func (b *rulebook) read(ctx context.Context) (*reading, error) {
	r := &reading{schedule: schedule{current: b.x.rules}, began: b.x.now()}
	s, err := b.load(ctx)
	var failed *saveError
	switch {
	case err == nil:
		return r, b.fill(r, s)
	case errors.As(err, &failed):
		if r.why = b.refused(failed); r.why == "" {
			r.why, r.unsaved = "they could not be saved", failed.err
		}
	case errors.Is(err, cas.ErrUnsupported):
		r.why, r.final = unsupported(err), true
	case errors.Is(err, cas.ErrNotExist):
		r.why = fmt.Sprintf("none are saved at %q", b.doc.Key())
		if never := b.givenUp(); never != "" {
			r.why = never
		}
	default:
		return nil, b.wrap(err)
	}
	return r, nil
}

func (b *rulebook) wrap(err error) error {
	return &RulesError{Index: b.x.name, Key: b.doc.Key(), Err: err}
}

// fill reads a document into r.
func (b *rulebook) fill(r *reading, s cas.State[rulesDocument]) (err error) {
	if r.schedule, err = scheduleOf(s.Value, s.ModTime, b.x.rules.ListingLimit); err != nil {
		return b.wrap(fmt.Errorf("reading document %q: %w", b.doc.Key(), err))
	}
	r.saved, r.store, r.state = true, s.StoreTime, s.Created.Nonce+"/"+strconv.FormatUint(s.Seq, 10)
	return nil
}

// now is the instant by which r is read: the store's clock, run on since, or else the host's.
func (b *rulebook) now(r *reading) (time.Time, Clock) {
	host := b.x.now()
	if !r.store.IsZero() {
		return r.store.Add(elapsed(r.began, host)), StoreClock
	}
	if t, _ := b.x.clock.now(host); !t.IsZero() {
		return t, StoreClock
	}
	return host, HostClock
}

// checkAge refuses rules that are so old, at a listing's first page, that others may count by now: the process was stopped
// since it looked at their age, or the page was very slow to come.
func (b *rulebook) checkAge(r *reading) error {
	if age := elapsed(r.began, b.x.now()); b.doc != nil && !r.final && age > 2*RulesLife {
		return fmt.Errorf("%w: it began to answer %v after the rules were read", ErrIncomplete, age.Round(time.Millisecond))
	}
	return nil
}

// ruling tells what r means now.
func (b *rulebook) ruling(r *reading) Ruling {
	at, clock := b.now(r)
	return r.ruling(b.x, at, clock)
}

// known returns what was read last, however long ago; if nothing was, what the index was opened with.
func (b *rulebook) known() *reading {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		return &reading{schedule: schedule{current: b.x.rules}, why: "they have not been read yet"}
	}
	return b.last
}

// rules are those by which to go without asking.
func (b *rulebook) rules() prune.Rules {
	r := b.known()
	if r.next == nil {
		return r.current
	}
	at, _ := b.now(r)
	return r.at(at)
}

func (b *rulebook) tell(r *reading) {
	if b.sharing.Told == nil {
		return
	}
	say := r.state + " " + r.why
	b.mu.Lock()
	again := b.told == say
	b.told = say
	b.mu.Unlock()
	if !again {
		b.sharing.Told(b.ruling(r))
	}
}

// mayDelete returns an error that matches ErrWithheld where a plan must not be carried out now, whenever it was made.
func (b *rulebook) mayDelete(ctx context.Context, plan []Deletion) error {
	r, _, err := b.consult(ctx, false)
	if err != nil {
		return err
	}
	if why := b.ruling(r).Withheld(); why != "" {
		return fmt.Errorf("%w: %s", ErrWithheld, why)
	}
	for _, d := range plan {
		if d.by != nil && d.by.state != r.state {
			return fmt.Errorf("%w: the rules have changed since this was planned", ErrWithheld)
		}
	}
	return nil
}

// Ruling is by which rules the index is read, as far as that is known without asking the store.
func (x *Index) Ruling() Ruling { return x.book.ruling(x.book.known()) }

// ReadRules reads the shared rules now: 1 GET, and with Sharing.Save 1 PUT where there are none, or where a change can be
// tidied up; 1 GET more where that fails. An index that shares none goes by its own. Errors: RulesError; where the rules are
// not there and could not be saved, for a reason that may pass, that error.
func (x *Index) ReadRules(ctx context.Context) (Ruling, error) {
	r, _, err := x.book.consult(ctx, true)
	if err != nil {
		return Ruling{}, err
	}
	ruling := x.book.ruling(r)
	if r.unsaved != nil {
		return ruling, fmt.Errorf("saving the rules of index %q: %w", x.name, r.unsaved)
	}
	return ruling, nil
}
