package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// VerdictKey is where the last verdict is remembered.
const VerdictKey bucket.Key = Root + "verdict"

const (
	verdictFormat = "indexd-probe/1"
	probeVersion  = 1 // of the judgements: another one makes verdicts void
	rememberFor   = 24 * time.Hour
	copiedAfter   = 5 * time.Minute // a verdict that was stored so much later than it was made came with a copied bucket
)

// ErrNotUsable: the bucket does not honour conditional writes, or that could not be found out.
var ErrNotUsable = errors.New("probe: conditional writes are not usable on this bucket")

// A Verdict is whether documents can be trusted to a bucket. It is stored as one JSON object at VerdictKey.
type Verdict struct {
	Format   string    `json:"format"` // "indexd-probe/1"
	Version  int       `json:"version"`
	At       time.Time `json:"at"` // by the store's clock; by the host's if it tells none
	Usable   bool      `json:"usable"`
	Unquoted bool      `json:"unquoted"` // versions go back without their quotes
	Broken   []Finding `json:"broken"`   // the findings that are no
}

// Err is nil for a usable bucket, else what Usable returns of the verdict.
func (v Verdict) Err() error {
	if v.Usable {
		return nil
	}
	var seen []string
	for _, f := range v.Broken {
		if slices.Contains(f.Disables, CAS) {
			seen = append(seen, fmt.Sprintf("%s: %s No: %s", f.ID, f.Question, f.Seen))
		}
	}
	return fmt.Errorf("%w: %w: %s; \"indexd doctor\" tells more, and judges anew", ErrNotUsable, cas.ErrUnsupported,
		strings.Join(seen, "; "))
}

// decisive are the questions on which documents depend.
var decisive = []ID{AbsentObject, Versions, CreateOnly, IfMatch, IfMatchStale, IfMatchAbsent, Impossible, RacingCreates,
	RacingIncrements, TornReads, AbsentReads}

// decisiveSteps answer them, and what they rely on.
func decisiveSteps() (some []step) {
	for _, s := range steps {
		if s.name == steps[0].name || slices.ContainsFunc(s.asks, func(id ID) bool { return slices.Contains(decisive, id) }) {
			some = append(some, s)
		}
	}
	return some
}

// Usable finds out whether conditional writes can be relied on, unless that was found out within the last day, and tells
// the driver how they are to be sent. Features call it before their first use. It takes seconds on the same machine and
// about 1,300 requests, and one where the verdict is remembered; Run, too, leaves its verdict in the bucket. The error is
// ErrNotUsable, and cas.ErrUnsupported as well, with what was seen; ErrNotUsable alone with why it could not be found out,
// which is not remembered, and bucket.ErrDenied or ErrFull as well if it is that; or that of a run.
func Usable(ctx context.Context, store cas.Store, objects bucket.Objects, opts *Options) (Verdict, error) {
	return UsableAt(ctx, Site{Name: "the bucket", Objects: objects, Store: store}, opts)
}

// UsableAt is Usable for a site whose Extra is not its Store, such as one that is decorated.
func UsableAt(ctx context.Context, site Site, opts *Options) (Verdict, error) {
	r := newRun([]Site{site}, opts)
	r.brief = true
	if opts == nil || opts.Creates == 0 {
		r.opts.Creates = 8
	}
	if opts == nil || opts.Increments == 0 {
		r.opts.Increments = 1
	}
	if v, ok := r.remembered(ctx); ok {
		r.unquote(v.Unquoted)
		return v, v.Err()
	}
	err := r.all(ctx, decisiveSteps())
	var v Verdict
	if why := r.why(); err == nil && why != "" {
		err = fmt.Errorf("%w: it could not be found out, since %s: %w", ErrNotUsable, why, bucket.ErrDenied)
	}
	if err == nil {
		if v, err = r.verdict(ctx); err == nil {
			err = errors.Join(r.keep(ctx, v), v.Err())
		}
	}
	_, err = r.end(ctx, err)
	return v, err
}

// Remembered is the verdict that Usable would go by without trying anything; false where there is none, where it is too old,
// and where it cannot be read. 1 GET.
func Remembered(ctx context.Context, store cas.Store) (Verdict, bool) {
	return newRun([]Site{{Store: store}}, nil).remembered(ctx)
}

// remembered is the verdict that is stored, if it can be relied on. Whatever else is there is written over.
func (r *run) remembered(ctx context.Context) (v Verdict, ok bool) {
	o, err := r.sites[0].Store.Load(ctx, VerdictKey)
	if err != nil || json.Unmarshal(o.Body, &v) != nil || v.Format != verdictFormat || v.Version != probeVersion {
		return Verdict{}, false
	}
	if !o.ModTime.IsZero() && o.ModTime.Sub(v.At).Abs() > copiedAfter {
		return Verdict{}, false
	}
	if age := r.now(o).Sub(v.At); age < -fine || age >= rememberFor {
		return Verdict{}, false
	}
	return v, true
}

// now is the store's clock when it answered, ours where it tells none.
func (r *run) now(o cas.Object) time.Time {
	if o.StoreTime.IsZero() {
		return r.opts.Now()
	}
	return o.StoreTime
}

// verdict sums up the decisive questions. A verdict needs an answer to each; what is not usable is so whatever the rest is.
func (r *run) verdict(ctx context.Context) (Verdict, error) {
	v := Verdict{Format: verdictFormat, Version: probeVersion, Unquoted: r.unquoted, Usable: true, Broken: []Finding{}}
	open := map[string][]string{} // by reason, the questions
	denied := true                // each of them
	for _, id := range decisive {
		f := r.findings[id]
		switch {
		case f == nil:
			open["not tried"], denied = append(open["not tried"], string(id)), false
		case f.Verdict == No:
			v.Broken, v.Usable = append(v.Broken, *f), false
		case f.Verdict != Yes:
			open[f.Seen], denied = append(open[f.Seen], string(id)), denied && r.denied[id]
		}
	}
	if v.Usable && len(open) > 0 {
		var reasons []string
		for why, ids := range open {
			reasons = append(reasons, strings.Join(ids, ", ")+": "+why)
		}
		slices.Sort(reasons)
		if denied {
			// Whoever may create and not write over, or whose bucket retains what is there, is refused everywhere alike.
			return Verdict{}, fmt.Errorf("%w: it could not be found out, since writes are refused here, as by a retention policy: %s: %w",
				ErrNotUsable, reasons[0], bucket.ErrDenied)
		}
		if r.full {
			return Verdict{}, fmt.Errorf("%w: it could not be found out: %s: %w", ErrNotUsable, reasons[0], bucket.ErrFull)
		}
		return Verdict{}, fmt.Errorf("%w: it could not be found out: %s", ErrNotUsable, strings.Join(reasons, "; "))
	}
	o, err := r.load(ctx, &r.sites[0], bucket.Key(r.root+accessName))
	if err != nil && !errors.Is(err, cas.ErrNoVersion) {
		return Verdict{}, fmt.Errorf("asking for the store's time: %w", err)
	}
	v.At = r.now(o).UTC().Truncate(time.Second)
	return v, nil
}

// keep stores a verdict. It is a plain write, of which the last one is as good as any.
func (r *run) keep(ctx context.Context, v Verdict) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := r.put(ctx, &r.sites[0], VerdictKey, string(body)+"\n"); err != nil {
		return fmt.Errorf("remembering the verdict: %w", err)
	}
	return nil
}

// keepVerdict stores what a whole run comes to, if that can be said. Nothing depends on it.
func (r *run) keepVerdict(ctx context.Context) {
	if r.lacks(needs{write: true}) != "" {
		return
	}
	if v, err := r.verdict(ctx); err == nil {
		_ = r.keep(ctx, v)
	}
}
