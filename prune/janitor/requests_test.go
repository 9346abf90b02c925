package janitor_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/s3d"
	"github.com/blobindex/indexd/prune/janitor"
)

// shared opens the index with the rules that are saved in the bucket.
func (w *world) shared(on *wire) *janitor.Janitor {
	w.t.Helper()
	x, err := blobindex.New(on, blobindex.Config{}, &blobindex.Options{Shared: &blobindex.Sharing{Store: on, Save: true}})
	if err != nil {
		w.t.Fatal(err)
	}
	return janitor.New(x, &janitor.Options{Store: on})
}

// TestRequests_NothingToDo: a pass over 20,000 live markers in 1,000 namespaces takes 20 LIST, 3 GET and 4 PUT.
func TestRequests_NothingToDo(t *testing.T) {
	inBubble(t, func(w *world) {
		for i := range 1000 {
			w.place(fmt.Sprintf("n%03d", i), 20, 0)
		}
		mustRun(w.t, w.shared(w.wire()), nil)
		on := w.wire()
		r := mustRun(w.t, w.shared(on), nil)
		if diff := cmp.Diff(map[string]int{"list": 20, "load": 3, "save": 4}, on.count()); diff != "" || r.Namespaces != 1000 {
			w.t.Errorf("%+v; requests (-want +got):\n%s", r, diff)
		}
		want := []string{"load _indexd/index/_active_runs", "load " + string(checkpointKey), "load " + string(leaseKey),
			"save " + string(leaseKey), "save " + string(checkpointKey)}
		if diff := cmp.Diff(want, on.requests()[:5]); diff != "" {
			w.t.Errorf("the first requests (-want +got):\n%s", diff)
		}
		want = []string{"save " + string(checkpointKey), "save " + string(leaseKey)}
		if diff := cmp.Diff(want, on.requests()[25:]); diff != "" {
			w.t.Errorf("the last requests (-want +got):\n%s", diff)
		}
	})
}

// TestCase_C35_Batches: what is to be deleted goes by the thousand, nothing takes no request.
func TestCase_C35_Batches(t *testing.T) {
	for stale, batches := range map[int]int{0: 0, 1: 1, 1000: 1, 1001: 2, 2500: 3} {
		inBubble(t, func(w *world) {
			w.old(stale, "team")
			on := w.wire()
			r := mustRun(w.t, w.janitor(on, janitor.Options{}), nil)
			if n := on.count()["delete"]; n != batches || r.Deleted["stale"] != stale {
				w.t.Errorf("%d stale: %d deletes, %+v", stale, n, r)
			}
		})
	}
}

// TestRequests_ManyOnS3: 100,000 stale markers go in 100 deletes, as the server counts them, and no page is asked for twice.
func TestRequests_ManyOnS3(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	now := time.Unix(1_800_000_000, 0)
	server := s3d.New(t, &s3d.Options{Now: func() time.Time { return now }})
	b, err := s3bucket.New("bucket", &s3bucket.Options{
		Endpoint: server.URL, Sorted: true, AnyKeys: true, Pause: time.Microsecond,
		Credentials: credentials.NewStaticCredentialsProvider("AK", "secret", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	const stale = 100_000
	seed(t, server, stale, now)
	now = now.Add(3 * time.Hour)
	x, err := blobindex.New(b, blobindex.Config{}, &blobindex.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	server.Reset()
	r := mustRun(t, janitor.New(x, &janitor.Options{Store: b}), nil)
	total := 0
	for _, n := range server.Reset() {
		total += n
	}
	if r.Deleted["stale"] != stale || total > stale/20 || total > 100+100+1+10 {
		t.Errorf("%d deleted in %d requests", r.Deleted["stale"], total)
	}
}

// TestMemory: a pass over a million keys holds less than 200 MB, whatever of them goes. INDEXD_TIMED runs it.
func TestMemory(t *testing.T) {
	if os.Getenv("INDEXD_TIMED") == "" {
		t.Skip("set INDEXD_TIMED=1")
	}
	for name, tc := range map[string]struct {
		namespaces int
		sorted     bool
		age        time.Duration
	}{
		"live, one namespace": {1, true, 0}, "stale, one namespace": {1, true, 3 * time.Hour},
		"stale, 1,000 namespaces": {1000, true, 3 * time.Hour}, "live, 1,000 namespaces, unsorted": {1000, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := &endless{namespaces: tc.namespaces, sorted: tc.sorted, age: tc.age}
			x, err := blobindex.New(l, blobindex.Config{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			most := watchHeap(stop)
			r := mustRun(t, janitor.New(x, nil), nil)
			close(stop)
			held := <-most
			t.Logf("%d pages, %d planned: %d MB at the most", r.Pages, sum(r.Planned), held>>20)
			if held > 200<<20 {
				t.Errorf("%d MB", held>>20)
			}
		})
	}
}

// seed stores the markers on the server, without its requests.
func seed(t *testing.T, server *s3d.Server, n int, at time.Time) {
	t.Helper()
	for i := range n {
		server.Store("bucket", fmt.Sprintf("_active_runs/n%02d/%s", i%50, markerName(i, at)), "")
	}
}

// watchHeap tells, once stopped, how much was held at the most beyond what was held at first, by collecting garbage without a
// pause.
func watchHeap(stop <-chan struct{}) <-chan uint64 {
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	answer, before := make(chan uint64), held()
	go func() {
		most := before
		for {
			select {
			case <-stop:
				answer <- most - before
				return
			default:
				most = max(most, held())
			}
		}
	}()
	return answer
}

// An endless is a store that makes up a million markers while it lists them.
type endless struct {
	bucket.Objects
	namespaces int
	sorted     bool
	age        time.Duration
}

const million = 1_000_000

func (l *endless) List(_ context.Context, _ bucket.ListRequest, fn func(bucket.Page) error) error {
	now := time.Now()
	born := now.Add(-l.age)
	each := million / l.namespaces
	for lo := 0; lo < million; lo += bucket.PageSize {
		p := bucket.Page{Sorted: l.sorted, Now: now, Objects: make([]bucket.Object, 0, bucket.PageSize)}
		for i := lo; i < lo+bucket.PageSize; i++ {
			namespace := i / each
			if !l.sorted {
				namespace = i % l.namespaces
			}
			key := fmt.Sprintf("_active_runs/n%04d/%s", namespace, markerName(i, born))
			p.Objects = append(p.Objects, bucket.Object{Key: bucket.Key(key), StoreTime: born})
		}
		if err := fn(p); err != nil {
			return err
		}
	}
	return nil
}

func (l *endless) Delete(context.Context, []bucket.Key) []error {
	return nil
}
