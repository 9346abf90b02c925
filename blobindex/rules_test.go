package blobindex_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/prune/janitor"
)

// TestRules_SavedOnce: the first who may saves its own; everybody else goes by those, for one GET in RulesLife, and who
// writes asks nobody.
func TestRules_SavedOnce(t *testing.T) {
	w := newWorld(t)
	first := w.process(ttl(time.Hour))
	if r := readRules(t, first); !r.Saved || r.Rules.TTL != time.Hour || r.Withheld() != "" {
		t.Fatalf("%+v", r)
	}
	if loads, saves := first.docs.counts(); loads != 1 || saves != 1 {
		t.Errorf("the first save took %d GET and %d PUT", loads, saves)
	}
	second := w.reader(prune.Rules{})
	id := w.id("a", -90*time.Minute)
	w.put("_active_runs/team/"+id.String(), "")
	for i := range 5 {
		v := mustCards(t, second.team, blobindex.CardsRequest{})
		if len(v.Cards) != 0 || v.Counts.Stale != 1 {
			t.Fatalf("by a TTL of 1 h: %+v", v)
		}
		if want := map[bool]int{true: 1}[i == 0]; v.Cost.Get != want || v.Cost.List != 1 {
			t.Errorf("view %d cost %+v", i, v.Cost)
		}
		w.advance(blobindex.RulesLife / 4)
	}
	if loads, saves := second.docs.counts(); loads != 1 || saves != 0 {
		t.Errorf("five views within L took %d GET and %d PUT", loads, saves)
	}
	w.advance(time.Millisecond)
	for _, read := range []func() (blobindex.Cost, error){
		func() (blobindex.Cost, error) { l, err := second.team.List(t.Context()); return l.Cost, err },
		func() (blobindex.Cost, error) { l, err := second.team.Recent(t.Context()); return l.Cost, err },
		func() (blobindex.Cost, error) { e, err := second.team.Explain(t.Context(), id); return e.Cost, err },
	} {
		cost, err := read()
		if err != nil || cost.Get != 1 {
			t.Errorf("after L: %+v %v", cost, err)
		}
		w.advance(blobindex.RulesLife + 1)
	}

	before, _ := second.docs.counts()
	run := w.id("b", 0)
	register(t, second.team, run)
	if _, err := second.team.Heartbeat(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if _, err := second.team.Finish(t.Context(), run, blobindex.Done); err != nil {
		t.Fatal(err)
	}
	if after, saves := second.docs.counts(); after != before || saves != 0 {
		t.Errorf("register, heartbeat and finish took %d GET and %d PUT", after-before, saves)
	}
	if len(first.told) != 1 || len(second.told) != 1 || !second.told[0].Saved {
		t.Errorf("told %+v and %+v", first.told, second.told)
	}
}

// TestRules_Given: only what somebody has set can differ from what is saved.
func TestRules_Given(t *testing.T) {
	saved := prune.Rules{Grammar: itemid.ULID, TTL: 6 * time.Hour, LateAfter: 5 * time.Minute, Skew: 30 * time.Second}
	for name, tc := range map[string]struct {
		rules   prune.Rules
		grammar bool
		want    string
	}{
		"nothing":           {prune.Rules{}, false, ""},
		"the same":          {saved, true, ""},
		"one of them":       {ttl(6 * time.Hour), false, ""},
		"another ttl":       {ttl(2 * time.Hour), false, "ttl is 2h here and 6h there"},
		"another late":      {prune.Rules{LateAfter: 3 * time.Minute}, false, "late_after is 3m here and 5m there"},
		"another skew":      {prune.Rules{Skew: time.Minute}, false, "skew is 1m here and 30s there"},
		"the epoch, chosen": {prune.Rules{}, true, "grammar is epoch here and ulid there"},
		"another grammar":   {prune.Rules{Grammar: itemid.KSUID}, false, "grammar is ksuid here and ulid there"},
		"all of them": {prune.Rules{TTL: time.Hour, LateAfter: time.Minute, Skew: time.Second}, true,
			"grammar is epoch here and ulid there, ttl is 1h here and 6h there, late_after is 1m here and 5m there, skew is 1s here and 30s there"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			readRules(t, w.process(saved))
			p := w.process(tc.rules, func(c *blobindex.Config, _ *blobindex.Options) { c.GrammarGiven = tc.grammar })
			r := readRules(t, p)
			want := saved
			want.ListingLimit = prune.DefaultListingLimit
			if r.Different() != tc.want || r.Rules != want || p.Rules() != want || (r.Withheld() != "") != (tc.want != "") {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestRules_OtherwiseDeletesNothing: neither sweeps nor passes nor plans of a process that was given others delete; it reads
// by the saved ones.
func TestRules_OtherwiseDeletesNothing(t *testing.T) {
	w := newWorld(t)
	readRules(t, w.process(ttl(2*time.Hour)))
	old := w.old("old", 90*time.Minute)
	between := w.old("between", 90*time.Minute)
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
	defer sweeper.Close()
	p := w.process(ttl(time.Hour), func(_ *blobindex.Config, o *blobindex.Options) { o.Sweeper = sweeper })
	wantCards(t, p.team, between)
	if err := sweeper.Idle(t.Context()); err != nil || sweeper.Stats() != (blobindex.SweepStats{}) {
		t.Errorf("%v %+v", err, sweeper.Stats())
	}
	s, err := p.team.Snapshot(t.Context())
	if err != nil || len(s.Plan()) != 1 || s.Ruling().Withheld() == "" {
		t.Fatalf("%v %+v", err, s)
	}
	if errs := p.Delete(t.Context(), s.Plan()); len(errs) != 1 || !errors.Is(errs[0], blobindex.ErrWithheld) {
		t.Errorf("deleting: %v", errs)
	}
	lists := 0
	report, err := janitor.New(p.Index, nil).Run(t.Context(), &janitor.RunOptions{Planned: func(blobindex.Deletion) { lists++ }})
	if err != nil || report.Pages != 0 || lists != 0 || len(report.Deleted) != 0 || report.Clock != blobindex.StoreClock ||
		!strings.Contains(report.Withheld, "ttl is 1h here and 2h there") {
		t.Errorf("%v %+v", err, report)
	}
	if !cmp.Equal(w.keys(), []string{rulesKey, "_active_runs/team/" + between.String(), "_active_runs/team/" + old.String()},
		cmp.Transformer("set", asSet)) {
		t.Errorf("keys %v", w.keys())
	}
}

func asSet(keys []string) map[string]bool {
	set := map[string]bool{}
	for _, k := range keys {
		set[k] = true
	}
	return set
}

// TestRules_Document: the document is the one of the package comment and of docs/SPEC.md.
func TestRules_Document(t *testing.T) {
	w := newWorld(t)
	readRules(t, w.process(prune.Rules{}))
	reconfigure(t, w.process(ttl(6*time.Hour)))
	var doc struct {
		Format  string          `json:"format"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(w.body(rulesKey), &doc); err != nil {
		t.Fatal(err)
	}
	from := w.store.Now().Add(5 * time.Minute).Format(time.RFC3339)
	want := strings.Join(strings.Fields(`{"current":{"grammar":"epoch","ttl_ms":7200000,"late_after_ms":180000,"skew_ms":60000},
		"announced":{"rules":{"grammar":"epoch","ttl_ms":21600000,"late_after_ms":180000,"skew_ms":60000},"from":"FROM"}}`), "")
	if got := string(doc.Payload); doc.Format != blobindex.RulesFormat || got != strings.Replace(want, "FROM", from, 1) {
		t.Errorf("%s %s", doc.Format, got)
	}
	for _, file := range []string{"doc.go", filepath.Join("..", "docs", "SPEC.md")} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", "")), "")
		if !strings.Contains(plain, strings.Replace(want, "FROM", "2026-11-30T12:05:00Z", 1)) {
			t.Errorf("%s shows another document", file)
		}
	}
}

func (w *world) body(key string) []byte {
	w.t.Helper()
	r, err := w.mem().Open(w.t.Context(), bucket.Key(key))
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return body
}

// TestRules_Race: of two who save at once one wins, and the other goes by what was saved.
func TestRules_Race(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	all := make([]*process, 8)
	for i := range all {
		all[i] = w.process(ttl(time.Duration(i+1) * time.Hour))
		wg.Go(func() { all[i].ReadRules(context.Background()) })
	}
	wg.Wait()
	agreed := readRules(t, w.process(prune.Rules{})).Rules
	same := 0
	for _, p := range all {
		r := readRules(t, p)
		if r.Rules != agreed {
			t.Errorf("%v and %v", r.Rules, agreed)
		}
		if r.Withheld() == "" {
			same++
		}
	}
	if same != 1 {
		t.Errorf("%d of 8 processes with different rules may delete", same)
	}
}

// TestRules_SharedRequest: viewers that come at once share one GET, and its failure; one that leaves takes nobody along.
func TestRules_SharedRequest(t *testing.T) {
	w := newWorld(t)
	readRules(t, w.process(prune.Rules{}))
	for _, broken := range []error{nil, errors.New("broken")} {
		p := w.reader(prune.Rules{})
		p.docs.load, p.docs.hold = broken, make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			wg.Go(func() {
				if i == 0 {
					_, errs[i] = p.team.List(ctx)
					return
				}
				_, errs[i] = p.team.List(t.Context())
			})
		}
		leave()
		close(p.docs.hold)
		wg.Wait()
		failed := 0
		for _, err := range errs[1:] {
			if err != nil {
				failed++
			}
		}
		loads, _ := p.docs.counts()
		if broken == nil && (failed != 0 || loads > 2) || broken != nil && failed != len(errs)-1 {
			t.Errorf("%v: %d failed, %d GET", broken, failed, loads)
		}
	}
}

// TestRules_Unreadable: what is no document of rules, or cannot be read, is an error that names it; a first view fails, a
// later one is the last good view, nothing is deleted, and nobody writes over it.
func TestRules_Unreadable(t *testing.T) {
	envelope := func(format, payload string) string {
		return `{"format":"` + format + `","created":{"nonce":"n","at":"2026-11-30T12:00:00Z"},"seq":1,"nonce":"n","recent":[],"payload":` +
			payload + `}`
	}
	rules := func(grammar, ttl string) string {
		return `{"current":{"grammar":"` + grammar + `","ttl_ms":` + ttl + `,"late_after_ms":180000,"skew_ms":60000},"announced":null}`
	}
	for name, tc := range map[string]struct {
		body string
		load error
		kind error
	}{
		"empty":           {body: "", kind: cas.ErrCorrupt},
		"cut":             {body: envelope("rules/1", rules("epoch", "7200000"))[:90], kind: cas.ErrCorrupt},
		"NULs":            {body: strings.Repeat("\x00", 400), kind: cas.ErrCorrupt},
		"another format":  {body: envelope("rules/2", `{}`), kind: cas.ErrFormat},
		"a lease":         {body: envelope("lease/1", `{}`), kind: cas.ErrFormat},
		"unknown grammar": {body: envelope("rules/1", rules("snowflake", "7200000")), kind: cas.ErrCorrupt},
		"no ttl":          {body: envelope("rules/1", rules("epoch", "0")), kind: cas.ErrCorrupt},
		"ttl below skew":  {body: envelope("rules/1", rules("epoch", "60000")), kind: cas.ErrCorrupt},
		"huge ttl":        {body: envelope("rules/1", rules("epoch", "9223372036854775807")), kind: cas.ErrCorrupt},
		"unknown member":  {body: envelope("rules/1", `{"current":{},"announced":null,"more":1}`), kind: cas.ErrCorrupt},
		"no payload":      {body: envelope("rules/1", `{}`), kind: cas.ErrCorrupt},
		"denied":          {load: bucket.ErrDenied, kind: bucket.ErrDenied},
		"throttled":       {load: bucket.ErrThrottled, kind: bucket.ErrThrottled},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			old := w.old("old", 3*time.Hour)
			sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: w.host.Now})
			defer sweeper.Close()
			p := w.process(ttl(time.Hour), func(_ *blobindex.Config, o *blobindex.Options) { o.Sweeper = sweeper })
			id := w.id("a", 0)
			register(t, p.team, id)
			wantCards(t, p.team, id)
			if err := sweeper.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}
			swept := sweeper.Stats().Deleted
			w.put("_active_runs/team/"+old.String(), "") // again
			if tc.load == nil {
				w.put(rulesKey, tc.body)
			}
			w.advance(blobindex.RulesLife + time.Second)
			p.docs.fail(tc.load, nil)

			v := mustCards(t, p.team, blobindex.CardsRequest{})
			var re *blobindex.RulesError
			if v.Complete || len(v.Cards) != 1 || !errors.As(v.Cause, &re) || !errors.Is(v.Cause, tc.kind) {
				t.Errorf("the last good view: %+v", v)
			}
			fresh := w.process(ttl(time.Hour))
			fresh.docs.fail(tc.load, nil)
			if _, err := fresh.team.Cards(t.Context(), blobindex.CardsRequest{}); !errors.As(err, &re) || !strings.Contains(err.Error(), rulesKey) {
				t.Errorf("a first view: %v", err)
			} else if hint := strings.Contains(err.Error(), "delete it"); hint != (tc.load == nil) || re.Corrupt() != hint {
				t.Errorf("how to mend it: %v", err)
			}
			if report, err := janitor.New(fresh.Index, nil).Run(t.Context(), nil); !errors.As(err, &re) || report.Pages != 0 {
				t.Errorf("a pass: %v %+v", err, report)
			}
			if errs := fresh.Delete(t.Context(), []blobindex.Deletion{{Key: bucket.Key("_active_runs/team/" + old.String())}}); len(errs) != 1 || !errors.As(errs[0], &re) {
				t.Errorf("deleting: %v", errs)
			}
			if _, err := fresh.Reconfigure(t.Context()); !errors.As(err, &re) {
				t.Errorf("reconfiguring: %v", err)
			}
			if err := sweeper.Idle(t.Context()); err != nil || sweeper.Stats().Deleted != swept {
				t.Errorf("%v, swept %+v", err, sweeper.Stats())
			}
			if tc.load == nil && !bytes.Equal(w.body(rulesKey), []byte(tc.body)) {
				t.Errorf("it was written over: %s", w.body(rulesKey))
			}
			if _, err := w.mem().Head(t.Context(), bucket.Key("_active_runs/team/"+old.String())); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRules_NotShared: without compare-and-swap, or the right to write, everybody goes by their own, is told why, once, and
// deletes.
func TestRules_NotShared(t *testing.T) {
	unsupported := errors.Join(errors.New("this store cannot"), cas.ErrUnsupported)
	for name, tc := range map[string]struct {
		load, save, usable error
		reader             bool
		why                string
		loads              int // of two reads, L apart, and of a look after a save that failed
		saves              int
	}{
		"no store":       {load: unsupported, why: "without compare-and-swap", loads: 1},
		"no conditions":  {usable: unsupported, why: "without compare-and-swap", loads: 3},
		"save not known": {save: unsupported, why: "without compare-and-swap", loads: 3, saves: 1},
		"may not write":  {save: bucket.ErrDenied, why: "may not write there", loads: 3, saves: 1},
		"only reads":     {reader: true, why: "none are saved at", loads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.old("old", 90*time.Minute)
			p := w.process(ttl(time.Hour), func(_ *blobindex.Config, o *blobindex.Options) {
				o.Shared.Save = !tc.reader
				if tc.usable != nil {
					o.Shared.Usable = func(context.Context) error { return tc.usable }
				}
			})
			p.docs.fail(tc.load, tc.save)
			for range 2 {
				r := readRules(t, p)
				if r.Saved || r.Rules.TTL != time.Hour || r.Withheld() != "" || !strings.Contains(r.Why, tc.why) {
					t.Fatalf("%+v", r)
				}
				w.advance(blobindex.RulesLife + time.Second)
			}
			if loads, saves := p.docs.counts(); loads != tc.loads || saves != tc.saves {
				t.Errorf("%d GET and %d PUT", loads, saves)
			}
			if report, err := janitor.New(p.Index, nil).Run(t.Context(), nil); err != nil || report.Deleted["stale"] != 1 {
				t.Errorf("a pass: %v %+v", err, report)
			}
			if len(p.told) != 1 {
				t.Errorf("told %+v", p.told)
			}
			if _, err := p.Reconfigure(t.Context()); !tc.reader && err == nil {
				t.Error("reconfigured")
			}
		})
	}
	w := newWorld(t)
	x := w.index(nil, blobindex.Options{})
	if r, err := x.ReadRules(t.Context()); err != nil || r.Saved || r.Why == "" {
		t.Errorf("%v %+v", err, r)
	}
	if _, err := x.Reconfigure(t.Context()); !errors.Is(err, cas.ErrUnsupported) {
		t.Error(err)
	}
}

// TestRules_Verified: the store is tried once, before the first save and only then, for as long as that takes.
func TestRules_Verified(t *testing.T) {
	w := newWorld(t)
	asked := 0
	verify := func(_ *blobindex.Config, o *blobindex.Options) {
		o.Shared.Usable = func(ctx context.Context) error {
			if _, limited := ctx.Deadline(); limited {
				t.Error("the trial has a time limit")
			}
			asked++
			return nil
		}
	}
	first := w.process(ttl(time.Hour), verify)
	if r := readRules(t, first); !r.Saved || asked != 1 {
		t.Errorf("%+v, asked %d times", r, asked)
	}
	if loads, saves := first.docs.counts(); loads != 2 || saves != 1 {
		t.Errorf("%d GET and %d PUT", loads, saves)
	}
	second := w.process(ttl(time.Hour), verify)
	if r := readRules(t, second); !r.Saved || asked != 1 {
		t.Errorf("where nothing is to be saved: %+v, asked %d times", r, asked)
	}
	third := w.process(ttl(2*time.Hour), verify)
	for range 2 {
		if _, err := third.Reconfigure(t.Context()); err != nil || asked != 2 {
			t.Errorf("a change: %v, asked %d times", err, asked)
		}
	}
}

// TestRules_SaveOpen: when it is not known what became of the first save, views go by one's own rules, and nothing is
// deleted, until it is known.
func TestRules_SaveOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		save, usable error
	}{
		"unknown":       {save: cas.ErrUnknown},
		"broken":        {save: errors.New("broken")},
		"cannot verify": {usable: errors.New("the probe was cut off")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			old := w.old("old", 90*time.Minute)
			usable := tc.usable
			p := w.process(ttl(time.Hour), func(_ *blobindex.Config, o *blobindex.Options) {
				if usable != nil {
					o.Shared.Usable = func(context.Context) error { return usable }
				}
			})
			p.docs.fail(nil, tc.save)
			if tc.save != nil && errors.Is(tc.save, cas.ErrUnknown) {
				// The read-backs must not settle it: what is there is not readable either.
				p.docs.Store = &deaf{Store: w.mem()}
			}
			v := mustCards(t, p.team, blobindex.CardsRequest{})
			if v.Counts.Stale != 1 || p.Ruling().Unsaved == nil {
				t.Fatalf("%+v %+v", v, p.Ruling())
			}
			report, err := janitor.New(p.Index, nil).Run(t.Context(), nil)
			if err == nil || report.Pages != 0 {
				t.Errorf("a pass: %v %+v", err, report)
			}
			if errs := p.Delete(t.Context(), []blobindex.Deletion{{Key: bucket.Key("_active_runs/team/" + old.String())}}); len(errs) != 1 || !errors.Is(errs[0], blobindex.ErrWithheld) {
				t.Errorf("deleting: %v", errs)
			}
			p.docs.fail(nil, nil)
			p.docs.Store, usable = w.mem(), nil
			if report, err := janitor.New(p.Index, nil).Run(t.Context(), nil); err != nil || report.Deleted["stale"] != 1 || !report.Ruling.Saved {
				t.Errorf("after it is known: %v %+v", err, report)
			}
		})
	}
}

// deaf is a store whose second and later loads fail: what was saved cannot be read back.
type deaf struct {
	cas.Store
	loads int
}

func (d *deaf) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	if d.loads++; d.loads > 1 {
		return cas.Object{}, bucket.ErrDenied
	}
	return d.Store.Load(ctx, key)
}

// TestRules_Refused: what a document cannot hold, or the argument does not cover, is refused before any request.
func TestRules_Refused(t *testing.T) {
	w := newWorld(t)
	for _, rules := range []prune.Rules{
		{TTL: time.Hour + time.Microsecond}, {Skew: 1500 * time.Microsecond}, {LateAfter: time.Minute + 1},
		{ListingLimit: blobindex.RulesLife + 1},
	} {
		shared := &blobindex.Sharing{Store: w.mem()}
		if _, err := blobindex.New(w.mem(), blobindex.Config{Rules: rules}, &blobindex.Options{Shared: shared}); !errors.Is(err, blobindex.ErrRequest) {
			t.Errorf("%+v: %v", rules, err)
		}
		if _, err := blobindex.New(w.mem(), blobindex.Config{Rules: rules}, nil); err != nil {
			t.Errorf("%+v without sharing: %v", rules, err)
		}
	}
}

// A beforeSave store calls a function before each save.
type beforeSave struct {
	cas.Store
	do func()
}

func (s beforeSave) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	s.do()
	return s.Store.Save(ctx, key, body, p)
}

// TestRules_SavedMeanwhile: somebody else saves the rules where this process was about to, and then it may not read them: it
// cannot go by its own, as if there were none.
func TestRules_SavedMeanwhile(t *testing.T) {
	for _, failure := range []error{bucket.ErrDenied, errors.New("down")} {
		for _, at := range []string{"while the bucket is tried", "at the save", "after the save was lost"} {
			w := newWorld(t)
			var p *process
			tried := false
			meanwhile := func() {
				if tried {
					return
				}
				tried = true
				readRules(t, w.process(ttl(4*time.Hour)))
				if at == "after the save was lost" {
					p.docs.failAfter(1, failure) // the one that reads it back
				} else {
					p.docs.fail(failure, nil)
				}
			}
			p = w.process(ttl(2*time.Hour), func(_ *blobindex.Config, o *blobindex.Options) {
				if at != "while the bucket is tried" {
					p := o.Shared.Store.(*docStore)
					p.Store = beforeSave{p.Store, meanwhile}
					return
				}
				o.Shared.Usable = func(context.Context) error {
					meanwhile()
					return nil
				}
			})
			var cannot *blobindex.RulesError
			if r, err := p.ReadRules(t.Context()); !errors.As(err, &cannot) || !errors.Is(err, failure) {
				t.Errorf("%v %s: %+v, %v, want a RulesError", failure, at, r, err)
			}
			p.docs.fail(nil, nil)
			if r, err := p.ReadRules(t.Context()); err != nil || !r.Saved || r.Rules.TTL != 4*time.Hour || len(r.Differences) == 0 {
				t.Errorf("%v %s, then: %+v, %v", failure, at, r, err)
			}
		}
	}
}
