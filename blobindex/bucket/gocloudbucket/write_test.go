package gocloudbucket_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gocloudbucket"
)

// lostOnce loses the first answer of an operation that was carried out.
func lostOnce(l *liar, op string) func(string, string) error {
	return func(asked, _ string) error {
		if asked == op && l.count(op) == 1 {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
}

// TestPutRetries: a Seeker is sent again from where it stood, a stream once.
func TestPutRetries(t *testing.T) {
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	l.strike = lostOnce(l, "close")
	body := strings.NewReader("head,tail")
	body.Seek(5, io.SeekStart)
	if _, err := b.Put(t.Context(), "a", body); err != nil || l.count("put") != 2 {
		t.Errorf("Put of a Seeker: %v after %d tries", err, l.count("put"))
	}
	if got := string(l.bodies["a"]); got != "tail" {
		t.Errorf("stored %q, want %q", got, "tail")
	}

	l = &liar{}
	b = start(t, l, gocloudbucket.Options{})
	l.strike = lostOnce(l, "close")
	_, err := b.Put(t.Context(), "a", io.MultiReader(strings.NewReader("body")))
	wantErr(t, "Put of a stream whose answer is lost", err, bucket.ErrUnknown)
	if n := l.count("put"); n != 1 {
		t.Errorf("a stream was sent %d times", n)
	}
}

// TestPutUnknownStays: a refusal after a lost answer does not say that nothing was stored.
func TestPutUnknownStays(t *testing.T) {
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	l.strike = func(op, _ string) error {
		switch {
		case op == "close":
			return io.ErrUnexpectedEOF
		case op == "put" && l.count(op) == 2:
			return &googleapi.Error{Code: 403}
		}
		return nil
	}
	_, err := b.Put(t.Context(), "a", nil)
	wantErr(t, "Put", err, bucket.ErrUnknown)
	if n := l.count("put"); n != 2 {
		t.Errorf("%d tries, want 2", n)
	}
}

// A seekOnce can be read from its start again no more.
type seekOnce struct {
	*strings.Reader
	seeks int
}

func (s *seekOnce) Seek(offset int64, whence int) (int64, error) {
	if s.seeks++; s.seeks > 2 {
		return 0, errors.New("the tape is worn out")
	}
	return s.Reader.Seek(offset, whence)
}

// TestPutUnknownStaysWithoutBody: neither does a body that cannot be sent again.
func TestPutUnknownStaysWithoutBody(t *testing.T) {
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	l.strike = lostOnce(l, "close")
	_, err := b.Put(t.Context(), "a", &seekOnce{Reader: strings.NewReader("body")})
	wantErr(t, "Put", err, bucket.ErrUnknown)
	if n := l.count("put"); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

// TestPutBrokenBody: a driver that keeps what came before the body broke off is told on.
func TestPutBrokenBody(t *testing.T) {
	broken := errors.New("the body broke off")
	for keeps, want := range map[bool]error{false: nil, true: bucket.ErrUnknown} {
		l := &liar{keeps: keeps}
		b := start(t, l, gocloudbucket.Options{})
		_, err := b.Put(t.Context(), "a", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)))
		wantErr(t, "Put", err, want)
		if !errors.Is(err, broken) {
			t.Errorf("Put: %v, want the body's own error in it", err)
		}
		if n := l.count("put"); n != 1 {
			t.Errorf("sent %d times", n)
		}
	}
}

// TestOpenCancelled: a driver that reads on without looking at its context is not asked any more.
func TestOpenCancelled(t *testing.T) {
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	l.store("a", []byte("body"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := b.Open(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if n, err := r.Read(make([]byte, 2)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Read after the context ended: %d bytes, %v, want context.Canceled", n, err)
	}
}

// TestDeleteAbsent: a key that is not there is gone; in a bucket that is not there nothing is known to be.
func TestDeleteAbsent(t *testing.T) {
	refused := &googleapi.Error{Code: 403}
	for _, tt := range []struct {
		name string
		list error
		want error // nil: gone
	}{
		{"the bucket is there", nil, nil},
		{"it is not", errAbsent, bucket.ErrNotExist},
		{"this caller may not know", refused, nil},
		{"nobody can tell just now", io.ErrUnexpectedEOF, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &liar{code: func(error) gcerrors.ErrorCode { return gcerrors.Unknown }}
			b := start(t, l, gocloudbucket.Options{})
			l.fill("there")
			l.strike = func(op, _ string) error {
				if op == "list" {
					return tt.list
				}
				return nil
			}
			errs := b.Delete(t.Context(), []bucket.Key{"absent", "there", "there", "absent too"})
			if tt.list == nil || tt.list == error(refused) {
				if errs != nil {
					t.Errorf("Delete: %v", errs)
				}
			} else if len(errs) != 4 || errs[0] == nil || errs[3] == nil {
				t.Errorf("Delete: %v, want errors for what was absent", errs)
			} else {
				wantErr(t, "Delete", errs[0], tt.want)
			}
			if n := l.count("list"); n != 1 && tt.list != io.ErrUnexpectedEOF {
				t.Errorf("%d listings, want 1 for all keys", n)
			}
		})
	}
}

// TestDeleteLost: the answer of a delete is lost, and the next attempt finds nothing any more.
func TestDeleteLost(t *testing.T) {
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	l.fill("a")
	l.strike = lostOnce(l, "deleted")
	if errs := b.Delete(t.Context(), []bucket.Key{"a"}); errs != nil || l.count("delete") != 2 {
		t.Errorf("Delete: %v after %d tries, want success after 2", errs, l.count("delete"))
	}
}

// TestCase_C34_PerKeyErrors: of ten deletes three are refused.
func TestCase_C34_PerKeyErrors(t *testing.T) {
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	var keys []bucket.Key
	for c := range 10 {
		keys = append(keys, bucket.Key('a'+rune(c)))
		l.fill(string(keys[c]))
	}
	l.strike = func(op, key string) error {
		if op == "delete" && strings.Contains("cfh", key) {
			return &googleapi.Error{Code: 403}
		}
		return nil
	}
	errs := b.Delete(t.Context(), keys)
	if len(errs) != 10 {
		t.Fatalf("Delete: %d errors, want one place a key", len(errs))
	}
	for i, err := range errs {
		if strings.Contains("cfh", string(keys[i])) {
			wantErr(t, "Delete of "+string(keys[i]), err, bucket.ErrDenied)
		} else if err != nil {
			t.Errorf("Delete of %q: %v", keys[i], err)
		}
	}
	if left := list(t, b, ""); strings.Join(left, "") != "cfh" {
		t.Errorf("left: %q", left)
	}
}

// TestKeys: what is refused asks the driver for nothing.
func TestKeys(t *testing.T) {
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	any := start(t, &liar{}, gocloudbucket.Options{AnyKeys: true})
	l.strike = func(op, key string) error { t.Errorf("%s of %q", op, key); return nil }
	for _, key := range []bucket.Key{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/../b", "a/./b", "a./b", "a.", "a\x00", "a\nb", "\x7f",
		`a\b`, `a"b`, "a#b", "a%b", "a?b", "a__0x2f__b", "a__0x", "\xff", bucket.Key(strings.Repeat("n", 1025)),
	} {
		_, err := b.Put(t.Context(), key, nil)
		wantErr(t, "Put", err, bucket.ErrInvalidKey)
		_, err = b.Head(t.Context(), key)
		wantErr(t, "Head", err, bucket.ErrInvalidKey)
		_, err = b.Open(t.Context(), key)
		wantErr(t, "Open", err, bucket.ErrInvalidKey)
		errs := b.Delete(t.Context(), []bucket.Key{key})
		if len(errs) != 1 {
			t.Fatalf("Delete of %q: %v", key, errs)
		}
		wantErr(t, "Delete", errs[0], bucket.ErrInvalidKey)
		if _, err := any.Put(t.Context(), key, nil); errors.Is(err, bucket.ErrInvalidKey) != always(key) && key != "" {
			t.Errorf("Put of %q with AnyKeys: %v", key, err)
		}
	}
	l.strike = nil
	put(t, b, "_active_runs/team.a/cfg-1_1700000000", "a b", "a+b", "a&b", "a=b", "é", "a/.b", "a...b", strings.Repeat("n", 1024))
}
