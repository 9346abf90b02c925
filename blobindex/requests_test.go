package blobindex_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/resolve"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
	"github.com/blobindex/indexd/prune/janitor"
)

// A socket is a world on a server of its own that goes by the world's clock, with all requests that reach it counted.
type socket struct {
	*world
	service string        // s3 or gcs
	reset   func() string // what has arrived since the last time, such as "1 DeleteObjects, 2 ListObjectsV2"
}

// TestRequests_S3Socket counts what each action costs on S3, as the server receives it: every request of whatever kind.
func TestRequests_S3Socket(t *testing.T) {
	countedAt(t, func(t *testing.T) *socket {
		w := &world{t: t, store: newClock(), host: newClock()}
		server := s3d.New(t, &s3d.Options{Now: w.store.Now})
		w.objects = s3On(t, server)
		return &socket{w, "s3", func() string { return counted(server.Reset()) }}
	})
}

// TestRequests_GCSSocket counts what each action costs on Cloud Storage, as the server receives it.
func TestRequests_GCSSocket(t *testing.T) {
	countedAt(t, func(t *testing.T) *socket {
		w := &world{t: t, store: newClock(), host: newClock()}
		server := gcsd.New(&gcsd.Options{Now: w.store.Now})
		t.Cleanup(server.Close)
		w.objects = gcsOn(t, server)
		return &socket{w, "gcs", func() string { return counted(server.Reset()) }}
	})
}

func counted[Op ~string](n map[Op]int) string {
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[op], op))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// countedAt runs each table on a server of its own.
func countedAt(t *testing.T, open func(*testing.T) *socket) {
	for name, count := range map[string]func(*socket){
		"register": countRegister, "heartbeat": countHeartbeat, "finish": countFinish, "view": countView,
		"marker resolver": countMarker, "state resolver": countState, "prune": countPrune, "sweep": countSweep,
		"namespaces": countNamespaces,
	} {
		t.Run(name, func(t *testing.T) { count(open(t)) })
	}
}

// cost runs the action and compares what reached the server with what is wanted of the service.
func (s *socket) cost(what, s3, gcs string, action func()) {
	s.t.Helper()
	s.reset() // what prepared it
	action()
	want := map[string]string{"s3": s3, "gcs": gcs}[s.service]
	if got := s.reset(); got != want {
		s.t.Errorf("%s took %s, want %s", what, got, want)
	}
}

func (s *socket) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func countRegister(s *socket) {
	n := s.team(nil, blobindex.Options{})
	s.cost("opening", "nothing", "nothing", func() { s.team(nil, blobindex.Options{}) })
	s.cost("register", "1 PutObject", "1 Insert", func() { register(s.t, n, s.id("a", 0)) })
	s.cost("register with labels", "1 PutObject", "1 Insert", func() {
		_, err := n.Register(s.t.Context(), s.id("b", 0), blobindex.Labels{"title": "T"})
		s.check(err)
	})
}

func countHeartbeat(s *socket) {
	n := s.team(nil, blobindex.Options{})
	id := s.id("a", 0)
	register(s.t, n, id)
	beat := func(after time.Duration, removed int) func() {
		return func() {
			s.advance(after)
			b, err := n.Heartbeat(s.t.Context(), id)
			if err != nil || b.Cleanup != nil || b.Removed != removed {
				s.t.Errorf("%+v %v, want %d removed", b, err, removed)
			}
		}
	}
	for range 4 {
		s.cost("a heartbeat", "1 PutObject", "1 Insert", beat(time.Minute, 0))
	}
	s.cost("a heartbeat with a needless one", "1 DeleteObject, 1 PutObject", "1 Delete, 1 Insert", beat(time.Minute, 1))
	s.cost("a heartbeat with three needless ones", "1 DeleteObjects, 1 PutObject", "3 Delete, 1 Insert", beat(10*time.Minute, 3))
}

func countFinish(s *socket) {
	n := s.team(nil, blobindex.Options{})
	for _, tc := range []struct {
		beats   int // -1: not registered either
		s3, gcs string
	}{
		{-1, "1 ListObjectsV2, 1 PutObject", "1 Insert, 1 List"},
		{0, "1 DeleteObject, 1 ListObjectsV2, 1 PutObject", "1 Delete, 1 Insert, 1 List"},
		{1, "1 DeleteObjects, 1 ListObjectsV2, 1 PutObject", "2 Delete, 1 Insert, 1 List"},
		// With its marker and its tombstone these are 1,000 keys, 1,001 and 2,502.
		{998, "1 DeleteObjects, 1 ListObjectsV2, 1 PutObject", "999 Delete, 1 Insert, 1 List"},
		{999, "1 DeleteObjects, 2 ListObjectsV2, 1 PutObject", "1000 Delete, 1 Insert, 2 List"},
		{2500, "3 DeleteObjects, 3 ListObjectsV2, 1 PutObject", "2501 Delete, 1 Insert, 3 List"},
	} {
		id := s.id(fmt.Sprintf("h%d-", tc.beats), 0)
		var keys []string
		if tc.beats >= 0 {
			keys = append(keys, "_active_runs/team/"+id.String())
		}
		for i := range tc.beats {
			keys = append(keys, fmt.Sprintf("_active_runs/team/%s~%d", id, s.store.Now().UnixMilli()+int64(i)))
		}
		s.fill(keys)
		s.cost(fmt.Sprintf("finish after %d heartbeats", tc.beats), tc.s3, tc.gcs, func() {
			f, err := n.Finish(s.t.Context(), id, blobindex.Done)
			if err != nil || f.Cleanup != nil || f.Removed != len(keys) {
				s.t.Errorf("%+v %v", f, err)
			}
		})
	}
}

// countView: every way to read a namespace costs its pages, cold or not.
func countView(s *socket) {
	for keys, pages := range map[int]int{0: 1, 1: 1, 1000: 1, 1001: 2, 2500: 3} {
		name := fmt.Sprintf("n%d", keys)
		s.fill(s.stored(keys, name))
		s3, gcs := fmt.Sprintf("%d ListObjectsV2", pages), fmt.Sprintf("%d List", pages)
		for view, read := range map[string]func(*blobindex.Namespace) (blobindex.Cost, error){
			"cards": func(n *blobindex.Namespace) (blobindex.Cost, error) {
				v, err := n.Cards(s.t.Context(), blobindex.CardsRequest{})
				return v.Cost, err
			},
			"ls": func(n *blobindex.Namespace) (blobindex.Cost, error) {
				v, err := n.List(s.t.Context())
				return v.Cost, err
			},
			"recent": func(n *blobindex.Namespace) (blobindex.Cost, error) {
				v, err := n.Recent(s.t.Context())
				return v.Cost, err
			},
			"explain": func(n *blobindex.Namespace) (blobindex.Cost, error) {
				v, err := n.Explain(s.t.Context(), s.id("never", 0))
				return v.Cost, err
			},
		} {
			s.cost(fmt.Sprintf("%s of %d keys", view, keys), s3, gcs, func() {
				told, err := read(space(s.t, s.index(nil, blobindex.Options{}), name))
				s.check(err)
				if told != (blobindex.Cost{List: pages}) {
					s.t.Errorf("%s of %d keys tells a cost of %+v", view, keys, told)
				}
			})
		}
	}
}

// countMarker: labels cost a read for each card that has some, and the others nothing.
func countMarker(s *socket) {
	n := s.team(nil, blobindex.Options{})
	for i := range 20 {
		labels := blobindex.Labels{"title": "T"}
		if i%2 == 1 {
			labels = nil
		}
		_, err := n.Register(s.t.Context(), s.id(fmt.Sprintf("k%02d", i), -time.Duration(i)*time.Second), labels)
		s.check(err)
	}
	s.cost("8 cards, half of them with labels", "4 GetObject, 1 ListObjectsV2", "4 Download, 1 List", func() {
		v := mustCards(s.t, s.team(nil, blobindex.Options{Resolver: resolve.NewMarker(s.objects)}), blobindex.CardsRequest{})
		if len(v.Cards) != 8 || v.Cards[0].Title != "T" || v.Cost != (blobindex.Cost{List: 1, Get: 4}) {
			s.t.Errorf("%d cards for %+v", len(v.Cards), v.Cost)
		}
	})
}

// countState: 70 items, all of them over, of which a view asks about as many as its budget pays for, and never twice.
func countState(s *socket) {
	var ids []itemid.ID
	for i := range 70 {
		id := s.id(fmt.Sprintf("k%02d", i), -time.Duration(i)*time.Second)
		ids = append(ids, id)
		s.put("s/"+id.String(), `{"state":"failed"}`)
		s.put("r/"+id.String(), "x")
	}
	register(s.t, s.team(nil, blobindex.Options{}), ids...)
	open := func(requires ...string) *blobindex.Namespace {
		state, err := resolve.NewState(s.objects, resolve.StateOptions{Template: "s/{id}", Requires: requires})
		s.check(err)
		return s.team(nil, blobindex.Options{Resolver: state, Budget: 64})
	}
	view := func(n *blobindex.Namespace, get, unresolved int) func() {
		return func() {
			v := mustCards(s.t, n, blobindex.CardsRequest{})
			if len(v.Cards) != 0 || v.Cost != (blobindex.Cost{List: 1, Get: get}) || v.Counts.Unresolved != unresolved {
				s.t.Errorf("%d cards for %+v, %+v", len(v.Cards), v.Cost, v.Counts)
			}
		}
	}
	n := open()
	s.cost("a view of 70 dead", "64 GetObject, 1 ListObjectsV2", "64 Download, 1 List", view(n, 64, 6))
	s.cost("the next one", "6 GetObject, 1 ListObjectsV2", "6 Download, 1 List", view(n, 6, 0))
	s.cost("and the next", "1 ListObjectsV2", "1 List", view(n, 0, 0))
	n = open("r/{id}")
	s.cost("a view of 70 dead with results", "32 GetObject, 32 HeadObject, 1 ListObjectsV2",
		"32 Download, 32 Get, 1 List", view(n, 64, 38))
}

// countPrune: a pass over k stale markers beside one that is live.
func countPrune(s *socket) {
	for _, tc := range []struct {
		stale   int
		s3, gcs string
	}{
		{0, "1 ListObjectsV2", "1 List"},
		{1, "1 DeleteObject, 1 ListObjectsV2", "1 Delete, 1 List"},
		{999, "1 DeleteObjects, 1 ListObjectsV2", "999 Delete, 1 List"},
		{1000, "1 DeleteObjects, 2 ListObjectsV2", "1000 Delete, 2 List"},
		{1001, "1 DeleteObject, 1 DeleteObjects, 2 ListObjectsV2", "1001 Delete, 2 List"},
		{2500, "3 DeleteObjects, 3 ListObjectsV2", "2500 Delete, 3 List"},
	} {
		s.fill(s.stored(tc.stale, "team"))
		s.advance(3 * time.Hour)
		live := s.stored(1, "team")
		s.fill(live)
		s.cost(fmt.Sprintf("a pass with %d stale", tc.stale), tc.s3, tc.gcs, func() {
			r, err := janitor.New(s.index(nil, blobindex.Options{}), nil).Run(s.t.Context(), nil)
			if err != nil || r.Deleted["stale"] != tc.stale || r.Failures > 0 {
				s.t.Errorf("%+v %v", r, err)
			}
		})
		if left := s.keys(); !slices.Equal(left, live) {
			s.t.Errorf("%d stale: left %d keys", tc.stale, len(left))
		}
		s.advance(3 * time.Hour) // the live one goes as well, uncounted
		_, err := janitor.New(s.index(nil, blobindex.Options{}), nil).Run(s.t.Context(), nil)
		s.check(err)
	}
}

// countSweep: a reader that may delete does so in a pass's batches, and once.
func countSweep(s *socket) {
	s.fill(s.stored(1001, "team"))
	s.advance(3 * time.Hour)
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Now: s.host.Now})
	defer sweeper.Close()
	n := s.team(nil, blobindex.Options{Sweeper: sweeper})
	view := func() {
		mustCards(s.t, n, blobindex.CardsRequest{})
		s.check(sweeper.Idle(s.t.Context()))
	}
	s.cost("a view with 1,001 stale", "1 DeleteObject, 1 DeleteObjects, 2 ListObjectsV2", "1001 Delete, 2 List", view)
	s.cost("the next one", "1 ListObjectsV2", "1 List", view)
}

// countNamespaces: a store that lists in order is asked to go on behind each namespace that fills a page.
func countNamespaces(s *socket) {
	s.fill(slices.Concat(s.stored(1, "a"), s.stored(2500, "big"), s.stored(1, "c"), s.stored(1, "d")))
	s.cost("the names of four namespaces of 2,503 keys", "3 ListObjectsV2", "3 List", func() {
		names, told, err := s.index(nil, blobindex.Options{}).Namespaces(s.t.Context())
		if err != nil || !slices.Equal(names, []string{"a", "big", "c", "d"}) || told != (blobindex.Cost{List: 3}) {
			s.t.Errorf("%q for %+v, %v", names, told, err)
		}
	})
}
