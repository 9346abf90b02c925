package cas_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	gocmp "github.com/google/go-cmp/cmp"
)

// TestUpdate_Fates: whatever becomes of up to two sends, an update is applied exactly once if it succeeds, at most once if
// it is unknown, and never if it fails; on an absent document and on one that is there.
func TestUpdate_Fates(t *testing.T) {
	all := []fate{fine, lostBefore, lostAfter, late, retried, slow, slowAfter, broken}
	for _, exists := range []bool{true, false} {
		for _, first := range all {
			for _, second := range all {
				t.Run(fmt.Sprintf("exists=%t/%d-%d", exists, first, second), func(t *testing.T) {
					f := newFlaky(first, second)
					var want []string
					if exists {
						seed(t, f)
						want = []string{"seed"}
					}
					runs := 0
					s, err := open(f, nil).Update(t.Context(), func(l *list, _ cas.State[list]) error {
						runs++
						return add("ours")(l, cas.State[list]{})
					}, &cas.UpdateOptions{Create: true})
					f.land()
					applied := err == nil
					if err != nil {
						if !errors.Is(err, cas.ErrDenied) {
							t.Fatalf("Update: %v", err)
						}
						if unknown := errors.Is(err, cas.ErrUnknown); unknown != ((first == lostBefore || first == late) && second == broken) {
							t.Errorf("after %d and %d: unknown is %t: %v", first, second, unknown, err)
						}
						if _, err := open(f.Store, nil).Load(t.Context()); errors.Is(err, cas.ErrNotExist) && !exists {
							return
						}
					}
					if first == late && second == broken {
						want = append(want, "ours") // unknown, and it has come after all
					}
					if applied {
						want = append(want, "ours")
						if o, err := f.Store.Load(t.Context(), "doc"); err != nil || s.Version != o.Version {
							t.Errorf("Update says version %q, the store %q, %v", s.Version, o.Version, err)
						}
						if !slices.Equal(s.Value.Names, want) {
							t.Errorf("Update returns %q", s.Value.Names)
						}
					}
					if got := names(t, f); !slices.Equal(got, want) {
						t.Errorf("the document has %q, want %q", got, want)
					}
					if runs != 1 {
						t.Errorf("it was computed %d times, and nobody else wrote", runs)
					}
				})
			}
		}
	}
}

// TestCase_C01_LateWrite: the PUT lands after the document was read back as it had been. It is applied once, though it was
// sent twice.
func TestCase_C01_LateWrite(t *testing.T) {
	f := newFlaky(late)
	seed(t, f)
	if _, err := open(f, nil).Update(t.Context(), add("ours"), nil); err != nil {
		t.Fatal(err)
	}
	if got := names(t, f); !slices.Equal(got, []string{"seed", "ours"}) || f.saves != 2 {
		t.Errorf("after %d saves the document has %q", f.saves, got)
	}
}

// TestCase_C02_ConflictWithItself: won, and told so with the version that is there.
func TestCase_C02_ConflictWithItself(t *testing.T) {
	for _, exists := range []bool{true, false} {
		f := newFlaky(retried)
		if exists {
			seed(t, f)
		}
		s, err := open(f, nil).Update(t.Context(), add("ours"), &cas.UpdateOptions{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		o, err := f.Store.Load(t.Context(), "doc")
		if err != nil || o.Version != s.Version || f.saves != 1 {
			t.Errorf("exists=%t: version %q, %v after %d saves, the store has %q", exists, s.Version, err, f.saves, o.Version)
		}
	}
}

// TestCase_C01_BuiltOn: our save was carried out, its answer lost, and others have saved since: won, at most once.
func TestCase_C01_BuiltOn(t *testing.T) {
	for _, others := range []int{1, 2, 256} {
		f := newFlaky(lostAfter)
		seed(t, f)
		f.before = nil
		d := open(f, nil)
		s, err := d.Update(t.Context(), func(l *list, base cas.State[list]) error {
			f.before = func() { addMany(t, f, others) } // before the read-back
			return add("ours")(l, base)
		}, nil)
		if err != nil || s.Version != "" || s.Seq != 2 {
			t.Errorf("%d others: version %q, seq %d, %v; want none, 2, nil", others, s.Version, s.Seq, err)
		}
		if got := names(t, f); count(got, "ours") != 1 || len(got) != others+2 {
			t.Errorf("%d others: ours is there %d times among %d", others, count(got, "ours"), len(got))
		}
	}
}

// TestCase_NonceFallenOut: so many saves later nobody can tell: unknown, never applied a second time.
func TestCase_NonceFallenOut(t *testing.T) {
	for _, applied := range []fate{lostAfter, lostBefore} {
		f := newFlaky(applied)
		seed(t, f)
		_, err := open(f, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
			f.before = func() { addMany(t, f, 300) }
			return add("ours")(l, base)
		}, nil)
		if !errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) {
			t.Errorf("fate %d: %v, want ErrUnknown", applied, err)
		}
		if got := count(names(t, f), "ours"); got > 1 || f.saves != 1 {
			t.Errorf("fate %d: ours is there %d times after %d saves", applied, got, f.saves)
		}
	}
}

func addMany(t *testing.T, f *flaky, n int) {
	for i := range n {
		if _, err := open(f.Store, nil).Update(t.Context(), add(fmt.Sprint(i)), nil); err != nil {
			t.Error(err)
		}
	}
}

func count(names []string, name string) int {
	n := 0
	for _, s := range names {
		if s == name {
			n++
		}
	}
	return n
}

// TestUpdate_LostIsComputedAgain: somebody else's save came first, and the answer to ours was lost before it arrived.
func TestUpdate_LostIsComputedAgain(t *testing.T) {
	f := newFlaky(lostBefore)
	seed(t, f)
	runs := 0
	_, err := open(f, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
		if runs++; runs == 1 {
			f.before = func() { addMany(t, f, 1) }
		}
		return add("ours")(l, base)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, f); !slices.Equal(got, []string{"seed", "0", "ours"}) || runs != 2 {
		t.Errorf("computed %d times, the document has %q", runs, got)
	}
}

// TestCase_C11_DeletedMeanwhile: gone is an error, and it is not created again.
func TestCase_C11_DeletedMeanwhile(t *testing.T) {
	for name, conflict := range map[string]bool{"404": false, "412": true} {
		f := newFlaky()
		seed(t, f)
		s := cas.Store(f)
		if conflict {
			s = refusing{f}
		}
		_, err := open(s, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
			f.Store.(bucket.Objects).Delete(t.Context(), []bucket.Key{"doc"})
			return add("ours")(l, base)
		}, &cas.UpdateOptions{Create: true})
		if !errors.Is(err, cas.ErrNotExist) || errors.Is(err, cas.ErrUnknown) {
			t.Errorf("%s: %v, want ErrNotExist", name, err)
		}
		if _, err := f.Store.Load(t.Context(), "doc"); !errors.Is(err, cas.ErrNotExist) {
			t.Errorf("%s: it was created again: %v", name, err)
		}
	}
	if _, err := open(newFlaky(), nil).Update(t.Context(), add("x"), nil); !errors.Is(err, cas.ErrNotExist) {
		t.Errorf("Update of what is absent, without Create: %v", err)
	}
}

// refusing answers 412 where others say 404.
type refusing struct{ cas.Store }

func (r refusing) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	v, err := r.Store.Save(ctx, key, body, p)
	if errors.Is(err, cas.ErrNotExist) {
		return "", cas.ErrConflict
	}
	return v, err
}

// TestCase_C37_DeleteMarkerBlocksCreate: a refusal to create where there is nothing does not mean that there is something.
func TestCase_C37_DeleteMarkerBlocksCreate(t *testing.T) {
	_, err := open(neverCreates{newFlaky()}, nil).Update(t.Context(), add("x"), &cas.UpdateOptions{Create: true})
	if !errors.Is(err, cas.ErrUnsupported) {
		t.Errorf("Update: %v, want ErrUnsupported", err)
	}
}

type neverCreates struct{ *flaky }

func (neverCreates) Save(context.Context, bucket.Key, []byte, cas.Precondition) (cas.Version, error) {
	return "", cas.ErrConflict
}

// TestCase_C12_Throttled: the same save again, after more than a second each time, as long as the context lasts.
func TestCase_C12_Throttled(t *testing.T) {
	f := newFlaky(slow, slow, slow)
	seed(t, f)
	var waited []time.Duration
	runs := 0
	_, err := open(f, &waited).Update(t.Context(), func(l *list, base cas.State[list]) error {
		runs++
		return add("ours")(l, base)
	}, nil)
	if err != nil || runs != 1 || len(waited) != 3 {
		t.Fatalf("%v, computed %d times, waited %v", err, runs, waited)
	}
	for _, d := range waited {
		if d < time.Second {
			t.Errorf("waited %v", d)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.fates = slices.Repeat([]fate{slow}, 100)
	d := cas.NewDoc[list](f, "doc", format, &cas.Options{Wait: func(context.Context, time.Duration) error {
		cancel()
		return ctx.Err()
	}})
	if _, err := d.Update(ctx, add("late"), nil); !errors.Is(err, context.Canceled) || !errors.Is(err, cas.ErrThrottled) ||
		errors.Is(err, cas.ErrUnknown) {
		t.Errorf("cancelled while throttled: %v", err)
	}
}

// TestUpdate_NeverAppliedTwice races writers whose answers get lost.
func TestUpdate_NeverAppliedTwice(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	kinds := []fate{fine, lostBefore, lostAfter, fine, late, retried}
	f.fates = slices.Repeat(kinds, 100)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards outcome
	outcome := map[string]error{}
	for w := range 8 {
		wg.Go(func() {
			d := open(f, nil)
			for i := range 10 {
				name := fmt.Sprintf("%d.%d", w, i)
				_, err := d.Update(t.Context(), add(name), nil)
				mu.Lock()
				outcome[name] = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	f.land()
	got := names(t, f)
	for name, err := range outcome {
		n := count(got, name)
		switch {
		case err == nil && n != 1, errors.Is(err, cas.ErrUnknown) && n > 1:
			t.Errorf("%s is there %d times, and its update said %v", name, n, err)
		case err != nil && !errors.Is(err, cas.ErrUnknown):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLoad_Corrupt: what is no such document is an error that names it, and is never written over.
func TestLoad_Corrupt(t *testing.T) {
	good := newFlaky()
	seed(t, good)
	o, err := good.Store.Load(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	body := string(o.Body)
	for name, tt := range map[string]struct {
		body string
		want error
	}{
		"empty":          {"", cas.ErrCorrupt},
		"NULs":           {strings.Repeat("\x00", 300), cas.ErrCorrupt},
		"cut":            {body[:len(body)-5], cas.ErrCorrupt},
		"doubled":        {body + body, cas.ErrCorrupt},
		"not JSON":       {"hello", cas.ErrCorrupt},
		"an array":       {"[]", cas.ErrCorrupt},
		"null":           {"null", cas.ErrCorrupt},
		"no format":      {"{}", cas.ErrCorrupt},
		"unknown field":  {strings.Replace(body, `"seq"`, `"sequel":1,"seq"`, 1), cas.ErrCorrupt},
		"unknown inside": {strings.Replace(body, `"names"`, `"name":1,"names"`, 1), cas.ErrCorrupt},
		"no payload":     {strings.Replace(body, `"payload":{"names":["seed"]}`, `"payload":null`, 1), cas.ErrCorrupt},
		"seq 0":          {strings.Replace(body, `"seq":1`, `"seq":0`, 1), cas.ErrCorrupt},
		"seq -1":         {strings.Replace(body, `"seq":1`, `"seq":-1`, 1), cas.ErrCorrupt},
		"newer format":   {strings.Replace(body, "list/1", "list/2", 1), cas.ErrFormat},
		"another format": {strings.Replace(body, "list/1", "lease/1", 1), cas.ErrFormat},
	} {
		f := newFlaky()
		if _, err := f.Store.Save(t.Context(), "doc", []byte(tt.body), cas.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		_, err := open(f, nil).Load(t.Context())
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), `"doc"`) {
			t.Errorf("%s: Load: %v, want %v", name, err, tt.want)
		}
		if _, err := open(f, nil).Update(t.Context(), add("x"), &cas.UpdateOptions{Create: true}); !errors.Is(err, tt.want) {
			t.Errorf("%s: Update: %v, want %v", name, err, tt.want)
		}
		if o, err := f.Store.Load(t.Context(), "doc"); err != nil || string(o.Body) != tt.body {
			t.Errorf("%s: it was written over: %q, %v", name, o.Body, err)
		}
	}
}

// TestCase_C33_NeverBack: an older document than one that was seen is asked for again, and then an error.
func TestCase_C33_NeverBack(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	old, err := f.Store.Load(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	addMany(t, f, 2)
	c := &cached{flaky: f, old: old}
	d := open(c, nil)
	if s, err := d.Load(t.Context()); err != nil || s.Seq != 3 {
		t.Fatalf("seq %d, %v", s.Seq, err)
	}
	c.times = 2
	if s, err := d.Load(t.Context()); err != nil || s.Seq != 3 {
		t.Errorf("with a cache that catches up: seq %d, %v", s.Seq, err)
	}
	c.times = 1000
	if s, err := d.Load(t.Context()); !errors.Is(err, cas.ErrBackwards) {
		t.Errorf("with a cache that does not: seq %d, %v", s.Seq, err)
	}
}

// cached serves an old document so many times.
type cached struct {
	*flaky
	old   cas.Object
	times int
}

func (c *cached) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	if c.times > 0 {
		c.times--
		return c.old, nil
	}
	return c.flaky.Load(ctx, key)
}

// TestCase_N2_NoVersion: an answer without a version is an error, and no write follows from it.
func TestCase_N2_NoVersion(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	if _, err := open(versionless{f}, nil).Load(t.Context()); !errors.Is(err, cas.ErrNoVersion) {
		t.Errorf("Load: %v", err)
	}
	if _, err := open(versionless{f}, nil).Update(t.Context(), add("x"), nil); !errors.Is(err, cas.ErrNoVersion) || f.saves != 0 {
		t.Errorf("Update: %v after %d saves", err, f.saves)
	}
	if _, err := open(versionless{newFlaky()}, nil).Update(t.Context(), add("x"), &cas.UpdateOptions{Create: true}); !errors.Is(err, cas.ErrNoVersion) {
		t.Errorf("Update that creates: %v", err)
	}
	for _, p := range []cas.Precondition{{}, cas.IfMatch(""), cas.IfMatch(`""`), cas.IfMatch("0"), cas.IfMatch("*"), cas.IfMatch(`"*"`)} {
		if !errors.Is(p.Check(), cas.ErrPrecondition) {
			t.Errorf("%v is a precondition", p)
		}
	}
}

type versionless struct{ *flaky }

func (v versionless) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	o, err := v.flaky.Load(ctx, key)
	o.Version = ""
	return o, err
}

func (v versionless) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	_, err := v.flaky.Save(ctx, key, body, p)
	return "", err
}

// TestCase_N1_BaseIsLoaded: two documents in one process; the second one's save does not make the first one's base stale.
func TestCase_N1_BaseIsLoaded(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	a, b := open(f, nil), open(f, nil)
	for i := range 3 {
		for _, d := range []*cas.Doc[list]{a, b} {
			if _, err := d.Update(t.Context(), add(fmt.Sprint(i)), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if f.saves != 6 || f.loads != 6 {
		t.Errorf("%d saves and %d loads for 6 updates, want 6 and 6", f.saves, f.loads)
	}
}

// TestUpdate_ItsOwnErrors: those of the function end it, and nothing is written.
func TestUpdate_ItsOwnErrors(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	own := errors.New("own")
	if _, err := open(f, nil).Update(t.Context(), func(l *list, _ cas.State[list]) error {
		l.Names[0] = "changed"
		return own
	}, nil); !errors.Is(err, own) {
		t.Errorf("Update: %v", err)
	}
	s, err := open(f, nil).Update(t.Context(), func(l *list, base cas.State[list]) error {
		l.Names[0] = "changed"
		return cas.ErrNoChange
	}, nil)
	if err != nil || s.Seq != 1 || s.Version == "" || f.saves != 0 {
		t.Errorf("without a change: seq %d, version %q, %v, %d saves", s.Seq, s.Version, err, f.saves)
	}
	if diff := gocmp.Diff([]string{"seed"}, s.Value.Names); diff != "" {
		t.Errorf("what the function did to its copy shows:\n%s", diff)
	}
	big := strings.Repeat("x", cas.MaxSize)
	if _, err := open(f, nil).Update(t.Context(), add(big), nil); !errors.Is(err, cas.ErrTooLarge) || f.saves != 0 {
		t.Errorf("a large document: %v, %d saves", err, f.saves)
	}
}
