package prune_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
	"github.com/google/go-cmp/cmp"
)

// This file holds the decision to a second, naive reading of the specification, and the plan to promise P3, over a
// great many small buckets whose times lie around every threshold.

// An object is one key of a bucket under test; times are in seconds before or after the epoch of the test.
type object struct {
	name  string
	store int
}

var epoch = time.Unix(1_700_000_000, 0).UTC()

func at(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }

var testRules = must(prune.Rules{
	TTL: 100 * time.Second, LateAfter: 30 * time.Second, Skew: 10 * time.Second, ListingLimit: 20 * time.Second,
}.WithDefaults())

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func decide(keys []object, now int, dead map[string]bool) *prune.Decision {
	n := prune.NewNamespace(testRules)
	for _, k := range keys {
		n.Add(k.name, 0, at(k.store))
	}
	return n.Decide(at(now), dead)
}

// oracle reads docs/SPEC.md word by word, item by item, in seconds.
type oracle struct {
	now   int
	items map[string]*oracleItem
}

type oracleItem struct {
	id, subkey           string
	at                   int
	seen, receipt, named int // over the sightings
	sighted              bool
	ended, tombs         int
	dead                 bool
	ahead                bool // of now, by the name or the store time of a key
}

func secondsOf(id string) int {
	return int(must(itemid.Epoch.Parse(id)).Time().Sub(epoch) / time.Second)
}

func newOracle(keys []object, now int, dead map[string]bool) *oracle {
	o := &oracle{now: now, items: map[string]*oracleItem{}}
	for _, k := range keys {
		id, signal, _ := strings.Cut(k.name, "~")
		named := secondsOf(id)
		beat := len(signal) == 13
		if beat {
			var ms int64
			fmt.Sscan(signal, &ms)
			named = max(named, int(time.UnixMilli(ms).Sub(epoch)/time.Second))
		}
		if named > k.store+10 {
			continue // foreign
		}
		it := o.items[id]
		if it == nil {
			it = &oracleItem{id: id, subkey: must(itemid.Epoch.Parse(id)).Subkey(), at: secondsOf(id), dead: dead[id]}
			o.items[id] = it
		}
		it.ahead = it.ahead || named > now+10 || k.store > now+10
		switch {
		case signal != "" && !beat:
			if it.tombs++; it.tombs == 1 || k.store < it.ended {
				it.ended = k.store
			}
			continue
		case beat:
			var ms int64
			fmt.Sscan(signal, &ms)
			it.see(min(int(time.UnixMilli(ms).Sub(epoch)/time.Second), k.store), k.store, named)
		default:
			it.see(it.at, k.store, named)
		}
	}
	return o
}

func (it *oracleItem) see(seen, store, named int) {
	if !it.sighted {
		it.sighted, it.seen, it.receipt, it.named = true, seen, store, named
	}
	it.seen, it.receipt, it.named = max(it.seen, seen), max(it.receipt, store), max(it.named, named)
}

func (o *oracle) state(it *oracleItem) prune.State {
	switch {
	case it.tombs > 0:
		return prune.Finished
	case o.now-it.seen > 100:
		return prune.Stale
	case it.dead:
		return prune.Dead
	}
	return prune.Live
}

func newer(a, b *oracleItem) bool { return a.at > b.at || a.at == b.at && a.id > b.id }

func (o *oracle) supersedes(a, b *oracleItem) bool {
	if a.subkey != b.subkey || !newer(a, b) || a.ahead {
		return false
	}
	switch o.state(a) {
	case prune.Live:
		return true
	case prune.Finished:
		return !b.sighted || b.receipt <= a.ended
	}
	return !b.sighted || b.receipt <= a.receipt
}

func (o *oracle) shown() []string {
	var live []*oracleItem
	for _, it := range o.items {
		hidden := o.state(it) != prune.Live
		for _, other := range o.items {
			hidden = hidden || o.supersedes(other, it)
		}
		if !hidden {
			live = append(live, it)
		}
	}
	slices.SortFunc(live, func(a, b *oracleItem) int {
		if newer(a, b) {
			return -1
		}
		return 1
	})
	var ids []string
	for _, it := range live {
		ids = append(ids, it.id)
	}
	return ids
}

func shownIDs(d *prune.Decision) []string {
	var ids []string
	for _, it := range d.Shown() {
		ids = append(ids, it.ID.String())
	}
	return ids
}

// without returns keys less the planned ones whose bit is set in mask.
func without(keys []object, plan []prune.Deletion, mask uint64) []object {
	gone := map[string]bool{}
	for i, d := range plan {
		if mask>>i&1 == 1 {
			gone[d.Name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(o object) bool { return gone[o.name] })
}

// The ages, in seconds, at which something changes: skew, listing limit, late_after, TTL, TTL + 2 × skew.
var ages = []int{0, 1, 9, 10, 11, 19, 20, 21, 22, 29, 31, 50, 60, 89, 99, 100, 101, 109, 111, 119, 120, 121, 122, 130, 200}

// randomBucket makes up to four runs of one or two sub-keys, with late, early and copied keys among them.
func randomBucket(r *rand.Rand) (keys []object, dead map[string]bool) {
	dead = map[string]bool{}
	pick := func() int { return -ages[r.IntN(len(ages))] }
	have := map[string]bool{}
	add := func(name string, store int) {
		if !have[name] {
			have[name] = true
			keys = append(keys, object{name, store})
		}
	}
	for range 1 + r.IntN(4) {
		start := pick()
		digits := fmt.Sprint(at(start).Unix())
		if r.IntN(4) == 0 {
			digits = fmt.Sprint(at(start).UnixMilli()) // the same time under another id
		}
		id := []string{"c", "c", "c", "d"}[r.IntN(4)] + "_" + digits
		if r.IntN(8) > 0 {
			add(id, min(0, start+[]int{0, 0, 1, 5, 15, 60, -5, -12}[r.IntN(8)]))
		}
		for range r.IntN(4) {
			beat := max(start, pick())
			add(fmt.Sprintf("%s~%d", id, at(beat).UnixMilli()), min(0, beat+[]int{0, 0, 1, 5, 30, -5, -12}[r.IntN(7)]))
		}
		if r.IntN(6) == 0 {
			keys = slices.DeleteFunc(keys, func(o object) bool { return strings.HasPrefix(o.name, id) }) // all swept
			add(id+"~failed", start)
		}
		for range max(0, r.IntN(5)-2) {
			add(id+"~"+[]string{"done", "failed", "cancelled"}[r.IntN(3)], max(start-5, pick()))
		}
		dead[id] = r.IntN(4) == 0
	}
	if len(keys) > 0 && r.IntN(6) == 0 { // what was written while the clock was ahead
		for range 1 + r.IntN(2) {
			k := &keys[r.IntN(len(keys))]
			k.store = 9 + r.IntN(40)
		}
	}
	return keys, dead
}

// TestP3_AnySubsetOfAPlan: carrying out any subset of a plan shows nothing that was hidden and hides nothing that was
// shown, at once; and at any later time it brings back nothing that would be hidden without it.
func TestP3_AnySubsetOfAPlan(t *testing.T) {
	rounds := 4_000
	if n, err := strconv.Atoi(os.Getenv("INDEXD_EXPLORE")); err == nil {
		rounds *= n // make explore
	}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	reasons := map[prune.Reason]int{}
	for range rounds {
		keys, dead := randomBucket(r)
		d := decide(keys, 0, dead)
		want := shownIDs(d)
		if diff := cmp.Diff(newOracle(keys, 0, dead).shown(), want); diff != "" {
			t.Fatalf("bucket %v dead %v: shown differs from the naive reading (-naive +got):\n%s", keys, dead, diff)
		}
		plan := d.Plan()
		for _, p := range plan {
			reasons[p.Reason]++
		}
		for mask := range subsets(r, len(plan)) {
			rest := without(keys, plan, mask)
			if got := shownIDs(decide(rest, 0, dead)); !slices.Equal(got, want) {
				t.Fatalf("bucket %v dead %v plan %v subset %b: shown was %v, is %v", keys, dead, plan, mask, want, got)
			}
			for _, later := range []int{1, 11, 50, 99, 101} {
				whole := shownIDs(decide(keys, later, dead))
				for _, id := range shownIDs(decide(rest, later, dead)) {
					if !slices.Contains(whole, id) {
						t.Fatalf("bucket %v dead %v plan %v subset %b: %d s later %q is shown, and is hidden without it",
							keys, dead, plan, mask, later, id)
					}
				}
			}
		}
	}
	for why := prune.NeedlessHeartbeat; why <= prune.OldTombstone; why++ {
		if reasons[why] < 20 {
			t.Errorf("only %d keys were planned as %v: the buckets do not try that clause", reasons[why], why)
		}
	}
}

// subsets yields all subsets of n keys as bit masks, or the whole, the singles and random ones if there are too many.
func subsets(r *rand.Rand, n int) func(func(uint64) bool) {
	return func(yield func(uint64) bool) {
		if n <= 5 {
			for m := uint64(1); m < 1<<n; m++ {
				if !yield(m) {
					return
				}
			}
			return
		}
		for i := range n {
			if !yield(1 << i) {
				return
			}
		}
		for range 24 {
			if !yield(r.Uint64() & (1<<n - 1)) {
				return
			}
		}
		yield(1<<n - 1)
	}
}
