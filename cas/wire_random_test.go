package cas_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A storm is faults by chance, some of which come late, and writers in it.
type storm struct {
	fake fake
	rand *rand.Rand

	mu       sync.Mutex // guards all below, and rand
	releases []chan struct{}
	outcomes map[string]error
	planned  map[string]int
}

// unwatched is a test that does not mind faults that never strike: how many requests there are is chance.
type unwatched struct{ *testing.T }

func (unwatched) Cleanup(func())        {}
func (unwatched) Errorf(string, ...any) {}

// plan lets so many in a hundred of the requests be struck.
func (s *storm) plan(method string, requests, share int) {
	for n := 1; n <= requests; n++ {
		if s.rand.IntN(100) >= share {
			continue
		}
		name, k := s.write()
		if method == "GET" {
			name, k = s.read()
		}
		s.planned[name]++
		s.fake.strike(fault{method: method, nth: n, kind: k})
	}
}

func (s *storm) write() (string, kind) {
	all := endings()
	switch n := s.rand.IntN(len(all) + 12); {
	case n < len(all):
		return all[n].name, all[n].kind
	case n < len(all)+6:
		release := make(chan struct{})
		s.releases = append(s.releases, release)
		code := []int{0, 500, 503}[n%3]
		return fmt.Sprint("late ", code), later(release, code, "")
	case n < len(all)+8:
		return "429", status(429, "TooManyRequests", "rateLimitExceeded")
	case n < len(all)+9:
		return "409", status(409, "ConditionalRequestConflict", "conflict")
	case n < len(all)+10:
		return "403", status(403, "AccessDenied", "forbidden")
	case n < len(all)+11:
		return "held up", kind{s3d.Delay(time.Millisecond), gcsd.Delay(time.Millisecond)}
	}
	return "400", status(400, "InvalidRequest", "invalid")
}

func (s *storm) read() (string, kind) {
	switch s.rand.IntN(8) {
	case 0:
		return "read 500", status(500, "InternalError", "backendError")
	case 1:
		return "read 503", status(503, "SlowDown", "backendError")
	case 2:
		return "read closed", dropBefore
	case 3:
		return "read half", kind{s3d.HalfBody(), gcsd.Half()}
	}
	return "read 403", status(403, "AccessDenied", "forbidden") // is not repeated, so that what was open stays open
}

// wait is a moment in which something late may land, and in which who waits may lose patience.
func (s *storm) wait(cancel func()) func(context.Context, time.Duration) error {
	return func(ctx context.Context, _ time.Duration) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.releases) > 0 && s.rand.IntN(2) == 0 {
			i := s.rand.IntN(len(s.releases))
			close(s.releases[i])
			s.releases = append(s.releases[:i], s.releases[i+1:]...)
		}
		if s.rand.IntN(25) == 0 {
			cancel()
		}
		return ctx.Err()
	}
}

func (s *storm) writer(t *testing.T, w, updates int) {
	client := s.fake.dial(t, nil, "")
	for i := range updates {
		name := fmt.Sprintf("%d.%d", w, i)
		ctx, cancel := context.WithCancel(t.Context())
		d := cas.NewDoc[list](client, "doc", format, &cas.Options{Wait: s.wait(cancel)})
		_, err := d.Update(ctx, add(name), create)
		cancel()
		s.mu.Lock()
		s.outcomes[name] = err
		s.mu.Unlock()
	}
}

// run lets writers into the storm and judges what is left by what they were told.
func (s *storm) run(t *testing.T, writers, updates int) (won, open, failed int) {
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() { s.writer(t, w, updates) })
	}
	all.Wait()
	for _, r := range s.releases {
		close(r)
	}
	s.fake.settle()
	got, err := cas.NewDoc[list](stored{s.fake}, "doc", format, nil).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if int(got.Seq) != len(got.Value.Names) {
		t.Errorf("seq %d with %d names: a save was lost, or doubled", got.Seq, len(got.Value.Names))
	}
	for name, err := range s.outcomes {
		n := count(got.Value.Names, name)
		switch {
		case err == nil:
			won++
		case errors.Is(err, cas.ErrUnknown):
			open++
		default:
			failed++
		}
		if err == nil && n != 1 || n > 1 || n == 1 && err != nil && !errors.Is(err, cas.ErrUnknown) {
			t.Errorf("%s is there %d times, and its update said %v", name, n, err)
		}
		if errors.Is(err, cas.ErrUnsupported) || errors.Is(err, cas.ErrCorrupt) || errors.Is(err, cas.ErrBackwards) {
			t.Errorf("%s: %v, which is not so", name, err)
		}
	}
	puts(t, s.fake)
	return won, open, failed
}

// TestP7_InAStorm: whatever befalls the requests of several writers, each update that was won is there once, each unknown
// one at most once, and no other one at all. INDEXD_EXPLORE runs so many times the seeds.
func TestP7_InAStorm(t *testing.T) {
	seeds := 10
	if n, err := strconv.Atoi(os.Getenv("INDEXD_EXPLORE")); err == nil {
		seeds *= n
	}
	each(t, func(t *testing.T, start starter) {
		won, open, failed, planned := 0, 0, 0, map[string]int{}
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
				const writers, updates = 5, 8
				f := start(t, conf{})
				if g, ok := f.(*gcsFake); ok {
					g.t = unwatched{t}
				}
				s := &storm{fake: f, rand: rand.New(rand.NewPCG(seed, 7)), outcomes: map[string]error{}, planned: planned}
				if seed%2 == 0 { // else they race to create it
					s.outcomes["seed"] = nil
					begin(t, f, true)
				}
				s.plan("PUT", 3*writers*updates, 60)
				s.plan("GET", 4*writers*updates, 35)
				a, b, c := s.run(t, writers, updates)
				won, open, failed = won+a, open+b, failed+c
				if f, ok := f.(*s3Fake); ok {
					f.Forgive()
				}
			})
		}
		t.Logf("%d won, %d unknown, %d failed; planned %v", won, open, failed, planned)
		if all := won + open + failed; won < all/4 || open < all/20 || failed < all/20 {
			t.Errorf("%d won, %d unknown, %d failed: a storm that shows too little", won, open, failed)
		}
		for _, e := range endings() {
			if planned[e.name] == 0 {
				t.Errorf("%s was never planned", e.name)
			}
		}
	})
}
