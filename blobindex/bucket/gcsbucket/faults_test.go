package gcsbucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// TestCase_C29_EmptyPut: an empty object is stored as an empty one, and a body that looks like nothing or like framing
// as it is, of known length or streamed.
func TestCase_C29_EmptyPut(t *testing.T) {
	b, s := serve(t, nil, nil)
	for _, body := range []string{"", "\x00", "{}", "0\r\n\r\n", "\r\n--x--\r\n"} {
		for _, r := range []io.Reader{strings.NewReader(body), onlyReader{strings.NewReader(body)}} {
			if _, err := b.Put(t.Context(), "runs/a_1700000000", r); err != nil {
				t.Fatal(err)
			}
			if got := s.Body("bucket", "runs/a_1700000000"); got != body {
				t.Errorf("stored %q, want %q", got, body)
			}
			if o, err := b.Head(t.Context(), "runs/a_1700000000"); err != nil || o.Size != int64(len(body)) {
				t.Errorf("Head: %+v, %v, want %d bytes", o, err, len(body))
			}
		}
	}
}

// TestCase_C30_412ToAnUnconditionalRequest is no lost race, and what a server does not do is no unknown outcome.
func TestCase_C30_412ToAnUnconditionalRequest(t *testing.T) {
	for _, status := range []int{412, 501, 405} {
		for _, op := range []gcsd.Op{gcsd.Insert, gcsd.Delete} {
			b, s := serve(t, nil, nil)
			s.Plan(t, gcsd.Fault{Op: op, Every: true, Kind: gcsd.Status(status, "unsupported")})
			err := one(t.Context(), b, op)
			if !errors.Is(err, bucket.ErrUnsupported) || errors.Is(err, bucket.ErrUnknown) {
				t.Errorf("%s answered with %d: %v, want ErrUnsupported", op, status, err)
			}
			if n := s.Reset()[op]; n != 1 {
				t.Errorf("%s answered with %d: %d requests", op, status, n)
			}
		}
	}
}

// TestWrite_Conflict: 409 says that nothing was done, and passes.
func TestWrite_Conflict(t *testing.T) {
	b, s := serve(t, &gcsd.Options{Lies: gcsd.Lies{ConflictEvery: 2}}, nil)
	put(t, b, "a", "b", "c")
	if n := s.Reset()[gcsd.Insert]; n != 5 {
		t.Errorf("%d requests, want 3 and 2 that were refused", n)
	}
	s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Every: true, Kind: gcsd.Status(409, "conflict")})
	if _, err := b.Put(t.Context(), "a", nil); err == nil || errors.Is(err, bucket.ErrUnknown) {
		t.Errorf("Put that is always refused: %v, want a plain error", err)
	}
}

// TestPut_HalfARequest: a connection that breaks while the body is on its way.
func TestPut_HalfARequest(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 3<<20)
	b, s := serve(t, nil, nil)
	s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Kind: gcsd.HalfRequest()})
	if _, err := b.Put(t.Context(), "a", bytes.NewReader(body)); err != nil {
		t.Errorf("Put struck once: %v", err)
	}
	if got := s.Body("bucket", "a"); len(got) != len(body) {
		t.Errorf("stored %d bytes", len(got))
	}
	s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Every: true, Kind: gcsd.HalfRequest()})
	s.Reset()
	if _, err := b.Put(t.Context(), "b", bytes.NewReader(body)); !errors.Is(err, bucket.ErrUnknown) {
		t.Errorf("Put struck always: %v, want ErrUnknown", err)
	}
	if n := s.Reset()[gcsd.Insert]; n != 5 {
		t.Errorf("%d requests, want 5", n)
	}
}

// TestWrite_AppliedLater: a write that failed may come to be long after; that is what ErrUnknown says.
func TestWrite_AppliedLater(t *testing.T) {
	for _, status := range []int{0, 500, 502, 503, 504, 408} {
		b, s := serve(t, nil, nil)
		s.Store("bucket", "old", "")
		release := make(chan struct{})
		s.Plan(t, gcsd.Fault{Op: gcsd.Insert, Every: true, Kind: gcsd.AppliedLater(release, status, "backendError")},
			gcsd.Fault{Op: gcsd.Delete, Every: true, Kind: gcsd.AppliedLater(release, status, "backendError")})
		_, putErr := b.Put(t.Context(), "a", nil)
		errs := b.Delete(t.Context(), []bucket.Key{"old"})
		if !errors.Is(putErr, bucket.ErrUnknown) || !errors.Is(errors.Join(errs...), bucket.ErrUnknown) {
			t.Errorf("%d: Put %v, Delete %v, want ErrUnknown", status, putErr, errs)
		}
		if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || len(got) != 1 || got[0] != "old" {
			t.Errorf("%d: List before: %q, %v", status, got, err)
		}
		close(release)
		s.Settle()
		if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || len(got) != 1 || got[0] != "a" {
			t.Errorf("%d: List after: %q, %v", status, got, err)
		}
	}
}

// TestOpen_CancelledInTheBody ends a read that waits for more, and does not ask again.
func TestOpen_CancelledInTheBody(t *testing.T) {
	b, s := serve(t, nil, nil)
	s.Store("bucket", "a", strings.Repeat("x", 1<<20))
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	s.Plan(t, gcsd.Fault{Op: gcsd.Download, Kind: gcsd.Stall(release)})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := b.Open(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("read: %v, want context.Canceled and the key", err)
	}
	if n := s.Reset()[gcsd.Download]; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestList_Null: an entry that names nothing may stand for any object, so the listing is none.
func TestList_Null(t *testing.T) {
	b, s := serve(t, &gcsd.Options{Lies: gcsd.Lies{NullForDeleted: true}}, nil)
	put(t, b, "a", "b")
	if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || len(got) != 2 {
		t.Errorf("List: %q, %v", got, err)
	}
	if errs := b.Delete(t.Context(), []bucket.Key{"b"}); errs != nil {
		t.Fatal(errs)
	}
	s.Reset()
	if _, _, err := list(t.Context(), b, bucket.ListRequest{}); !errors.Is(err, bucket.ErrIncomplete) {
		t.Errorf("List with null on its page: %v, want ErrIncomplete", err)
	}
	if n := s.Reset()[gcsd.List]; n != 5 {
		t.Errorf("%d requests, want 5: it may pass", n)
	}
}

// TestList_LostToken: nothing in an answer tells a page whose token was lost from the last one. The package comment says
// so; this holds it to that.
func TestList_LostToken(t *testing.T) {
	b, _ := serve(t, &gcsd.Options{Lies: gcsd.Lies{LostToken: true, PageCap: 10}}, nil)
	numbered(t, b, 25)
	if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || len(got) != 10 {
		t.Errorf("List: %d keys, %v: it can be told after all, so the package comment should say how", len(got), err)
	}
}

// TestList_EmptyPagesForEver: pages with ever new tokens and without objects are no listing; so many in a row that is, and
// only those.
func TestList_EmptyPagesForEver(t *testing.T) {
	b, s := serve(t, nil, nil)
	b.SetMaxEmptyPages(20)
	page := 0
	s.Plan(t, gcsd.Fault{Op: gcsd.List, Every: true, Kind: gcsd.Rewrite("an empty page", func([]byte) []byte {
		page++
		return fmt.Appendf(nil, `{"nextPageToken":"t%d"}`, page)
	})})
	if _, _, err := list(t.Context(), b, bucket.ListRequest{}); !errors.Is(err, bucket.ErrIncomplete) || page != 21 {
		t.Errorf("List: error %v after %d pages, want ErrIncomplete after 21", err, page)
	}

	b, s = serve(t, &gcsd.Options{Lies: gcsd.Lies{EmptyPages: true, PageCap: 1}}, nil)
	b.SetMaxEmptyPages(1)
	for i := range 30 {
		s.Store("bucket", fmt.Sprintf("k%02d", i), "")
	}
	if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || len(got) != 30 {
		t.Errorf("List with an empty page before each: %d keys, %v", len(got), err)
	}
}

// TestPathKeys: a server that leads from a//b to a/b is never asked for such a key.
func TestPathKeys(t *testing.T) {
	b, s := serve(t, &gcsd.Options{Lies: gcsd.Lies{RedirectsPaths: true}}, nil)
	s.Store("bucket", "a//b", "")
	s.Store("bucket", "a/b", "")
	for call, err := range calls(t.Context(), b, "a//b") {
		if reads := call == "Open" || call == "Head"; reads && (err == nil || errors.Is(err, bucket.ErrNotExist)) {
			t.Errorf("%s of a//b: %v, want a plain error", call, err)
		} else if call == "Delete" && err == nil {
			t.Error("Delete of a//b succeeded")
		}
	}
	if got, _, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || len(got) != 2 {
		t.Errorf("left %q, %v: another key was deleted", got, err)
	}
}

// deaf is a connection that goes on reading a body when its request has ended.
type deaf struct {
	read []byte
	err  error // at the end of the body
}

func (d *deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	d.read, d.err = io.ReadAll(r.Body)
	return nil, errors.New("no answer")
}

// TestPut_BrokenBodyIsNeverWhole: the client closes a multipart body in good order before it tells that it broke off. What
// is sent ends before that, whoever reads it.
func TestPut_BrokenBodyIsNeverWhole(t *testing.T) {
	for _, n := range []int{3, 1 << 20} {
		to := &deaf{}
		b := connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: "http://store.invalid", HTTPClient: &http.Client{Transport: to}})
		broken := errors.New("the disk is gone")
		_, err := b.Put(t.Context(), "a", io.MultiReader(strings.NewReader(strings.Repeat("x", n)), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("Put: %v, want the body's error", err)
		}
		if to.err == nil || bytes.HasSuffix(bytes.TrimSpace(to.read), []byte("--")) {
			t.Errorf("sent %d bytes that end in %q, %v: they look whole", len(to.read), to.read[max(0, len(to.read)-40):], to.err)
		}
	}
}
