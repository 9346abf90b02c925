package blobindex_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/prune"
)

// rulesKey is where the rules of the default index are.
const rulesKey = "_indexd/index/_active_runs"

// A docStore counts the requests for documents, and lets them fail.
type docStore struct {
	cas.Store
	mu           sync.Mutex
	loads, saves int
	load, save   error         // what the next ones answer, if not nil
	after        int           // loads that fare well before
	applied      bool          // a save that fails was carried out
	hold         chan struct{} // if not nil, loads wait for it
}

func (s *docStore) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	s.mu.Lock()
	s.loads++
	err, hold := s.load, s.hold
	if s.after > 0 {
		s.after, err = s.after-1, nil
	}
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if err != nil {
		return cas.Object{}, err
	}
	return s.Store.Load(ctx, key)
}

func (s *docStore) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	s.mu.Lock()
	s.saves++
	err, applied := s.save, s.applied
	s.mu.Unlock()
	if err != nil && !applied {
		return "", err
	}
	v, saveErr := s.Store.Save(ctx, key, body, p)
	if err != nil {
		return "", err
	}
	return v, saveErr
}

// fail sets what the next requests answer.
func (s *docStore) fail(load, save error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load, s.save = load, save
}

// failAfter lets loads fail after the next n.
func (s *docStore) failAfter(n int, load error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load, s.after = load, n
}

func (s *docStore) counts() (loads, saves int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads, s.saves
}

// A process is one that works on the default index, by shared rules.
type process struct {
	*blobindex.Index
	team *blobindex.Namespace
	docs *docStore
	told []blobindex.Ruling
}

// process opens the index as another process would. It saves the rules where there are none.
func (w *world) process(rules prune.Rules, change ...func(*blobindex.Config, *blobindex.Options)) *process {
	w.t.Helper()
	p := &process{docs: &docStore{Store: w.mem()}}
	cfg := blobindex.Config{Rules: rules}
	opt := blobindex.Options{Now: w.host.Now, Shared: &blobindex.Sharing{
		Store: p.docs, Save: true, Told: func(r blobindex.Ruling) { p.told = append(p.told, r) },
	}}
	for _, f := range change {
		f(&cfg, &opt)
	}
	x, err := blobindex.New(w.mem(), cfg, &opt)
	if err != nil {
		w.t.Fatal(err)
	}
	p.Index, p.team = x, space(w.t, x, "team")
	return p
}

// reader is a process that saves nothing.
func (w *world) reader(rules prune.Rules) *process {
	w.t.Helper()
	return w.process(rules, func(_ *blobindex.Config, o *blobindex.Options) { o.Shared.Save = false })
}

// old registers an item, and lets it grow so old.
func (w *world) old(subkey string, age time.Duration) itemid.ID {
	w.t.Helper()
	id := w.id(subkey, 0)
	w.put("_active_runs/team/"+id.String(), "")
	w.advance(age)
	return id
}

func readRules(t testing.TB, p *process) blobindex.Ruling {
	t.Helper()
	r, err := p.ReadRules(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func reconfigure(t testing.TB, p *process) blobindex.Ruling {
	t.Helper()
	r, err := p.Reconfigure(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ttl(d time.Duration) prune.Rules { return prune.Rules{TTL: d} }

// mem is the store of a world in memory.
func (w *world) mem() *membucket.Bucket { return w.objects.(*membucket.Bucket) }
