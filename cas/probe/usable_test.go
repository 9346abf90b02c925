package probe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A dated liar has a store's clock that a test sets, and counts its saves.
type dated struct {
	*liar
	now   time.Time
	saves int
}

func newDated() *dated {
	d := &dated{liar: honestLiar(), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	d.Bucket = membucket.New(&membucket.Options{Now: func() time.Time { return d.now }})
	d.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
		d.saves++
		return honest(key, body, p)
	}
	return d
}

func (d *dated) usable(t testing.TB) (probe.Verdict, error) {
	t.Helper()
	d.saves = 0
	return probe.Usable(t.Context(), d, d, one())
}

// one has racers that take turns: liars are not safe for concurrent use.
func one() *probe.Options {
	o := quick(&clock{})
	o.Racers = 1
	return o
}

func (d *dated) stored(t testing.TB) (v probe.Verdict) {
	t.Helper()
	r, err := d.Bucket.Open(t.Context(), probe.VerdictKey)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (d *dated) store(t testing.TB, text string) {
	t.Helper()
	if _, err := d.Bucket.Put(t.Context(), probe.VerdictKey, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

// TestUsable_Remembered: for a day the verdict is read, and nothing else is done.
func TestUsable_Remembered(t *testing.T) {
	d := newDated()
	v, err := d.usable(t)
	if err != nil || !v.Usable || d.saves == 0 || !v.At.Equal(d.now) {
		t.Fatalf("Usable: %+v, %v, after %d saves", v, err, d.saves)
	}
	if keys := keysOf(t, d); len(keys) != 1 {
		t.Errorf("it left %q", keys)
	}
	for _, x := range []struct {
		after time.Duration
		anew  bool
	}{{0, false}, {24*time.Hour - time.Second, false}, {24 * time.Hour, true}} {
		d := newDated()
		first, _ := d.usable(t)
		d.now = d.now.Add(x.after)
		v, err := d.usable(t)
		if err != nil || !v.Usable || (d.saves > 0) != x.anew || x.anew == v.At.Equal(first.At) && x.after > 0 {
			t.Errorf("after %v: %+v, %v, with %d saves", x.after, v, err, d.saves)
		}
	}
}

// TestUsable_NotRemembered: what is no verdict of this bucket and this probe is written anew.
func TestUsable_NotRemembered(t *testing.T) {
	good := func(d *dated) probe.Verdict {
		return probe.Verdict{Format: "indexd-probe/1", Version: 1, At: d.now, Usable: true, Broken: []probe.Finding{}}
	}
	for name, change := range map[string]func(d *dated, v *probe.Verdict){
		"another format":  func(_ *dated, v *probe.Verdict) { v.Format = "other/1" },
		"another version": func(_ *dated, v *probe.Verdict) { v.Version = 2 },
		"the future":      func(_ *dated, v *probe.Verdict) { v.At = v.At.Add(time.Minute) },
		"a copied bucket": func(_ *dated, v *probe.Verdict) { v.At = v.At.Add(-6 * time.Minute) },
	} {
		d := newDated()
		v := good(d)
		change(d, &v)
		text, _ := json.Marshal(v)
		d.store(t, string(text))
		if _, err := d.usable(t); err != nil || d.saves == 0 {
			t.Errorf("%s: %v, %d saves", name, err, d.saves)
		}
		if v := d.stored(t); v.Format != "indexd-probe/1" || v.Version != 1 || !v.At.Equal(d.now) {
			t.Errorf("%s: stored is %+v", name, v)
		}
	}
	for _, text := range []string{"", "{", "[]", `"x"`, "\x00\x00", `{"usable":true}`} {
		d := newDated()
		d.store(t, text)
		if v, err := d.usable(t); err != nil || !v.Usable || d.saves == 0 {
			t.Errorf("over %q: %+v, %v, %d saves", text, v, err, d.saves)
		}
		if v := d.stored(t); !v.Usable {
			t.Errorf("over %q: stored is %+v", text, v)
		}
	}
	d := newDated()
	text, _ := json.Marshal(good(d))
	d.store(t, string(text))
	if _, err := d.usable(t); err != nil || d.saves > 0 {
		t.Errorf("a good one: %v, %d saves", err, d.saves)
	}
}

// TestP6_UsableRefuses: a feature is told what is broken, at once and from memory, and the doctor judges anew.
func TestP6_UsableRefuses(t *testing.T) {
	d := newDated()
	d.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
		if d.saves++; about("match/absent", key) {
			return honest(key, body, cas.IfAbsent())
		}
		return honest(key, body, p)
	}
	for range 2 {
		v, err := d.usable(t)
		if !errors.Is(err, probe.ErrNotUsable) || !errors.Is(err, cas.ErrUnsupported) || v.Usable ||
			!strings.Contains(err.Error(), "if-match-absent") ||
			!strings.Contains(err.Error(), "made an object") && !strings.Contains(err.Error(), "carried out") {
			t.Errorf("Usable: %+v, %v", v, err)
		}
	}
	if d.saves > 0 {
		t.Errorf("the second one took %d saves", d.saves)
	}
	d.onSave = nil
	run(t, one(), siteOf("x", d))
	if v, err := d.usable(t); err != nil || !v.Usable {
		t.Errorf("after the bucket was mended and examined: %+v, %v", v, err)
	}
}

// TestUsable_Unsure: what could not be tried is no yes, and is not remembered.
func TestUsable_Unsure(t *testing.T) {
	c := &clock{}
	refuse := "AccessDenied"
	s := startS3(t, s3d.Options{Secret: secret, Now: c.now, Refuse: func(op s3d.Op, _ string) string {
		if op == s3d.PutObject {
			return refuse
		}
		return ""
	}}, nil)
	b := openS3(t, "bucket", s3Options(s.url, secret))
	if v, err := probe.Usable(t.Context(), b, b, quick(c)); !errors.Is(err, probe.ErrNotUsable) || !errors.Is(err, bucket.ErrDenied) ||
		errors.Is(err, cas.ErrUnsupported) || v.Usable || strings.Count(err.Error(), "may not write") != 1 {
		t.Errorf("Usable for who may not write: %+v, %v", v, err)
	}
	refuse = ""
	if v, err := probe.Usable(t.Context(), b, b, quick(c)); err != nil || !v.Usable {
		t.Errorf("Usable afterwards: %+v, %v", v, err)
	}
}

// TestUsable_Retained: where every overwrite is refused nothing is found out, which is told as a refusal; where some are, it is
// not known what that means.
func TestUsable_Retained(t *testing.T) {
	for name, tc := range map[string]struct {
		of     string // the part of a key whose overwrites are refused
		denied bool
	}{"all": {"", true}, "some": {"/match/", false}} {
		c := &clock{}
		var mu sync.Mutex
		stored, created := map[string]bool{}, 0
		s := startS3(t, s3d.Options{Secret: secret, Now: c.now, Refuse: func(op s3d.Op, key string) string {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case op != s3d.PutObject:
			case stored[key] && strings.Contains(key, tc.of):
				return "AccessDenied"
			case strings.Contains(key, "/versions/") && tc.of != "":
				if created++; created > 1 {
					return "InternalError"
				}
			default:
				stored[key] = true
			}
			return ""
		}}, nil)
		b := openS3(t, "bucket", s3Options(s.url, secret))
		v, err := probe.Usable(t.Context(), b, b, quick(c))
		if !errors.Is(err, probe.ErrNotUsable) || errors.Is(err, bucket.ErrDenied) != tc.denied || errors.Is(err, cas.ErrUnsupported) ||
			v.Usable || strings.Contains(err.Error(), "retention policy") != tc.denied {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		if tc.denied && strings.Count(err.Error(), "403") != 1 {
			t.Errorf("it tells the same more than once: %v", err)
		}
	}
}

// TestUsable_Full: a store without room is told as such, whenever the room ran out, and not remembered.
func TestUsable_Full(t *testing.T) {
	for _, room := range []int{0, 3, 10} {
		d := newDated()
		honest := d.onSave
		d.onSave = func(key bucket.Key, body []byte, p cas.Precondition, h saver) (cas.Version, error) {
			if d.saves >= room {
				return "", fmt.Errorf("saving %q: %w", key, bucket.ErrFull)
			}
			return honest(key, body, p, h)
		}
		v, err := d.usable(t)
		if !errors.Is(err, probe.ErrNotUsable) || !errors.Is(err, bucket.ErrFull) || errors.Is(err, cas.ErrUnsupported) || v.Usable {
			t.Errorf("room for %d saves: %+v, %v", room, v, err)
		}
		d.onSave = honest
		if v, err := d.usable(t); err != nil || !v.Usable {
			t.Errorf("with room again: %+v, %v", v, err)
		}
	}
}

// TestUsable_Unquoted: a store that wants ETags without their quotes gets them so, now and from the remembered verdict.
func TestUsable_Unquoted(t *testing.T) {
	c := &clock{}
	s := startS3(t, s3d.Options{Secret: secret, Now: c.now, Lies: s3d.Lies{QuotedIfMatchFails: true}}, nil)
	for range 2 {
		b := openS3(t, "bucket", s3Options(s.url, secret))
		v, err := probe.Usable(t.Context(), b, b, quick(c))
		if err != nil || !v.Usable || !v.Unquoted {
			t.Fatalf("Usable: %+v, %v", v, err)
		}
		first, err := b.Save(t.Context(), "doc", []byte(time.Now().String()), cas.IfAbsent())
		if err == nil {
			_, err = b.Save(t.Context(), "doc", []byte("two"), cas.IfMatch(first))
		}
		if err != nil {
			t.Errorf("saving after that: %v", err)
		}
		b.Delete(t.Context(), []bucket.Key{"doc"})
	}
}

// TestUsable_Absent: an absent bucket is an error of its own.
func TestUsable_Absent(t *testing.T) {
	c := &clock{}
	b := openS3(t, "absent", s3Options(startS3(t, s3d.Options{Now: c.now}, nil).url, secret))
	if _, err := probe.Usable(t.Context(), b, b, quick(c)); !errors.Is(err, bucket.ErrNotExist) {
		t.Errorf("Usable: %v", err)
	}
}
