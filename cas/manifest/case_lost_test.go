package manifest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
)

// count is how many of the requests are that one.
func count(all []string, what string) (n int) {
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

// deleted is how many requests deleted something.
func deleted(f fake) int {
	return count(f.sent(), "POST") + count(f.sent(), "DELETE blob")
}

// TestCase_C01_ManifestAnswerLost: a save of the list that was carried out, or not, and whose answer is lost is won once; what
// it displaced goes, and what it added stays.
func TestCase_C01_ManifestAnswerLost(t *testing.T) {
	for name, x := range map[string]struct {
		kind  kind
		saves int
	}{
		"503 applied": {busyAfter, 1}, "closed, applied": {dropAfter, 1}, "reset, applied": {resetAfter, 1},
		"503 not applied": {busy, 2}, "reset, not applied": {resetBefore, 2}, "half a request": {halfRequest, 2},
	} {
		t.Run(name, func(t *testing.T) {
			onWires(t, func(t *testing.T, f fake, _ *hand) {
				s := f.dial(t, nil, "")
				has(t, on(t, s), "old", "k", "old")
				f.reset()
				f.strike(fault{what: "PUT list", kind: x.kind})
				c := has(t, on(t, s), "new", "k", "new")
				if len(c.Displaced) != 1 || c.Displaced[0].ID != "old" || c.Left != nil {
					t.Errorf("displaced %+v, left %v", c.Displaced, c.Left)
				}
				if sent := f.sent(); count(sent, "PUT list") != x.saves || count(sent, "PUT blob") != 1 || deleted(f) != 1 {
					t.Errorf("the requests were %q, want %d saves, one upload and one delete", sent, x.saves)
				}
				holds(t, s, "new=new")
				if n := len(blobs(t, s)); n != 1 {
					t.Errorf("%d blobs are there", n)
				}
			})
		})
	}
}

// TestCase_C01_ManifestLandsLate: the save is answered with 503, and carried out after read-backs have shown the old list: it is
// unknown, and nothing is deleted, neither what it displaced nor what it added. gc within the grace changes nothing. If the
// save lands then, its blob is there; if a gc past the grace comes first, the save finds that the list is another one.
func TestCase_C01_ManifestLandsLate(t *testing.T) {
	for _, collected := range []bool{false, true} {
		t.Run(fmt.Sprintf("collected=%t", collected), func(t *testing.T) {
			onWires(t, func(t *testing.T, f fake, clock *hand) {
				s := f.dial(t, nil, "")
				has(t, on(t, s), "old", "k", "old")
				f.reset()
				release := make(chan struct{})
				open := sync.OnceFunc(func() { close(release) })
				defer open()
				f.strike(fault{what: "PUT list", every: true, kind: later(release)})
				_, err := on(t, s).Add(t.Context(), one("new", "k", "new"))
				if !errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) || deleted(f) != 0 {
					t.Errorf("Add: %v, and %d deletes", err, deleted(f))
				}
				f.forgive()
				holds(t, s, "old=old")
				if r, err := on(t, s).GC(t.Context(), nil); err != nil || r.Deleted != 0 || len(r.Orphans) != 1 {
					t.Errorf("gc within the grace: %+v, %v", r, err)
				}
				want, left := "new=new", 1
				if collected {
					clock.advance(2 * time.Hour)
					if r, err := on(t, s).GC(t.Context(), nil); err != nil || r.Deleted != 1 {
						t.Errorf("gc past the grace: %+v, %v", r, err)
					}
					want = "old=old"
				} else if n := len(blobs(t, s)); n != 2 {
					t.Errorf("%d blobs are there, want both", n)
				}
				open()
				f.settle()
				holds(t, s, want)
				if r, err := on(t, s).GC(t.Context(), nil); err != nil || r.Failures > 0 {
					t.Errorf("gc afterwards: %+v, %v", r, err)
				}
				holds(t, s, want)
				if n := len(blobs(t, s)); n != left {
					t.Errorf("%d blobs are left", n)
				}
			})
		})
	}
}

// TestCase_C01_ManifestOvertaken: a rival wins between the save, whose answer is lost, and the read-back. Ours is lost for good
// and computed again; if it lands late it is refused.
func TestCase_C01_ManifestOvertaken(t *testing.T) {
	onWires(t, func(t *testing.T, f fake, _ *hand) {
		s, rival := f.dial(t, nil, ""), f.dial(t, nil, "")
		has(t, on(t, s), "old", "k", "old")
		release := make(chan struct{})
		open := sync.OnceFunc(func() { close(release) })
		defer open()
		f.strike(fault{what: "PUT list", kind: later(release)},
			fault{what: "GET list", nth: 2, kind: before(func() { has(t, on(t, rival), "rival", "k", "rival") })})
		c := has(t, on(t, s), "new", "k", "new")
		if len(c.Displaced) != 1 || c.Displaced[0].ID != "rival" {
			t.Errorf("displaced %+v, want the rival's", c.Displaced)
		}
		open()
		f.settle()
		holds(t, s, "new=new")
		if n := len(blobs(t, s)); n != 1 {
			t.Errorf("%d blobs are left", n)
		}
	})
}

// TestCase_NonceFallenOutOfAManifest: 300 other saves lie between a save and its read-back. It is unknown and made once; its
// blob is not deleted, and is referenced if it has landed, else an orphan.
func TestCase_NonceFallenOutOfAManifest(t *testing.T) {
	for name, x := range map[string]struct {
		kind   kind
		landed bool
	}{"applied": {resetAfter, true}, "not applied": {resetBefore, false}} {
		t.Run(name, func(t *testing.T) {
			onWires(t, func(t *testing.T, f fake, _ *hand) {
				s := f.dial(t, nil, "")
				has(t, on(t, s), "old", "k", "old")
				f.reset()
				f.strike(fault{what: "PUT list", kind: x.kind}, fault{what: "GET list", nth: 2, kind: before(func() {
					rival := on(t, f.dial(t, nil, ""))
					for i := range 300 {
						has(t, rival, fmt.Sprint(i), "other", "x")
					}
				})})
				_, err := on(t, s).Add(t.Context(), one("new", "k", "new"))
				if !errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) {
					t.Errorf("Add: %v, want ErrUnknown", err)
				}
				if n := count(f.sent(), "PUT list"); n != 301 {
					t.Errorf("%d saves, 300 of them by others", n)
				}
				want, stored := []string{"old=old", "299=x"}, 3
				if x.landed {
					want, stored = []string{"new=new", "299=x"}, 2
				}
				holds(t, s, want...)
				if n := len(blobs(t, s)); n != stored {
					t.Errorf("%d blobs are there, want %d", n, stored)
				}
			})
		})
	}
}

// TestCase_C06_ManifestBackToA: two writers replace A by B and that by an equal A, while a third one stands between its look and
// its save. Its save is refused, for the list is another one though it looks the same; each blob that is referenced is there.
func TestCase_C06_ManifestBackToA(t *testing.T) {
	onWires(t, func(t *testing.T, f fake, _ *hand) {
		s, a, b := f.dial(t, nil, ""), f.dial(t, nil, ""), f.dial(t, nil, "")
		first := has(t, on(t, a), "a", "k", "A")
		f.reset()
		var third manifest.Change
		f.strike(fault{what: "PUT list", kind: before(func() {
			if c := has(t, on(t, b), "b", "k", "B"); len(c.Displaced) != 1 {
				t.Errorf("B displaced %+v", c.Displaced)
			}
			third = has(t, on(t, a), "a", "k", "A")
			if first.Entry.Digest != third.Entry.Digest || first.Entry.Blobs[0].Key == third.Entry.Blobs[0].Key {
				t.Errorf("the second A has digest %s and key %s, the first one %s and %s", third.Entry.Digest, third.Entry.Blobs[0].Key,
					first.Entry.Digest, first.Entry.Blobs[0].Key)
			}
		})})
		has(t, on(t, s), "slow", "", "slow")
		if n := count(f.sent(), "PUT list"); n != 4 {
			t.Errorf("%d saves, want two by the others and two by the slow one", n)
		}
		state := holds(t, s, "a=A", "slow=slow")
		if len(state.Entries) == 2 && state.Entries[0].Blobs[0].Key != third.Entry.Blobs[0].Key {
			t.Errorf("A is %+v, want the second one", state.Entries[0])
		}
		if n := len(blobs(t, s)); n != 2 {
			t.Errorf("%d blobs are left", n)
		}
	})
}

// TestCase_C06_ManifestReplacedByItself: an entry that is displaced by one with the same bytes loses nothing.
func TestCase_C06_ManifestReplacedByItself(t *testing.T) {
	onStores(t, func(t *testing.T, open func() manifest.Store) {
		s := open()
		for i := range 3 {
			has(t, on(t, s), fmt.Sprint(i), "k", "same")
			holds(t, s, fmt.Sprintf("%d=same", i))
		}
		if n := len(blobs(t, s)); n != 1 {
			t.Errorf("%d blobs are left", n)
		}
	})
}

// TestCase_C56_ManifestUploadCut: an upload that breaks off half-way, at either end, adds nothing, and no half of it is ever
// taken for a blob.
func TestCase_C56_ManifestUploadCut(t *testing.T) {
	onStores(t, func(t *testing.T, open func() manifest.Store) {
		s := open()
		has(t, on(t, s), "old", "k", "old")
		_, err := on(t, s).Add(t.Context(), manifest.AddRequest{ID: "new", DedupeKey: "k", Sources: []manifest.Source{
			text("whole"), cutShort(strings.Repeat("x", 1<<20))}})
		if !errors.Is(err, manifest.ErrUpload) || !errors.Is(err, errCut) || errors.Is(err, cas.ErrUnknown) {
			t.Errorf("a body that breaks off: %v, want ErrUpload", err)
		}
		holds(t, s, "old=old")
		if n := len(blobs(t, s)); n != 2 {
			t.Errorf("%d blobs are there, want the old one and the whole one", n)
		}
	})
	onWires(t, func(t *testing.T, f fake, _ *hand) {
		s := f.dial(t, nil, "")
		has(t, on(t, s), "old", "k", "old")
		f.reset()
		f.strike(fault{what: "PUT blob", kind: halfRequest})
		_, err := on(t, s).Add(t.Context(), one("new", "k", strings.Repeat("x", 1<<20)))
		if !errors.Is(err, manifest.ErrUpload) || slices.Contains(f.sent(), "PUT list") {
			t.Errorf("a connection that breaks off: %v, requests %q", err, f.sent())
		}
		holds(t, s, "old=old")
		if n := len(blobs(t, s)); n != 1 {
			t.Errorf("%d blobs are there", n)
		}
	})
}
