package blobindex

import (
	"slices"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A tracker remembers, per item, which heartbeats this process has sent, and which items it has finished. It is an
// economy: what it forgets, a janitor finds. So it is bounded by forgetting at random.
type tracker struct {
	mu    sync.Mutex
	items map[bucket.Key]*tracked
}

type tracked struct {
	beats []sentBeat // ascending by name
	over  bool
}

type sentBeat struct {
	key    bucket.Key
	at     time.Time
	stored time.Time
}

const maxTracked = 100_000

func (t *tracker) item(key bucket.Key) *tracked {
	it := t.items[key]
	if it == nil {
		if t.items == nil {
			t.items = make(map[bucket.Key]*tracked)
		}
		for k := range t.items {
			if len(t.items) < maxTracked {
				break
			}
			delete(t.items, k)
		}
		it = &tracked{}
		t.items[key] = it
	}
	return it
}

// sent takes note of a heartbeat and returns the earlier ones that have become needless by the store time of this one:
// a later one, no earlier by store time, was received more than limit ago. They are forgotten here.
func (t *tracker) sent(item, key bucket.Key, at, stored time.Time, limit time.Duration) []bucket.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	it := t.item(item)
	pos, again := slices.BinarySearchFunc(it.beats, at, func(b sentBeat, at time.Time) int { return b.at.Compare(at) })
	if again {
		it.beats[pos].stored = stored
	} else {
		it.beats = slices.Insert(it.beats, pos, sentBeat{key, at, stored})
	}
	var needless []bucket.Key
	var best time.Time
	for i := len(it.beats) - 1; i >= 0; i-- {
		b := it.beats[i]
		if !best.IsZero() && !b.stored.After(best) {
			needless = append(needless, b.key)
			it.beats = slices.Delete(it.beats, i, i+1)
		}
		if stored.Sub(b.stored) > limit && b.stored.After(best) {
			best = b.stored
		}
	}
	return needless
}

func (t *tracker) finish(item bucket.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	it := t.item(item)
	it.beats, it.over = nil, true
}

func (t *tracker) finished(item bucket.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	it := t.items[item]
	return it != nil && it.over
}
