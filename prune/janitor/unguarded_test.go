package janitor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/prune/janitor"
)

// TestCase_C03_Unguarded: on a store whose conditional writes are not real, or that has none, passes take no lease, write no
// document, say so, and delete all the same.
func TestCase_C03_Unguarded(t *testing.T) {
	verdict := fmt.Errorf("it accepts a stale version: %w", cas.ErrUnsupported)
	for name, opts := range map[string]janitor.Options{
		"lies":   {Usable: func(context.Context) error { return verdict }},
		"denied": {Usable: func(context.Context) error { return fmt.Errorf("may not be found out: %w", bucket.ErrDenied) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.old(3, "team")
				on := w.wire()
				r := mustRun(w.t, w.janitor(on, opts), nil)
				if n := on.count(); r.Unguarded == "" || r.Term != 0 || r.Deleted["stale"] != 3 || n["load"]+n["save"] > 0 {
					w.t.Errorf("%+v, %v", r, on.requests())
				}
			})
		})
	}
	t.Run("no store", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.old(3, "team")
			x, err := blobindex.New(w.Bucket, blobindex.Config{}, nil)
			if err != nil {
				w.t.Fatal(err)
			}
			if r := mustRun(w.t, janitor.New(x, nil), nil); r.Unguarded == "" || r.Deleted["stale"] != 3 {
				w.t.Errorf("%+v", r)
			}
		})
	})
}

// TestRun_Unsure: where it could not be found out whether conditional writes are real, nothing is done; the next pass asks
// again.
func TestRun_Unsure(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		away := errors.New("the network is away")
		j := w.janitor(nil, janitor.Options{Usable: func(context.Context) error { return away }})
		before := w.all()
		if r, err := j.Run(w.t.Context(), nil); !errors.Is(err, away) || r.Unguarded != "" || w.all() != before {
			w.t.Errorf("%v, %+v", err, r)
		}
		away = nil
		if r := mustRun(w.t, j, nil); r.Term != 1 || r.Deleted["stale"] != 3 {
			w.t.Errorf("%+v", r)
		}
	})
}

// TestRun_Refused: a store that refuses to load or save a document for good, or has no room for it, is pruned without a lease;
// one that leaves it open is not.
func TestRun_Refused(t *testing.T) {
	inBubble(t, func(w *world) {
		for _, key := range []bucket.Key{leaseKey, checkpointKey} {
			for _, op := range []string{"load", "save"} {
				for _, refusal := range []error{bucket.ErrDenied, bucket.ErrUnsupported, bucket.ErrFull, bucket.ErrThrottled} {
					w.old(3, "team")
					on := w.wire()
					on.strike = func(_ int, r request) fate {
						if r.is(op, key) {
							return fate{refuse: fmt.Errorf("no: %w", refusal)}
						}
						return fate{}
					}
					ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
					r, err := w.janitor(on, janitor.Options{}).Run(ctx, nil)
					cancel()
					if passes := errors.Is(refusal, bucket.ErrThrottled); (err != nil) != passes || (r.Unguarded == "") != passes ||
						(r.Deleted["stale"] == 0) != passes {
						w.t.Errorf("%s %s, %v: %v, %+v", op, key, refusal, err, r)
					}
					time.Sleep(time.Minute)
					mustRun(w.t, w.janitor(nil, janitor.Options{}), nil)
				}
			}
		}
	})
}

// TestRun_RetentionOfEverything: a bucket whose retention refuses every overwrite takes the first lease, and no renewal or
// release of it. From the second pass on, passes go without.
func TestRun_RetentionOfEverything(t *testing.T) {
	inBubble(t, func(w *world) {
		w.old(3, "team")
		on, there := w.wire(), map[bucket.Key]bool{}
		on.strike = func(_ int, r request) fate {
			if r.op != "save" {
				return fate{}
			}
			if there[r.keys[0]] {
				return fate{refuse: fmt.Errorf("under retention: %w", bucket.ErrDenied)}
			}
			there[r.keys[0]] = true
			return fate{}
		}
		j := w.janitor(on, janitor.Options{})
		if r, err := j.Run(w.t.Context(), nil); !errors.Is(err, bucket.ErrDenied) || r.Deleted["stale"] != 3 {
			w.t.Errorf("%v, %+v", err, r)
		}
		w.old(3, "team")
		for range 2 {
			if r := mustRun(w.t, j, nil); r.Unguarded == "" || r.Term != 0 {
				w.t.Errorf("%+v", r)
			}
			time.Sleep(5 * time.Minute)
		}
		if n := w.markers(); n["team"] != 1 {
			w.t.Errorf("left %v", n)
		}
	})
}
