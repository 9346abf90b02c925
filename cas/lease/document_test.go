package lease_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
)

// stored is a document with that payload.
func stored(payload string) string {
	return `{"format":"lease/1","created":{"nonce":"x","at":"2026-11-30T12:00:00Z"},"seq":1,"nonce":"x","recent":[],"payload":` +
		payload + `}`
}

// payloadOf is one of a holder, with one field replaced.
func payloadOf(field, value string) string {
	const held = `{"term":7,"class":"scheduler","ttl_ms":30000,"opens_ms":0,"since":"2026-11-30T12:00:00Z","reason":"pass"}`
	var parts []string
	for part := range strings.SplitSeq(strings.Trim(held, "{}"), ",") {
		if strings.HasPrefix(part, `"`+field+`"`) {
			part = `"` + field + `":` + value
		}
		parts = append(parts, part)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// documentsOfOthers are what nobody may write over, with the error that names each.
var documentsOfOthers = map[string]struct {
	body string
	err  error
}{
	"empty":                          {"", cas.ErrCorrupt},
	"cut":                            {stored(payloadOf("", ""))[:150], cas.ErrCorrupt},
	"no JSON":                        {"<html>", cas.ErrCorrupt},
	"another kind":                   {strings.Replace(stored(`{"grace_ms":1}`), "lease/1", "manifest/1", 1), cas.ErrFormat},
	"newer":                          {strings.Replace(stored(`{"terms":[1]}`), "lease/1", "lease/2", 1), cas.ErrFormat},
	"null":                           {stored(`null`), cas.ErrCorrupt},
	"nothing in it":                  {stored(`{}`), cas.ErrCorrupt},
	"another field":                  {stored(payloadOf("term", `7,"pid":1`)), cas.ErrCorrupt},
	"term 0":                         {stored(payloadOf("term", "0")), cas.ErrCorrupt},
	"the last term":                  {stored(payloadOf("term", "18446744073709551615")), cas.ErrCorrupt},
	"a negative term":                {stored(payloadOf("term", "-1")), cas.ErrCorrupt},
	"another class":                  {stored(payloadOf("class", `"host17"`)), cas.ErrCorrupt},
	"no TTL":                         {stored(payloadOf("ttl_ms", "0")), cas.ErrCorrupt},
	"a TTL of a year":                {stored(payloadOf("ttl_ms", "31536000000")), cas.ErrCorrupt},
	"opened before":                  {stored(payloadOf("opens_ms", "-1")), cas.ErrCorrupt},
	"opens in a year":                {stored(payloadOf("opens_ms", "31536000000")), cas.ErrCorrupt},
	"a long reason":                  {stored(payloadOf("reason", `"`+strings.Repeat("x", 81)+`"`)), cas.ErrCorrupt},
	"a reason that moves the cursor": {stored(payloadOf("reason", `"\u001b[2J"`)), cas.ErrCorrupt},
}

// TestLease_DocumentsOfOthers: what is no lease of this version is an error that names it, and nobody writes over it: not who
// acquires, not who breaks, not a holder whose document it replaced.
func TestLease_DocumentsOfOthers(t *testing.T) {
	for name, c := range documentsOfOthers {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s site) {
				p, two := s.process(lease.Operator, nil), s.process(lease.Scheduler, nil)
				h := p.acquire(1, nil)
				s.put(c.body)
				_, status := two.Status(t.Context())
				_, broken := two.Break(t.Context(), 7)
				_, acquired := two.Acquire(t.Context(), &lease.AcquireOptions{After: 9, Wait: time.Hour})
				_, listed := lease.List(t.Context(), s.Bucket, two)
				for what, err := range map[string]error{"Status": status, "Break": broken, "Acquire": acquired, "List": listed} {
					if !errors.Is(err, c.err) || !strings.Contains(err.Error(), "running") || errors.Is(err, lease.ErrHeld) {
						t.Errorf("%s: %v, want %v, and what it is about", what, err, c.err)
					}
				}
				time.Sleep(lease.DefaultTTL)
				synctest.Wait()
				wantLost(t, h)
				if err := h.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
				if s.body() != c.body {
					t.Errorf("it was written over with %s", s.body())
				}
				s.remove()
			})
		})
	}
}

// TestLease_NoTermFollows: the last term but one was acquired. That is nobody's lease any more, and said so.
func TestLease_NoTermFollows(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		body := stored(payloadOf("term", "18446744073709551614"))
		s.put(body)
		time.Sleep(time.Hour)
		p := s.process(lease.Operator, nil)
		if _, err := p.Acquire(t.Context(), nil); err == nil || errors.Is(err, lease.ErrHeld) || s.body() != body {
			t.Errorf("Acquire: %v", err)
		}
	})
}

// TestDoc_Payload: the example in doc.go is what is stored, in its order; it can be read.
func TestDoc_Payload(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(text), "//\t{")
	example, _, _ = strings.Cut("{"+example, "\n")
	var p lease.Payload
	d := json.NewDecoder(strings.NewReader(example))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || !found {
		t.Fatalf("%s: %v", example, err)
	}
	if again, err := json.Marshal(p); err != nil || string(again) != example {
		t.Errorf("it is stored as %s, %v, and doc.go has %s", again, err, example)
	}
	inBubble(t, func(t *testing.T, s site) {
		s.put(stored(example))
		st, err := s.process(lease.Operator, nil).Status(t.Context())
		want := lease.Status{Name: "running", Term: 7, Class: lease.Scheduler, Since: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
			Reason: "pass", Expires: time.Now().Add(patience), Within: patience + 1}
		if diff := gocmp.Diff(want, st); err != nil || diff != "" {
			t.Errorf("%v, %s", err, diff)
		}
	})
}

// TestLease_WhatOthersSee: class, since, expires and reason, and nothing else of the holder, in the document as in the error.
func TestLease_WhatOthersSee(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		p, two := s.process(lease.Scheduler, nil), s.process(lease.Operator, nil)
		began := time.Now()
		h := p.acquire(1, &lease.AcquireOptions{Reason: "pass"})
		time.Sleep(12 * time.Second)
		want := lease.Status{Name: "running", Term: 1, Class: lease.Scheduler, Since: began.UTC(), Reason: "pass",
			Expires: began.Add(10*time.Second + patience), Within: patience - 2*time.Second + 1}
		st := two.refused(nil)
		if diff := gocmp.Diff(want, st); diff != "" {
			t.Error(diff)
		}
		if text, want := (&lease.HeldError{Status: st}).Error(),
			`lease "running" is held by a scheduler since 2000-01-01T00:00:00Z (pass); `+
				`it opens at 2000-01-01T00:00:45Z, if it is not renewed`; text != want {
			t.Errorf("it says %s\nwant %s", text, want)
		}
		if got := fmt.Sprintf("%+v", s.payload()); got !=
			`{Term:1 Class:a scheduler TTL:30000 Opens:0 Since:2000-01-01 00:00:00 +0000 UTC Reason:pass}` {
			t.Errorf("it is stored as %s", got)
		}
		release(t, h)
		st, err := two.Status(t.Context())
		want = lease.Status{Name: "running", Term: 1, Since: began.UTC()}
		if diff := gocmp.Diff(want, st); err != nil || diff != "" {
			t.Errorf("released: %v, %s", err, diff)
		}
		h = p.acquire(2, nil)
		if _, err := two.Break(t.Context(), 2); err != nil {
			t.Error(err)
		}
		if text, want := (&lease.HeldError{Status: two.refused(nil)}).Error(),
			`lease "running" has to be waited for (broken); it opens at 2000-01-01T00:00:47Z`; text != want {
			t.Errorf("broken, it says %s\nwant %s", text, want)
		}
		release(t, h)
	})
}

// TestNew_Refuses what would be no lease.
func TestNew_Refuses(t *testing.T) {
	b := membucket.New(nil)
	for _, c := range []struct {
		name  string
		class lease.Class
		ttl   time.Duration
		want  bool
	}{
		{"a", lease.Operator, 0, true}, {"a/b", lease.Scheduler, lease.MinTTL, true}, {"a", lease.Operator, lease.MaxTTL, true},
		{"", lease.Operator, 0, false}, {"/a", lease.Operator, 0, false}, {"a/", lease.Operator, 0, false},
		{"a//b", lease.Operator, 0, false}, {"a", "", 0, false}, {"a", "host17", 0, false},
		{"a", lease.Operator, lease.MinTTL - 1, false}, {"a", lease.Operator, lease.MaxTTL + 1, false},
		{"a", lease.Operator, -time.Second, false},
	} {
		l, err := lease.New(b, c.name, c.class, &lease.Options{TTL: c.ttl})
		if (err == nil) != c.want || err == nil && l.Name() != c.name {
			t.Errorf("%+v: %v", c, err)
		}
	}
	p := site{t, b}.process(lease.Operator, nil)
	for _, reason := range []string{strings.Repeat("x", 81), "line\n", "caf\u00e9", "\x7f"} {
		if h, err := p.Acquire(t.Context(), &lease.AcquireOptions{Reason: reason}); err == nil || len(p.saves)+p.loads > 0 {
			t.Errorf("for the reason %q: %v, %v", reason, h, err)
		}
	}
	h, err := p.Acquire(t.Context(), &lease.AcquireOptions{Reason: strings.Repeat("~", 80)})
	if err != nil {
		t.Fatal(err)
	}
	release(t, h)
}

// TestClass_String is for sentences.
func TestClass_String(t *testing.T) {
	for class, want := range map[lease.Class]string{lease.Scheduler: "a scheduler", lease.Operator: "an operator", "": "nobody"} {
		if got := class.String(); got != want {
			t.Errorf("%q is %q, want %q", string(class), got, want)
		}
	}
}

// TestList tells of all leases, in their order, and names those that cannot be read.
func TestList(t *testing.T) {
	inBubble(t, func(t *testing.T, s site) {
		if all, err := lease.List(t.Context(), s.Bucket, s.Bucket); err != nil || len(all) > 0 {
			t.Errorf("of none: %+v, %v", all, err)
		}
		for _, name := range []string{"b/c", "b", "a"} {
			l, err := lease.New(s.Bucket, name, lease.Scheduler, nil)
			if err != nil {
				t.Fatal(err)
			}
			h, err := l.Acquire(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if name == "a" {
				defer h.Release(t.Context())
			} else {
				release(t, h)
			}
		}
		s.put("junk")
		all, err := lease.List(t.Context(), s.Bucket, s.Bucket)
		var names []string
		for _, st := range all {
			names = append(names, fmt.Sprint(st.Name, " ", st.Class))
		}
		if got := strings.Join(names, ", "); got != "a a scheduler, b nobody, b/c nobody" {
			t.Errorf("it lists %s", got)
		}
		if !errors.Is(err, cas.ErrCorrupt) || !strings.Contains(err.Error(), string(key)) {
			t.Errorf("List: %v, want that %s is corrupt", err, key)
		}
	})
}
