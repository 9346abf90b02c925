package fakes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/fakes"
)

var (
	epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	errX  = errors.New("x")
)

// store has seven objects k1 to k7 on pages of three, at a clock that stands still.
func store(t *testing.T) bucket.Objects {
	t.Helper()
	b := membucket.New(&membucket.Options{PageSize: 3, Now: func() time.Time { return epoch }})
	for i := range 7 {
		put(t, b, bucket.Key(fmt.Sprint("k", i+1)))
	}
	return b
}

func put(t *testing.T, o bucket.Objects, key bucket.Key) {
	t.Helper()
	if _, err := o.Put(t.Context(), key, strings.NewReader("body")); err != nil {
		t.Fatal(err)
	}
}

// listed is what a listing delivers, "|" after each page, and its error.
func listed(t *testing.T, o bucket.Objects) (string, error) {
	t.Helper()
	s := ""
	err := o.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			s += string(o.Key)
		}
		s += "|"
		return nil
	})
	return s, err
}

func exists(t *testing.T, o bucket.Objects, key bucket.Key) bool {
	t.Helper()
	_, err := o.Head(t.Context(), key)
	if err != nil && !errors.Is(err, bucket.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestPutFaults(t *testing.T) {
	for _, c := range []struct {
		kind   fakes.Kind
		err    error
		stored bool
	}{
		{fakes.NotApplied(nil), bucket.ErrThrottled, false},
		{fakes.NotApplied(errX), errX, false},
		{fakes.AppliedThenLost(nil), bucket.ErrUnknown, true},
		{fakes.AppliedThenLost(errX), errX, true},
	} {
		inner := store(t)
		f := fakes.NewFaulty(t, inner, fakes.Fault{Op: fakes.Put, Key: fakes.Exact("new"), Nth: 1, Kind: c.kind})
		put(t, f, "other")
		at, err := f.Put(t.Context(), "new", nil)
		if !errors.Is(err, c.err) || !at.IsZero() || exists(t, inner, "new") != c.stored {
			t.Errorf("%v: error %v, time %v, stored %v", c.kind, err, at, !c.stored)
		}
		put(t, f, "new")
	}
}

func TestNthAndEvery(t *testing.T) {
	f := fakes.NewFaulty(t, store(t),
		fakes.Fault{Key: fakes.Prefix("k"), Nth: 3, Kind: fakes.NotApplied(errX)},
		fakes.Fault{Op: fakes.Head, Key: fakes.Where("k7", func(k bucket.Key) bool { return k == "k7" }), Every: true,
			Kind: fakes.NotApplied(nil)})
	var got []error
	for _, key := range []bucket.Key{"k1", "other", "k2", "k3", "k4", "k7", "k7"} {
		_, err := f.Head(t.Context(), key)
		got = append(got, err)
	}
	for i, want := range []error{nil, bucket.ErrNotExist, nil, errX, nil, bucket.ErrThrottled, bucket.ErrThrottled} {
		if !errors.Is(got[i], want) {
			t.Errorf("call %d: %v, want %v", i+1, got[i], want)
		}
	}
	if _, err := f.Open(t.Context(), "k7"); err != nil {
		t.Errorf("a fault of Head strikes Open: %v", err)
	}
	f.Plan(fakes.Fault{Op: fakes.Open, Kind: fakes.NotApplied(bucket.ErrDenied)})
	if _, err := f.Open(t.Context(), "k1"); !errors.Is(err, bucket.ErrDenied) {
		t.Errorf("a fault planned later: %v", err)
	}
}

func TestDeleteFaultsPerKey(t *testing.T) {
	inner := store(t)
	f := fakes.NewFaulty(t, inner,
		fakes.Fault{Op: fakes.Delete, Key: fakes.Exact("k2"), Kind: fakes.NotApplied(bucket.ErrDenied)},
		fakes.Fault{Op: fakes.Delete, Key: fakes.Exact("k4"), Kind: fakes.AppliedThenLost(nil)},
		fakes.Fault{Op: fakes.Delete, Nth: 2, Kind: fakes.NotApplied(errX)})
	got := f.Delete(t.Context(), []bucket.Key{"k1", "k2", "", "k4", "k5"})
	want := []error{nil, bucket.ErrDenied, bucket.ErrInvalidKey, bucket.ErrUnknown, nil}
	for i := range want {
		if !errors.Is(got[i], want[i]) {
			t.Errorf("key %d: %v, want %v", i, got[i], want[i])
		}
	}
	if left, _ := listed(t, inner); left != "k2k3k6|k7|" {
		t.Errorf("left: %s", left)
	}
	if got := f.Delete(t.Context(), []bucket.Key{"k3", "k6"}); len(got) != 2 || !errors.Is(got[1], errX) {
		t.Errorf("the second delete: %v", got)
	}
	if got := f.Delete(t.Context(), []bucket.Key{"k2"}); got != nil || exists(t, inner, "k2") {
		t.Errorf("after the faults: %v", got)
	}
}

func TestListFaults(t *testing.T) {
	for _, c := range []struct {
		kind fakes.Kind
		want string
		err  error
	}{
		{fakes.NotApplied(errX), "", errX},
		{fakes.FailPage(1, errX), "", errX},
		{fakes.FailPage(3, nil), "k1k2k3|k4k5k6|", bucket.ErrIncomplete},
		{fakes.CutPage(2, 2, errX), "k1k2k3|k4k5|", errX},
		{fakes.CutPage(2, 0, nil), "k1k2k3|k4|", bucket.ErrIncomplete},
		{fakes.After("nothing", func() {}), "k1k2k3|k4k5k6|k7|", nil},
	} {
		f := fakes.NewFaulty(t, store(t), fakes.Fault{Op: fakes.List, Kind: c.kind})
		if got, err := listed(t, f); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%v: %s, %v, want %s, %v", c.kind, got, err, c.want, c.err)
		}
		if got, err := listed(t, f); got != "k1k2k3|k4k5k6|k7|" || err != nil {
			t.Errorf("%v, the second listing: %s, %v", c.kind, got, err)
		}
	}
}

func TestShuffles(t *testing.T) {
	pages := fakes.NewFaulty(t, store(t), fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.ShufflePages(1)})
	if got, err := listed(t, pages); err != nil || got != "k4k5k6|k7|k1k2k3|" && got != "k7|k1k2k3|k4k5k6|" {
		t.Errorf("pages: %s, %v", got, err)
	}
	objects := fakes.NewFaulty(t, store(t), fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.ShuffleObjects(1)})
	got, err := listed(t, objects)
	for i := range 7 {
		key, flat := fmt.Sprint("k", i+1), strings.ReplaceAll(got, "|", "")
		if strings.Count(flat, key) != 1 || strings.Index(flat, key) == 2*i {
			t.Errorf("objects: %s comes not once, or in its own place: %s, %v", key, got, err)
		}
	}
	for _, o := range []bucket.Objects{pages, objects} {
		err := o.List(t.Context(), bucket.ListRequest{After: "k1"}, func(bucket.Page) error { return nil })
		if !errors.Is(err, bucket.ErrUnsupported) {
			t.Errorf("after: %v", err)
		}
		err = o.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
			if p.Sorted || !p.Now.Equal(epoch) {
				t.Errorf("sorted %v, now %v", p.Sorted, p.Now)
			}
			return errX
		})
		if err != errX {
			t.Errorf("the callback's error: %v", err)
		}
	}
}

// told are the times that a store tells of k1: at a Put, by Head, in a listing, and the store's clock.
func told(t *testing.T, o bucket.Objects) (times [4]time.Time) {
	t.Helper()
	var err1, err2 error
	times[0], err1 = o.Put(t.Context(), "k1", nil)
	head, err2 := o.Head(t.Context(), "k1")
	err3 := o.List(t.Context(), bucket.ListRequest{Prefix: "k1"}, func(p bucket.Page) error {
		times[2], times[3] = p.Objects[0].StoreTime, p.Now
		return nil
	})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	times[1] = head.StoreTime
	return times
}

func TestClockFaults(t *testing.T) {
	ahead, none := epoch.Add(time.Hour), time.Time{}
	for _, c := range []struct {
		kind fakes.Kind
		want [4]time.Time
	}{
		{fakes.ShiftTimes(time.Hour), [4]time.Time{ahead, ahead, ahead, ahead}},
		{fakes.ShiftNow(time.Hour), [4]time.Time{epoch, epoch, epoch, ahead}},
		{fakes.NoTimes(), [4]time.Time{none, none, none, none}},
	} {
		inner := store(t)
		if got := told(t, fakes.NewFaulty(t, inner, fakes.Fault{Every: true, Kind: c.kind})); got != c.want {
			t.Errorf("%v: %v, want %v", c.kind, got, c.want)
		}
		if got := told(t, inner); got != [4]time.Time{epoch, epoch, epoch, epoch} {
			t.Errorf("%v: the store itself tells %v", c.kind, got)
		}
	}
	both := fakes.NewFaulty(t, store(t), fakes.Fault{Every: true, Kind: fakes.NoTimes()},
		fakes.Fault{Every: true, Kind: fakes.ShiftTimes(time.Hour)}, fakes.Fault{Every: true, Kind: fakes.ShiftNow(time.Hour)})
	if got := told(t, both); got != [4]time.Time{} {
		t.Errorf("a time that is not told is shifted: %v", got)
	}
}

// fixedPages lists the same slice each time, as a driver may that keeps its own.
type fixedPages struct {
	bucket.Objects
	page bucket.Page
}

func (f fixedPages) List(_ context.Context, _ bucket.ListRequest, fn func(bucket.Page) error) error {
	return fn(f.page)
}

func TestPagesOfTheStoreAreNotWrittenTo(t *testing.T) {
	for _, kind := range []fakes.Kind{fakes.ShiftTimes(time.Hour), fakes.NoTimes(), fakes.ShuffleObjects(1)} {
		inner := fixedPages{page: bucket.Page{Objects: []bucket.Object{{Key: "a", StoreTime: epoch}, {Key: "b"}}}}
		if _, err := listed(t, fakes.NewFaulty(t, inner, fakes.Fault{Kind: kind})); err != nil {
			t.Fatal(err)
		}
		if o := inner.page.Objects[0]; o.Key != "a" || !o.StoreTime.Equal(epoch) {
			t.Errorf("%v: the store's own page now begins with %v", kind, o)
		}
	}
}

// Of any op, only the calls count that the kind can strike.
func TestKindsPassOverOtherCalls(t *testing.T) {
	f := fakes.NewFaulty(t, store(t), fakes.Fault{Nth: 2, Kind: fakes.FailPage(1, errX)})
	for i, want := range []error{nil, errX, nil} {
		put(t, f, "k1")
		if _, err := listed(t, f); !errors.Is(err, want) {
			t.Errorf("listing %d: %v, want %v", i+1, err, want)
		}
	}
}

func TestHooks(t *testing.T) {
	inner := store(t)
	var seen []bool
	look := func() { seen = append(seen, exists(t, inner, "new")) }
	f := fakes.NewFaulty(t, inner,
		fakes.Fault{Op: fakes.Put, Kind: fakes.After("look", look)},
		fakes.Fault{Op: fakes.Put, Kind: fakes.Before("look", look)},
		fakes.Fault{Op: fakes.Put, Kind: fakes.AppliedThenLost(nil)})
	if _, err := f.Put(t.Context(), "new", nil); !errors.Is(err, bucket.ErrUnknown) {
		t.Error(err)
	}
	if fmt.Sprint(seen) != "[false true]" {
		t.Errorf("seen before and after: %v", seen)
	}
}

func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := store(t)
		f := fakes.NewFaulty(t, inner, fakes.Fault{Every: true, Kind: fakes.Hang()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := f.Put(ctx, "new", nil)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, bucket.ErrUnknown) || exists(t, inner, "new") {
			t.Errorf("put: %v", err)
		}
		_, err = f.Head(ctx, "k1")
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, bucket.ErrUnknown) {
			t.Errorf("head: %v", err)
		}
		if errs := f.Delete(ctx, []bucket.Key{"k1", "k2"}); len(errs) != 2 || !errors.Is(errs[1], bucket.ErrUnknown) ||
			!exists(t, inner, "k1") {
			t.Errorf("delete: %v", errs)
		}
	})
}

// recorder is a test that takes note.
type recorder struct {
	cleanups []func()
	errors   []string
	fatal    []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = append(r.fatal, fmt.Sprintf(format, args...))
}

func (r *recorder) end() []string {
	for _, fn := range r.cleanups {
		fn()
	}
	return r.errors
}

func TestUnfiredFaultFailsTheTest(t *testing.T) {
	for _, c := range []struct {
		fault fakes.Fault
		want  string // of the message; empty: it fires
	}{
		{fakes.Fault{Op: fakes.List, Kind: fakes.FailPage(3, errX)}, ""},
		{fakes.Fault{Op: fakes.List, Kind: fakes.FailPage(4, errX)}, "(1 calls matched): List #1: page 4 fails, x"},
		{fakes.Fault{Op: fakes.List, Kind: fakes.CutPage(3, 1, errX)},
			"(1 calls matched): List #1: page 3 is cut after 1 objects, x"},
		{fakes.Fault{Op: fakes.List, Nth: 2, Kind: fakes.Hang()}, "(1 calls matched): List #2: hangs"},
		{fakes.Fault{Op: fakes.Put, Key: fakes.Exact("k"), Kind: fakes.AppliedThenLost(nil)},
			`(0 calls matched): Put "k" #1: applied, then bucket: outcome unknown`},
		{fakes.Fault{Key: fakes.Prefix("x/"), Every: true, Kind: fakes.NotApplied(nil)},
			`(0 calls matched): any "x/"* every: not applied, bucket: throttled by the store`},
		{fakes.Fault{Op: fakes.Delete, Key: fakes.Where("odd", func(bucket.Key) bool { return false }),
			Kind: fakes.Before("hook", func() {})}, "(0 calls matched): Delete odd #1: before: hook"},
		{fakes.Fault{Kind: fakes.ShiftNow(time.Second)}, ""},
	} {
		var r recorder
		f := fakes.NewFaulty(&r, store(t), c.fault)
		listed(t, f)
		got := strings.Join(r.end(), "; ")
		if !strings.HasSuffix(got, c.want) || (got == "") != (c.want == "") || len(r.fatal) > 0 {
			t.Errorf("%v: got %q, %q", c.fault, got, r.fatal)
		}
	}
}

func TestImpossibleFaultsAreRefused(t *testing.T) {
	for _, fault := range []fakes.Fault{
		{},
		{Op: fakes.List, Nth: -1, Kind: fakes.Hang()},
		{Op: fakes.Put, Kind: fakes.FailPage(1, nil)},
		{Op: fakes.Head, Kind: fakes.AppliedThenLost(nil)},
		{Op: fakes.Open, Kind: fakes.NoTimes()},
	} {
		var r recorder
		if fakes.NewFaulty(&r, store(t), fault); len(r.fatal) != 1 {
			t.Errorf("%v: %q", fault, r.fatal)
		}
	}
}
