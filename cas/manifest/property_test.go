package manifest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
)

// A team is processes that work on one manifest, each for one change; where one waits for an answer, others may run.
type team struct {
	*rapid.T
	store  *membucket.Bucket
	now    time.Time
	begun  int
	depth  int                                // of changes inside the requests of others
	does   map[string]func(was []line) []line // what the save of a process makes of the list
	told   map[string]error                   // what a process was told that did not crash; nil: won
	late   []func() error                     // writes that are on their way
	stored map[bucket.Key]bool                // keys that a blob was uploaded under
	reaped map[bucket.Key]bool                // keys that stood in a journal
}

var errDead = errors.New("this process is dead")

// A process is the store as one of the team has it. At one of its requests something happens to it.
type process struct {
	*team
	at, nested int // which request, from 1; 0: none
	kind       string
	requests   int
	dead       bool
	die        context.CancelFunc
}

func (p *process) write(do func() error) error {
	if err := p.step(); err != nil {
		return err
	}
	if p.requests != p.at {
		return do()
	}
	switch p.kind {
	case "refused":
		return bucket.ErrThrottled
	case "late":
		p.late = append(p.late, do)
	case "applied", "crash after":
		if err := do(); err != nil {
			return err
		}
	}
	if strings.HasPrefix(p.kind, "crash") {
		return p.crash()
	}
	return bucket.ErrUnknown // "not applied", too
}

func (p *process) read(do func() error) error {
	if err := p.step(); err != nil {
		return err
	}
	switch {
	case p.requests != p.at:
		return do()
	case strings.HasPrefix(p.kind, "crash"):
		return p.crash()
	}
	return bucket.ErrThrottled
}

func (p *process) step() error {
	if p.requests++; !p.dead && p.requests == p.nested {
		p.change()
	}
	if p.dead {
		return errDead
	}
	return nil
}

func (p *process) crash() error {
	p.dead = true
	p.die()
	return errDead
}

func (p *process) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return p.read(func() error { return p.store.List(ctx, req, fn) })
}

func (p *process) Open(ctx context.Context, key bucket.Key) (r io.ReadCloser, err error) {
	err = p.read(func() error { r, err = p.store.Open(ctx, key); return err })
	return r, err
}

func (p *process) Head(ctx context.Context, key bucket.Key) (o bucket.Object, err error) {
	err = p.read(func() error { o, err = p.store.Head(ctx, key); return err })
	return o, err
}

func (p *process) Load(ctx context.Context, key bucket.Key) (o cas.Object, err error) {
	err = p.read(func() error { o, err = p.store.Load(ctx, key); return err })
	return o, err
}

func (p *process) Put(_ context.Context, key bucket.Key, body io.Reader) (at time.Time, err error) {
	content, err := io.ReadAll(body)
	if err != nil {
		return at, err
	}
	if p.stored[key] {
		p.Errorf("the key %s is used again", key)
	}
	p.stored[key] = true
	err = p.write(func() error {
		at, err = p.store.Put(context.Background(), key, bytes.NewReader(content))
		return err
	})
	return at, err
}

func (p *process) Save(_ context.Context, key bucket.Key, body []byte, on cas.Precondition) (v cas.Version, err error) {
	err = p.write(func() error {
		was := p.list()
		if v, err = p.store.Save(context.Background(), key, body, on); err == nil {
			p.journals(was)
		}
		return err
	})
	return v, err
}

func (p *process) Delete(_ context.Context, keys []bucket.Key) []error {
	errs := make([]error, len(keys))
	for i, key := range keys {
		if !p.reaped[key] {
			p.Errorf("%s is deleted, and was never journaled", key)
		}
		errs[i] = p.write(func() error { return errors.Join(p.store.Delete(context.Background(), []bucket.Key{key})...) })
	}
	return errs
}

// list is the document as it is stored; nil if there is none.
func (w *team) list() *document {
	o, err := w.store.Load(context.Background(), listKey)
	if errors.Is(err, cas.ErrNotExist) {
		return nil
	}
	d := new(document)
	if err := errors.Join(err, json.Unmarshal(o.Body, d)); err != nil {
		w.Fatal(err)
	}
	return d
}

// journals takes note of what a save has journaled: it was referenced before, or an orphan that is older than the grace.
func (w *team) journals(was *document) {
	is := w.list()
	referenced := map[string]bool{}
	if was != nil {
		for _, e := range was.Payload.Entries {
			for _, b := range e.Blobs {
				referenced[b.Key] = true
			}
		}
	}
	for _, k := range is.Payload.Reaping {
		key := bucket.Key(root + "blobs/" + k)
		if w.reaped[key] {
			continue
		}
		w.reaped[key] = true
		grace := time.Duration(is.Payload.GraceMS) * time.Millisecond
		if o, err := w.store.Head(context.Background(), key); err == nil && !referenced[k] && o.StoreTime.After(w.now.Add(-grace)) {
			w.Errorf("%s is taken for an orphan after %v", k, w.now.Sub(o.StoreTime))
		}
	}
}

// change is one change by one process, or nothing but time that passes, or a write that comes late.
func (w *team) change() {
	if w.depth == 3 {
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	kinds := []string{"add", "add", "remove", "gc", "late gc", "late gc", "clock", "late"}
	switch what := rapid.SampledFrom(kinds).Draw(w.T, "what"); what {
	case "clock":
		w.now = w.now.Add(rapid.SampledFrom([]time.Duration{30 * time.Minute, 2 * time.Hour}).Draw(w.T, "passed"))
	case "late":
		w.comeLate()
	case "late gc":
		w.now = w.now.Add(2 * time.Hour)
		w.run("gc")
	default:
		w.run(what)
	}
}

func (w *team) comeLate() {
	if len(w.late) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.late)-1).Draw(w.T, "late")
	do := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	_ = do() // a save may find its condition broken by now
}

func (w *team) run(what string) {
	w.begun++
	name := "w" + strconv.Itoa(w.begun) + "x"
	ctx, die := context.WithCancel(context.Background())
	defer die()
	p := &process{team: w, die: die,
		at:     rapid.IntRange(0, 8).Draw(w.T, "at"),
		nested: rapid.IntRange(0, 8).Draw(w.T, "nested"),
		kind: rapid.SampledFrom([]string{
			"refused", "not applied", "applied", "late", "crash before", "crash after"}).Draw(w.T, "kind")}
	n := 0
	next := func() string { n++; return name + strconv.Itoa(n) }
	hasty := rapid.Bool().Draw(w.T, "hasty")
	m, err := manifest.New(p, "team", "models", &manifest.Options{
		Grace: rapid.SampledFrom([]time.Duration{manifest.MinGrace, 24 * time.Hour}).Draw(w.T, "grace"), NewKey: next,
		Doc: &cas.Options{Now: func() time.Time { return start }, Nonce: next, Wait: func(ctx context.Context, _ time.Duration) error {
			if hasty {
				return context.DeadlineExceeded
			}
			return ctx.Err()
		}},
	})
	if err != nil {
		w.Fatal(err)
	}
	switch what {
	case "add":
		key := rapid.SampledFrom([]string{"", "k", "l"}).Draw(w.T, "dedupe_key")
		w.does[name] = host{}.writer(name, key).does
		_, err = m.Add(ctx, manifest.AddRequest{ID: name, DedupeKey: key, Create: true,
			Sources: []manifest.Source{text(name), text("second")}[:rapid.IntRange(1, 2).Draw(w.T, "sources")]})
	case "remove":
		id := "w" + strconv.Itoa(rapid.IntRange(1, w.begun).Draw(w.T, "id")) + "x"
		w.does[name] = remover(name, id).does
		_, err = m.Remove(ctx, id, "")
	default:
		w.does[name] = func(was []line) []line { return was }
		_, err = m.GC(ctx, nil)
	}
	if what != "gc" && !p.dead && !errors.Is(err, cas.ErrUnknown) {
		w.told[name] = err
	}
	w.check()
}

// check holds the store to the saves that it knows of.
func (w *team) check() {
	d := w.list()
	if d == nil {
		d = new(document)
	}
	saves := map[string]bool{}
	var want, got []line
	for _, s := range d.saves() {
		if s.Seq > 0 {
			saves[s.by()] = true
			want = w.does[s.by()](want)
		}
	}
	for _, e := range d.Payload.Entries {
		got = append(got, line{e.ID, e.DedupeKey})
		for _, b := range e.Blobs {
			r, err := w.store.Open(context.Background(), bucket.Key(root+"blobs/"+b.Key))
			if err != nil {
				w.Fatalf("entry %s: %v", e.ID, err)
			}
			body, err := io.ReadAll(r)
			if err != nil || digestOf(string(body)) != b.Digest || int64(len(body)) != b.Size {
				w.Errorf("entry %s has %+v; it is %q, %v", e.ID, b, body, err)
			}
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("the list has %v; its saves %v make %v", got, d.saves(), want)
	}
	for name, err := range w.told {
		if (err == nil) != saves[name] {
			w.Errorf("%s was told %v; the saves are %v", name, err, d.saves())
		}
	}
}

// TestP8_Property: random changes by several processes, one inside a request of the other, with crashes, lost answers and
// writes that come late: the list is what its saves make of it, with the blobs that it references whole; only what stood in a
// journal is deleted; and one more gc leaves nothing else.
func TestP8_Property(t *testing.T) {
	won := 0
	rapid.Check(t, func(t *rapid.T) {
		w := &team{T: t, now: start, does: map[string]func([]line) []line{}, told: map[string]error{},
			stored: map[bucket.Key]bool{}, reaped: map[bucket.Key]bool{}}
		w.store = membucket.New(&membucket.Options{
			Now: func() time.Time { return w.now }, Generations: rapid.Bool().Draw(t, "generations"),
		})
		for range rapid.IntRange(1, 25).Draw(t, "changes") {
			w.change()
		}
		for len(w.late) > 0 {
			w.comeLate()
		}
		w.check()
		d := w.list()
		if d == nil {
			return
		}
		won += len(d.saves())
		w.now = w.now.Add(25 * time.Hour)
		m, err := manifest.New(w.store, "team", "models", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.GC(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := onlyList(w.store, d); err != nil {
			t.Error(err)
		}
		if after := w.list(); fmt.Sprint(after.Payload.Entries) != fmt.Sprint(d.Payload.Entries) || len(after.Payload.Reaping) > 0 {
			t.Errorf("after gc: %+v", after)
		}
	})
	if won < 100 {
		t.Errorf("only %d saves were won", won)
	}
}
