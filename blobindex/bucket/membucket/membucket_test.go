package membucket_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
)

func TestConformance(t *testing.T) {
	buckettest.Run(t, buckettest.Config{
		New:   func(testing.TB) bucket.Objects { return membucket.New(nil) },
		Empty: true, Sorted: true, PageByPage: true, TellsTime: true,
	})
}

// TestConformance_SteppedClock uses pages of three and a clock that moves only when it is told to.
func TestConformance_SteppedClock(t *testing.T) {
	var seconds atomic.Int64
	buckettest.Run(t, buckettest.Config{
		New: func(testing.TB) bucket.Objects {
			return membucket.New(&membucket.Options{
				Now:      func() time.Time { return time.Unix(seconds.Load(), 0) },
				PageSize: 3,
			})
		},
		Empty: true, Sorted: true, PageByPage: true, TellsTime: true,
		Tick: func() { seconds.Add(1) },
	})
}

func TestPut_TimeNeverRunsBack(t *testing.T) {
	clock := time.Unix(1000, 0)
	b := membucket.New(&membucket.Options{Now: func() time.Time { return clock }})
	for _, step := range []time.Duration{0, -time.Hour, time.Second, -2 * time.Second} {
		clock = clock.Add(step)
		got, err := b.Put(t.Context(), "a", nil)
		if err != nil || got.Before(time.Unix(1000, 0)) {
			t.Errorf("Put after the clock stepped by %v: %v, %v, want no earlier than before", step, got, err)
		}
	}
}

func TestList_PagesShowTheirMoment(t *testing.T) {
	b := membucket.New(&membucket.Options{PageSize: 2})
	for _, key := range []bucket.Key{"a", "b", "c", "d", "e"} {
		if _, err := b.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	var pages []string
	err := b.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
		var keys []string
		for _, o := range p.Objects {
			keys = append(keys, string(o.Key))
		}
		pages = append(pages, strings.Join(keys, " "))
		if len(pages) == 1 { // behind the listing, at its next key, and ahead of it
			b.Delete(t.Context(), []bucket.Key{"a", "c"})
			b.Put(t.Context(), "bb", nil)
			b.Put(t.Context(), "cc", nil)
		}
		return nil
	})
	// "bb" came to lie before the key that the second page starts at.
	if got, want := strings.Join(pages, "|"), "a b|cc d|e"; err != nil || got != want {
		t.Errorf("List while changing: %s, %v, want %s", got, err, want)
	}
}

func TestList_CountsAsRequests(t *testing.T) {
	b := membucket.New(nil)
	have := 0
	for _, tt := range []struct{ objects, pages int }{{0, 1}, {1, 1}, {1000, 1}, {1001, 2}, {2000, 2}, {2001, 3}} {
		for ; have < tt.objects; have++ {
			b.Put(t.Context(), bucket.Key(fmt.Sprintf("%04d", have)), nil)
		}
		pages := 0
		b.List(t.Context(), bucket.ListRequest{}, func(bucket.Page) error { pages++; return nil })
		if pages != tt.pages {
			t.Errorf("List of %d objects: %d pages, want %d", tt.objects, pages, tt.pages)
		}
	}
}

// BenchmarkPage takes one page from the middle; its time must not grow with the bucket.
func BenchmarkPage(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := membucket.New(nil)
			for i := range n {
				o.Put(b.Context(), bucket.Key(fmt.Sprintf("%08d", i)), nil)
			}
			after := bucket.Key(fmt.Sprintf("%08d", n/2))
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				o.List(ctx, bucket.ListRequest{After: after}, func(bucket.Page) error { cancel(); return nil })
			}
		})
	}
}
