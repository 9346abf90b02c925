package cas_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// An ending is what becomes of an upload whose answer says nothing for sure.
type ending struct {
	name  string
	kind  kind
	lands bool
}

// endings are the ways to lose an answer.
func endings() (all []ending) {
	for _, s := range []struct {
		code   int
		s3Code string
	}{{503, "SlowDown"}, {503, ""}, {500, "InternalError"}, {500, ""}, {502, ""}, {504, ""}, {408, ""}} {
		name := fmt.Sprint(s.code, s.s3Code)
		all = append(all,
			ending{name + " not applied", status(s.code, s.s3Code, "backendError"), false},
			ending{name + " applied", appliedThen(s.code, s.s3Code), true})
	}
	return append(all,
		ending{"reset, not applied", resetBefore, false}, ending{"reset, applied", resetAfter, true},
		ending{"closed, not applied", dropBefore, false}, ending{"closed, applied", dropAfter, true},
		ending{"half a request", kind{s3d.HalfRequest(), gcsd.HalfRequest()}, false},
		ending{"half an answer", kind{s3d.DropAfter(), gcsd.Half()}, true},
		ending{"an answer that is none", kind{s3d.DropAfter(), gcsd.Rewrite("cut", func([]byte) []byte { return []byte("{") })},
			true})
}

// TestCase_C01_AnswerLost: whatever is answered, the update is won, applied once and computed once; a save that has landed
// is not sent again, one that has not is, under the same condition.
func TestCase_C01_AnswerLost(t *testing.T) {
	each(t, func(t *testing.T, start starter) {
		for _, e := range endings() {
			for _, exists := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/exists=%t", e.name, exists), func(t *testing.T) {
					f := start(t, conf{})
					want := begin(t, f, exists)
					f.strike(fault{method: "PUT", kind: e.kind})
					ours := &adder{name: "ours"}
					s, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
					if err != nil || ours.runs != 1 {
						t.Fatalf("%v, computed %d times", err, ours.runs)
					}
					if e.lands {
						same(t, f, 1)
					} else {
						same(t, f, 2)
					}
					holds(t, f, append(want, "ours"))
					o, err := f.dial(t, nil, "").Load(t.Context(), "doc")
					if err != nil || s.Version != o.Version || s.Seq != uint64(len(want)+1) {
						t.Errorf("version %q, seq %d; the store has %q, %v", s.Version, s.Seq, o.Version, err)
					}
				})
			}
		}
	})
}

// TestCase_C01_NeverAnswered: when no answer ever comes, the update is won if a save has landed, else unknown after a few
// tries under the same condition; it is computed once.
func TestCase_C01_NeverAnswered(t *testing.T) {
	each(t, func(t *testing.T, start starter) {
		for _, e := range endings() {
			for _, exists := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/exists=%t", e.name, exists), func(t *testing.T) {
					f := start(t, conf{})
					want := begin(t, f, exists)
					f.strike(fault{method: "PUT", every: true, kind: e.kind})
					ours := &adder{name: "ours"}
					_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
					if e.lands {
						want = append(want, "ours")
					}
					if e.lands != (err == nil) || err != nil && !errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) {
						t.Errorf("Update: %v", err)
					}
					if n := len(puts(t, f)); ours.runs != 1 || e.lands != (n == 1) {
						t.Errorf("computed %d times, sent %d times", ours.runs, n)
					}
					same(t, f, len(puts(t, f)))
					holds(t, f, want)
				})
			}
		}
	})
}

// TestCase_C01_LandsLate: the upload is answered, or not, and carried out after a read-back has shown the old document.
func TestCase_C01_LandsLate(t *testing.T) {
	for name, answer := range map[string]struct {
		code   int
		s3Code string
	}{"closed": {}, "503": {503, "SlowDown"}, "500": {500, "InternalError"}} {
		for _, exists := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/exists=%t", name, exists), func(t *testing.T) {
				lateWrites(t, exists, func(release <-chan struct{}) kind { return later(release, answer.code, answer.s3Code) })
			})
		}
	}
}

// A gate is what late requests wait for. It may be opened twice, so that a test that fails does not hang.
type gate struct {
	c    chan struct{}
	open func()
}

func newGate() gate {
	c := make(chan struct{})
	return gate{c, sync.OnceFunc(func() { close(c) })}
}

func lateWrites(t *testing.T, exists bool, late func(<-chan struct{}) kind) {
	t.Run("while it is sent again", func(t *testing.T) {
		onEach(t, conf{}, func(t *testing.T, f fake) {
			want, release := begin(t, f, exists), newGate()
			f.strike(fault{method: "PUT", kind: late(release.c)},
				fault{method: "PUT", nth: 2, kind: before(func() { release.open(); f.settle() })})
			ours := &adder{name: "ours"}
			if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create); err != nil || ours.runs != 1 {
				t.Errorf("%v, computed %d times", err, ours.runs)
			}
			release.open()
			same(t, f, 2)
			holds(t, f, append(want, "ours"))
		})
	})
	t.Run("after it was sent again", func(t *testing.T) {
		onEach(t, conf{}, func(t *testing.T, f fake) {
			want, release := begin(t, f, exists), newGate()
			f.strike(fault{method: "PUT", kind: late(release.c)})
			ours := &adder{name: "ours"}
			if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create); err != nil || ours.runs != 1 {
				t.Errorf("%v, computed %d times", err, ours.runs)
			}
			release.open()
			same(t, f, 2)
			holds(t, f, append(want, "ours"))
		})
	})
	t.Run("after Update gave up", func(t *testing.T) {
		onEach(t, conf{}, func(t *testing.T, f fake) {
			want, release := begin(t, f, exists), newGate()
			f.strike(fault{method: "PUT", every: true, kind: late(release.c)})
			ours := &adder{name: "ours"}
			_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
			if !errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) || ours.runs != 1 {
				t.Errorf("%v, computed %d times", err, ours.runs)
			}
			n := len(puts(t, f))
			same(t, f, n)
			if n < 2 {
				t.Errorf("it gave up after %d uploads", n)
			}
			release.open()
			holds(t, f, append(want, "ours")) // of all that were sent one has landed
		})
	})
	t.Run("after another one won", func(t *testing.T) {
		onEach(t, conf{}, func(t *testing.T, f fake) {
			want, release := begin(t, f, exists), newGate()
			// The rival's own requests are counted, too: its upload is the second one.
			f.strike(fault{method: "PUT", kind: late(release.c)},
				fault{method: "GET", nth: 2, kind: before(func() { update(t, f, "rival") })})
			ours := &adder{name: "ours"}
			if _, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create); err != nil || ours.runs != 2 {
				t.Errorf("%v, computed %d times, want twice: the first one was lost", err, ours.runs)
			}
			release.open()
			holds(t, f, append(want, "rival", "ours"))
		})
	})
}

// TestCase_C01_BuiltOnWhileUnread: the read-back finds a later document that was built on ours: won, and not sent again.
func TestCase_C01_BuiltOnWhileUnread(t *testing.T) {
	each(t, func(t *testing.T, start starter) {
		for _, exists := range []bool{true, false} {
			for _, rivals := range []int{1, 3} {
				f := start(t, conf{})
				want := append(begin(t, f, exists), "ours")
				var names []string
				for i := range rivals {
					names = append(names, fmt.Sprint("rival", i))
				}
				f.strike(fault{method: "PUT", kind: resetAfter}, fault{method: "GET", nth: 2, kind: before(func() {
					for _, name := range names {
						update(t, f, name)
					}
				})})
				ours := &adder{name: "ours"}
				s, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
				if err != nil || ours.runs != 1 || s.Version != "" || s.Seq != uint64(len(want)) {
					t.Errorf("exists=%t, %d rivals: %v, computed %d times, version %q, seq %d", exists, rivals, err, ours.runs,
						s.Version, s.Seq)
				}
				if n := len(puts(t, f)); n != 1+rivals {
					t.Errorf("exists=%t: %d uploads by us and %d rivals", exists, n, rivals)
				}
				holds(t, f, append(want, names...))
			}
		}
	})
}

// TestCase_C01_AnotherIncarnation: the document was deleted and created anew by somebody else before it was read back. What
// became of ours before that, nobody can tell, and it is not computed again.
func TestCase_C01_AnotherIncarnation(t *testing.T) {
	for name, k := range map[string]kind{"applied": resetAfter, "not applied": resetBefore} {
		t.Run(name, func(t *testing.T) {
			onEach(t, conf{}, func(t *testing.T, f fake) {
				begin(t, f, true)
				f.strike(fault{method: "PUT", kind: k}, fault{method: "GET", nth: 2, kind: before(func() {
					remove(t, f)
					update(t, f, "rival")
				})})
				ours := &adder{name: "ours"}
				_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
				if !errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) || ours.runs != 1 {
					t.Errorf("%v, computed %d times", err, ours.runs)
				}
				holds(t, f, []string{"rival"})
			})
		})
	}
}

// TestCase_C01_ReadBackFails: nobody can say what became of it, and so it is not sent again.
func TestCase_C01_ReadBackFails(t *testing.T) {
	for name, k := range map[string]kind{
		"500": status(500, "InternalError", "backendError"), "closed": dropBefore, "403": status(403, "AccessDenied", "forbidden"),
		"404": status(404, "NoSuchKey", "notFound"),
		"0 bytes": {s3d.Rewrite("empty", func([]byte) []byte { return nil }),
			gcsd.Rewrite("empty", func([]byte) []byte { return nil })},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, conf{}, func(t *testing.T, f fake) {
				want := begin(t, f, true)
				f.strike(fault{method: "PUT", kind: dropAfter}, fault{method: "GET", nth: 2, every: true, kind: k})
				ours := &adder{name: "ours"}
				_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
				if !errors.Is(err, cas.ErrUnknown) || ours.runs != 1 {
					t.Errorf("%v, computed %d times", err, ours.runs)
				}
				same(t, f, 1)
				holds(t, f, append(want, "ours"))
			})
		})
	}
}

// A repeater sends each upload twice and shows the second answer, as an SDK or a proxy does whose first one was lost.
type repeater struct {
	http.RoundTripper
	between func()
}

func (r repeater) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPut && req.Method != http.MethodPost {
		return r.RoundTripper.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		again := req.Clone(req.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp, err := r.RoundTripper.RoundTrip(again)
		if n == 1 || err != nil {
			return resp, err
		}
		resp.Body.Close()
		if r.between != nil {
			r.between()
		}
	}
}

// TestCase_C02_RepeatedOnTheWay: the store refuses our own write, because it has it already: won, with the version that is
// there, on a new document and on an old one.
func TestCase_C02_RepeatedOnTheWay(t *testing.T) {
	each(t, func(t *testing.T, start starter) {
		for _, exists := range []bool{true, false} {
			f := start(t, conf{})
			want := begin(t, f, exists)
			ours := &adder{name: "ours"}
			d := open(f.dial(t, repeater{RoundTripper: http.DefaultTransport}, ""), nil)
			s, err := d.Update(t.Context(), ours.change, create)
			if err != nil || ours.runs != 1 {
				t.Fatalf("exists=%t: %v, computed %d times", exists, err, ours.runs)
			}
			same(t, f, 2)
			o, err := f.dial(t, nil, "").Load(t.Context(), "doc")
			if err != nil || s.Version != o.Version {
				t.Errorf("exists=%t: version %q, the store has %q, %v", exists, s.Version, o.Version, err)
			}
			if _, err := d.Update(t.Context(), add("more"), nil); err != nil {
				t.Errorf("exists=%t: the next update: %v", exists, err)
			}
			holds(t, f, append(want, "ours", "more"))
		}
	})
}

// TestCase_C02_AResetAndAResend: our own resend is refused, since the first upload has landed after all.
func TestCase_C02_AResetAndAResend(t *testing.T) {
	each(t, func(t *testing.T, start starter) {
		for _, exists := range []bool{true, false} {
			f := start(t, conf{})
			want := begin(t, f, exists)
			// The read-back is answered by something that has not heard of it: the store as it was.
			c := &lagging{RoundTripper: http.DefaultTransport, from: 1, times: 1}
			f.strike(fault{method: "PUT", kind: resetAfter})
			ours := &adder{name: "ours"}
			s, err := open(f.dial(t, c, ""), nil).Update(t.Context(), ours.change, create)
			if err != nil || ours.runs != 1 || s.Version == "" {
				t.Fatalf("exists=%t: %v, computed %d times, version %q", exists, err, ours.runs, s.Version)
			}
			same(t, f, 2)
			holds(t, f, append(want, "ours"))
		}
	})
}

// A lagging cache answers a few GETs as the first one was, whatever their headers say.
type lagging struct {
	http.RoundTripper
	from  int // so many GETs are let through first
	times int // and so many are answered of old; below 0: all of them
	gets  int
	old   *http.Response
	body  []byte
}

func (l *lagging) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return l.RoundTripper.RoundTrip(req)
	}
	if l.gets++; l.gets > l.from && l.times != 0 {
		l.times--
		again := *l.old
		again.Body, again.Header = io.NopCloser(bytes.NewReader(l.body)), l.old.Header.Clone()
		again.Request = req
		return &again, nil
	}
	resp, err := l.RoundTripper.RoundTrip(req)
	if err != nil || l.old != nil {
		return resp, err
	}
	l.body, err = io.ReadAll(resp.Body)
	resp.Body.Close()
	l.old = resp
	resp.Body = io.NopCloser(bytes.NewReader(l.body))
	return resp, err
}

// TestCase_C02_ATwinIsNotUs: a rival saves what we would have saved, and ours never landed: lost, never taken for won.
func TestCase_C02_ATwinIsNotUs(t *testing.T) {
	each(t, func(t *testing.T, start starter) {
		for _, exists := range []bool{true, false} {
			t.Run(fmt.Sprintf("lost/exists=%t", exists), func(t *testing.T) {
				f := start(t, conf{})
				want := begin(t, f, exists)
				f.strike(fault{method: "PUT", kind: resetBefore},
					fault{method: "GET", nth: 2, kind: before(func() { update(t, f, "same") })})
				twin(t, f, append(want, "same", "same"))
			})
			t.Run(fmt.Sprintf("refused/exists=%t", exists), func(t *testing.T) {
				f := start(t, conf{})
				want := begin(t, f, exists)
				f.strike(fault{method: "PUT", kind: before(func() { update(t, f, "same") })})
				twin(t, f, append(want, "same", "same"))
			})
		}
	})
}

func twin(t *testing.T, f fake, want []string) {
	t.Helper()
	ours := &adder{name: "same"}
	s, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
	if err != nil || ours.runs != 2 || !slices.Equal(s.Value.Names, want) {
		t.Errorf("%v, computed %d times, returned %q", err, ours.runs, s.Value.Names)
	}
	holds(t, f, want)
}

// TestCase_NonceFallenOutOnTheWire: 300 saves lie between our upload and the read-back: unknown, whether it has landed or
// not, and sent once.
func TestCase_NonceFallenOutOnTheWire(t *testing.T) {
	for name, k := range map[string]kind{"applied": resetAfter, "not applied": resetBefore} {
		t.Run(name, func(t *testing.T) {
			onEach(t, conf{}, func(t *testing.T, f fake) {
				begin(t, f, true)
				f.strike(fault{method: "PUT", kind: k}, fault{method: "GET", nth: 2, kind: before(func() {
					d := open(f.dial(t, nil, ""), nil)
					for range 300 {
						if _, err := d.Update(t.Context(), add("other"), nil); err != nil {
							t.Error(err)
						}
					}
				})})
				ours := &adder{name: "ours"}
				_, err := open(f.dial(t, nil, ""), nil).Update(t.Context(), ours.change, create)
				if !errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) || ours.runs != 1 {
					t.Errorf("%v, computed %d times", err, ours.runs)
				}
				if n := len(puts(t, f)); n != 301 {
					t.Errorf("%d uploads, 300 of them by others", n)
				}
				s, err := cas.NewDoc[list](stored{f}, "doc", format, nil).Load(t.Context())
				landed := map[string]int{"applied": 1, "not applied": 0}[name]
				if n := count(s.Value.Names, "ours"); err != nil || n != landed || len(s.Value.Names) != 301+landed {
					t.Errorf("ours is there %d times of %d, %v", n, len(s.Value.Names), err)
				}
			})
		})
	}
}
