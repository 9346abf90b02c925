package blobindex_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
	gocmp "github.com/google/go-cmp/cmp"
)

// The vectors of docs/SPEC.md, section 10, which specifies their format too. Their wants were derived from the
// specification, never from an answer of the code.

type vectorFile struct {
	Version int      `json:"version"`
	Vectors []vector `json:"vectors"`
}

type vector struct {
	Name    string                  `json:"name"`
	Why     string                  `json:"why"`
	Config  vectorConfig            `json:"config"`
	NowMS   int64                   `json:"now_ms"`
	Objects []vectorObject          `json:"objects"`
	Dead    []string                `json:"dead"`
	States  map[string]vectorAnswer `json:"states"`
	Want    vectorWant              `json:"want"`
}

type vectorConfig struct {
	Prefix         string `json:"prefix"`
	Namespace      string `json:"namespace"`
	Flat           bool   `json:"flat"`
	Grammar        string `json:"grammar"`
	TTLMS          int64  `json:"ttl_ms"`
	LateAfterMS    int64  `json:"late_after_ms"`
	SkewMS         int64  `json:"skew_ms"`
	ListingLimitMS int64  `json:"listing_limit_ms"`
	Limit          int    `json:"limit"`
	Budget         int    `json:"budget"`
}

type vectorObject struct {
	Key     string `json:"key"`
	StoreMS *int64 `json:"store_ms"`
	Size    int64  `json:"size"`
}

type vectorAnswer struct {
	State string `json:"state"`
	Cost  int    `json:"cost"`
}

type vectorWant struct {
	Cards    []string         `json:"cards"`
	Late     []string         `json:"late"`
	Counts   blobindex.Counts `json:"counts"`
	Deletes  []vectorDelete   `json:"deletes"`
	Finished []vectorFinished `json:"finished"`
}

type vectorDelete struct {
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

type vectorFinished struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
}

// readVectors reads the file, and demands that it has every field of the format and no other.
func readVectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var f vectorFile
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		t.Fatalf("vectors.json: %v", err)
	}
	again, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("vectors.json: %v", err)
	}
	if err := json.Unmarshal(again, &want); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("vectors.json lacks fields, or spells them otherwise (-format +file):\n%s", diff)
	}
	if f.Version != 1 {
		t.Fatalf("vectors.json is of version %d, want 1", f.Version)
	}
	return f.Vectors
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (v vector) now() time.Time { return time.UnixMilli(v.NowMS).UTC() }

func (v vector) rules(t *testing.T) prune.Rules {
	t.Helper()
	g, err := itemid.ParseGrammar(v.Config.Grammar)
	if err != nil {
		t.Fatal(err)
	}
	c := v.Config
	for _, n := range []int64{c.TTLMS, c.LateAfterMS, c.SkewMS, c.ListingLimitMS, int64(c.Limit), int64(c.Budget)} {
		if n <= 0 {
			t.Fatalf("the config has the number %d; a zero would mean a default of this implementation", n)
		}
	}
	r, err := prune.Rules{
		Grammar: g, TTL: ms(c.TTLMS), LateAfter: ms(c.LateAfterMS), Skew: ms(c.SkewMS), ListingLimit: ms(c.ListingLimitMS),
	}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// base is what the keys of the namespace begin with.
func (v vector) base() string {
	if v.Config.Flat {
		return v.Config.Prefix + "/"
	}
	return v.Config.Prefix + "/" + v.Config.Namespace + "/"
}

func (v vector) objects() []bucket.Object {
	var all []bucket.Object
	for _, o := range v.Objects {
		listed := bucket.Object{Key: bucket.Key(o.Key), Size: o.Size}
		if o.StoreMS != nil {
			listed.StoreTime = time.UnixMilli(*o.StoreMS)
		}
		all = append(all, listed)
	}
	return all
}

func (v vector) answer(id string) vectorAnswer {
	if a, ok := v.States[id]; ok {
		return a
	}
	return vectorAnswer{State: "running", Cost: 1}
}

// over tells whether the answer is a final state.
func (a vectorAnswer) over() bool {
	return slices.Contains([]string{"succeeded", "failed", "cancelled", "gone"}, a.State)
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			got, asked := v.decide(t)
			if diff := gocmp.Diff(v.Want, got); diff != "" {
				t.Errorf("vector %s, decided (-want +got):\n%s", v.Name, diff)
			}
			// However the store cuts and orders its listing, the answers are the same.
			for _, by := range []*stillBucket{{page: 1000, sorted: true}, {page: 2, sorted: true}, {page: 3}} {
				v.viewed(t, by, v.Want, asked)
			}
		})
	}
}

// viewed holds the vector, through an index over the store, to what is wanted of it.
func (v vector) viewed(t *testing.T, by shelf, want vectorWant, asked []string) {
	t.Helper()
	got, through := v.view(t, by)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("vector %s, through an index, %s (-want +got):\n%s", v.Name, by, diff)
	}
	if diff := gocmp.Diff(asked, through); diff != "" {
		t.Errorf("vector %s: the resolver was asked about others, %s (-decided +index):\n%s", v.Name, by, diff)
	}
}

// decide runs the vector through the pure decision alone, and resolves as the specification says. It returns the ids
// that were asked about as well, sorted.
func (v vector) decide(t *testing.T) (got vectorWant, asked []string) {
	t.Helper()
	d := v.decision(t)
	cards, unasked := v.resolve(d, &asked)
	c := d.Counts()
	got = vectorWant{Cards: []string{}, Late: []string{}, Deletes: []vectorDelete{}, Finished: []vectorFinished{}}
	got.Counts = blobindex.Counts{
		Live: c.Live, Shown: len(cards), Foreign: c.Foreign, BornLate: c.BornLate, Superseded: c.Superseded, Stale: c.Stale,
	}
	if len(cards) == v.Config.Limit {
		got.Counts.BeyondCap = unasked
	} else {
		got.Counts.Unresolved = unasked
	}
	for _, it := range cards {
		got.Cards = append(got.Cards, it.ID.String())
		if it.Late {
			got.Late = append(got.Late, it.ID.String())
		}
	}
	for _, p := range d.Plan() {
		got.Deletes = append(got.Deletes, vectorDelete{v.base() + p.Name, p.Reason.String()})
	}
	for _, it := range d.Finished() {
		got.Finished = append(got.Finished, vectorFinished{it.ID.String(), string(it.Outcome)})
	}
	slices.Sort(asked)
	return got, asked
}

func (v vector) decision(t *testing.T) *prune.Decision {
	t.Helper()
	n := prune.NewNamespace(v.rules(t))
	for _, o := range v.objects() {
		if name, ok := strings.CutPrefix(string(o.Key), v.base()); ok {
			n.Add(name, o.Size, o.StoreTime)
		}
	}
	dead := map[string]bool{}
	for _, id := range v.Dead {
		dead[id] = true
	}
	return n.Decide(v.now(), dead)
}

// resolve walks down the live items in rounds, and returns the cards and how many live items are left.
func (v vector) resolve(d *prune.Decision, asked *[]string) (cards []prune.Item, left int) {
	spent := 0
	for {
		cards = nil
		var round []string
		for _, it := range d.Shown() {
			id := it.ID.String()
			if len(cards) == v.Config.Limit {
				break
			}
			if !slices.Contains(*asked, id) {
				cost := v.answer(id).Cost
				if spent+cost > v.Config.Budget {
					break
				}
				spent += cost
				round = append(round, id)
			}
			cards = append(cards, it)
		}
		if len(round) == 0 {
			return cards, len(d.Shown()) - len(cards)
		}
		*asked = append(*asked, round...)
		for _, id := range round {
			if v.answer(id).over() {
				d.Bury(id)
			}
		}
	}
}

// A shelf is a bucket that lists what it is told to, at the time that it is told. Later pages tell a later clock, which
// must not matter.
type shelf interface {
	bucket.Objects
	fmt.Stringer
	show(now time.Time, objects []bucket.Object)
}

// A stillBucket never changes, and can be asked for nothing but listings: any other call panics.
type stillBucket struct {
	bucket.Objects
	objects []bucket.Object
	now     time.Time
	page    int
	sorted  bool
}

func (s *stillBucket) String() string { return fmt.Sprintf("pages of %d, sorted %v", s.page, s.sorted) }

func (s *stillBucket) show(now time.Time, objects []bucket.Object) { s.now, s.objects = now, objects }

func (s *stillBucket) List(_ context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	if req.After != "" {
		return bucket.ErrUnsupported
	}
	var rest []bucket.Object
	for _, o := range s.objects {
		if strings.HasPrefix(string(o.Key), req.Prefix) {
			rest = append(rest, o)
		}
	}
	slices.SortFunc(rest, func(a, b bucket.Object) int { return cmp.Compare(a.Key, b.Key) })
	if !s.sorted {
		slices.Reverse(rest)
	}
	for now := s.now; ; now = now.Add(time.Hour) {
		n := min(s.page, len(rest))
		if err := fn(bucket.Page{Objects: slices.Clone(rest[:n]), Now: now, Sorted: s.sorted}); err != nil {
			return err
		}
		if rest = rest[n:]; len(rest) == 0 {
			return nil
		}
	}
}

// A vectorResolver answers from a vector. While it teaches, it says of every item that it is over.
type vectorResolver struct {
	v     vector
	teach bool

	mu    sync.Mutex
	asked []string
}

func (r *vectorResolver) MaxRequests(target blobindex.Target) int {
	if r.teach {
		return 0
	}
	return r.v.answer(target.ID.String()).Cost
}

func (r *vectorResolver) Resolve(_ context.Context, target blobindex.Target) (blobindex.Status, error) {
	if r.teach {
		return blobindex.Status{State: blobindex.Succeeded}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, target.ID.String())
	a := r.v.answer(target.ID.String())
	s := blobindex.Status{Requests: a.Cost}
	if a.State == "error" {
		return s, errors.New("the resolver's own trouble")
	}
	for s.State = blobindex.Unknown; s.State <= blobindex.Gone; s.State++ {
		if s.State.String() == a.State {
			return s, nil
		}
	}
	return blobindex.Status{}, fmt.Errorf("the vector has the state %q", a.State)
}

// index opens the vector's index. The host's clock is years off: where the store tells time, it decides nothing.
func (v vector) index(t *testing.T, by shelf, resolver blobindex.Resolver) *blobindex.Index {
	t.Helper()
	host := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	x, err := blobindex.New(by, blobindex.Config{Prefix: v.Config.Prefix, Flat: v.Config.Flat, Rules: v.rules(t)},
		&blobindex.Options{Resolver: resolver, Budget: v.Config.Budget, Now: func() time.Time { return host }})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// view runs the vector through an index over a bucket that lists as by does. It returns the ids that the resolver was
// asked about as well, sorted.
func (v vector) view(t *testing.T, by shelf) (got vectorWant, asked []string) {
	t.Helper()
	resolver := &vectorResolver{v: v}
	x := v.index(t, by, resolver)
	n := space(t, x, v.Config.Namespace)
	v.teachDead(t, by, n, resolver)
	by.show(v.now(), v.objects())

	view, err := n.Cards(t.Context(), blobindex.CardsRequest{Limit: v.Config.Limit})
	if err != nil {
		t.Fatal(err)
	}
	if !view.Complete || !view.AsOf.Equal(v.now()) || view.Clock != blobindex.StoreClock {
		t.Errorf("vector %s: the view is complete %v, as of %v by the clock of the %s", v.Name, view.Complete, view.AsOf,
			view.Clock)
	}
	got = vectorWant{
		Cards: []string{}, Late: []string{}, Counts: view.Counts,
		Deletes: v.scan(t, x, n), Finished: []vectorFinished{},
	}
	for _, c := range view.Cards {
		got.Cards = append(got.Cards, c.ID)
		if c.Late {
			got.Late = append(got.Late, c.ID)
		}
	}
	recent, err := n.Recent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range recent.Items {
		got.Finished = append(got.Finished, vectorFinished{e.ID, string(e.Outcome)})
	}
	slices.Sort(resolver.asked)
	return got, resolver.asked
}

// teachDead makes the index know what the vector says is dead, through the one way there is: by asking about each while
// nothing else is listed, long before any of it was stale.
func (v vector) teachDead(t *testing.T, by shelf, n *blobindex.Namespace, r *vectorResolver) {
	t.Helper()
	r.teach = true
	by.show(time.UnixMilli(1), slices.DeleteFunc(v.objects(), func(o bucket.Object) bool {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(o.Key), v.base()), "~")
		return !slices.Contains(v.Dead, id)
	}))
	for _, text := range v.Dead {
		id, err := v.rules(t).Grammar.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Explain(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	r.teach = false
}

// scan returns the plan after the view, by a listing of the namespace; one of the whole index must give the same.
func (v vector) scan(t *testing.T, x *blobindex.Index, n *blobindex.Namespace) []vectorDelete {
	t.Helper()
	one, err := n.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan := one.Plan()
	var whole []blobindex.Deletion
	if _, err := x.Scan(t.Context(), func(s *blobindex.Snapshot) error {
		if s.Namespace().Name() == n.Name() {
			whole = append(whole, s.Plan()...)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(plan, whole) {
		t.Errorf("vector %s: the plan of the namespace is %v, within the whole index %v", v.Name, plan, whole)
	}
	out := []vectorDelete{}
	for _, d := range plan {
		out = append(out, vectorDelete{string(d.Key), d.Reason.String()})
	}
	return out
}

// TestVectorsCover fails if the vectors are few, or if something that they must show occurs in none of them.
func TestVectorsCover(t *testing.T) {
	vectors := readVectors(t)
	if len(vectors) < 48 {
		t.Errorf("there are %d vectors, want at least 48", len(vectors))
	}
	seen := map[string]bool{}
	for _, v := range vectors {
		if seen["vector "+v.Name] || v.Name == "" || v.Why == "" {
			t.Errorf("vector %q: every vector has a name of its own, and says why it is there", v.Name)
		}
		seen["vector "+v.Name] = true
		v.note(t, func(kind, what string) { seen[kind+" "+what] = true })
	}
	for kind, all := range map[string][]string{
		"reason": {
			prune.NeedlessHeartbeat.String(), prune.FinishedSighting.String(), prune.SupersededItem.String(),
			prune.StaleItem.String(), prune.DeadItem.String(), prune.OldTombstone.String(), prune.FutureDated.String(),
		},
		"item":    {prune.Live.String(), prune.Finished.String(), prune.Stale.String(), prune.Dead.String()},
		"outcome": {string(prune.Done), string(prune.Failed), string(prune.Cancelled)},
		"grammar": {"epoch", "ulid", "uuidv7", "ksuid", "subkey_ulid", "subkey_uuidv7", "subkey_ksuid"},
		"answer":  {"running", "unknown", "error", "succeeded", "failed", "cancelled", "gone"},
		"count": {
			"live", "shown", "beyond_cap", "unresolved", "foreign", "born_late", "superseded", "stale",
		},
		"other": {"late", "flat", "known dead", "no store time"},
	} {
		for _, what := range all {
			if !seen[kind+" "+what] {
				t.Errorf("no vector has the %s %q", kind, what)
			}
		}
	}
}

// note tells saw what occurs in the vector.
func (v vector) note(t *testing.T, saw func(kind, what string)) {
	t.Helper()
	saw("grammar", v.Config.Grammar)
	for _, d := range v.Want.Deletes {
		saw("reason", d.Reason)
	}
	for _, f := range v.Want.Finished {
		saw("outcome", f.Outcome)
	}
	for _, a := range v.States {
		saw("answer", a.State)
	}
	for what, is := range map[string]bool{
		"late": len(v.Want.Late) > 0, "flat": v.Config.Flat, "known dead": len(v.Dead) > 0,
		"no store time": slices.ContainsFunc(v.Objects, func(o vectorObject) bool { return o.StoreMS == nil }),
	} {
		if is {
			saw("other", what)
		}
	}
	text, err := json.Marshal(v.Want.Counts)
	if err != nil {
		t.Fatal(err)
	}
	var counts map[string]int
	if err := json.Unmarshal(text, &counts); err != nil {
		t.Fatal(err)
	}
	for what, n := range counts {
		if n > 0 {
			saw("count", what)
		}
	}
	d := v.decision(t)
	for _, o := range v.Objects {
		id, _, _ := strings.Cut(strings.TrimPrefix(o.Key, v.base()), "~")
		if it, ok := d.Item(id); ok {
			saw("item", it.State.String())
		}
	}
}

// TestVectorsInSpecification holds docs/SPEC.md and the vectors together: each vector is named by a clause, no clause
// names another one, and the example of the format is a vector.
func TestVectorsInSpecification(t *testing.T) {
	text, err := os.ReadFile("../docs/SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, list := range regexp.MustCompile(`Vectors:([^.]*)\.`).FindAllSubmatch(text, -1) {
		for _, name := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllSubmatch(list[1], -1) {
			named[string(name[1])] = true
		}
	}
	_, after, _ := strings.Cut(string(text), "```json\n")
	body, _, _ := strings.Cut(after, "```")
	var example vector
	if err := json.Unmarshal([]byte(body), &example); err != nil {
		t.Fatalf("the example in SPEC.md: %v", err)
	}
	for _, v := range readVectors(t) {
		if !named[v.Name] {
			t.Errorf("no clause of SPEC.md names the vector %s", v.Name)
		}
		delete(named, v.Name)
		if v.Name == example.Name {
			if diff := gocmp.Diff(v, example); diff != "" {
				t.Errorf("the example in SPEC.md is not the vector %s (-vector +example):\n%s", v.Name, diff)
			}
			example.Name = ""
		}
	}
	for name := range named {
		t.Errorf("SPEC.md names the vector %s, which there is not", name)
	}
	if example.Name != "" {
		t.Errorf("the example in SPEC.md, %s, is no vector", example.Name)
	}
}
