package cas_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestCase_C03_WhatUpdateNotices: a store that lies about conditions loses other people's changes, and Update cannot see
// that; where the lie changes what it reads, it must not make more of it. That is why cas/probe asks first: its
// TestCase_C03_S3 and _GCS name the finding of each lie.
func TestCase_C03_WhatUpdateNotices(t *testing.T) {
	overwritten := []string{"ours"} // the rival's create or change is gone: seen by nobody but the probe
	for name, lie := range map[string]struct {
		conf   conf
		exists bool
		want   []string
	}{
		"create-only ignored": {conf: conf{s3: s3d.Options{Lies: s3d.Lies{CreateOnlyOverwrites: true}},
			gcs: gcsd.Options{Lies: gcsd.Lies{WriteIgnoresConditions: true}}}, want: overwritten},
		"stale token ignored": {conf: conf{s3: s3d.Options{Lies: s3d.Lies{IgnoresIfMatch: true}},
			gcs: gcsd.Options{Lies: gcsd.Lies{WriteIgnoresConditions: true}}}, exists: true, want: []string{"seed", "ours"}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, lie.conf, func(t *testing.T, f fake) {
				begin(t, f, lie.exists)
				f.strike(fault{method: "PUT", kind: before(func() { update(t, f, "rival") })})
				ours := &adder{name: "ours"}
				if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create); err != nil || ours.runs != 1 {
					t.Errorf("%v, computed %d times", err, ours.runs)
				}
				holds(t, f, lie.want)
			})
		})
		t.Run(name+", and the answer lost", func(t *testing.T) {
			onEach(t, lie.conf, func(t *testing.T, f fake) {
				want := append(begin(t, f, lie.exists), "ours")
				f.strike(fault{method: "PUT", kind: resetAfter})
				ours := &adder{name: "ours"}
				if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create); err != nil || ours.runs != 1 {
					t.Errorf("%v, computed %d times", err, ours.runs)
				}
				holds(t, f, want)
			})
		})
	}
	// What was deleted comes back whole: the base that was loaded, and our change.
	t.Run("token on a missing key creates", func(t *testing.T) {
		onEach(t, conf{s3: s3d.Options{Lies: s3d.Lies{IfMatchCreates: true}},
			gcs: gcsd.Options{Lies: gcsd.Lies{WriteIgnoresConditions: true}}}, func(t *testing.T, f fake) {
			begin(t, f, true)
			ours := &adder{name: "ours", then: func(int) { remove(t, f) }}
			if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, nil); err != nil {
				t.Error(err)
			}
			holds(t, f, []string{"seed", "ours"})
		})
	})
}

// remove deletes the document as another client does.
func remove(t testing.TB, f fake) {
	t.Helper()
	if errs := f.dial(t, nil, "").Delete(t.Context(), []bucket.Key{"doc"}); errors.Join(errs...) != nil {
		t.Error(errs)
	}
}

// TestCase_C11_ConflictingRequest: S3 could not decide, and nothing was done: sent again, also where it keeps saying so for
// a while; until the context ends. It is no conflict.
func TestCase_C11_ConflictingRequest(t *testing.T) {
	for _, times := range []int{1, 4, 12} {
		for _, exists := range []bool{true, false} {
			f := startS3(t, conf{})
			want := begin(t, f, exists)
			for n := range times {
				f.strike(fault{method: "PUT", nth: n + 1, kind: status(409, "ConditionalRequestConflict", "")})
			}
			ours := &adder{name: "ours"}
			var waited []time.Duration
			if _, err := open(f.dial(t, nil, ""), &waited).Update(t.Context(), ours.change, create); err != nil || ours.runs != 1 {
				t.Errorf("%d times: %v, computed %d times", times, err, ours.runs)
			}
			if times < 5 && len(waited) > 0 { // the driver's own pauses are short: nobody asked for slower writes
				t.Errorf("%d times: it waited %v", times, waited)
			}
			same(t, f, times+1)
			if got := methods(f); slices.Contains(got[1:], "GET") {
				t.Errorf("%d times: %q: there was nothing to read back", times, got)
			}
			holds(t, f, append(want, "ours"))
		}
	}
	f := startS3(t, conf{})
	want := begin(t, f, true)
	f.strike(fault{method: "PUT", every: true, kind: status(409, "ConditionalRequestConflict", "")})
	ctx, cancel := context.WithCancel(t.Context())
	d := cas.NewDoc[list](f.dial(t, nil, ""), "doc", format, &cas.Options{Wait: func(ctx context.Context, _ time.Duration) error {
		cancel()
		return ctx.Err()
	}})
	if _, err := d.Update(ctx, add("ours"), nil); !errors.Is(err, cas.ErrThrottled) || !errors.Is(err, context.Canceled) ||
		errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) {
		t.Errorf("for ever: %v", err)
	}
	holds(t, f, want)
}

// TestCase_C11_OtherConflicts: any other 409 is no lost race, and is told as it came; nothing was changed.
func TestCase_C11_OtherConflicts(t *testing.T) {
	for _, code := range []string{"OperationAborted", "BucketAlreadyExists", "InvalidBucketState", ""} {
		t.Run("409 "+code, func(t *testing.T) {
			onEach(t, conf{}, func(t *testing.T, f fake) {
				want := begin(t, f, true)
				f.strike(fault{method: "PUT", kind: status(409, code, "conflict")})
				ours := &adder{name: "ours"}
				_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
				for _, not := range []error{nil, cas.ErrConflict, cas.ErrUnknown, cas.ErrThrottled, cas.ErrNotExist} {
					if errors.Is(err, not) {
						t.Errorf("Update: %v, which is %v", err, not)
					}
				}
				if err == nil || !strings.Contains(err.Error(), "409") || !strings.Contains(err.Error(), `"doc"`) ||
					ours.runs != 1 {
					t.Errorf("Update: %v, computed %d times", err, ours.runs)
				}
				same(t, f, 1)
				holds(t, f, want)
			})
		})
	}
}

// TestCase_C11_DeletedOnTheWire: deleted between load and save is an error, whether the store says 404 or 412, and it is
// never created again, also where Update may create; nor after an answer that got lost.
func TestCase_C11_DeletedOnTheWire(t *testing.T) {
	for name, lies := range map[string]s3d.Lies{"404": {}, "412": {IfMatchAbsent412: true}} { // gcsd says 412 to both
		for _, may := range []*cas.UpdateOptions{nil, create} {
			for lost, k := range map[string]*kind{"": nil, ", answer lost before": &dropBefore, ", answer lost after": &dropAfter} {
				t.Run(fmt.Sprintf("%s/create=%t%s", name, may != nil, lost), func(t *testing.T) {
					onEach(t, conf{s3: s3d.Options{Lies: lies}}, func(t *testing.T, f fake) {
						begin(t, f, true)
						if k != nil {
							f.strike(fault{method: "PUT", kind: *k})
						}
						ours := &adder{name: "ours", then: func(int) { remove(t, f) }}
						_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, may)
						// That an open save found nothing to change, or that what it made was deleted, nobody can tell.
						if want := k != nil; errors.Is(err, cas.ErrUnknown) != want || errors.Is(err, cas.ErrNotExist) == want || err == nil {
							t.Errorf("Update: %v", err)
						}
						same(t, f, 1)
						if ours.runs != 1 || f.body() != "" {
							t.Errorf("computed %d times, and there is %q", ours.runs, f.body())
						}
					})
				})
			}
		}
	}
	t.Run("absent from the start", func(t *testing.T) {
		onEach(t, conf{}, func(t *testing.T, f fake) {
			begin(t, f, false)
			if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), add("x"), nil); !errors.Is(err, cas.ErrNotExist) {
				t.Errorf("Update: %v", err)
			}
			same(t, f, 0)
		})
	})
}

// TestCase_C11_DeletedBeforeTheResend: the document was still there when a lost save was read back, and is gone when it is
// sent again. What the first one did, nobody can tell any more.
func TestCase_C11_DeletedBeforeTheResend(t *testing.T) {
	onEach(t, conf{}, func(t *testing.T, f fake) {
		begin(t, f, true)
		f.strike(fault{method: "PUT", kind: dropBefore}, fault{method: "PUT", nth: 2, kind: before(func() { remove(t, f) })})
		ours := &adder{name: "ours"}
		_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
		if !errors.Is(err, cas.ErrUnknown) || ours.runs != 1 {
			t.Errorf("%v, computed %d times", err, ours.runs)
		}
		if same(t, f, 2); f.body() != "" {
			t.Errorf("there is %q", f.body())
		}
	})
}

// TestUpdate_AbsentBucket: there is nothing to create a document in, which is an error at once.
func TestUpdate_AbsentBucket(t *testing.T) {
	onEach(t, conf{s3: s3d.Options{Buckets: []string{"another"}}, gcs: gcsd.Options{Buckets: []string{"another"}}},
		func(t *testing.T, f fake) {
			_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), add("x"), create)
			if !errors.Is(err, cas.ErrNotExist) || strings.Contains(err.Error(), "deleted") || len(f.sent()) > 2 {
				t.Errorf("%v after %q", err, methods(f))
			}
		})
}

// TestUpdate_RefusalsInARow: refusals of a condition that holds are borne for a while, as a reader that lags behind sees
// them; a race that was really lost in between shows that the store is sound. Without one it is told as unsupported.
func TestUpdate_RefusalsInARow(t *testing.T) {
	refused := status(412, "PreconditionFailed", "conditionNotMet")
	onEach(t, conf{}, func(t *testing.T, f fake) {
		begin(t, f, true)
		for n := range 5 {
			f.strike(fault{method: "PUT", nth: n + 1, kind: refused}, fault{method: "PUT", nth: n + 8, kind: refused})
		}
		f.strike(fault{method: "PUT", nth: 6, kind: before(func() { update(t, f, "rival") })}) // whose upload is the seventh
		if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), add("ours"), nil); err != nil {
			t.Error(err)
		}
		holds(t, f, []string{"seed", "rival", "ours"})
		f.reset()
		f.strike(fault{method: "PUT", every: true, kind: refused})
		if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), add("more"), nil); !errors.Is(err, cas.ErrUnsupported) ||
			errors.Is(err, cas.ErrUnknown) || len(puts(t, f)) > 20 {
			t.Errorf("always refused: %v after %d uploads", err, len(puts(t, f)))
		}
	})
}

// TestCase_C37_OverADeleteMarker: in a versioned bucket a document can be created again, whose saves build on each other.
func TestCase_C37_OverADeleteMarker(t *testing.T) {
	onEach(t, conf{s3: s3d.Options{Versioned: true}, gcs: gcsd.Options{Versioned: true}}, func(t *testing.T, f fake) {
		begin(t, f, true)
		remove(t, f)
		d := open(f.dial(t, nil, ""), nil)
		for i, name := range []string{"again", "and again"} {
			if s, err := d.Update(t.Context(), add(name), create); err != nil || s.Seq != uint64(i+1) {
				t.Errorf("%s: seq %d, %v", name, s.Seq, err)
			}
		}
		holds(t, f, []string{"again", "and again"})
	})
}

// TestCase_C37_MarkerBlocksCreate: a 412 to create-only where there is only a delete marker says neither that there is a
// document, nor that somebody else was faster: the store is unsupported, after a bounded number of tries.
func TestCase_C37_MarkerBlocksCreate(t *testing.T) {
	f := startS3(t, conf{s3: s3d.Options{Versioned: true, Lies: s3d.Lies{MarkerBlocksCreate: true}}})
	begin(t, f, true)
	remove(t, f)
	if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), add("again"), create); !errors.Is(err, cas.ErrUnsupported) ||
		errors.Is(err, cas.ErrUnknown) {
		t.Errorf("Update: %v, want ErrUnsupported", err)
	}
	if n := len(puts(t, f)); n < 2 || n > 20 {
		t.Errorf("%d uploads", n)
	}
	if f.body() != "" {
		t.Errorf("there is %q", f.body())
	}
}

// TestRequests_CAS: without contention an update is one GET and one PUT; a creation, too.
func TestRequests_CAS(t *testing.T) {
	onEach(t, conf{}, func(t *testing.T, f fake) {
		d := open(f.dial(t, nil, ""), nil)
		for i := range 4 {
			f.reset()
			if _, err := d.Update(t.Context(), add("x"), create); err != nil {
				t.Fatal(err)
			}
			want := "a version"
			if i == 0 {
				want = "absent"
			}
			got := f.sent()
			if len(got) != 2 || got[0].method != "GET" || got[1].method != "PUT" || (got[1].condition == "absent") != (i == 0) {
				t.Errorf("update %d: %q, want GET and PUT if %s", i, methods(f), want)
			}
			puts(t, f)
		}
		f.reset()
		if _, err := d.Load(t.Context()); err != nil || !slices.Equal(methods(f), []string{"GET"}) {
			t.Errorf("Load: %q, %v", methods(f), err)
		}
		f.reset()
		if _, err := d.Update(t.Context(), func(*list, cas.State[list]) error { return cas.ErrNoChange }, nil); err != nil ||
			!slices.Equal(methods(f), []string{"GET"}) {
			t.Errorf("an update that changes nothing: %q, %v", methods(f), err)
		}
	})
	t.Run("directory", func(t *testing.T) {
		f := &flaky{Store: openDir(t, t.TempDir())}
		d := open(f, nil)
		for i := range 3 {
			if _, err := d.Update(t.Context(), add("x"), create); err != nil || f.loads != i+1 || f.saves != i+1 {
				t.Errorf("after %d updates: %d loads, %d saves, %v", i+1, f.loads, f.saves, err)
			}
		}
	})
}

func openDir(t testing.TB, path string) *dirbucket.Bucket {
	t.Helper()
	b, err := dirbucket.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}
