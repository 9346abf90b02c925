package cas_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
)

// A fate is what becomes of one Save on its way to the store and back.
type fate int

const (
	fine       fate = iota
	lostBefore      // never arrives, and nobody says so
	lostAfter       // carried out, and the answer is lost
	late            // unknown, and carried out after the next Load
	retried         // carried out, and then once more by something on the way: a conflict with itself
	slow            // throttled, not carried out
	slowAfter       // throttled by something on the way, and carried out
	broken          // fails for good, not carried out
)

// A flaky is a store whose saves meet with their fates, one after the other; then all is fine.
type flaky struct {
	cas.Store
	fates []fate

	mu      sync.Mutex // guards all below
	pending []func()
	saves   int
	loads   int
	before  func() // once, before the next Load
}

func newFlaky(fates ...fate) *flaky { return &flaky{Store: membucket.New(nil), fates: fates} }

func (f *flaky) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	f.mu.Lock()
	f.loads++
	before := f.before
	f.before = nil
	f.mu.Unlock()
	if before != nil {
		before()
	}
	o, err := f.Store.Load(ctx, key)
	f.land()
	return o, err
}

// land carries out what is late.
func (f *flaky) land() {
	f.mu.Lock()
	pending := f.pending
	f.pending = nil
	f.mu.Unlock()
	for _, do := range pending {
		do()
	}
}

func (f *flaky) next() fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saves++
	if len(f.fates) == 0 {
		return fine
	}
	now := f.fates[0]
	f.fates = f.fates[1:]
	return now
}

func (f *flaky) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	unknown := fmt.Errorf("the connection broke: %w", cas.ErrUnknown)
	switch f.next() {
	case lostBefore:
		return "", unknown
	case lostAfter:
		f.Store.Save(ctx, key, body, p)
		return "", unknown
	case late:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pending = append(f.pending, func() { f.Store.Save(context.Background(), key, body, p) })
		return "", unknown
	case retried:
		f.Store.Save(ctx, key, body, p)
	case slow:
		return "", fmt.Errorf("slow down: %w", cas.ErrThrottled)
	case slowAfter:
		f.Store.Save(ctx, key, body, p)
		return "", fmt.Errorf("slow down: %w: %w", cas.ErrUnknown, cas.ErrThrottled)
	case broken:
		return "", fmt.Errorf("no: %w", cas.ErrDenied)
	}
	return f.Store.Save(ctx, key, body, p)
}

// A list is a payload in which a lost or doubled update shows.
type list struct {
	Names []string `json:"names"`
}

const format = "list/1"

// open returns the document, which waits for nothing but its context, and notes how long it would have.
func open(s cas.Store, waited *[]time.Duration) *cas.Doc[list] {
	return cas.NewDoc[list](s, "doc", format, &cas.Options{Wait: func(ctx context.Context, d time.Duration) error {
		if waited != nil {
			*waited = append(*waited, d)
		}
		return ctx.Err()
	}})
}

func add(name string) func(*list, cas.State[list]) error {
	return func(l *list, _ cas.State[list]) error {
		l.Names = append(l.Names, name)
		return nil
	}
}

// seed makes the document with a name in it, whatever fates are waiting.
func seed(t *testing.T, f *flaky) {
	t.Helper()
	if _, err := open(f.Store, nil).Update(t.Context(), add("seed"), &cas.UpdateOptions{Create: true}); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, f *flaky) []string {
	t.Helper()
	s, err := open(f.Store, nil).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Value.Names
}
