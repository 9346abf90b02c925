package cas_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/blobindex/indexd/cas"
)

// TestReset: after a restore, who has seen later states refuses the document until it begins anew, payload kept; an update
// under way meanwhile is never mistaken for carried out.
func TestReset(t *testing.T) {
	f := newFlaky()
	seed(t, f)
	backup, err := f.Store.Load(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	addMany(t, f, 2)
	reader := open(f, nil)
	later, err := reader.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Store.Save(t.Context(), "doc", backup.Body, cas.IfMatch(later.Version)); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Load(t.Context()); !errors.Is(err, cas.ErrBackwards) {
		t.Fatalf("restored: %v", err)
	}
	if err := open(f, nil).Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := reader.Load(t.Context())
	if err != nil || s.Seq != 1 || s.Created == later.Created || !slices.Equal(s.Value.Names, []string{"seed"}) {
		t.Errorf("after the reset: %+v, %v", s, err)
	}
	if s, err := reader.Update(t.Context(), add("x"), nil); err != nil || s.Seq != 2 {
		t.Errorf("an update then: %+v, %v", s, err)
	}
}

// TestReset_Outcomes: it says what became of it, once, and makes no document of what is none.
func TestReset_Outcomes(t *testing.T) {
	if err := open(newFlaky(), nil).Reset(t.Context()); !errors.Is(err, cas.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	f := newFlaky()
	if _, err := f.Store.Save(t.Context(), "doc", []byte("{}"), cas.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	if err := open(f, nil).Reset(t.Context()); !errors.Is(err, cas.ErrCorrupt) {
		t.Errorf("of something else: %v", err)
	}
	f = newFlaky()
	seed(t, f)
	rival := func(*list, cas.State[list]) error { return open(f, nil).Reset(t.Context()) }
	// The update computed from the incarnation before; it computes again from the new one.
	runs := 0
	if _, err := open(f, nil).Update(t.Context(), func(l *list, s cas.State[list]) error {
		if runs++; runs == 1 {
			return errors.Join(rival(l, s), add("x")(l, s))
		}
		return add("x")(l, s)
	}, nil); err != nil || runs != 2 {
		t.Errorf("an update across a reset: %v after %d runs", err, runs)
	}
	if got := names(t, f); !slices.Equal(got, []string{"seed", "x"}) {
		t.Errorf("left %q", got)
	}
}
