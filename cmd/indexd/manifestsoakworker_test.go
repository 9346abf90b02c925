package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
)

const soakManifest = "soak/runs"

// manifestSoakWorker is one process of TestManifestSoak. It ends when its standard input does, so that none outlives the test.
//
//	manifestsoak producer ADDRESS NUMBER COUNT LARGEST JOURNAL   changes the manifest COUNT times, and on until a line "stop" comes
//	manifestsoak collector ADDRESS                              collects what nothing references at each line "collect"
func manifestSoakWorker() {
	role := soakProduce
	if os.Args[1] == "collector" {
		role = soakCollect
	}
	if err := role(context.Background(), os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// orders calls each with what comes on standard input, and ends the process with that.
func orders(each func(line string)) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		each(lines.Text())
	}
	os.Exit(3)
}

// openSoakManifest opens the bucket of a soak and the manifest on it, as a command does.
func openSoakManifest(address string, collecting bool) (*manifest.Manifest, error) {
	b, err := parseBucket(address, existing)
	if err != nil {
		return nil, err
	}
	var store manifest.Store = b
	if collecting {
		store = laterStore{b}
	}
	return manifest.New(store, "soak", "runs", &manifest.Options{Usable: b.usable, Grace: manifest.MinGrace})
}

// A laterStore tells in its listings that it is two hours later than it is. To who collects by it everything that was stored
// a moment ago is older than the shortest grace, which no soak can wait for; nobody else is told so.
type laterStore struct{ manifest.Store }

func (s laterStore) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return s.Store.List(ctx, req, func(p bucket.Page) error {
		if !p.Now.IsZero() {
			p.Now = p.Now.Add(2 * time.Hour)
		}
		return fn(p)
	})
}

// soakCollect tells what each pass did: "collected DELETED ORPHANS", or "refused WHY".
func soakCollect(ctx context.Context, args []string) error {
	m, err := openSoakManifest(args[0], true)
	if err != nil {
		return err
	}
	due := make(chan struct{}, 1)
	go orders(func(string) {
		select {
		case due <- struct{}{}:
		default: // it is asked for already
		}
	})
	for range due {
		r, err := m.GC(ctx, nil)
		if err == nil && r.Failures > 0 {
			err = errors.Join(r.Failed...)
		}
		orphans := max(r.Deleted-r.Resumed, 0)
		switch {
		case errors.Is(err, cas.ErrNotExist): // nobody has made it yet
		case err != nil:
			fmt.Printf("refused %q\n", err)
			fallthrough
		default:
			fmt.Println("collected", r.Deleted, orphans)
		}
	}
	return nil
}

// A soakStep is one line of a producer's journal. Each request has two, the first one durable before it is made, the second
// one before the next one; who is killed leaves one.
type soakStep struct {
	Op    string  `json:"op"` // add, remove
	ID    string  `json:"id"`
	Key   string  `json:"key,omitempty"`
	Sizes []int64 `json:"sizes,omitempty"` // of its blobs, whose bodies follow from the id

	End       string   `json:"end,omitempty"` // one of the below, if it has ended
	Displaced []string `json:"displaced,omitempty"`
	Tag       string   `json:"tag,omitempty"` // of the state that was saved
	Why       string   `json:"why,omitempty"`
}

const (
	soakWon     = "won"
	soakUnknown = "unknown"
	soakAbsent  = "absent"  // what was to be removed was not there
	soakRefused = "refused" // nothing was changed
)

func readSoakSteps(r io.Reader) (steps []soakStep, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var s soakStep
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("line %d of a journal: %w", len(steps)+1, err)
		}
		steps = append(steps, s)
	}
	return steps, lines.Err()
}

// A soakProducer changes the manifest.
type soakProducer struct {
	m       *manifest.Manifest
	number  string
	largest int64
	log     *soakLog
	made    int      // requests
	mine    []string // ids that were acknowledged, and not asked to be removed
}

func soakProduce(ctx context.Context, args []string) error {
	var stop atomic.Bool
	go orders(func(string) { stop.Store(true) })
	m, err := openSoakManifest(args[0], false)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	largest, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	p := &soakProducer{m: m, number: args[1], largest: largest}
	if err := p.resume(args[4]); err != nil {
		return err
	}
	for p.made < count || !stop.Load() {
		if err := p.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// resume reads what an earlier life of the process has journaled.
func (p *soakProducer) resume(path string) (err error) {
	if p.log, err = openSoakLog(path); err != nil {
		return err
	}
	if _, err := p.log.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	steps, err := readSoakSteps(p.log.f)
	for _, s := range steps {
		p.note(s)
	}
	return err
}

// note takes a step into account.
func (p *soakProducer) note(s soakStep) {
	switch {
	case s.End == "":
		p.made++
		if s.Op == "remove" {
			p.mine = without(p.mine, s.ID)
		}
	case s.Op == "add" && s.End == soakWon:
		p.mine = append(p.mine, s.ID)
	}
}

func without(all []string, id string) (rest []string) {
	for _, s := range all {
		if s != id {
			rest = append(rest, s)
		}
	}
	return rest
}

func (p *soakProducer) write(s soakStep) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	p.note(s)
	if _, err := p.log.f.Write(append(text, '\n')); err != nil {
		return err
	}
	return p.log.f.Sync()
}

// step makes one request: of ten three add, three remove, and four add under a key that is its own, or others' as well.
func (p *soakProducer) step(ctx context.Context) error {
	roll := rand.N(10)
	if roll < 3 && len(p.mine) > 0 {
		return p.request(ctx, soakStep{Op: "remove", ID: p.mine[rand.N(len(p.mine))]})
	}
	s := soakStep{Op: "add", ID: fmt.Sprintf("p%s-%d", p.number, p.made)}
	for range 1 + rand.N(2) {
		s.Sizes = append(s.Sizes, int64(1024*math.Pow(float64(p.largest)/1024, rand.Float64())))
	}
	switch {
	case roll >= 8:
		s.Key = fmt.Sprintf("own %s %d", p.number, rand.N(2))
	case roll >= 6:
		s.Key = fmt.Sprintf("shared %d", rand.N(4))
	}
	return p.request(ctx, s)
}

// request makes it and tells "acknowledged", or how else it ended, and "again N" for uploads beyond one of each blob.
func (p *soakProducer) request(ctx context.Context, s soakStep) error {
	if err := p.write(s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var c manifest.Change
	var err error
	uploads := 0
	if s.Op == "remove" {
		c, err = p.m.Remove(ctx, s.ID, "")
	} else {
		req := manifest.AddRequest{ID: s.ID, DedupeKey: s.Key, Create: true}
		for i, size := range s.Sizes {
			req.Sources = append(req.Sources, manifest.Source{Name: strconv.Itoa(i), Open: func() (io.ReadCloser, error) {
				uploads++
				return io.NopCloser(soakBody(s.ID, i, size)), nil
			}})
		}
		c, err = p.m.Add(ctx, req)
	}
	end := soakStep{Op: s.Op, ID: s.ID, Key: s.Key, Sizes: s.Sizes, Tag: c.State.Tag, End: soakWon}
	for _, d := range c.Displaced {
		end.Displaced = append(end.Displaced, d.ID)
	}
	switch {
	case errors.Is(err, cas.ErrUnknown):
		end.End = soakUnknown
	case errors.Is(err, manifest.ErrNoEntry):
		end.End = soakAbsent
	case err != nil:
		end.End = soakRefused
	}
	if err != nil {
		end.Why = err.Error()
	}
	if err := p.write(end); err != nil {
		return err
	}
	if more := uploads - len(s.Sizes); more > 0 {
		fmt.Println("again", more)
	}
	fmt.Println(end.End)
	return nil
}

// soakBody is the i-th blob of an entry.
func soakBody(id string, i int, size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%s %d %d", id, i, size))), size)
}
