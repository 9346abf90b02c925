package cas_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// removeFrom deletes the document as somebody else would.
func removeFrom(t *testing.T, f *flaky) {
	if errs := f.Store.(bucket.Objects).Delete(t.Context(), []bucket.Key{"doc"}); errs != nil {
		t.Error(errs)
	}
}

// createIn makes it as somebody else would.
func createIn(t *testing.T, f *flaky, name string) {
	if _, err := open(f.Store, nil).Update(t.Context(), add(name), &cas.UpdateOptions{Create: true}); err != nil {
		t.Error(err)
	}
}

// wantUnknown checks that an update is unknown and nothing else, and what is in the document.
func wantUnknown(t *testing.T, f *flaky, err error, saves int, want ...string) {
	t.Helper()
	if !errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) {
		t.Errorf("Update: %v, want ErrUnknown", err)
	}
	if f.saves != saves {
		t.Errorf("%d saves, want %d", f.saves, saves)
	}
	if want == nil {
		if _, err := f.Store.Load(t.Context(), "doc"); !errors.Is(err, cas.ErrNotExist) {
			t.Errorf("it was created again: %v", err)
		}
		return
	}
	if got := names(t, f); !slices.Equal(got, want) {
		t.Errorf("the document has %q, want %q", got, want)
	}
}

// TestUpdate_AnotherIncarnation: the answer was lost, and then the document was deleted and made again. What became of the
// save cannot be told: the new document may have been made on top of what it did.
func TestUpdate_AnotherIncarnation(t *testing.T) {
	for _, saves := range []int{1, 2, 3} {
		f := newFlaky(lostBefore)
		seed(t, f)
		_, err := open(f, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
			f.before = func() {
				removeFrom(t, f)
				createIn(t, f, "new")
				addMany(t, f, saves-1)
			}
			return add("ours")(l, base)
		}, &cas.UpdateOptions{Create: true})
		wantUnknown(t, f, err, 1, append([]string{"new"}, []string{"0", "1"}[:saves-1]...)...)
	}
}

// TestUpdate_CreateLostToAnother: the answer was lost, and somebody else has created the document. Ours can never land, so
// it is computed again on top of that.
func TestUpdate_CreateLostToAnother(t *testing.T) {
	for _, others := range []int{1, 3} {
		f := newFlaky(lostBefore)
		runs := 0
		_, err := open(f, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
			if runs++; runs == 1 {
				f.before = func() {
					createIn(t, f, "theirs")
					addMany(t, f, others-1)
				}
			}
			return add("ours")(l, base)
		}, &cas.UpdateOptions{Create: true})
		if got := names(t, f); err != nil || runs != 2 || len(got) != others+1 || got[0] != "theirs" || got[others] != "ours" {
			t.Errorf("%v, computed %d times, the document has %q", err, runs, got)
		}
	}
}

// TestUpdate_GoneAfterUnknown: the answer was lost, and the document has been deleted when it is read back, or when the save
// is sent again. It may have been ours that was deleted.
func TestUpdate_GoneAfterUnknown(t *testing.T) {
	for _, lost := range []fate{lostBefore, lostAfter} {
		f := newFlaky(lost)
		seed(t, f)
		_, err := open(f, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
			f.before = func() { removeFrom(t, f) }
			return add("ours")(l, base)
		}, &cas.UpdateOptions{Create: true})
		wantUnknown(t, f, err, 1)
	}
	f := newFlaky(lostBefore)
	seed(t, f)
	d := cas.NewDoc[list](f, "doc", format, &cas.Options{Wait: func(context.Context, time.Duration) error {
		removeFrom(t, f)
		return nil
	}})
	_, err := d.Update(t.Context(), add("ours"), &cas.UpdateOptions{Create: true})
	wantUnknown(t, f, err, 2)
}

// TestUpdate_ReadBackFails: for a while, and the update is won; for good, and it is unknown. It is never computed again.
func TestUpdate_ReadBackFails(t *testing.T) {
	broken := errors.New("read error")
	for _, fails := range []int{1, 5, 1000} {
		f := newFlaky(lostAfter)
		seed(t, f)
		b := &blind{flaky: f, err: broken}
		runs := 0
		_, err := open(b, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
			runs++
			b.fails = fails
			return add("ours")(l, base)
		}, nil)
		if fails < 1000 && err != nil || fails == 1000 && !errors.Is(err, broken) {
			t.Errorf("%d failed reads: %v", fails, err)
		}
		if fails == 1000 {
			wantUnknown(t, f, err, 1, "seed", "ours")
		}
		if runs != 1 || f.saves != 1 {
			t.Errorf("%d failed reads: computed %d times, saved %d times", fails, runs, f.saves)
		}
	}
}

// blind fails to load so many times.
type blind struct {
	*flaky
	err   error
	fails int
}

func (b *blind) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	if b.fails > 0 {
		b.fails--
		return cas.Object{}, b.err
	}
	return b.flaky.Load(ctx, key)
}

// TestUpdate_ReadsBackAtOnce: the longer one waits, the more saves are built on ours.
func TestUpdate_ReadsBackAtOnce(t *testing.T) {
	for _, fate := range []fate{lostAfter, retried, slowAfter} {
		var waited []time.Duration
		f := newFlaky(fate)
		seed(t, f)
		if _, err := open(f, &waited).Update(t.Context(), add("ours"), nil); err != nil || len(waited) != 0 {
			t.Errorf("fate %d: %v after waiting %v", fate, err, waited)
		}
	}
}

// TestUpdate_NeverArrives: the same save is sent a number of times, and then it is unknown.
func TestUpdate_NeverArrives(t *testing.T) {
	f := newFlaky(slices.Repeat([]fate{lostBefore}, 100)...)
	seed(t, f)
	runs := 0
	_, err := open(f, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
		runs++
		return add("ours")(l, base)
	}, nil)
	wantUnknown(t, f, err, 6, "seed")
	if runs != 1 {
		t.Errorf("computed %d times", runs)
	}
}

// TestUpdate_Conflict: a definite refusal, since somebody else has saved. It is computed again from what they saved.
func TestUpdate_Conflict(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	var bases []uint64
	s, err := open(f, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
		if bases = append(bases, base.Seq); len(bases) <= 2 {
			addMany(t, f, len(bases))
		}
		return add("ours")(l, base)
	}, nil)
	if err != nil || s.Seq != 5 || !slices.Equal(bases, []uint64{1, 2, 4}) || f.saves != 3 {
		t.Errorf("seq %d, %v, computed on %d, %d saves", s.Seq, err, bases, f.saves)
	}
	if got := names(t, f); !slices.Equal(got, []string{"seed", "0", "0", "1", "ours"}) {
		t.Errorf("the document has %q", got)
	}
}

// TestUpdate_RefusedWithoutReason: a store may say no to a condition that holds, for a moment; for ever, and it is no store
// for documents.
func TestUpdate_RefusedWithoutReason(t *testing.T) {
	for _, times := range []int{1, 7, 8} {
		f := newFlaky()
		seed(t, f)
		_, err := open(&moody{f, times}, nil).Update(t.Context(), add("ours"), nil)
		if times < 8 && err != nil || times == 8 && !errors.Is(err, cas.ErrUnsupported) {
			t.Errorf("refused %d times: %v", times, err)
		}
		if errors.Is(err, cas.ErrUnknown) || count(names(t, f), "ours") != 1-times/8 {
			t.Errorf("refused %d times: %v, and the document has %q", times, err, names(t, f))
		}
	}
}

// moody refuses so many times.
type moody struct {
	*flaky
	times int
}

func (m *moody) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if m.times > 0 {
		m.times--
		return "", cas.ErrConflict
	}
	return m.flaky.Save(ctx, key, body, p)
}

// TestCase_C12_ThrottledOnTheWay: whatever said so, the document is read back at once, and the save sent again after more
// than a second.
func TestCase_C12_ThrottledOnTheWay(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	var waited []time.Duration
	if _, err := open(&busy{f, 2}, &waited).Update(t.Context(), add("ours"), nil); err != nil {
		t.Fatal(err)
	}
	if len(waited) != 2 || waited[0] < time.Second || waited[1] < 2*time.Second {
		t.Errorf("waited %v, want more than a second, and then more than two", waited)
	}
}

// busy throttles, and does not say whether it has done something, so many times.
type busy struct {
	*flaky
	times int
}

func (b *busy) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if b.times > 0 {
		b.times--
		return "", fmt.Errorf("slow down: %w: %w", cas.ErrUnknown, cas.ErrThrottled)
	}
	return b.flaky.Save(ctx, key, body, p)
}

// TestUpdate_EndsWhileOpen: the context ends while a save may still be carried out: unknown, and so it says.
func TestUpdate_EndsWhileOpen(t *testing.T) {
	for _, fates := range [][]fate{{lostBefore}, {late}, {lostBefore, slow}, {lostBefore, broken}} {
		f := newFlaky(fates...)
		seed(t, f)
		waits := 0
		d := cas.NewDoc[list](f, "doc", format, &cas.Options{Wait: func(context.Context, time.Duration) error {
			if waits++; waits == len(fates) {
				return context.Canceled
			}
			return nil
		}})
		_, err := d.Update(t.Context(), add("ours"), nil)
		if ended := fates[len(fates)-1] != broken; !errors.Is(err, cas.ErrUnknown) || errors.Is(err, context.Canceled) != ended {
			t.Errorf("fates %d: %v, want ErrUnknown, and the context's error: %t", fates, err, ended)
		}
	}
}

// TestOptions_DefaultWait ends with its context.
func TestOptions_DefaultWait(t *testing.T) {
	f := newFlaky(slices.Repeat([]fate{slow}, 3)...)
	seed(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := cas.NewDoc[list](f, "doc", format, nil).Update(ctx, func(l *list, base cas.State[list]) error {
		cancel()
		return add("ours")(l, base)
	}, nil)
	if !errors.Is(err, context.Canceled) || f.saves > 1 {
		t.Errorf("Update: %v after %d saves", err, f.saves)
	}
}

// TestUpdate_BirthElsewhere: an incarnation is known by its nonce. Another program may have written its time with an offset,
// which is the same time each time that it is read, and not the same value.
func TestUpdate_BirthElsewhere(t *testing.T) {
	f := newFlaky(lostAfter)
	seed(t, f)
	o, err := f.Store.Load(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	body := regexp.MustCompile(`"at":"[^"]*"`).ReplaceAll(o.Body, []byte(`"at":"2026-11-30T12:00:00+05:45"`))
	if _, err := f.Store.Save(t.Context(), "doc", body, cas.IfMatch(o.Version)); err != nil {
		t.Fatal(err)
	}
	if s, err := open(f, nil).Update(t.Context(), add("ours"), nil); err != nil || s.Seq != 2 || f.saves != 1 {
		t.Errorf("seq %d, %v, after %d saves", s.Seq, err, f.saves)
	}
}
