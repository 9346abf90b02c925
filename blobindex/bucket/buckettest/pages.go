package buckettest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

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

// pageByPage changes what follows while a page is delivered that ends exactly at the end of a directory, however large
// the store's pages are: what was written there is listed, and what was deleted is not. It writes behind the key that
// was to come next, for a store may have made that one its mark for the next page.
func pageByPage(e *env) {
	if !e.PageByPage {
		return // then the contract leaves it open whether such a key is listed
	}
	filler := numbered(bucket.PageSize + 1)
	for i, name := range filler {
		filler[i] = "a/" + name
	}
	e.fill(filler)
	size := e.firstPage()
	e.delete(filler[size:]...)
	e.fill([]string{"b/1", "b/2", "c/1"})
	var got []string
	pages := 0
	err := e.o.List(e.Context(), bucket.ListRequest{Prefix: e.prefix}, func(p bucket.Page) error {
		e.checkPage(p)
		for _, o := range p.Objects {
			got = append(got, strings.TrimPrefix(string(o.Key), e.prefix))
		}
		if pages++; pages == 1 {
			e.delete("b/1", "c/1")
			e.fill([]string{"b/1-new", "b/new/0"})
		}
		return nil
	})
	want := slices.Concat(filler[:size], []string{"b/1-new", "b/2", "b/new/0"})
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		e.Errorf("List with keys that changed after its first page of %d: %d keys, %v (-want +got):\n%s",
			size, len(got), err, cmp.Diff(want, got))
	}
}

// firstPage is the number of objects on the first page of the step's keys.
func (e *env) firstPage() int {
	e.Helper()
	size, enough := 0, errors.New("one page is enough")
	err := e.o.List(e.Context(), bucket.ListRequest{Prefix: e.prefix}, func(p bucket.Page) error {
		size = len(p.Objects)
		return enough
	})
	if err != enough || size == 0 || size > bucket.PageSize {
		e.Fatalf("List: a first page of %d objects, %v", size, err)
	}
	return size
}
