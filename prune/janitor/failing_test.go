package janitor_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/prune/janitor"
)

// denied refuses the deletes of keys that hold any of the texts.
func denied(texts ...string) func(bucket.Key) error {
	return func(key bucket.Key) error {
		for _, text := range texts {
			if strings.Contains(string(key), text) {
				return fmt.Errorf("under retention: %w", bucket.ErrDenied)
			}
		}
		return nil
	}
}

// TestCase_C34_PerKeyErrors: three of ten deletes are refused, by a retention say; seven go, three are counted, and tried again
// after a minute, when the refusals have ended.
func TestCase_C34_PerKeyErrors(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(10, "team")
		mustRun(w.t, w.janitor(nil, janitor.Options{}), &janitor.RunOptions{MaxDeletes: 1, Namespace: "nobody"})
		on := w.wire()
		on.deny = denied("s000002", "s000005", "s000009")
		j := w.janitor(on, janitor.Options{})
		r := mustRun(w.t, j, nil)
		if r.Deleted["stale"] != 7 || r.Failures != 3 || len(r.Failed) != 3 || !errors.Is(r.Failed[0].Err, bucket.ErrDenied) ||
			!strings.Contains(string(r.Failed[0].Key), "s000002") || r.Left != 0 {
			w.t.Fatalf("%+v", r)
		}
		first := w.checkpoint()
		want := notedNamespace{Failures: 1, RetryAt: r.AsOf.Add(time.Minute).UTC()}
		if first.Namespaces["team"] != want || len(first.Namespaces) != 1 || !first.PassedAt.Equal(r.AsOf) {
			w.t.Errorf("the checkpoint is %+v, want %+v in it", first, want)
		}

		time.Sleep(59 * time.Second)
		r = mustRun(w.t, j, nil)
		if !slices.Equal(r.Deferred, []string{"team"}) || r.Planned["stale"] != 0 || r.Failures != 0 || on.count()["delete"] != 1 {
			w.t.Errorf("within a minute: %+v, %v", r, on.requests())
		}
		if n := w.checkpoint(); n.Namespaces["team"] != want {
			w.t.Errorf("the checkpoint is %+v, want %+v in it", n, want)
		}

		time.Sleep(time.Second)
		last := w.checkpoint().PassedAt
		if r = mustRun(w.t, j, nil); r.Failures != 3 || len(r.Deferred) != 0 {
			w.t.Errorf("after a minute: %+v", r)
		}
		want = notedNamespace{Failures: 2, RetryAt: r.AsOf.Add(2 * time.Minute).UTC()}
		if n := w.checkpoint(); n.Namespaces["team"] != want || !n.PassedAt.After(last) {
			w.t.Errorf("the checkpoint is %+v, want %+v in it", n, want)
		}

		on.deny = nil
		time.Sleep(2 * time.Minute)
		if r = mustRun(w.t, j, nil); r.Deleted["stale"] != 3 || len(w.checkpoint().Namespaces) != 0 {
			w.t.Errorf("%+v, %+v", r, w.checkpoint())
		}
	})
}

// TestRun_LastSuccess: a namespace that begins to fail is named with when it last went through.
func TestRun_LastSuccess(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(1, "team")
		on := w.wire()
		j := w.janitor(on, janitor.Options{})
		went := mustRun(w.t, j, nil).AsOf
		w.old(1, "team")
		on.deny = denied("team")
		for range 2 {
			time.Sleep(time.Hour)
			mustRun(w.t, j, nil)
			if n := w.checkpoint().Namespaces["team"]; !n.PassedAt.Equal(went) {
				w.t.Errorf("%+v, went through at %v", n, went)
			}
		}
	})
}

// TestRun_AlwaysFailing: a namespace whose deletes always fail stops no other one, and is tried after a minute, two, four, up to
// an hour; with Full at any time, which never makes the pause longer.
func TestRun_AlwaysFailing(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(1500, "a-failing", "team", "z-team")
		on := w.wire()
		on.deny = denied("/a-failing/")
		j := w.janitor(on, janitor.Options{})
		r := mustRun(w.t, j, nil)
		if r.Deleted["stale"] != 3000 || r.Failures != 1500 || len(r.Failed) != janitor.MaxErrors {
			w.t.Fatalf("%d deleted, %d failed", r.Deleted["stale"], r.Failures)
		}
		for i, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
			is := w.checkpoint().Namespaces["a-failing"]
			if is.Failures != i+1 || !is.RetryAt.Equal(r.AsOf.Add(pause*time.Minute)) {
				w.t.Errorf("after %d failures: %+v at %v", i+1, is, r.AsOf)
			}
			passed := w.checkpoint().PassedAt
			full := mustRun(w.t, j, &janitor.RunOptions{Full: true})
			if n := w.checkpoint(); full.Failures == 0 || n.Namespaces["a-failing"] != is || !n.PassedAt.Equal(passed) && i > 0 {
				w.t.Errorf("a full pass: %d failed, %+v", full.Failures, n)
			}
			time.Sleep(pause*time.Minute - time.Second)
			if r := mustRun(w.t, j, nil); len(r.Deferred) != 1 {
				w.t.Errorf("a second before: %+v", r.Deferred)
			}
			time.Sleep(time.Second)
			r = mustRun(w.t, j, nil)
		}
		on.deny = nil
		if full := mustRun(w.t, j, &janitor.RunOptions{Full: true}); sum(full.Deleted) != 1501 {
			w.t.Errorf("%+v", full.Deleted)
		}
		if n := w.checkpoint(); len(n.Namespaces) != 0 {
			w.t.Errorf("a full pass without errors leaves %+v", n)
		}
	})
}

// TestRun_FullNamesNobody: a full pass that fails in a namespace that was not named does not name it.
func TestRun_FullNamesNobody(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(1, "team")
		on := w.wire()
		on.deny = denied("team")
		r := mustRun(w.t, w.janitor(on, janitor.Options{}), &janitor.RunOptions{Full: true})
		if n := w.checkpoint(); r.Failures != 1 || len(n.Namespaces) != 0 || !n.PassedAt.IsZero() {
			w.t.Errorf("%+v", n)
		}
	})
}

// TestRun_OneNamespace: a pass over one namespace touches that one's entry alone, and passed_at not at all.
func TestRun_OneNamespace(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(2, "one", "two", "three")
		on := w.wire()
		on.deny = denied("/one/", "/two/")
		j := w.janitor(on, janitor.Options{})
		mustRun(w.t, j, nil)
		was := w.checkpoint()
		on.deny = nil
		time.Sleep(time.Minute)
		if r := mustRun(w.t, j, &janitor.RunOptions{Namespace: "one"}); sum(r.Deleted) != 2 || r.Namespaces != 1 {
			w.t.Errorf("%+v", r)
		}
		is := w.checkpoint()
		if len(is.Namespaces) != 1 || is.Namespaces["two"] != was.Namespaces["two"] || !is.PassedAt.Equal(was.PassedAt) {
			w.t.Errorf("%+v, was %+v", is, was)
		}
	})
}

// TestRun_NamespaceGone: a namespace that is not there any more, or where nothing may go any more, is named no longer; one of
// which keys were left is.
func TestRun_NamespaceGone(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(2, "gone", "left", "tidy")
		on := w.wire()
		on.deny = denied("/gone/", "/left/", "/tidy/")
		j := w.janitor(on, janitor.Options{})
		mustRun(w.t, j, nil)
		if n := w.checkpoint(); len(n.Namespaces) != 3 {
			w.t.Fatalf("%+v", n)
		}
		var keys []bucket.Key
		for _, name := range []string{"gone", "tidy"} {
			for i := range 2 {
				keys = append(keys, bucket.Key("_active_runs/"+name+"/"+markerName(i, time.Now().Add(-3*time.Hour))))
			}
		}
		keys = append(keys, bucket.Key(fmt.Sprintf("_active_runs/gone/live_%d", time.Now().Unix())))
		w.Delete(w.t.Context(), keys)
		on.deny = nil
		time.Sleep(time.Minute)
		if r := mustRun(w.t, j, &janitor.RunOptions{MaxDeletes: 1}); sum(r.Deleted) != 1 || r.Left != 1 {
			w.t.Errorf("%+v", r)
		}
		if names := slices.Collect(maps.Keys(w.checkpoint().Namespaces)); !slices.Equal(names, []string{"left"}) {
			w.t.Errorf("named are %v", names)
		}
	})
}

// TestRun_Withheld: a pass that may not delete, since the clocks are apart, says nothing of the namespaces to the next one.
func TestRun_Withheld(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(1, "team")
		w.acquire()()
		was := noted{Term: 1, Namespaces: map[string]notedNamespace{"team": {Failures: 2, RetryAt: time.Now().UTC()}}}
		w.plant(was)
		on := w.wire()
		on.mute = true
		x, err := blobindex.New(on, blobindex.Config{}, &blobindex.Options{Now: func() time.Time { return time.Now().Add(5 * time.Minute) }})
		if err != nil {
			w.t.Fatal(err)
		}
		r := mustRun(w.t, janitor.New(x, &janitor.Options{Store: on}), nil)
		is := w.checkpoint()
		if r.Withheld == "" || sum(r.Deleted) > 0 || !is.PassedAt.IsZero() || is.Namespaces["team"] != was.Namespaces["team"] || is.Term != 2 {
			w.t.Errorf("%+v, %+v", r, is)
		}
		w.wantFree()
	})
}

// TestRun_WrongClock: a pause that ends more than an hour ahead comes of a clock that was wrong, and is none.
func TestRun_WrongClock(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(1, "near", "far")
		w.acquire()()
		w.plant(noted{Term: 1, Namespaces: map[string]notedNamespace{
			"near": {Failures: 9, RetryAt: time.Now().Add(time.Hour)},
			"far":  {Failures: 9, RetryAt: time.Now().Add(time.Hour + time.Second)},
		}})
		if r := mustRun(w.t, w.janitor(nil, janitor.Options{}), nil); !slices.Equal(r.Deferred, []string{"near"}) || sum(r.Deleted) != 1 {
			w.t.Errorf("%+v", r)
		}
	})
}

// TestRun_Bounded: of more failing namespaces than a checkpoint names, those that were to be tried again soonest are not named.
func TestRun_Bounded(t *testing.T) {
	inBubble(t, func(w *world) {
		w.acquire()()
		n := noted{Term: 1, Namespaces: map[string]notedNamespace{}}
		for i := range 9_999 {
			n.Namespaces[fmt.Sprintf("gone%d", i)] = notedNamespace{Failures: 9, RetryAt: time.Now().Add(4 * time.Hour)}
		}
		w.plant(n)
		w.old(1, "one", "three", "two")
		on := w.wire()
		on.deny = denied("/")
		j := w.janitor(on, janitor.Options{})
		for _, name := range []string{"one", "three", "two"} {
			mustRun(w.t, j, &janitor.RunOptions{Namespace: name})
			time.Sleep(time.Second)
		}
		is := w.checkpoint()
		_, one := is.Namespaces["one"]
		_, two := is.Namespaces["two"]
		if len(is.Namespaces) != 10_000 || one || !two {
			w.t.Errorf("%d are named, one %v, two %v", len(is.Namespaces), one, two)
		}
	})
}

// TestRun_GoesOn: what is beyond the limit of one pass goes in the next ones.
func TestRun_GoesOn(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(15, "one", "two")
		j := w.janitor(nil, janitor.Options{})
		for _, want := range []int{12, 12, 6, 0} {
			if r := mustRun(w.t, j, &janitor.RunOptions{MaxDeletes: 12}); sum(r.Deleted) != want {
				w.t.Errorf("%+v, want %d", r, want)
			}
		}
	})
}

// TestRun_FailingTakeNoRoom: what failed before comes behind the others, whose room it would take.
func TestRun_FailingTakeNoRoom(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(20, "a-failing", "team")
		on := w.wire()
		on.deny = denied("/a-failing/")
		j := w.janitor(on, janitor.Options{})
		most := &janitor.RunOptions{MaxDeletes: 20}
		if r := mustRun(w.t, j, most); r.Failures != 20 || r.Left != 20 {
			w.t.Errorf("%+v", r)
		}
		time.Sleep(time.Minute)
		if r := mustRun(w.t, j, most); sum(r.Deleted) != 20 || r.Failures != 0 || r.Left != 20 {
			w.t.Errorf("%+v", r)
		}
		if n := w.checkpoint().Namespaces["a-failing"]; n.Failures != 1 {
			w.t.Errorf("%+v", n)
		}
		if r := mustRun(w.t, j, most); r.Failures != 20 || r.Left != 0 || w.checkpoint().Namespaces["a-failing"].Failures != 2 {
			w.t.Errorf("%+v", r)
		}
	})
}

// TestCheckpoint_Documented: the example of the package comment is one.
func TestCheckpoint_Documented(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "//\t{\"term\"")
	example, _, _ = strings.Cut(example, "//\n")
	example = `{"term"` + strings.ReplaceAll(example, "//\t", "")
	inBubble(t, func(w *world) {
		w.put(string(checkpointKey), `{"format":"janitor/1","created":{"nonce":"s1","at":"2026-01-01T00:00:00Z"},"seq":1,"nonce":"s1",`+
			`"recent":[],"payload":`+example+`}`)
		time.Sleep(time.Until(time.Date(2026, 11, 30, 9, 1, 0, 0, time.UTC)))
		w.old(1, "team")
		r := mustRun(w.t, w.janitor(nil, janitor.Options{}), &janitor.RunOptions{Wait: time.Minute})
		if r.Term != 8 || !slices.Equal(r.Deferred, []string{"team"}) {
			w.t.Errorf("%+v", r)
		}
	})
}

// TestCase_C04_FailingPage: a listing that fails at any page deletes nothing, changes no failures, and lets go of the lease.
func TestCase_C04_FailingPage(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(1500, "one", "two")
		for page := 1; page <= 4; page++ {
			on := w.wire()
			on.strike = at(page, "list", "", func() fate { return fate{refuse: errors.New("the network went away")} })
			r, err := w.janitor(on, janitor.Options{}).Run(w.t.Context(), nil)
			if err == nil || sum(r.Deleted) > 0 || on.count()["delete"] > 0 || len(w.checkpoint().Namespaces) > 0 {
				w.t.Errorf("page %d: %v, %+v", page, err, r)
			}
			w.wantFree()
		}
	})
}

// TestRun_BadLease: so is a lease that cannot be read.
func TestRun_BadLease(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		for body, want := range map[string]struct {
			is   error
			says string
		}{
			"":                               {cas.ErrCorrupt, "delete it"},
			`{"format":"lease/2"}`:           {cas.ErrFormat, "a version of indexd that knows"},
			strings.Repeat(" ", cas.MaxSize): {cas.ErrTooLarge, "delete it"},
		} {
			w.put(string(leaseKey), body)
			before := w.all()
			r, err := w.janitor(nil, janitor.Options{}).Run(w.t.Context(), nil)
			if !errors.Is(err, want.is) || r.Term != 0 || r.Unguarded != "" || w.all() != before {
				w.t.Errorf("%.60q: %v, %+v", body, err, r)
			}
			wantText(w.t, fmt.Sprint(err), string(leaseKey), "nobody writes over it", want.says)
		}
	})
}

// TestRun_BadCheckpoint: a checkpoint that cannot be read is named, and left as it is; nothing is deleted, and no lease taken.
func TestRun_BadCheckpoint(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		frame := func(format, payload string) string {
			return `{"format":"` + format + `","created":{"nonce":"s1","at":"2026-01-01T00:00:00Z"},"seq":1,"nonce":"s1","recent":[],` +
				`"payload":` + payload + `}`
		}
		many := make([]string, 10_001)
		for i := range many {
			many[i] = fmt.Sprintf(`"a%d":{"failures":1,"retry_at":"2026-01-01T00:00:00Z"}`, i)
		}
		for body, want := range map[string]error{
			"":                         cas.ErrCorrupt,
			"rubbish":                  cas.ErrCorrupt,
			frame("janitor/2", `{}`):   cas.ErrFormat,
			frame("lease/1", `{}`):     cas.ErrFormat,
			frame("janitor/1", `null`): cas.ErrCorrupt,
			frame("janitor/1", `{"term":0,"namespaces":{}}`):                                                       cas.ErrCorrupt,
			frame("janitor/1", `{"term":18446744073709551615,"namespaces":{}}`):                                    cas.ErrCorrupt,
			frame("janitor/1", `{"term":1,"namespaces":{},"more":1}`):                                              cas.ErrCorrupt,
			frame("janitor/1", `{"term":1,"namespaces":{"a/b":{"failures":1,"retry_at":"2026-01-01T00:00:00Z"}}}`): cas.ErrCorrupt,
			frame("janitor/1", `{"term":1,"namespaces":{"a":{"failures":0,"retry_at":"2026-01-01T00:00:00Z"}}}`):   cas.ErrCorrupt,
			frame("janitor/1", `{"term":1,"namespaces":{"a":{"failures":1,"retry_at":"0001-01-01T00:00:00Z"}}}`):   cas.ErrCorrupt,
			frame("janitor/1", `{"term":1,"namespaces":{`+strings.Join(many, ",")+`}}`):                            cas.ErrCorrupt,
			strings.Repeat(" ", cas.MaxSize):                                                                       cas.ErrTooLarge,
		} {
			w.put(string(checkpointKey), body)
			before := w.all()
			r, err := w.janitor(nil, janitor.Options{}).Run(w.t.Context(), nil)
			if !errors.Is(err, want) || r.Term != 0 || r.Unguarded != "" || w.all() != before {
				w.t.Errorf("%.60q: %v, %+v", body, err, r)
			}
			wantText(w.t, fmt.Sprint(err), string(checkpointKey), `"running"`, "nobody writes over it")
		}
	})
}
