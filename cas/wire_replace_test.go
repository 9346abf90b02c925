package cas_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// TestReplace_OnTheWire: 1 PUT under the condition that names the base, or that there is none; whatever is answered, it is
// won and applied once; who comes second with the same base is told so.
func TestReplace_OnTheWire(t *testing.T) {
	each(t, func(t *testing.T, start starter) {
		for _, e := range append(endings(), ending{name: "fine", lands: true}) {
			for _, exists := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/exists=%t", e.name, exists), func(t *testing.T) {
					f := start(t, conf{})
					begin(t, f, exists)
					base := cas.State[list]{}
					if exists {
						var err error
						if base, err = open(f.dial(t, nil, ""), nil).Load(t.Context()); err != nil {
							t.Fatal(err)
						}
						f.reset()
					}
					if e.name != "fine" {
						f.strike(fault{method: "PUT", kind: e.kind})
					}
					d := open(f.dial(t, nil, ""), nil)
					s, err := d.Replace(t.Context(), base, ours)
					if err != nil || s.Version == "" || s.Seq != base.Seq+1 {
						t.Fatalf("version %q, seq %d, %v", s.Version, s.Seq, err)
					}
					switch {
					case e.name == "fine" && !slices.Equal(methods(f), []string{"PUT"}):
						t.Errorf("the requests were %q", methods(f))
					case e.lands:
						same(t, f, 1)
					default:
						same(t, f, 2)
					}
					if _, err := d.Replace(t.Context(), base, list{}); !errors.Is(err, cas.ErrConflict) {
						t.Errorf("again, with the same base: %v", err)
					}
					holds(t, f, ours.Names)
					if _, err := d.Replace(t.Context(), s, list{Names: []string{"next"}}); err != nil {
						t.Errorf("on top of it: %v", err)
					}
					holds(t, f, []string{"next"})
				})
			}
		}
	})
}

// TestReplace_DeletedOnTheWire: it is not created again.
func TestReplace_DeletedOnTheWire(t *testing.T) {
	onEach(t, conf{}, func(t *testing.T, f fake) {
		begin(t, f, true)
		b := f.dial(t, nil, "")
		d := open(b, nil)
		base, err := d.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if errs := b.Delete(t.Context(), []bucket.Key{"doc"}); errs != nil {
			t.Fatal(errs)
		}
		_, err = d.Replace(t.Context(), base, ours)
		if !errors.Is(err, cas.ErrNotExist) && !errors.Is(err, cas.ErrConflict) || errors.Is(err, cas.ErrUnknown) {
			t.Errorf("Replace: %v", err)
		}
		holds(t, f, nil)
	})
}
