package fakes_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/fakes"
)

func TestCounter(t *testing.T) {
	c := fakes.NewCounter(store(t))
	all := func(bucket.Page) error { return nil }
	keys := make([]bucket.Key, 2001)
	for i := range keys {
		keys[i] = bucket.Key(fmt.Sprint("absent", i))
	}
	for _, step := range []struct {
		name string
		do   func()
		want fakes.Counts
		text string
	}{
		{"nothing", func() {}, fakes.Counts{}, "no requests"},
		{"three pages", func() { listed(t, c) }, fakes.Counts{List: 3}, "3 List"},
		{"an empty listing", func() { c.List(t.Context(), bucket.ListRequest{Prefix: "x"}, all) }, fakes.Counts{List: 1},
			"1 List"},
		{"stopped at the first page", func() {
			c.List(t.Context(), bucket.ListRequest{}, func(bucket.Page) error { return errors.New("enough") })
		}, fakes.Counts{List: 1}, "1 List"},
		{"one of each", func() {
			put(t, c, "n")
			exists(t, c, "n")
			body, err := c.Open(t.Context(), "n")
			if err != nil {
				t.Fatal(err)
			}
			body.Close()
		}, fakes.Counts{Put: 1, Head: 1, Open: 1}, "1 Put, 1 Open, 1 Head"},
		{"absent", func() { c.Open(t.Context(), "absent") }, fakes.Counts{Open: 1}, "1 Open"},
		{"no keys", func() { c.Delete(t.Context(), nil) }, fakes.Counts{}, "no requests"},
		{"a batch", func() { c.Delete(t.Context(), keys[:1000]) }, fakes.Counts{Delete: 1, DeleteKeys: 1000},
			"1 Delete of 1000 keys"},
		{"batches", func() { c.Delete(t.Context(), keys) }, fakes.Counts{Delete: 3, DeleteKeys: 2001},
			"3 Delete of 2001 keys"},
	} {
		step.do()
		got := c.Snapshot()
		if again := c.Reset(); got != step.want || again != got || got.String() != step.text {
			t.Errorf("%s: %+v (%v), reset tells %+v, want %+v", step.name, got, got, again, step.want)
		}
	}
	if sum := (fakes.Counts{List: 1, Put: 2, Open: 4, Head: 8, Delete: 16, DeleteKeys: 99}).Requests(); sum != 31 {
		t.Errorf("requests: %d", sum)
	}
}

func TestCounterCountsFailedListings(t *testing.T) {
	c := fakes.NewCounter(fakes.NewFaulty(t, store(t), fakes.Fault{Op: fakes.List, Kind: fakes.NotApplied(nil)}))
	if _, err := listed(t, c); err == nil || c.Snapshot() != (fakes.Counts{List: 1}) {
		t.Errorf("%v after %v", c.Snapshot(), err)
	}
}

func TestCounterIsSafeForConcurrentUse(t *testing.T) {
	c := fakes.NewCounter(membucket.New(nil))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				c.Put(t.Context(), bucket.Key(fmt.Sprint(i)), nil)
				c.Snapshot()
			}
		})
	}
	all.Wait()
	if got := c.Snapshot(); got != (fakes.Counts{Put: 800}) {
		t.Errorf("got %v", got)
	}
}
