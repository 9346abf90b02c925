package blobindex_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/prune/janitor"
)

// How a change takes effect, as docs/SPEC.md has it.
const (
	changeLead  = 5 * time.Minute
	changeQuiet = 3 * time.Minute
)

// TestRules_Reconfigure: a change counts for everybody from one instant, and nobody deletes until the window is over.
func TestRules_Reconfigure(t *testing.T) {
	w := newWorld(t)
	unaware := w.process(ttl(2 * time.Hour))
	readRules(t, unaware)
	old := w.old("old", 3*time.Hour)
	readRules(t, unaware)
	began := w.store.Now()
	writer := w.process(ttl(4 * time.Hour))
	r := reconfigure(t, writer)
	want := writer.Rules()
	want.TTL = 4 * time.Hour
	if r.Rules.TTL != 2*time.Hour || r.Next == nil || *r.Next != want || !r.From.Equal(began.Add(changeLead)) ||
		!r.Quiet.Equal(r.From.Add(changeQuiet)) || len(r.Differences) != 0 || r.Changes() != "ttl from 2h to 4h" {
		t.Fatalf("%+v", r)
	}
	if loads, saves := writer.docs.counts(); loads != 2 || saves != 1 {
		t.Errorf("a change took %d GET and %d PUT", loads, saves)
	}
	for _, p := range []*process{unaware, writer, w.reader(prune.Rules{})} {
		wantCards(t, p.team)
	}
	if r := readRules(t, w.process(ttl(2*time.Hour))); r.Different() != "ttl is 2h here and 4h there" {
		t.Errorf("who was given what goes: %+v", r)
	}
	if _, err := w.process(ttl(5 * time.Hour)).Reconfigure(t.Context()); !errors.Is(err, blobindex.ErrRulesChanging) {
		t.Errorf("a change within a change: %v", err)
	}
	if r := reconfigure(t, w.process(ttl(4*time.Hour))); !r.From.Equal(began.Add(changeLead)) {
		t.Errorf("the same change again: %+v", r)
	}
	says := "From " + r.From.Format("2006-01-02T15:04:05.000Z") + " on other rules count: ttl from 2h to 4h."
	if e, err := writer.team.Explain(t.Context(), old); err != nil || e.Rule != blobindex.RuleStale || !strings.HasSuffix(e.Changes, says) {
		t.Errorf("explained while it is announced: %+v, %v", e, err)
	}
	pass := func() janitor.Report {
		t.Helper()
		report, err := janitor.New(w.process(prune.Rules{}).Index, nil).Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if report := pass(); report.Withheld == "" || report.Pages != 0 || !report.Ruling.Quiet.Equal(r.Quiet) {
		t.Errorf("a pass while it is announced: %+v", report)
	}
	w.advance(changeLead - 1)
	wantCards(t, writer.team)
	w.advance(1)
	if e, err := unaware.team.Explain(t.Context(), old); err != nil || !e.Shown || strings.Contains(e.Changes, "other rules") {
		t.Errorf("explained when it counts: %+v, %v", e, err)
	}
	for _, p := range []*process{writer, w.reader(prune.Rules{}), unaware} {
		wantCards(t, p.team, old)
	}
	if report := pass(); report.Withheld == "" {
		t.Errorf("a pass as it counts: %+v", report)
	}
	w.advance(changeQuiet - 1)
	if report := pass(); report.Withheld == "" {
		t.Errorf("a pass before the window is over: %+v", report)
	}
	w.advance(1)
	report := pass()
	if report.Withheld != "" || report.Ruling.Rules.TTL != 4*time.Hour || len(report.Deleted) != 0 {
		t.Errorf("a pass after it: %+v", report)
	}
	if !bytes.Contains(w.body(rulesKey), []byte(`"announced":null`)) {
		t.Errorf("the change was not tidied up: %s", w.body(rulesKey))
	}
	// Written again by somebody else, with a new store time, it means the same.
	w.put(rulesKey, string(w.body(rulesKey)))
	if r := readRules(t, w.reader(prune.Rules{})); r.Rules.TTL != 4*time.Hour || r.Withheld() != "" {
		t.Errorf("a copy: %+v", r)
	}
	if r := reconfigure(t, w.process(prune.Rules{Skew: 30 * time.Second})); r.Next == nil || r.Next.TTL != 4*time.Hour || r.Next.Skew != 30*time.Second {
		t.Errorf("a change of the skew alone: %+v", r)
	}
}

// TestRules_HeldUpSave: a save that lands long after its writer looked at the clock makes nothing count at once.
func TestRules_HeldUpSave(t *testing.T) {
	w := newWorld(t)
	readRules(t, w.process(ttl(2*time.Hour)))
	item := w.old("a", 90*time.Minute)
	unaware := w.process(prune.Rules{})
	writer := w.process(ttl(time.Hour), func(_ *blobindex.Config, o *blobindex.Options) {
		o.Shared.Usable = func(context.Context) error { // between its load and its save
			w.advance(time.Hour / 6)
			readRules(t, unaware)
			return nil
		}
	})
	r := reconfigure(t, writer)
	if r.Next == nil || !r.From.Equal(w.store.Now().Add(changeLead)) {
		t.Fatalf("%+v", r)
	}
	w.advance(blobindex.RulesLife)
	for _, p := range []*process{unaware, writer} {
		wantCards(t, p.team, item)
	}
	w.advance(changeLead - blobindex.RulesLife)
	for _, p := range []*process{unaware, writer} {
		wantCards(t, p.team)
	}
}

// A pausing bucket calls its functions before a page is answered: the first before the first page, and so on.
type pausing struct {
	bucket.Objects
	before []func()
}

func (b *pausing) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	if len(b.before) == 0 {
		return b.Objects.List(ctx, req, fn)
	}
	next, rest := b.before[0], b.before[1:]
	b.before = nil
	next()
	return b.Objects.List(ctx, req, func(p bucket.Page) error {
		err := fn(p)
		if len(rest) > 0 && err == nil {
			rest[0]()
			rest = rest[1:]
		}
		return err
	})
}

// pausing opens a reader on a store that holds its listings up.
func (w *world) pausing() (*process, *pausing) {
	b := &pausing{Objects: w.mem()}
	p := &process{docs: &docStore{Store: w.mem()}}
	x, err := blobindex.New(b, blobindex.Config{}, &blobindex.Options{Now: w.host.Now, Shared: &blobindex.Sharing{Store: p.docs}})
	if err != nil {
		w.t.Fatal(err)
	}
	p.Index, p.team = x, space(w.t, x, "team")
	return p, b
}

// TestRules_SlowFirstPage: a reader that read the rules just before they changed, lists as late as it may, and waits for the
// first page as long as it may, still judges as everybody does at that instant; one that was stopped for longer gives up.
func TestRules_SlowFirstPage(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second} {
		w := newWorld(t)
		readRules(t, w.process(ttl(2*time.Hour)))
		item := w.old("a", 90*time.Minute)
		p, store := w.pausing()
		readRules(t, p)
		reconfigure(t, w.process(ttl(time.Hour)))
		w.advance(blobindex.RulesLife)
		store.before = []func(){func() { w.advance(prune.DefaultListingLimit + late) }}
		s, err := p.team.Snapshot(t.Context())
		if late > 0 {
			if !errors.Is(err, blobindex.ErrIncomplete) {
				t.Errorf("after %v more: %v", late, err)
			}
			continue
		}
		if err != nil || s.Ruling().Rules.TTL != 2*time.Hour || s.Counts().Live != 1 {
			t.Errorf("%v %+v", err, s)
		}
		if loads, _ := p.docs.counts(); loads != 1 {
			t.Errorf("%d GET", loads)
		}
		wantCards(t, w.reader(prune.Rules{}).team, item) // who knows of the change
	}
}

// TestRules_Stopped: a reader that is stopped for long at any look at its clock, and goes on when new rules count, judges by
// those that are in force at its listing's instant, or gives up.
func TestRules_Stopped(t *testing.T) {
	judged, gaveUp := 0, 0
	for stop := range 12 {
		w := newWorld(t)
		readRules(t, w.process(ttl(2*time.Hour)))
		w.old("a", 90*time.Minute)
		looks := -1 << 31
		p := w.process(prune.Rules{}, func(_ *blobindex.Config, o *blobindex.Options) {
			o.Shared.Save = false
			o.Now = func() time.Time {
				now := w.host.Now()
				if looks++; looks == stop {
					w.advance(2 * changeLead)
				}
				return now
			}
		})
		readRules(t, p)
		reconfigure(t, w.process(ttl(time.Hour)))
		w.advance(blobindex.RulesLife / 2)
		looks = -1
		v, err := p.team.Cards(t.Context(), blobindex.CardsRequest{})
		late := w.store.Now().Sub(v.AsOf) == 0 && looks >= stop
		switch {
		case errors.Is(err, blobindex.ErrIncomplete):
			gaveUp++
		case err != nil:
			t.Errorf("stopped at look %d: %v", stop, err)
		case (len(v.Cards) == 0) != late:
			t.Errorf("stopped at look %d: %d cards as of %v", stop, len(v.Cards), v.AsOf)
		default:
			judged++
		}
	}
	if judged == 0 || gaveUp < 2 {
		t.Errorf("%d judged, %d gave up", judged, gaveUp)
	}
}

// TestRules_HostsClock: where the store tells time, a host's clock decides nothing about when a change counts.
func TestRules_HostsClock(t *testing.T) {
	for _, off := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		w := newWorld(t)
		readRules(t, w.process(ttl(2*time.Hour)))
		item := w.old("a", 90*time.Minute)
		w.host.Advance(off)
		reconfigure(t, w.process(ttl(time.Hour)))
		p := w.process(prune.Rules{})
		w.advance(changeLead - 1)
		wantCards(t, p.team, item)
		w.advance(1)
		wantCards(t, p.team)
		w.advance(changeQuiet - 1)
		if r := readRules(t, p); r.Withheld() == "" || r.Clock != blobindex.StoreClock {
			t.Errorf("%v: %+v", off, r)
		}
		w.advance(1)
		if r := readRules(t, p); r.Withheld() != "" {
			t.Errorf("%v: %+v", off, r)
		}
	}
}

// TestRules_ListingAcrossTheChange: a listing that began before the new rules counted sees all of what the old ones show,
// though a pass by the new ones comes as early as it may.
func TestRules_ListingAcrossTheChange(t *testing.T) {
	w := newWorld(t)
	w.objects = membucket.New(&membucket.Options{Now: w.store.Now, PageSize: 1})
	readRules(t, w.process(ttl(2*time.Hour)))
	a, b := w.old("a", 0), w.old("b", 90*time.Minute)
	p, store := w.pausing()
	r := reconfigure(t, w.process(ttl(time.Hour)))
	w.advance(r.From.Sub(w.store.Now()) - time.Second)
	passes := 0
	pass := func() {
		w.advance(10 * time.Second)
		report, err := janitor.New(w.process(prune.Rules{}).Index, nil).Run(t.Context(), nil)
		if passes++; err != nil || report.Ruling.Rules.TTL != time.Hour {
			t.Errorf("%v %+v", err, report)
		}
	}
	store.before = []func(){func() {}, pass, pass}
	wantCards(t, p.team, b, a)
	if passes == 0 {
		t.Error("no pass was made")
	}
	wantCards(t, p.team)
	w.advance(changeQuiet)
	pass()
	if got := w.keys(); !slices.Equal(got, []string{rulesKey}) {
		t.Errorf("after the window: %v", got)
	}
}

// TestRules_PassAcrossTheChange: a pass that meets a change between two batches leaves the rest.
func TestRules_PassAcrossTheChange(t *testing.T) {
	for name, between := range map[string]func(*testing.T, *world){
		"announced": func(t *testing.T, w *world) { reconfigure(t, w.process(ttl(4*time.Hour))) },
		"removed and saved anew": func(t *testing.T, w *world) {
			w.mem().Delete(t.Context(), []bucket.Key{rulesKey})
			readRules(t, w.process(ttl(4*time.Hour)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			readRules(t, w.process(ttl(2*time.Hour)))
			for i := range 2 * bucket.PageSize {
				w.put(fmt.Sprintf("_active_runs/team/k%04d_%d", i, w.store.Now().Unix()), "")
			}
			w.advance(3 * time.Hour)
			p := w.process(prune.Rules{})
			report, err := janitor.New(p.Index, nil).Run(t.Context(), &janitor.RunOptions{Progress: func(done, _ int) {
				if done == bucket.PageSize {
					between(t, w)
					w.advance(blobindex.RulesLife + time.Second)
				}
			}})
			if err != nil || report.Deleted["stale"] != bucket.PageSize || report.Left != bucket.PageSize || report.Failures != 0 || report.Withheld == "" {
				t.Errorf("%v %+v", err, report)
			}
		})
	}
}

// TestRules_SweepAcrossTheChange: what was queued before a change is dropped, not tried again and again.
func TestRules_SweepAcrossTheChange(t *testing.T) {
	w := newWorld(t)
	readRules(t, w.process(ttl(2*time.Hour)))
	w.old("a", 3*time.Hour)
	w.old("b", 3*time.Hour)
	gate := &gated{Objects: w.mem(), began: make(chan struct{}), release: make(chan struct{})}
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
	defer sweeper.Close()
	x, err := blobindex.New(gate, blobindex.Config{}, &blobindex.Options{
		Now: w.host.Now, Sweeper: sweeper, Shared: &blobindex.Sharing{Store: w.mem()},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := space(t, x, "team")
	mustCards(t, n, blobindex.CardsRequest{})
	<-gate.began // one batch is at work
	w.old("c", 3*time.Hour)
	mustCards(t, n, blobindex.CardsRequest{}) // the next one waits
	reconfigure(t, w.process(ttl(4*time.Hour)))
	w.advance(blobindex.RulesLife + time.Second)
	close(gate.release)
	if err := sweeper.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sweeper.Stats(); got.Failed != 0 || got.Dropped != 1 || got.Deleted != 2 {
		t.Errorf("%+v", got)
	}
}

// gated is a store whose first delete waits.
type gated struct {
	bucket.Objects
	began, release chan struct{}
}

func (g *gated) Delete(ctx context.Context, keys []bucket.Key) []error {
	select {
	case <-g.release:
	case g.began <- struct{}{}:
		<-g.release
	}
	return g.Objects.Delete(ctx, keys)
}

// TestRules_DeleteIsBounded: a batch of deletes may not go on until new rules count.
func TestRules_DeleteIsBounded(t *testing.T) {
	w := newWorld(t)
	var left time.Duration
	b := &deadlines{Objects: w.mem(), seen: func(d time.Duration) { left = d }}
	x, err := blobindex.New(b, blobindex.Config{}, &blobindex.Options{Now: w.host.Now, Shared: &blobindex.Sharing{Store: w.mem()}})
	if err != nil {
		t.Fatal(err)
	}
	x.Delete(t.Context(), []blobindex.Deletion{{Key: "_active_runs/team/a_1700000000"}})
	if left <= 0 || left > blobindex.RulesLife {
		t.Errorf("it may take %v", left)
	}
}

type deadlines struct {
	bucket.Objects
	seen func(time.Duration)
}

func (d *deadlines) Delete(ctx context.Context, keys []bucket.Key) []error {
	if at, ok := ctx.Deadline(); ok {
		d.seen(time.Until(at))
	}
	return d.Objects.Delete(ctx, keys)
}

// TestRules_Grammar: ids of views are read by the saved grammar, and, once it is known, those of producers too.
func TestRules_Grammar(t *testing.T) {
	w := newWorld(t)
	saved := prune.Rules{Grammar: itemid.ULID}
	producer := w.process(saved)
	readRules(t, producer)
	id, err := producer.Mint("")
	if err != nil {
		t.Fatal(err)
	}
	register(t, producer.team, id)
	p := w.reader(prune.Rules{})
	if _, err := p.ParseID(t.Context(), "nonsense"); !errors.Is(err, itemid.ErrInvalid) {
		t.Error(err)
	}
	if loads, _ := p.docs.counts(); loads != 0 {
		t.Error("an id of no grammar was asked about")
	}
	got, err := p.ParseID(t.Context(), id.String())
	if err != nil || !got.Time().Equal(id.Time()) {
		t.Fatalf("%v %v", got, err)
	}
	if e, err := p.team.Explain(t.Context(), got); err != nil || !e.Shown || !e.StartedAt.Equal(id.Time()) {
		t.Errorf("%+v %v", e, err)
	}
	wantCards(t, p.team, id)
	if _, err := p.team.Finish(t.Context(), got, blobindex.Done); err != nil {
		t.Error(err)
	}
	if loads, _ := p.docs.counts(); loads != 1 {
		t.Errorf("%d GET", loads)
	}
	if _, err := p.team.Explain(t.Context(), w.id("epoch", 0)); !errors.Is(err, itemid.ErrInvalid) {
		t.Errorf("an id of another grammar: %v", err)
	}
}

// TestRules_EveryOrder goes through the orders in which a pruner reads the rules, plans, checks and deletes around a change,
// minute by minute, each step as late as it may be, beside readers who read the rules at other minutes. At no instant do two
// views differ, no view shows what the rules of that instant hide, and nothing that is shown disappears by a delete.
func TestRules_EveryOrder(t *testing.T) {
	short, long := prune.Rules{TTL: time.Hour}, prune.Rules{TTL: 70 * time.Minute}
	for name, change := range map[string][2]prune.Rules{
		"longer ttl":      {short, long},
		"shorter ttl":     {long, short},
		"larger skew":     {{TTL: time.Hour, Skew: time.Minute}, {TTL: time.Hour, Skew: 10 * time.Minute}},
		"smaller skew":    {{TTL: time.Hour, Skew: 10 * time.Minute}, {TTL: time.Hour, Skew: time.Minute}},
		"another grammar": {short, {TTL: 70 * time.Minute, Grammar: itemid.SubkeyULID}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs, deleted := 0, 0
			for read := range 15 {
				for plan := read; plan <= min(read+2, 14); plan++ {
					for check := plan; check <= min(plan+5, 14); check++ {
						for _, land := range []int{check + 2, check} {
							o := order{read, plan, check, land}
							n := o.run(t, change[0], change[1])
							if n < 0 {
								break // refused: it lands nowhere
							}
							runs++
							deleted += n
						}
					}
				}
			}
			t.Logf("%d orders, %d keys deleted", runs, deleted)
			if runs < 100 || deleted < 500 {
				t.Errorf("%d orders, %d keys deleted: too little was tried", runs, deleted)
			}
		})
	}
}

// An order says in which minute a pruner reads the rules, lists and plans, checks the rules once more, and in which its
// deletes land.
type order struct{ read, plan, check, land int }

// changeMinute is when the rules are changed.
const changeMinute = 4

// run returns how many keys the pruner deleted; -1 if it was refused, or planned nothing.
func (o order) run(t *testing.T, before, after prune.Rules) int {
	w := newWorld(t)
	kept := membucket.New(&membucket.Options{Now: w.store.Now}) // what is there if nobody deletes
	writer := w.process(before)
	readRules(t, writer)
	o.fill(t, w, kept)

	var from time.Time
	late := &landing{Objects: w.mem()}
	pruner := w.process(prune.Rules{}, func(_ *blobindex.Config, opt *blobindex.Options) { opt.Shared.Save = false })
	x, err := blobindex.New(late, blobindex.Config{}, &blobindex.Options{Now: w.host.Now, Shared: &blobindex.Sharing{Store: pruner.docs}})
	if err != nil {
		t.Fatal(err)
	}
	team := space(t, x, "team")
	readers := []*process{w.reader(prune.Rules{}), w.reader(prune.Rules{}), w.reader(prune.Rules{})}
	var plan []blobindex.Deletion
	var seen sight
	for minute := range 17 {
		// Whoever has read in this minute has done so just before the change.
		for i, r := range readers {
			if minute == changeMinute-i {
				readRules(t, r)
			}
		}
		if minute == o.read {
			if _, err := x.ReadRules(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if minute == changeMinute {
			r := reconfigure(t, w.process(after))
			from = r.From
		}
		if minute == o.plan {
			s, err := team.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s.Ruling().Withheld() == "" {
				plan = s.Plan()
			}
		}
		if minute == o.check {
			if len(plan) == 0 {
				return -1
			}
			if errs := x.Delete(t.Context(), plan); errs != nil {
				if !errors.Is(errs[0], blobindex.ErrWithheld) {
					t.Fatal(errs)
				}
				return -1
			}
		}
		if minute == o.land {
			w.mem().Delete(t.Context(), late.keys)
		}
		rules := before
		if !from.IsZero() && !w.store.Now().Before(from) {
			rules = after
		}
		seen.minute, seen.rules = minute, rules
		o.look(t, w, readers, kept, &seen)
		w.advance(time.Minute)
		if minute > o.land && minute > changeMinute+8 {
			break
		}
	}
	return len(late.keys)
}

// A sight is what was seen so far.
type sight struct {
	minute    int
	rules     prune.Rules // that are in force
	shown     []string    // in the minute before
	planned   []string    // what the rules showed when it was planned
	plannedBy prune.Rules
}

// look takes the views of one minute.
func (o order) look(t *testing.T, w *world, readers []*process, kept *membucket.Bucket, s *sight) {
	t.Helper()
	minute := s.minute
	x, err := blobindex.New(kept, blobindex.Config{Rules: s.rules}, &blobindex.Options{Now: w.host.Now})
	if err != nil {
		t.Fatal(err)
	}
	truth := shown(t, space(t, x, "team"))
	if minute == o.plan {
		s.planned, s.plannedBy = truth, s.rules
	}
	var now []string
	for i, r := range readers {
		got := shown(t, r.team)
		if i > 0 && !slices.Equal(got, now) {
			t.Fatalf("%+v, minute %d: one view shows %v, another %v", o, minute, now, got)
		}
		now = got
	}
	for _, id := range now {
		// What a longer TTL would have kept to hide it may be gone since before that was announced; then it only stays.
		if !slices.Contains(truth, id) && !slices.Contains(s.shown, id) {
			t.Fatalf("%+v, minute %d: %s is shown, and hidden by the rules", o, minute, id)
		}
	}
	for _, id := range s.shown {
		// By unchanged rules, too, a run that was superseded when it was planned may show for as long as its delete takes,
		// after the newer one has gone silent; its next heartbeat brings it back.
		if slices.Contains(truth, id) && !slices.Contains(now, id) && (slices.Contains(s.planned, id) || s.plannedBy != s.rules) {
			t.Fatalf("%+v, minute %d: %s has disappeared", o, minute, id)
		}
	}
	s.shown = now
}

func shown(t *testing.T, n *blobindex.Namespace) []string {
	t.Helper()
	l, err := n.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, it := range l.Items {
		ids = append(ids, it.ID)
	}
	return ids
}

// fill registers, over 75 minutes: an item every third minute; one each of which the name is five minutes ahead; a run that
// goes on under a newer one that is silent; and an item of each of two grammars.
func (order) fill(t *testing.T, w *world, kept *membucket.Bucket) {
	put := func(name string) {
		for _, b := range []*membucket.Bucket{w.mem(), kept} {
			if _, err := b.Put(t.Context(), bucket.Key("_active_runs/team/"+name), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := w.store.Now()
	for minute := range 75 {
		if minute%3 == 0 && minute < 30 {
			put(fmt.Sprintf("item%d_%d", minute, w.store.Now().Unix()))
			put(fmt.Sprintf("ahead%d_%d", minute, w.store.Now().Add(5*time.Minute).Unix()))
			ulid, err := itemid.SubkeyULID.Mint(fmt.Sprintf("u%d", minute), w.store.Now(), zeros{})
			if err != nil {
				t.Fatal(err)
			}
			put(ulid.String())
			put(fmt.Sprintf("re%d_%d", minute, w.store.Now().Add(-3*time.Minute).Unix()))
			put(fmt.Sprintf("re%d_%d", minute, w.store.Now().Unix()))
		}
		w.advance(time.Minute)
	}
	for minute := 0; minute < 30; minute += 3 {
		id, err := itemid.Epoch.Parse(fmt.Sprintf("re%d_%d", minute, begin.Add(time.Duration(minute-3)*time.Minute).Unix()))
		if err != nil {
			t.Fatal(err)
		}
		put(prune.HeartbeatName(id, w.store.Now()))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// landing is a store that takes deletes, to carry them out later.
type landing struct {
	bucket.Objects
	keys []bucket.Key
}

func (l *landing) Delete(_ context.Context, keys []bucket.Key) []error {
	l.keys = append(l.keys, keys...)
	return nil
}

// TestRules_Backwards: a document that is older than one that was read is no answer.
func TestRules_Backwards(t *testing.T) {
	w := newWorld(t)
	p := w.process(prune.Rules{})
	readRules(t, p)
	first := string(w.body(rulesKey))
	reconfigure(t, w.process(ttl(time.Hour)))
	readRules(t, p)
	w.put(rulesKey, first)
	_, err := p.ReadRules(t.Context())
	if !errors.Is(err, cas.ErrBackwards) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(first, string(w.body(rulesKey))); diff != "" {
		t.Error(diff)
	}

	// After a restore that is meant, the doctor says so; then everybody reads it, and changes it, again.
	for name, usable := range map[string]error{"a store that was not tried": errors.New("broken"), "": nil} {
		doctor := w.process(prune.Rules{}, func(_ *blobindex.Config, o *blobindex.Options) {
			o.Shared.Usable = func(context.Context) error { return usable }
		})
		saved, err := doctor.ResetRules(t.Context())
		if loads, saves := doctor.docs.counts(); !errors.Is(err, usable) || saved != (usable == nil) || usable != nil && loads+saves > 0 {
			t.Errorf("%s: %t %v, %d GET and %d PUT", name, saved, err, loads, saves)
		}
		if usable != nil {
			continue
		}
		if r := readRules(t, p); !r.Saved || r.Next != nil || r.Rules.TTL != p.Rules().TTL {
			t.Errorf("%+v", r)
		}
	}
	reconfigure(t, w.process(ttl(time.Hour)))
	if r := readRules(t, p); r.Next == nil || r.Next.TTL != time.Hour {
		t.Errorf("%+v", r)
	}
	if saved, err := newWorld(t).process(prune.Rules{}).ResetRules(t.Context()); saved || err != nil {
		t.Errorf("where none are saved: %t, %v", saved, err)
	}
}
