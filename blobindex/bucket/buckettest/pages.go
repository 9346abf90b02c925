package buckettest

import (
	"fmt"
	"sync"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// pageBoundaries lists exactly around the ends of pages, on the way up.
func pageBoundaries(e *env) {
	names := numbered(2*bucket.PageSize + 1)
	have := 0
	for _, n := range []int{0, 1, bucket.PageSize - 1, bucket.PageSize, bucket.PageSize + 1, 2 * bucket.PageSize, len(names)} {
		e.fill(names[have:n])
		have = n
		e.wantNames("", names[:n])
	}
}

// listWhileChanging lists while other keys come and go: beside the listing, and between its pages, right before the
// key at which the next one starts. Each key that nobody touches must come exactly once (list checks for twice).
func listWhileChanging(e *env) {
	still := numbered(2*bucket.PageSize + 1)
	e.fill(still)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { e.churn(stop, "a", still[bucket.PageSize-1]+"x", still[bucket.PageSize]+"x", "z") })
	for round := range 6 {
		e.listAndChange(round, still)
	}
	close(stop)
	wg.Wait()
}

// churn puts and deletes the names until stop is closed, a bounded number of times.
func (e *env) churn(stop <-chan struct{}, names ...string) {
	for range 5000 {
		for _, name := range names {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := e.o.Put(e.Context(), e.key(name), nil); err != nil {
				e.Errorf("Put(%q): %v", name, err)
				return
			}
			if errs := e.o.Delete(e.Context(), e.keys(name)); errs != nil {
				e.Errorf("Delete(%q): %v", name, errs[0])
				return
			}
		}
	}
}

func (e *env) listAndChange(round int, still []string) {
	e.Helper()
	seen := map[bucket.Key]int{}
	var extra []string
	err := e.o.List(e.Context(), bucket.ListRequest{Prefix: e.prefix}, func(p bucket.Page) error {
		e.checkPage(p)
		for _, o := range p.Objects {
			seen[o.Key]++
		}
		if len(extra) > 0 {
			e.delete(extra...)
		}
		extra = nil
		for _, name := range []string{still[0], still[bucket.PageSize], still[2*bucket.PageSize]} {
			extra = append(extra, fmt.Sprintf("%s-%d", name, round), "b-"+name)
		}
		e.fill(extra)
		return nil
	})
	if err != nil {
		e.Fatalf("List while keys come and go: %v", err)
	}
	e.delete(extra...)
	for _, name := range still {
		if n := seen[e.key(name)]; n != 1 {
			e.Errorf("round %d: untouched %q came %d times", round, name, n)
		}
	}
}
