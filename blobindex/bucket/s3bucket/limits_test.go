package s3bucket_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A huge body has a length and nothing else: who reads it is wrong.
type huge struct {
	size int64
	read *atomic.Bool
}

func (h huge) Read([]byte) (int, error) { h.read.Store(true); return 0, errors.New("read") }

func (h huge) Seek(_ int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return h.size, nil
	}
	return 0, nil
}

// TestPut_TooLong: a body that one PutObject cannot take is refused before anything is sent or read. The longest one is
// tried: only its reading fails.
func TestPut_TooLong(t *testing.T) {
	const limit = 5 << 30
	s, b := start(t, nil)
	for size, want := range map[int64]error{limit + 1: bucket.ErrUnsupported, 1 << 60: bucket.ErrUnsupported, limit: nil} {
		h := huge{size, &atomic.Bool{}}
		_, err := b.Put(t.Context(), "a", h)
		if want != nil {
			wantErr(t, "Put", err, want)
		}
		if err == nil || h.read.Load() != (want == nil) {
			t.Errorf("Put of %d bytes: %v, read %v", size, err, h.read.Load())
		}
		if want != nil && (len(s.Counts()) != 0 || !strings.Contains(err.Error(), "5368709120")) {
			t.Errorf("Put of %d bytes: %v, requests %v", size, err, s.Counts())
		}
	}
}

// TestPut_StreamTooLong: a stream shows its length as it is read, in memory and beyond; nothing is sent.
func TestPut_StreamTooLong(t *testing.T) {
	s, b := start(t, nil)
	for _, limit := range []int64{100, 3 << 20} {
		b.SetMaxBody(limit)
		for _, more := range []int64{1, 1 << 40} {
			stream := &counted{}
			_, err := b.Put(t.Context(), "a", io.LimitReader(stream, limit+more))
			wantErr(t, "Put", err, bucket.ErrUnsupported)
			if stream.n > limit+1<<20 {
				t.Errorf("%d bytes were read of a stream over %d", stream.n, limit)
			}
		}
		if n := s.Counts(); len(n) != 0 {
			t.Errorf("requests %v", n)
		}
		if _, err := b.Put(t.Context(), "a", io.LimitReader(&counted{}, limit)); err != nil {
			t.Errorf("Put of %d bytes: %v", limit, err)
		}
		if body, _ := s.Body("bucket", "a"); int64(len(body)) != limit {
			t.Errorf("stored %d bytes, want %d", len(body), limit)
		}
		s.Reset()
	}
}

type counted struct{ n int64 }

func (c *counted) Read(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// TestPut_HalfARequest: a connection that breaks while the body is on its way. Nobody can know whether it was taken for
// whole, so it is sent again, and unknown if that never helps.
func TestPut_HalfARequest(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 3<<20)
	s, b := start(t, nil)
	s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: s3d.HalfRequest()})
	if _, err := b.Put(t.Context(), "a", bytes.NewReader(body)); err != nil {
		t.Errorf("Put struck once: %v", err)
	}
	if got, _ := s.Body("bucket", "a"); len(got) != len(body) {
		t.Errorf("stored %d bytes", len(got))
	}
	s.Plan(s3d.Fault{Op: s3d.PutObject, Every: true, Kind: s3d.HalfRequest()})
	s.Reset()
	_, err := b.Put(t.Context(), "b", bytes.NewReader(body))
	wantErr(t, "Put struck always", err, bucket.ErrUnknown)
	wantCounts(t, "Put struck always", s, map[s3d.Op]int{s3d.PutObject: 5})
}

// TestPut_AppliedLater: a Put that failed may come to be long after; that is what ErrUnknown says, and what ErrThrottled
// must not be said of.
func TestPut_AppliedLater(t *testing.T) {
	for _, status := range []int{0, 500, 502, 503, 504} {
		s, b := start(t, nil)
		release := make(chan struct{})
		s.Plan(s3d.Fault{Op: s3d.PutObject, Every: true, Kind: s3d.AppliedLater(release, status, "")})
		_, err := b.Put(t.Context(), "a", nil)
		wantErr(t, "Put", err, bucket.ErrUnknown)
		if _, err := b.Head(t.Context(), "a"); !errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("Head before: %v", err)
		}
		close(release)
		s.Settle()
		if _, err := b.Head(t.Context(), "a"); err != nil {
			t.Errorf("Head after: %v", err)
		}
	}
}

// TestDelete_Faults strikes a batch and a single delete once, as not applied and as applied and then lost, and always.
func TestDelete_Faults(t *testing.T) {
	for _, kind := range []s3d.Kind{
		s3d.ResetBefore(), s3d.DropBefore(), s3d.HalfRequest(), s3d.ResetAfter(), s3d.DropAfter(), s3d.HalfBody(),
		s3d.Status(500, "InternalError"), s3d.AppliedThenStatus(503, ""), s3d.AppliedThenStatus(502, ""),
	} {
		for op, n := range map[s3d.Op]int{s3d.DeleteObjects: 3, s3d.DeleteObject: 1} {
			if op == s3d.DeleteObject && kind.String() == s3d.HalfBody().String() {
				continue // its answer has no body
			}
			s, b := start(t, nil)
			keys := filled(s, n)
			s.Plan(s3d.Fault{Op: op, Kind: kind})
			if errs := b.Delete(t.Context(), keys); errs != nil || len(s.Keys("bucket")) != 0 {
				t.Errorf("%s struck once by %v: %v, left %q", op, kind, errs, s.Keys("bucket"))
			}
			wantCounts(t, kind.String(), s, map[s3d.Op]int{op: 2})
			s.Plan(s3d.Fault{Op: op, Every: true, Kind: kind})
			errs := b.Delete(t.Context(), keys)
			if len(errs) != n {
				t.Fatalf("%s struck always by %v: %v", op, kind, errs)
			}
			for _, err := range errs {
				if !errors.Is(err, bucket.ErrUnknown) {
					t.Errorf("%s struck always by %v: %v, want ErrUnknown", op, kind, err)
				}
			}
			wantCounts(t, kind.String(), s, map[s3d.Op]int{op: 5})
		}
	}
}

// TestOpen_CancelledInTheBody ends a read that waits for more.
func TestOpen_CancelledInTheBody(t *testing.T) {
	s, b := start(t, nil)
	s.Store("bucket", "a", strings.Repeat("x", 1<<20))
	release := make(chan struct{})
	s.Plan(s3d.Fault{Op: s3d.GetObject, Kind: s3d.StallBody(release)})
	defer close(release)
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
}

// TestClose lets go of idle connections, and a call after it works all the same.
func TestClose(t *testing.T) {
	s := s3d.New(t, nil)
	tr := &closing{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	opts := options(s)
	opts.HTTPClient = &http.Client{Transport: tr}
	b := open(t, opts)
	for n := range 2 {
		if _, err := b.Put(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil || tr.closed != n+1 {
			t.Errorf("Close: %v, idle connections were closed %d times, want %d", err, tr.closed, n+1)
		}
	}
}

type closing struct {
	*http.Transport
	closed int
}

func (c *closing) CloseIdleConnections() {
	c.closed++
	c.Transport.CloseIdleConnections()
}
