package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/blobindex/indexd/cas"
)

// A Walk calls add with each row, in strictly ascending byte order of the paths, and returns its error. It is called once
// for each try to publish, and must not begin to look before it is called.
type Walk func(add func(Row) error) error

// PublishOptions says how to publish; nil and zero fields mean the defaults.
type PublishOptions struct {
	// AllowEmpty publishes no rows where there were some.
	AllowEmpty bool
	// Grace is for how long retired generations are kept from now on, in whole milliseconds, rounded up; default what is
	// saved, else DefaultGrace. NoGrace keeps them for no time. Another one than is saved publishes even what is unchanged.
	Grace time.Duration
	// Tag is the state of the snapshot (Status.Tag) that was seen before the walk began, where somebody else has walked;
	// NoTag for there having been none. If it is another one by now, the try is superseded.
	Tag string
	// Progress, if set, is called after each part with those that are staged and their total.
	Progress func(staged, total int)
}

// NoGrace and NoTag stand for what an empty field cannot.
const (
	NoGrace time.Duration = -1
	NoTag                 = "none"
)

// An Outcome is what became of a publication.
type Outcome string

// The outcomes.
const (
	Published  Outcome = "published"
	Unchanged  Outcome = "unchanged"  // the listing is the one that is published
	Superseded Outcome = "superseded" // somebody else published since the walk began; nothing else was done
)

// A Result tells what became of a publication.
type Result struct {
	Outcome Outcome
	ID      ID     // of this attempt; zero if it has come to none
	Pointer Info   // what is current, as far as this attempt has seen
	Tag     string // the same; see Status
	// Swept is what was removed afterwards, and SweepErr why not all of it. Whatever comes of that, the outcome stands.
	Swept    Swept
	SweepErr error
}

// Publish walks, and makes the rows the current generation. 1 GET before the walk. Unchanged: 1 GET and 1 LIST more.
// Published: 2 LIST, 1 GET, 3 PUT and 1 for each part more, and the deletes. Errors: ErrWalk, with what the walk or a row
// was refused for (ErrRow, an error of ctx or of the spool's directory); ErrEmpty; ErrLost; ErrStage; ErrMissing, ErrDamaged
// if a part is gone right after it was published; cas.ErrUnknown if the generation may have become current, or may yet;
// those of cas.Doc. After an error nothing is swept, and, but for the last four, nothing has become current.
func (s *Snapshot) Publish(ctx context.Context, walk Walk, opts *PublishOptions) (Result, error) {
	if opts == nil {
		opts = &PublishOptions{}
	}
	p := &publication{s: s, opts: opts, spool: newSpool(s.opts.Spool, s.limit)}
	defer p.spool.close()
	if err := p.run(ctx, walk); err != nil {
		return p.result, s.wrap("publishing", err)
	}
	return p.result, nil
}

// A publication is one Publish on its way.
type publication struct {
	s      *Snapshot
	opts   *PublishOptions
	spool  *spool
	base   cas.State[pointer]
	staged staged // before it was made
	id     ID
	index  []byte
	result Result
}

func (p *publication) run(ctx context.Context, walk Walk) (err error) {
	if p.opts.Grace < NoGrace || p.opts.Grace > MaxGrace {
		return fmt.Errorf("the grace is %v: give one of 0 to %v", p.opts.Grace, MaxGrace)
	}
	if err := p.s.usable(ctx); err != nil {
		return err
	}
	if p.base, err = p.s.load(ctx); err != nil {
		return err
	}
	p.see(p.base)
	if want := p.opts.Tag; want != "" && want != p.result.Tag && (want != NoTag || p.result.Tag != "") {
		p.result.Outcome = Superseded
		return nil
	}
	if err := p.walk(ctx, walk); err != nil {
		return err
	}
	if p.staged, err = p.s.list(ctx); err != nil {
		return err
	}
	if p.base.Seq == 0 && p.staged.follows() {
		return fmt.Errorf("%w, and generations are there that were to follow on one: restore %q, or delete what is below %q",
			ErrLost, p.s.doc.Key(), p.s.root())
	}
	if p.base.Seq > 0 && p.base.Value.Current.Digest == p.spool.digest() && p.staged.whole(p.base.Value.Current) == nil &&
		p.base.Value.GraceMS == p.graceMS() {
		return p.unchanged(ctx)
	}
	if err := p.stage(ctx); err != nil {
		return err
	}
	return p.flip(ctx)
}

// graceMS is that of the pointer that would be saved.
func (p *publication) graceMS() int64 {
	switch grace := p.opts.Grace; {
	case grace != 0:
		return (max(grace, 0) + time.Millisecond - 1).Milliseconds()
	case p.base.Seq > 0:
		return p.base.Value.GraceMS
	}
	return DefaultGrace.Milliseconds()
}

// unchanged sweeps, unless somebody else has published meanwhile.
func (p *publication) unchanged(ctx context.Context) error {
	now, err := p.s.load(ctx)
	if err != nil {
		return err
	}
	if baseOf(now) != baseOf(p.base) {
		p.result.Outcome = Superseded
		p.see(now)
		return nil
	}
	p.result.Outcome = Unchanged
	p.result.Swept, p.result.SweepErr = p.s.remove(ctx, p.staged, now)
	return nil
}

func (p *publication) see(state cas.State[pointer]) {
	p.result.Pointer, p.result.Tag = state.Value.Current, tag(state)
}

func (p *publication) walk(ctx context.Context, walk Walk) error {
	var refused error // the first, after which nothing is taken any more
	err := walk(func(r Row) error {
		if refused == nil {
			refused = ctx.Err()
		}
		if refused == nil {
			refused = p.spool.add(r)
		}
		return refused
	})
	if err == nil && refused != nil {
		err = fmt.Errorf("it ended well, though a row was refused: %w", refused)
	}
	if err == nil {
		err = p.spool.cut()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWalk, err)
	}
	if p.spool.rows == 0 && p.base.Value.Current.Rows > 0 && !p.opts.AllowEmpty {
		return fmt.Errorf("%w: there are no files, and there were %d; if that is so, and nothing is merely not mounted, allow it",
			ErrEmpty, p.base.Value.Current.Rows)
	}
	return nil
}

// stage puts what nobody reads yet. A crash leaves it, for a sweep after the next publication.
func (p *publication) stage(ctx context.Context) error {
	p.id = ID{max(p.base.Value.Current.ID.Number, p.staged.newest()) + 1, p.s.opts.Nonce(), baseOf(p.base)}
	// What cannot be read again would be out of the reach of sweeps, and the pointer out of that of readers.
	if _, err := ParseID(p.id.String()); err != nil {
		return fmt.Errorf("%w: %w", ErrStage, err)
	}
	if err := p.claim(ctx); err != nil {
		return err
	}
	p.result.ID = p.id
	if err := p.stageParts(ctx); err != nil {
		return err
	}
	var err error
	p.index, err = json.Marshal(index{IndexFormat, p.id, p.spool.rows, p.spool.digest(), p.spool.parts})
	if err != nil {
		return err
	}
	return p.put(ctx, "index", bytes.NewReader(p.index))
}

// claims is how often a claim is sent.
const claims = 4

// claim says that the generation is being made. Its id is nobody else's, so that what is there after an answer that was lost
// is ours, and so that it may be sent again: a walk of minutes is not thrown away for one answer.
func (p *publication) claim(ctx context.Context) error {
	body, err := json.Marshal(claim{p.s.opts.Class})
	if err != nil {
		return err
	}
	for sends := 1; ; sends++ {
		err := p.sendClaim(ctx, body)
		if err == nil {
			return nil
		}
		if sends < claims && (errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrThrottled)) {
			if over := p.s.wait(ctx, pause<<(sends-1)); over == nil {
				continue
			}
		}
		return notStaged(ctx, fmt.Sprintf("claiming generation %d", p.id.Number), err)
	}
}

func (p *publication) sendClaim(ctx context.Context, body []byte) error {
	key := p.s.key(p.id, "claim")
	_, err := p.s.store.Save(ctx, key, body, cas.IfAbsent())
	if errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) {
		if o, loadErr := p.s.store.Load(ctx, key); loadErr == nil && bytes.Equal(o.Body, body) {
			return nil
		}
	}
	return err
}

// pause is waited before a claim is sent again, twice that before the third time, and so on: a store that asks for slower
// writes means a second.
const pause = 500 * time.Millisecond

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// notStaged is ErrStage, and never ErrUnknown: whether such an object is there matters to sweeps alone, since no pointer
// names its generation.
func notStaged(ctx context.Context, doing string, err error) error {
	if errors.Is(err, cas.ErrUnknown) {
		plain := errors.New(err.Error())
		if err = plain; ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), plain)
		}
	}
	return fmt.Errorf("%w: %s: %w", ErrStage, doing, err)
}

// A claim is the body of one.
type claim struct {
	Class Class `json:"class"`
}

func (p *publication) stageParts(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var mu sync.Mutex // guards done, and who is told of it
	done := 0
	turns := make(chan struct{}, p.s.limit.uploads)
	_ = p.spool.each(func(n int, _ part, body *io.SectionReader) error {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		all.Go(func() {
			defer func() { <-turns }()
			if err := p.put(ctx, partName(n), body); err != nil {
				cancel(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if done++; p.opts.Progress != nil {
				p.opts.Progress(done, len(p.spool.parts))
			}
		})
		return nil
	})
	all.Wait()
	return context.Cause(ctx)
}

func (p *publication) put(ctx context.Context, file string, body io.ReadSeeker) error {
	if _, err := p.s.store.Put(ctx, p.s.key(p.id, file), body); err != nil {
		return notStaged(ctx, fmt.Sprintf("putting %s of generation %d", file, p.id.Number), err)
	}
	return nil
}

func partName(n int) string { return fmt.Sprintf("%06d", n) }

// flip makes what was staged the current generation, unless somebody else has done so with theirs.
func (p *publication) flip(ctx context.Context) error {
	saved, err := p.s.doc.Replace(ctx, p.base, p.next())
	switch {
	case errors.Is(err, cas.ErrConflict):
		p.result.Outcome = Superseded
		if now, err := p.s.load(ctx); err == nil && now.Seq > 0 {
			p.see(now) // only to tell it: that this attempt has lost is certain
		}
		return nil
	case err != nil:
		return err
	}
	p.result.Outcome = Published
	p.see(saved)
	return p.settle(ctx)
}

// next is the pointer with what was staged.
func (p *publication) next() pointer {
	now := p.staged.now(p.s.opts.Now())
	next := pointer{GraceMS: p.graceMS(), Retired: []retired{}, Current: Info{
		ID: p.id, Rows: p.spool.rows, Parts: len(p.spool.parts), Bytes: p.spool.size, IndexBytes: int64(len(p.index)),
		IndexDigest: digest(p.index), Digest: p.spool.digest(), Class: p.s.opts.Class, PublishedAt: now.UTC(),
	}}
	was := p.base.Value
	if p.base.Seq == 0 {
		return next
	}
	grace := max(was.grace(), next.grace())
	for _, r := range was.since(p.base) {
		// Else it was swept, or may be: one that nobody can delete is not dragged along for ever.
		if p.staged.has(r.ID) && now.Sub(r.Since) <= grace {
			next.Retired = append(next.Retired, r)
		}
	}
	next.Retired = append(next.Retired, retired{was.Current.ID, now.UTC()})
	return next
}

// settle verifies what was published, and sweeps.
func (p *publication) settle(ctx context.Context) error {
	found, err := p.s.list(ctx)
	if err != nil {
		p.result.SweepErr = err
		return nil
	}
	now, err := p.s.load(ctx)
	if err != nil {
		p.result.SweepErr = err
		return nil
	}
	// Once somebody else has published, it may be swept.
	if bad := found.whole(p.result.Pointer); bad != nil && now.Value.Current.ID == p.id {
		return fmt.Errorf("generation %d was published, and: %w", p.id.Number, bad)
	}
	p.result.Swept, p.result.SweepErr = p.s.remove(ctx, found, now)
	return nil
}
