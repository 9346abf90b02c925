package cas_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/blobindex/indexd/cas"
)

// ours is what a Replace saves here.
var ours = list{Names: []string{"ours"}}

// load returns the document as it is, whatever fates are waiting.
func load(t *testing.T, f *flaky) cas.State[list] {
	t.Helper()
	s, err := open(f.Store, nil).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReplace_Fates: whatever becomes of up to two sends, the value is there if it succeeds, and is not if it fails; on an
// absent document and on one that is there. What it returns can be built on.
func TestReplace_Fates(t *testing.T) {
	all := []fate{fine, lostBefore, lostAfter, late, retried, slow, slowAfter, broken}
	for _, exists := range []bool{true, false} {
		for _, first := range all {
			for _, second := range all {
				f := newFlaky(first, second)
				base, want := cas.State[list]{}, []string(nil)
				if exists {
					seed(t, f)
					base, want = load(t, f), []string{"seed"}
				}
				s, err := open(f, nil).Replace(t.Context(), base, ours)
				f.land()
				switch unknown := (first == lostBefore || first == late) && second == broken; {
				case err == nil:
					want = ours.Names
				case !errors.Is(err, cas.ErrDenied), errors.Is(err, cas.ErrUnknown) != unknown, errors.Is(err, cas.ErrConflict):
					t.Errorf("exists=%t, %d-%d: %v, want it to be denied, and unknown: %t", exists, first, second, err, unknown)
				case first == late:
					want = ours.Names // it has come after all
				}
				if want == nil {
					if _, err := f.Store.Load(t.Context(), "doc"); !errors.Is(err, cas.ErrNotExist) {
						t.Errorf("exists=%t, %d-%d: there is a document: %v", exists, first, second, err)
					}
					continue
				}
				if got := names(t, f); !slices.Equal(got, want) {
					t.Errorf("exists=%t, %d-%d: the document has %q, want %q", exists, first, second, got, want)
				}
				if err != nil {
					continue
				}
				if now := load(t, f); s.Version != now.Version || s.Seq != now.Seq || s.Created != now.Created {
					t.Errorf("exists=%t, %d-%d: it returns %+v, the document is %+v", exists, first, second, s, now)
				}
				if s, err := open(f.Store, nil).Replace(t.Context(), s, list{}); err != nil || s.Seq != base.Seq+2 {
					t.Errorf("exists=%t, %d-%d: on top of it: seq %d, %v", exists, first, second, s.Seq, err)
				}
			}
		}
	}
}

// TestReplace_Requests: 1 PUT, and nothing that looks first.
func TestReplace_Requests(t *testing.T) {
	f := newFlaky()
	s, err := open(f, nil).Replace(t.Context(), cas.State[list]{}, ours)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(f, nil).Replace(t.Context(), s, ours); err != nil || f.saves != 2 || f.loads != 0 {
		t.Errorf("%v after %d saves and %d loads, want 2 and none", err, f.saves, f.loads)
	}
}

// TestReplace_Lost: somebody was faster, before, while it was on its way, or while its answer was lost. It is told, and nothing
// is computed anew.
func TestReplace_Lost(t *testing.T) {
	for _, fate := range []fate{fine, lostBefore, late} {
		f := newFlaky(fate)
		seed(t, f)
		base := load(t, f)
		if fate == fine {
			addMany(t, f, 1)
		} else {
			f.before = func() { addMany(t, f, 1) }
		}
		saves := f.saves
		_, err := open(f, nil).Replace(t.Context(), base, ours)
		f.land()
		if !errors.Is(err, cas.ErrConflict) || errors.Is(err, cas.ErrUnknown) || f.saves != saves+1 {
			t.Errorf("fate %d: %v after %d saves, want ErrConflict after one", fate, err, f.saves-saves)
		}
		if got := names(t, f); !slices.Equal(got, []string{"seed", "0"}) {
			t.Errorf("fate %d: the document has %q", fate, got)
		}
	}
	f := newFlaky()
	seed(t, f)
	if _, err := open(f, nil).Replace(t.Context(), cas.State[list]{}, ours); !errors.Is(err, cas.ErrConflict) {
		t.Errorf("created where there is one: %v", err)
	}
}

// TestReplace_BuiltOn: it was won, and somebody has built on it before that was known. Nothing can be saved on top of it.
func TestReplace_BuiltOn(t *testing.T) {
	f := newFlaky(lostAfter)
	seed(t, f)
	base := load(t, f)
	f.before = func() { addMany(t, f, 1) }
	s, err := open(f, nil).Replace(t.Context(), base, ours)
	if err != nil || s.Version != "" || s.Seq != 2 {
		t.Fatalf("version %q, seq %d, %v; want none, 2, nil", s.Version, s.Seq, err)
	}
	saves := f.saves
	if _, err := open(f, nil).Replace(t.Context(), s, ours); !errors.Is(err, cas.ErrConflict) || f.saves != saves {
		t.Errorf("on top of it: %v after %d saves, want ErrConflict after none", err, f.saves-saves)
	}
	if got := names(t, f); !slices.Equal(got, []string{"ours", "0"}) {
		t.Errorf("the document has %q", got)
	}
}

// TestReplace_Unknown: no answer ever comes, or the document is gone when it is read back.
func TestReplace_Unknown(t *testing.T) {
	f := newFlaky(slices.Repeat([]fate{lostBefore}, 100)...)
	seed(t, f)
	_, err := open(f, nil).Replace(t.Context(), load(t, f), ours)
	wantUnknown(t, f, err, 6, "seed")
	for _, fate := range []fate{lostBefore, lostAfter} {
		f := newFlaky(fate)
		seed(t, f)
		base := load(t, f)
		f.before = func() { removeFrom(t, f) }
		_, err := open(f, nil).Replace(t.Context(), base, ours)
		wantUnknown(t, f, err, 1)
	}
}

// TestReplace_Deleted: it is not created again, nor is one that somebody has made since replaced.
func TestReplace_Deleted(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	base := load(t, f)
	removeFrom(t, f)
	if _, err := open(f, nil).Replace(t.Context(), base, ours); !errors.Is(err, cas.ErrNotExist) || errors.Is(err, cas.ErrUnknown) {
		t.Errorf("deleted: %v", err)
	}
	createIn(t, f, "theirs")
	if _, err := open(f, nil).Replace(t.Context(), base, ours); !errors.Is(err, cas.ErrConflict) {
		t.Errorf("made again: %v", err)
	}
	if got := names(t, f); !slices.Equal(got, []string{"theirs"}) {
		t.Errorf("the document has %q", got)
	}
}

// TestReplace_Throttled: slower, under the same condition, until the context ends; nothing was changed then.
func TestReplace_Throttled(t *testing.T) {
	f := newFlaky(slow, slow)
	seed(t, f)
	var waited []time.Duration
	if _, err := open(f, &waited).Replace(t.Context(), load(t, f), ours); err != nil || f.saves != 3 {
		t.Errorf("%v after %d saves", err, f.saves)
	}
	if len(waited) != 2 || waited[0] < time.Second || waited[1] < 2*time.Second {
		t.Errorf("waited %v, want more than a second, and then more than two", waited)
	}
	f = newFlaky(slices.Repeat([]fate{slow}, 100)...)
	seed(t, f)
	base := load(t, f)
	d := cas.NewDoc[list](f, "doc", format, &cas.Options{Wait: func(context.Context, time.Duration) error {
		return context.DeadlineExceeded
	}})
	_, err := d.Replace(t.Context(), base, ours)
	if !errors.Is(err, cas.ErrThrottled) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cas.ErrUnknown) {
		t.Errorf("ended: %v", err)
	}
	if got := names(t, f); !slices.Equal(got, []string{"seed"}) {
		t.Errorf("the document has %q", got)
	}
}

// TestReplace_RefusedWithoutReason: a refusal of a condition that holds is no loss: for a moment, and it is sent again; for
// ever, and it is no store for documents.
func TestReplace_RefusedWithoutReason(t *testing.T) {
	for _, times := range []int{1, 7, 8} {
		for _, exists := range []bool{true, false} {
			f := newFlaky()
			base, want := cas.State[list]{}, []string(nil)
			if exists {
				seed(t, f)
				base, want = load(t, f), []string{"seed"}
			}
			_, err := open(&moody{f, times}, nil).Replace(t.Context(), base, ours)
			if times < 8 && err != nil || times == 8 && !errors.Is(err, cas.ErrUnsupported) {
				t.Errorf("refused %d times: %v", times, err)
			}
			if times < 8 {
				want = ours.Names
			}
			if want == nil {
				continue
			}
			if got := names(t, f); !slices.Equal(got, want) {
				t.Errorf("refused %d times: the document has %q", times, got)
			}
		}
	}
	f := newFlaky()
	seed(t, f)
	d := cas.NewDoc[list](&moody{f, 1}, "doc", format, &cas.Options{Wait: func(context.Context, time.Duration) error {
		return context.Canceled
	}})
	if _, err := d.Replace(t.Context(), load(t, f), ours); !errors.Is(err, context.Canceled) || errors.Is(err, cas.ErrConflict) {
		t.Errorf("refused, and ended: %v", err)
	}
}

// TestReplace_Overtaken: each of two has the same base; one of them wins.
func TestReplace_Overtaken(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	base := load(t, f)
	if _, err := open(f, nil).Replace(t.Context(), base, ours); err != nil {
		t.Fatal(err)
	}
	if _, err := open(f, nil).Replace(t.Context(), base, list{Names: []string{"theirs"}}); !errors.Is(err, cas.ErrConflict) {
		t.Errorf("the second one: %v", err)
	}
	if got := names(t, f); !slices.Equal(got, ours.Names) {
		t.Errorf("the document has %q", got)
	}
}
