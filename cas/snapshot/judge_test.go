package snapshot_test

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/fakes/explore"
)

// A document is the pointer as it is stored, with the saves that made it.
type document struct {
	Seq     uint64
	Nonce   string
	Recent  []save
	Payload struct {
		GraceMS int64 `json:"grace_ms"`
		Current snapshot.Info
		Retired []struct{ ID snapshot.ID }
	}
}

type save struct {
	Seq   uint64
	Nonce string
}

// by is the actor of a save, and what the actor had walked.
func (s save) by() (actor, walked string) {
	actor, walked, _ = strings.Cut(s.Nonce, "v")
	return strings.TrimRight(actor, "0123456789"), walked
}

// saves are all that the document knows of, the last one included.
func (d *document) saves() []save { return append(slices.Clone(d.Recent), save{d.Seq, d.Nonce}) }

// A generation is what is stored of one, and has to be as long as the pointer names it.
type generation struct {
	Format string
	ID     snapshot.ID
	Rows   int64
	Digest string
	Parts  []struct{ Bytes int64 }
}

// A judge holds the states of a search to P9. What it says of equal pointers and stores it remembers.
type judge struct {
	t      *testing.T
	docs   map[string]*document // by body
	orders map[string]error     // by body
	trees  map[string]error     // by what is stored of a generation
	ends   map[string]error     // by what is stored
	tally  map[string]int
}

func newJudge(t *testing.T) *judge {
	return &judge{t, map[string]*document{}, map[string]error{}, map[string]error{}, map[string]error{}, map[string]int{}}
}

// of is the scenario with these actors, judged.
func (j *judge) of(s explore.Scenario, actors []explore.Actor) explore.Scenario {
	s.Name, s.Actors = j.t.Name(), actors
	s.Invariant, s.Check = j.state, j.end
	return s
}

// pointer reads the document out of a state; nil if there is none.
func (j *judge) pointer(f *explore.Final) (*document, string) {
	o, found := f.Object(pointerKey)
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

// state is what holds at every moment.
func (j *judge) state(f *explore.Final) error {
	d, body := j.pointer(f)
	if d == nil {
		return nil
	}
	err, known := j.orders[body]
	if !known {
		err = forward(d)
		j.orders[body] = err
	}
	if err == nil {
		err = j.whole(f, d.Payload.Current.ID)
	}
	for _, r := range d.Payload.Retired {
		if err == nil && d.Payload.GraceMS > 0 { // no time passes
			if err = j.whole(f, r.ID); err != nil {
				err = fmt.Errorf("in its grace: %w", err)
			}
		}
	}
	return err
}

// forward: the pointer has only moved forward, in number and in content.
func forward(d *document) error {
	last := 0
	for _, s := range d.saves() {
		_, walked := s.by()
		is, err := strconv.Atoi(walked)
		if err != nil || is < last {
			return fmt.Errorf("the pointer went back to %s: its saves are %v", walked, d.saves())
		}
		last = is
	}
	id := d.Payload.Current.ID
	for i, r := range d.Payload.Retired {
		if r.ID.Number >= id.Number || i > 0 && r.ID.Number <= d.Payload.Retired[i-1].ID.Number {
			return fmt.Errorf("generation %v follows %v", id, d.Payload.Retired)
		}
	}
	if id.Number < d.Seq {
		return fmt.Errorf("generation %v is in save %d", id, d.Seq)
	}
	if !strings.Contains(id.String(), "v"+strconv.Itoa(last)+"-") {
		return fmt.Errorf("generation %v is in save %v", id, d.Nonce)
	}
	return nil
}

// whole: a generation is there, with its index and all parts, and holds what was walked.
func (j *judge) whole(f *explore.Final, id snapshot.ID) error {
	prefix := string(file(id, ""))
	files := map[string]string{}
	var key strings.Builder
	for _, o := range f.Objects {
		if name, ok := strings.CutPrefix(string(o.Key), prefix); ok {
			files[name] = o.Body
			fmt.Fprintf(&key, "%s %d %s", o.Key, len(o.Body), o.Body)
		}
	}
	err, known := j.trees[key.String()]
	if !known {
		err = intact(id, files)
		j.trees[key.String()] = err
	}
	return err
}

func intact(id snapshot.ID, files map[string]string) error {
	var g generation
	if err := json.Unmarshal([]byte(files["index"]), &g); err != nil || g.ID != id {
		return fmt.Errorf("generation %v has lost its index, or has that of %v: %w", id, g.ID, err)
	}
	digest := sha256.New()
	for n, p := range g.Parts {
		body := files[fmt.Sprintf("%06d", n)]
		z, err := gzip.NewReader(strings.NewReader(body))
		if err != nil || int64(len(body)) != p.Bytes {
			return fmt.Errorf("generation %v has lost part %d: %w", id, n, err)
		}
		if _, err := io.Copy(digest, z); err != nil {
			return err
		}
	}
	if got := fmt.Sprintf("sha256:%x", digest.Sum(nil)); got != g.Digest || g.Rows != 2 {
		return fmt.Errorf("generation %v has %d rows and %s, not %s", id, g.Rows, got, g.Digest)
	}
	return nil
}

// end is what holds when everybody is finished or crashed.
func (j *judge) end(f *explore.Final) error {
	var key strings.Builder
	for _, o := range f.Objects {
		fmt.Fprintf(&key, "%q%q ", o.Key, o.Body)
	}
	err, known := j.ends[key.String()]
	if !known {
		err = j.tidied(f)
		j.ends[key.String()] = err
	}
	return errors.Join(j.answers(f), err)
}

// answers: who was told that it published finds its save among those of the pointer, and who was told otherwise does not.
// Who has lost has listed only to claim, and deleted nothing. What was read is one tree that was published, and the second
// is no older than the first.
func (j *judge) answers(f *explore.Final) error {
	var saves []save
	if d, _ := j.pointer(f); d != nil {
		saves = d.saves()
	}
	for _, a := range f.Actors {
		won := slices.ContainsFunc(saves, func(s save) bool { by, _ := s.by(); return by == a.Name })
		last := snapshot.ID{}
		for _, line := range a.Log {
			words := strings.Fields(line)
			what := a.Name + " " + words[0]
			switch words[0] {
			case "published", "unchanged", "superseded", "failed":
				if won != (words[0] == "published") {
					return fmt.Errorf("%s was told %q; the saves are %v", a.Name, line, saves)
				}
			case "read":
				id, err := snapshot.ParseID(words[1])
				value := strings.Join(words[2:], " ")
				if err != nil || id.Number < last.Number {
					return fmt.Errorf("%s read %v after %v: %w", a.Name, id, last, err)
				}
				nonce := strings.Split(words[1], "-")[1]
				by, walked := save{Nonce: nonce}.by()
				if value != fmt.Sprintf("a %s b %s", walked, walked) {
					return fmt.Errorf("%s read %s of %v", a.Name, value, id)
				}
				if !slices.ContainsFunc(saves, func(s save) bool { b, w := s.by(); return b == by && w == walked }) {
					return fmt.Errorf("%s read %v, which was never published: the saves are %v", a.Name, id, saves)
				}
				last, what = id, what+" "+strconv.FormatUint(id.Number, 10)
			}
			if strings.HasPrefix(line, "failed badly") {
				return fmt.Errorf("%s %s", a.Name, line)
			}
			if words[0] == "superseded" && (words[1] != "1" && words[1] != "0" || words[2] != "0") {
				return fmt.Errorf("%s, superseded, has made %s listings and %s deletes", a.Name, words[1], words[2])
			}
			j.tally[what]++
		}
	}
	return nil
}

// tidied: one more publication and a sweep past its grace leave one generation, and nothing else: no repair is needed.
func (j *judge) tidied(f *explore.Final) error {
	ctx := context.Background()
	now := start
	b := membucket.New(&membucket.Options{Now: func() time.Time { return now }})
	for _, o := range f.Objects {
		if _, err := b.Put(ctx, o.Key, strings.NewReader(o.Body)); err != nil {
			return err
		}
	}
	s, err := snapshot.New(b, "team", "files", &snapshot.Options{Now: func() time.Time { return now }})
	if err != nil {
		return err
	}
	r, err := s.Publish(ctx, treeOf("99"), nil)
	if err != nil || r.Outcome != snapshot.Published || r.SweepErr != nil {
		return fmt.Errorf("publishing afterwards: %+v, %w", r, err)
	}
	now = now.Add(2 * snapshot.DefaultGrace)
	swept, err := s.Sweep(ctx)
	if err != nil || swept.Kept > 0 {
		return fmt.Errorf("sweeping afterwards: %+v, %w", swept, err)
	}
	return b.List(ctx, bucket.ListRequest{Prefix: root}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			if o.Key != pointerKey && !strings.HasPrefix(string(o.Key), string(file(r.ID, ""))) {
				return fmt.Errorf("%q is left, after %+v and %+v", o.Key, r, swept)
			}
		}
		return nil
	})
}
