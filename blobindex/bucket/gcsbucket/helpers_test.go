package gcsbucket_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// serve starts a server and opens its bucket; change, if not nil, alters how. No write is too early for the server's clock,
// unless it has one of its own.
func serve(t testing.TB, server *gcsd.Options, change func(*gcsbucket.Options)) (*gcsbucket.Bucket, *gcsd.Server) {
	t.Helper()
	s := gcsd.New(unhurried(server))
	t.Cleanup(s.Close)
	opts := gcsbucket.Options{Bucket: "bucket", Endpoint: s.URL(), Sorted: true, FirstPause: time.Microsecond}
	if change != nil {
		change(&opts)
	}
	return connect(t, opts), s
}

func unhurried(server *gcsd.Options) *gcsd.Options {
	var o gcsd.Options
	if server != nil {
		o = *server
	}
	if o.Now == nil {
		o.Now = gcsd.Ticking(time.Unix(1_800_000_000, 0), time.Second)
	}
	return &o
}

func connect(t testing.TB, opts gcsbucket.Options) *gcsbucket.Bucket {
	t.Helper()
	b, err := gcsbucket.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func put(t testing.TB, b *gcsbucket.Bucket, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if _, err := b.Put(t.Context(), bucket.Key(key), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// numbered puts n keys.
func numbered(t testing.TB, b *gcsbucket.Bucket, n int) []bucket.Key {
	t.Helper()
	var keys []bucket.Key
	for i := range n {
		keys = append(keys, bucket.Key(fmt.Sprintf("runs/a_%d", 1700000000+i)))
		put(t, b, string(keys[i]))
	}
	return keys
}

// stored is numbered past the wire, for many.
func stored(s *gcsd.Server, n int) []bucket.Key {
	var keys []bucket.Key
	for i := range n {
		keys = append(keys, bucket.Key(fmt.Sprintf("runs/a_%d", 1700000000+i)))
		s.Store("bucket", string(keys[i]), "")
	}
	return keys
}

// list returns the keys in the order in which they came, and the pages that carried them.
func list(ctx context.Context, b *gcsbucket.Bucket, req bucket.ListRequest) (keys []bucket.Key, pages []bucket.Page, err error) {
	err = b.List(ctx, req, func(p bucket.Page) error {
		p.Objects = slices.Clone(p.Objects)
		pages = append(pages, p)
		for _, o := range p.Objects {
			keys = append(keys, o.Key)
		}
		return nil
	})
	return keys, pages, err
}

// A clock moves when it is told to.
type clock struct{ seconds atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.seconds.Store(1_700_000_000)
	return c
}

func (c *clock) now() time.Time { return time.Unix(c.seconds.Load(), 0) }
func (c *clock) tick()          { c.seconds.Add(1) }
