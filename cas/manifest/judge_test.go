package manifest_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/fakes/explore"
)

// A document is the list as it is stored, with the saves that made it.
type document struct {
	Seq     uint64
	Nonce   string
	Recent  []save
	Payload struct {
		GraceMS int64 `json:"grace_ms"`
		Entries []manifest.Entry
		Reaping []string
	}
}

type save struct {
	Seq   uint64
	Nonce string
}

// saves are all that the document knows of, the last one included.
func (d *document) saves() []save { return append(slices.Clone(d.Recent), save{d.Seq, d.Nonce}) }

// seeded1 is the save that a scenario begins with.
const seeded1 = "s1"

// by is the actor of a save; a nonce is its name and a number.
func (s save) by() string { return strings.TrimRight(s.Nonce, "0123456789") }

func digestOf(body string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body))) }

// A judge holds the states of a search to the promises. What it says of equal lists and equal stores it remembers.
type judge struct {
	t     *testing.T
	parts []part
	seed  []line               // what a scenario begins with; it is the first that is judged
	docs  map[string]*document // by body
	lists map[string]error     // by body
	ends  map[string]error     // by what is stored, and the clock
	tally map[string]int
}

func newJudge(t *testing.T, parts []part) *judge {
	return &judge{t: t, parts: parts, docs: map[string]*document{}, lists: map[string]error{}, ends: map[string]error{},
		tally: map[string]int{}}
}

// of is the scenario with the parts as its actors, judged.
func (j *judge) of(s explore.Scenario) explore.Scenario {
	s.Name = j.t.Name()
	for _, p := range j.parts {
		s.Actors = append(s.Actors, p.Actor)
	}
	s.Invariant = j.state
	s.Check = j.end
	return s
}

// wantAll fails if a search has seen nothing of what it is there for.
func (j *judge) wantAll() {
	for _, p := range j.parts {
		if p.does != nil && j.tally["won by "+p.Name] == 0 {
			j.t.Errorf("%s never won: %v", p.Name, j.tally)
		}
		if strings.HasPrefix(p.Name, "g") && j.tally["journaled by "+p.Name] == 0 {
			j.t.Errorf("%s never journaled anything: %v", p.Name, j.tally)
		}
	}
}

// list reads the document out of a state; nil if there is none.
func (j *judge) list(f *explore.Final) (*document, string) {
	o, found := f.Object(listKey)
	if !found {
		return nil, ""
	}
	d, known := j.docs[o.Body]
	if !known {
		d = new(document)
		if err := json.Unmarshal([]byte(o.Body), d); err != nil {
			panic(err)
		}
		j.docs[o.Body] = d
	}
	return d, o.Body
}

// state is what holds in every state, at every moment.
func (j *judge) state(f *explore.Final) error {
	d, body := j.list(f)
	if d == nil {
		return nil
	}
	err, known := j.lists[body]
	if !known {
		err = j.ordered(d)
		j.lists[body] = err
	}
	return errors.Join(err, referenced(f, d), journaled(f, d))
}

// ordered: the entries are exactly those that the saves, one after the other, make of the list. Nothing that was
// acknowledged is lost, nothing is there twice, and the order is that of the saves.
func (j *judge) ordered(d *document) error {
	var got, want []line
	for _, e := range d.Payload.Entries {
		got = append(got, line{e.ID, e.DedupeKey})
	}
	if d.Seq == 1 && d.Nonce == seeded1 {
		j.seed = got
	}
	for _, s := range d.saves() {
		if s.Nonce == seeded1 {
			want = j.seed
		}
		for _, p := range j.parts {
			switch {
			case p.Name != s.by():
			case p.does == nil:
				j.tally["journaled by "+p.Name]++
			default:
				want = p.does(want)
				j.tally["won by "+p.Name]++
			}
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the list has %v; its saves %v make %v", got, d.saves(), want)
	}
	return nil
}

// referenced is P8: no manifest references a blob that is not there, whole.
func referenced(f *explore.Final, d *document) error {
	for _, e := range d.Payload.Entries {
		for _, b := range e.Blobs {
			o, there := f.Object(bucket.Key(root + "blobs/" + b.Key))
			if !there {
				return fmt.Errorf("entry %s references %s, which is missing", e.ID, b.Key)
			}
			if o.Size != b.Size || digestOf(o.Body) != b.Digest {
				return fmt.Errorf("entry %s has %s with %d bytes, %s; it is %q", e.ID, b.Key, b.Size, b.Digest, o.Body)
			}
		}
	}
	return nil
}

// journaled: what an entry had that was acknowledged, and is out of the list again, is journaled as long as it is there.
func journaled(f *explore.Final, d *document) error {
	for _, a := range f.Actors {
		for _, line := range a.Log {
			words := strings.Fields(line)
			if words[0] != "won" {
				continue
			}
			for _, key := range words[2:] {
				_, there := f.Object(bucket.Key(root + "blobs/" + key))
				if there && !slices.Contains(d.Payload.Reaping, key) && !slices.ContainsFunc(d.Payload.Entries,
					func(e manifest.Entry) bool { return e.Blobs[0].Key == key }) {
					return fmt.Errorf("%s, displaced, is there and not journaled", key)
				}
			}
		}
	}
	return nil
}

// end is what holds when everybody is finished or crashed.
func (j *judge) end(f *explore.Final) error {
	var key strings.Builder
	for _, o := range f.Objects {
		fmt.Fprintf(&key, "%q%q%d ", o.Key, o.Body, o.StoreTime.Unix())
	}
	fmt.Fprint(&key, f.Clock.Unix())
	err, known := j.ends[key.String()]
	if !known {
		err = j.tidied(f)
		j.ends[key.String()] = err
	}
	return errors.Join(j.answers(f), err)
}

// answers: who was told that a change was won finds its save among those of the document, under the number that it was told,
// and who was told that it failed does not.
func (j *judge) answers(f *explore.Final) error {
	var saves []save
	if d, _ := j.list(f); d != nil {
		saves = d.saves()
	}
	for _, a := range f.Actors {
		i := slices.IndexFunc(saves, func(s save) bool { return s.by() == a.Name })
		for _, line := range a.Log {
			switch words := strings.Fields(line); {
			case words[0] == "won" && (i < 0 || strconv.FormatUint(saves[i].Seq, 10) != words[1]):
				return fmt.Errorf("%s was told %q; the saves are %v", a.Name, line, saves)
			case words[0] == "failed" && i >= 0:
				return fmt.Errorf("%s was told that it failed; the saves are %v", a.Name, saves)
			}
			j.tally[strings.Fields(line)[0]]++
		}
	}
	return nil
}

// tidied: one more gc, past the grace, leaves exactly the list and what it references. Where there is no list it takes nothing.
func (j *judge) tidied(f *explore.Final) error {
	ctx := context.Background()
	now := start
	store := membucket.New(&membucket.Options{Now: func() time.Time { return now }})
	objects := slices.Clone(f.Objects)
	slices.SortStableFunc(objects, func(a, b explore.Object) int {
		return cmp.Or(a.StoreTime.Compare(b.StoreTime), cmp.Compare(a.Key, b.Key))
	})
	for _, o := range objects {
		now = o.StoreTime
		if _, err := store.Put(ctx, o.Key, strings.NewReader(o.Body)); err != nil {
			return err
		}
	}
	m, err := manifest.New(store, "team", "models", nil)
	if err != nil {
		return err
	}
	d, _ := j.list(f)
	if d == nil {
		now = f.Clock.Add(100 * 24 * time.Hour)
		if _, err := m.GC(ctx, nil); !errors.Is(err, cas.ErrNotExist) {
			return fmt.Errorf("gc without a list: %w", err)
		}
		var keys []bucket.Key
		for _, o := range objects {
			keys = append(keys, o.Key)
		}
		return wantKeys(store, keys)
	}
	now = f.Clock.Add(time.Duration(d.Payload.GraceMS)*time.Millisecond + time.Minute)
	report, err := m.GC(ctx, nil)
	if err != nil {
		return fmt.Errorf("gc afterwards: %w", err)
	}
	if err := onlyList(store, d); err != nil {
		return fmt.Errorf("after a gc (%+v): %w", report, err)
	}
	after, err := m.Load(ctx)
	if err != nil {
		return err
	}
	if len(after.Reaping) > 0 || fmt.Sprint(after.Entries) != fmt.Sprint(d.Payload.Entries) {
		return fmt.Errorf("after a gc (%+v): %+v", report, after)
	}
	return nil
}

// onlyList: a store has the list and what it references, and nothing else.
func onlyList(store bucket.Objects, d *document) error {
	keys := []bucket.Key{listKey}
	for _, e := range d.Payload.Entries {
		for _, b := range e.Blobs {
			keys = append(keys, bucket.Key(root+"blobs/"+b.Key))
		}
	}
	return wantKeys(store, keys)
}

func wantKeys(store bucket.Objects, want []bucket.Key) error {
	var got []bucket.Key
	err := store.List(context.Background(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			got = append(got, o.Key)
		}
		return nil
	})
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		return errors.Join(fmt.Errorf("there are %q, want %q", got, want), err)
	}
	return nil
}
