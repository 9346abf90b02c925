package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
)

// TestPublish goes through a snapshot's life.
func TestPublish(t *testing.T) {
	s := on(t, membucket.New(nil), nil)
	for i, step := range []struct {
		walk snapshot.Walk
		opts *snapshot.PublishOptions
		want snapshot.Outcome
		err  error
		rows int64
	}{
		{rows(2_000, 1), nil, snapshot.Published, nil, 2_000},
		{rows(2_000, 1), nil, snapshot.Unchanged, nil, 2_000},
		{rows(2_000, 2), &snapshot.PublishOptions{Grace: snapshot.NoGrace}, snapshot.Published, nil, 2_000},
		{rows(0, 0), nil, "", snapshot.ErrEmpty, 2_000},
		{rows(0, 0), &snapshot.PublishOptions{AllowEmpty: true}, snapshot.Published, nil, 0},
		{rows(0, 0), nil, snapshot.Unchanged, nil, 0},
		{rows(3, 0), &snapshot.PublishOptions{Tag: snapshot.NoTag}, snapshot.Superseded, nil, 0},
	} {
		r, err := s.Publish(t.Context(), step.walk, step.opts)
		if !errors.Is(err, step.err) || r.Outcome != step.want || r.SweepErr != nil {
			t.Fatalf("step %d: %v, %+v", i, err, r)
		}
		info, got, err := s.Read(t.Context())
		if err != nil || info.Rows != step.rows || int64(len(got)) != step.rows {
			t.Fatalf("step %d: %v, %+v, %d rows", i, err, info, len(got))
		}
	}
}

// TestPublish_Result: what each outcome tells, and who published.
func TestPublish_Result(t *testing.T) {
	h := newHand()
	b := h.store()
	s := on(t, b, &snapshot.Options{Class: snapshot.Scheduler})
	first := publish(t, s, tree(1, "a", "b"), snapshot.Published)
	p := first.Pointer
	if first.ID.Number != 1 || p.ID != first.ID || p.Rows != 2 || p.Parts != 1 || p.Class != snapshot.Scheduler ||
		!p.PublishedAt.Truncate(time.Second).Equal(start) || first.Tag == "" {
		t.Errorf("published: %+v", first)
	}
	if n := len(body(t, b, file(first.ID, "000000"))); p.Bytes != int64(n) {
		t.Errorf("%d bytes are told, and there are %d", p.Bytes, n)
	}
	same := publish(t, s, tree(1, "a", "b"), snapshot.Unchanged)
	if same.ID != (snapshot.ID{}) || same.Pointer != p || same.Tag != first.Tag {
		t.Errorf("unchanged: %+v", same)
	}
	h.now = start.Add(time.Second)
	next := publish(t, on(t, b, nil), tree(2, "a", "b"), snapshot.Published)
	if next.ID.Number != 2 || next.Pointer.Class != snapshot.Operator || next.Tag == first.Tag || next.Swept.Kept != 1 {
		t.Errorf("published again: %+v", next)
	}
	status, err := s.Status(t.Context())
	if err != nil || status.Current != next.Pointer || status.Tag != next.Tag || status.Grace != snapshot.DefaultGrace ||
		!slices.Equal(status.Retired, []snapshot.ID{first.ID}) {
		t.Errorf("Status: %+v, %v", status, err)
	}
}

// TestPublish_Tag: who has walked elsewhere says what it saw before that, and is superseded by whatever came since.
func TestPublish_Tag(t *testing.T) {
	s := on(t, membucket.New(nil), nil)
	tagged := func(tag string) *snapshot.PublishOptions { return &snapshot.PublishOptions{Tag: tag} }
	publishWith(t, s, tree(1, "a"), tagged("4Q7.1"), snapshot.Superseded)
	first := publishWith(t, s, tree(1, "a"), tagged(snapshot.NoTag), snapshot.Published)
	second := publishWith(t, s, tree(2, "a"), tagged(first.Tag), snapshot.Published)
	for _, old := range []string{first.Tag, snapshot.NoTag, "else"} {
		r := publishWith(t, s, func(func(snapshot.Row) error) error {
			t.Error("it walks though it has lost")
			return nil
		}, tagged(old), snapshot.Superseded)
		if r.Pointer != second.Pointer || r.Tag != second.Tag {
			t.Errorf("superseded by %+v", r)
		}
	}
	publishWith(t, s, tree(2, "a"), tagged(second.Tag), snapshot.Unchanged)
	holds(t, s, 2, "a")
}

// TestPublish_Refused: a walk that fails or goes on after a refusal, rows that cannot be published, and an empty listing
// leave the store as it was, byte for byte.
func TestPublish_Refused(t *testing.T) {
	cut := errors.New("the disk was pulled out")
	half := func(add func(snapshot.Row) error) error {
		if err := add(snapshot.Row{Path: "a", MTime: start}); err != nil {
			return err
		}
		return cut
	}
	stubborn := func(paths ...string) snapshot.Walk {
		return func(add func(snapshot.Row) error) error {
			for _, p := range paths {
				_ = add(snapshot.Row{Path: p, MTime: start})
			}
			return nil
		}
	}
	for name, x := range map[string]struct {
		walk snapshot.Walk
		want []error
		says string
	}{
		"fails half-way":     {half, []error{snapshot.ErrWalk, cut}, "pulled out"},
		"refused":            {tree(0, "a", "../b"), []error{snapshot.ErrWalk, snapshot.ErrRow}, `"../b"`},
		"goes on":            {stubborn("a", "b/", "c"), []error{snapshot.ErrWalk, snapshot.ErrRow}, `"b/"`},
		"goes on with order": {stubborn("b", "a", "c"), []error{snapshot.ErrWalk, snapshot.ErrRow}, `"a" comes after "b"`},
		"twice":              {tree(0, "a", "a"), []error{snapshot.ErrWalk, snapshot.ErrRow}, "each once"},
		"empty":              {tree(0), []error{snapshot.ErrEmpty}, "there were 2"},
	} {
		t.Run(name, func(t *testing.T) {
			b := membucket.New(nil)
			s := tiny(t, b)
			publish(t, s, tree(1, "a", "b"), snapshot.Published)
			was := content(t, b)
			r, err := s.Publish(t.Context(), x.walk, nil)
			for _, want := range x.want {
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			if err != nil && !strings.Contains(err.Error(), x.says) {
				t.Errorf("%q does not say %s", err, x.says)
			}
			if r.Outcome != "" || r.ID != (snapshot.ID{}) {
				t.Errorf("%+v", r)
			}
			as(t, b, was)
			holds(t, s, 1, "a", "b")
		})
	}
}

// TestPublish_Cancelled: a walk that does not look at its context is stopped by add.
func TestPublish_Cancelled(t *testing.T) {
	b := membucket.New(nil)
	s := on(t, b, nil)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Publish(ctx, func(add func(snapshot.Row) error) error {
		cancel()
		return tree(1, "a")(add)
	}, nil)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, snapshot.ErrWalk) || errors.Is(err, snapshot.ErrRow) {
		t.Errorf("%v", err)
	}
	as(t, b, nil)
}

// TestPublish_Grace: 0, the default, another one, and what it is rounded to; a change of it alone publishes.
func TestPublish_Grace(t *testing.T) {
	s := on(t, membucket.New(nil), nil)
	grace := func(d time.Duration) *snapshot.PublishOptions { return &snapshot.PublishOptions{Grace: d} }
	for i, step := range []struct {
		give, want time.Duration
		outcome    snapshot.Outcome
	}{
		{0, snapshot.DefaultGrace, snapshot.Published},
		{snapshot.DefaultGrace, snapshot.DefaultGrace, snapshot.Unchanged},
		{time.Hour, time.Hour, snapshot.Published},
		{0, time.Hour, snapshot.Unchanged},
		{snapshot.NoGrace, 0, snapshot.Published},
		{snapshot.NoGrace, 0, snapshot.Unchanged},
		{time.Nanosecond, time.Millisecond, snapshot.Published},
		{time.Nanosecond, time.Millisecond, snapshot.Unchanged},
		{snapshot.MaxGrace, snapshot.MaxGrace, snapshot.Published},
		{0, snapshot.MaxGrace, snapshot.Unchanged},
	} {
		publishWith(t, s, tree(1, "a"), grace(step.give), step.outcome)
		if st, err := s.Status(t.Context()); err != nil || st.Grace != step.want {
			t.Errorf("step %d: the grace is %v, want %v; %v", i, st.Grace, step.want, err)
		}
	}
	for _, d := range []time.Duration{snapshot.MaxGrace + 1, snapshot.NoGrace - 1, -time.Second} {
		if _, err := s.Publish(t.Context(), tree(2, "a"), grace(d)); err == nil {
			t.Errorf("a grace of %v is taken", d)
		}
	}
	holds(t, s, 1, "a")
}

// TestUsable: a store that does not keep its conditions is found out before anything is asked of it, and asked again until
// it has passed.
func TestUsable(t *testing.T) {
	b := membucket.New(nil)
	asked := 0
	bad := errors.New("it ignores If-Match")
	s := on(t, b, &snapshot.Options{Usable: func(context.Context) error {
		if asked++; asked < 3 {
			return bad
		}
		return nil
	}})
	if _, err := s.Publish(t.Context(), tree(1, "a"), nil); !errors.Is(err, bad) {
		t.Errorf("Publish: %v", err)
	}
	if _, err := s.Sweep(t.Context()); !errors.Is(err, bad) {
		t.Errorf("Sweep: %v", err)
	}
	as(t, b, nil)
	publish(t, s, tree(1, "a"), snapshot.Published)
	publish(t, s, tree(2, "a"), snapshot.Published)
	if _, err := s.Sweep(t.Context()); err != nil || asked != 3 {
		t.Errorf("%v; it was asked %d times", err, asked)
	}
}

// TestNew: names and classes that cannot be.
func TestNew(t *testing.T) {
	for _, x := range []struct {
		namespace, name string
		class           snapshot.Class
	}{{"", "files", ""}, {"team", "", ""}, {"a/b", "files", ""}, {"team", "..", ""}, {"team", "files", "nobody"}} {
		if _, err := snapshot.New(membucket.New(nil), x.namespace, x.name, &snapshot.Options{Class: x.class}); err == nil {
			t.Errorf("%+v is taken", x)
		}
	}
}

// TestNone: where nothing has been published, reading says so, and publishing no rows is no accident.
func TestNone(t *testing.T) {
	s := on(t, membucket.New(nil), nil)
	_, statusErr := s.Status(t.Context())
	_, _, readErr := s.Read(t.Context())
	_, openErr := s.Open(t.Context())
	_, idErr := s.OpenID(t.Context(), snapshot.ID{Number: 1})
	for what, err := range map[string]error{"Status": statusErr, "Read": readErr, "Open": openErr, "OpenID": idErr} {
		if !errors.Is(err, cas.ErrNotExist) || errors.Is(err, snapshot.ErrMissing) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if swept, err := s.Sweep(t.Context()); err != nil || swept != (snapshot.Swept{}) {
		t.Errorf("Sweep: %+v, %v", swept, err)
	}
	publish(t, s, tree(0), snapshot.Published)
	holds(t, s, 0)
}

// TestSpool: rows that are more than the memory holds wait in a file, which is gone afterwards, whatever became of them; a
// directory that cannot hold it is an error, and nothing is published.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	spooling := func(b *membucket.Bucket, dir string) *snapshot.Snapshot {
		s := on(t, b, &snapshot.Options{Spool: dir})
		s.SetLimits(1<<10, 300, 2)
		return s
	}
	empty := func() {
		t.Helper()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
	}
	b := membucket.New(nil)
	s := spooling(b, dir)
	r := publish(t, s, rows(2000, 1), snapshot.Published)
	empty()
	if r.Pointer.Parts < 100 || r.Pointer.Bytes < 3000 {
		t.Errorf("%+v is too small for this test", r.Pointer)
	}
	in := on(t, membucket.New(nil), &snapshot.Options{Spool: "/nowhere"})
	if other := publish(t, in, rows(2000, 1), snapshot.Published); other.Pointer.Digest != r.Pointer.Digest ||
		other.Pointer.Parts != 1 || other.Pointer.IndexDigest == r.Pointer.IndexDigest {
		t.Errorf("in one part, in memory, it is %+v, and else %+v", other.Pointer, r.Pointer)
	}
	_, got, err := s.Read(t.Context())
	if err != nil || len(got) != 2000 || got[1999].Path != "dir/0001999" {
		t.Errorf("%d rows, %v", len(got), err)
	}
	publish(t, s, rows(2000, 1), snapshot.Unchanged)
	empty()
	if _, err := s.Publish(t.Context(), func(add func(snapshot.Row) error) error {
		return errors.Join(rows(2000, 1)(add), errors.New("no more"))
	}, nil); !errors.Is(err, snapshot.ErrWalk) {
		t.Errorf("%v", err)
	}
	empty()
	was := content(t, b)
	if _, err := spooling(b, "/nowhere").Publish(t.Context(), rows(2000, 2), nil); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "/nowhere") || errors.Is(err, cas.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	as(t, b, was)
}

// TestProgress: it is told after each part, the last time of all.
func TestProgress(t *testing.T) {
	s := on(t, membucket.New(nil), nil)
	s.SetLimits(1, 1<<20, 3)
	var told []string
	publishWith(t, s, rows(4, 1), &snapshot.PublishOptions{Progress: func(staged, total int) {
		told = append(told, fmt.Sprintf("%d/%d", staged, total))
	}}, snapshot.Published)
	if got := strings.Join(told, " "); got != "1/4 2/4 3/4 4/4" {
		t.Errorf("told %s", got)
	}
}
