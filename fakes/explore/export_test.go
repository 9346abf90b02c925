package explore

import (
	"slices"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// FreeStore is the store of a run without a scheduler: each request is carried out as soon as it is pending, and the
// clock runs.
func FreeStore(t testing.TB, s Scenario) interface {
	bucket.Objects
	cas.Store
} {
	s = s.withDefaults()
	s.Actors = []Actor{{Name: "free"}}
	r := &run{over: make(chan struct{}), signal: make(chan struct{}, 1), gone: make([]int, 1),
		state: state{scenario: &s, actors: make([]progress, 1)}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			select {
			case <-r.over:
				return
			case <-r.signal:
				r.serve()
			}
		}
	}()
	t.Cleanup(func() {
		close(r.over)
		<-served
	})
	return (&Env{run: r, rand: newRand(0)}).Store()
}

func (r *run) serve() {
	r.mu.Lock()
	pending := slices.Clone(r.pending)
	r.pending = r.pending[:0]
	r.mu.Unlock()
	for _, q := range pending {
		r.world.clock = time.Now().Round(0)
		var a answer
		r.world, a = r.scenario.apply(r.world, q)
		q.reply <- a
	}
}
