package s3bucket_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestCase_C29_EmptyPut: an empty object goes out with Content-Length: 0, and without framing, checksum or Expect; a
// marker with labels as it is.
func TestCase_C29_EmptyPut(t *testing.T) {
	for _, https := range []bool{false, true} {
		emptyPut(t, https)
	}
}

func emptyPut(t *testing.T, https bool) {
	s := s3d.New(t, &s3d.Options{TLS: https, Lies: s3d.Lies{StoresFraming: true}})
	o := options(s)
	o.HTTPClient = s.Client
	b := open(t, o)
	for body, reader := range map[string]io.Reader{
		"": nil, "\x00": strings.NewReader("\x00"), "{}": struct{ io.Reader }{strings.NewReader("{}")},
	} {
		if _, err := b.Put(t.Context(), "m/a", reader); err != nil {
			t.Fatal(err)
		}
		if got, ok := s.Body("bucket", "m/a"); !ok || got != body {
			t.Errorf("stored %q, want %q", got, body)
		}
		h := s.Header(s3d.PutObject)
		for _, name := range []string{"Content-Encoding", "Expect", "X-Amz-Trailer", "X-Amz-Sdk-Checksum-Algorithm",
			"X-Amz-Checksum-Crc32", "X-Amz-Decoded-Content-Length"} {
			if h.Get(name) != "" {
				t.Errorf("Put of %q sent %s: %s", body, name, h.Get(name))
			}
		}
		if len(h["Transfer-Encoding"]) != 0 || h.Get("Content-Length") == "" {
			t.Errorf("Put of %q: Content-Length %q, Transfer-Encoding %q", body, h.Get("Content-Length"), h["Transfer-Encoding"])
		}
	}
}

// TestCase_C30_ChecksumsWhenRequired: a store that is not AWS is sent no checksum that the operation does not need and no
// framing, and asked for none; on AWS the body of a Put has one.
func TestCase_C30_ChecksumsWhenRequired(t *testing.T) {
	for _, https := range []bool{false, true} {
		s := s3d.New(t, &s3d.Options{TLS: https, Lies: s3d.Lies{RefusesChecksums: true}})
		o := options(s)
		o.HTTPClient = s.Client
		b := open(t, o)
		for _, body := range []io.Reader{nil, strings.NewReader("{}"), strings.NewReader(strings.Repeat("x", 2<<20)),
			struct{ io.Reader }{strings.NewReader("{}")}} {
			if _, err := b.Put(t.Context(), "m/a", body); err != nil {
				t.Errorf("Put: %v", err)
			}
		}
		for call, err := range everyCall(t.Context(), b, "m/a") {
			if err != nil && !errors.Is(err, bucket.ErrNotExist) {
				t.Errorf("%s: %v", call, err)
			}
		}
		for _, op := range []s3d.Op{s3d.GetObject, s3d.HeadObject, s3d.PutObject, s3d.ListObjectsV2} {
			for name := range s.Header(op) {
				if name = strings.ToLower(name); strings.Contains(name, "checksum") || strings.Contains(name, "trailer") {
					t.Errorf("%s sent %s", op, name)
				}
			}
		}
	}
	seen := &last{}
	b, err := s3bucket.New("our-bucket", &s3bucket.Options{Region: "eu-west-1", Credentials: options(&s3d.Server{}).Credentials,
		HTTPClient: seen, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	b.Put(t.Context(), "m/a", strings.NewReader("{}"))
	if h := seen.r.Header; h.Get("X-Amz-Sdk-Checksum-Algorithm") == "" && h.Get("X-Amz-Trailer") == "" {
		t.Errorf("to AWS a body went out without a checksum: %v", h)
	}
	if host := seen.r.URL.Host; host != "our-bucket.s3.eu-west-1.amazonaws.com" {
		t.Errorf("host %s", host)
	}
}

// last keeps the last request and answers none.
type last struct{ r *http.Request }

func (l *last) Do(r *http.Request) (*http.Response, error) {
	l.r = r
	return nil, errors.New("offline")
}

// TestCase_C12_PaceOfAKey: a key that is written too fast for the store is waited for, a bounded number of times.
func TestCase_C12_PaceOfAKey(t *testing.T) {
	for _, is429 := range []bool{false, true} {
		clock := newClock()
		s, b := start(t, &s3d.Options{Now: clock.now, Lies: s3d.Lies{Pace: time.Second, PaceIs429: is429}})
		b.Put(t.Context(), "a", nil)
		s.Plan(s3d.Fault{Op: s3d.PutObject, Nth: 3, Kind: s3d.Before(clock.tick)})
		s.Reset()
		if _, err := b.Put(t.Context(), "a", nil); err != nil {
			t.Errorf("Put within the second: %v", err)
		}
		wantCounts(t, "Put", s, map[s3d.Op]int{s3d.PutObject: 3})
		_, err := b.Put(t.Context(), "a", nil)
		wantErr(t, "Put on a clock that stands still", err, bucket.ErrThrottled)
		wantCounts(t, "Put", s, map[s3d.Op]int{s3d.PutObject: 5})
	}
}

// TestRegister_OneRequest: what DESIGN §13 counts, at the socket.
func TestRegister_OneRequest(t *testing.T) {
	s, b := start(t, nil)
	wantCounts(t, "New", s, map[s3d.Op]int{})
	b.Put(t.Context(), "m/a", nil)
	wantCounts(t, "Put", s, map[s3d.Op]int{s3d.PutObject: 1})
	b.Delete(t.Context(), []bucket.Key{"m/a"})
	wantCounts(t, "Delete of one", s, map[s3d.Op]int{s3d.DeleteObject: 1})
	b.Head(t.Context(), "m/a")
	wantCounts(t, "Head", s, map[s3d.Op]int{s3d.HeadObject: 1})
	if r, err := b.Open(t.Context(), "m/a"); err == nil {
		r.Close()
	}
	wantCounts(t, "Open", s, map[s3d.Op]int{s3d.GetObject: 1})
}

// TestPut_Faults strikes a Put once, as not applied and as applied and then lost: a Seeker is sent again.
func TestPut_Faults(t *testing.T) {
	for _, kind := range []s3d.Kind{
		s3d.ResetBefore(), s3d.DropBefore(), s3d.ResetAfter(), s3d.DropAfter(), s3d.Status(500, "InternalError"), s3d.AppliedThenStatus(500, ""),
		s3d.Status(503, "SlowDown"), s3d.AppliedThenStatus(503, ""), s3d.Status(429, ""), s3d.Status(409, "OperationAborted"),
		s3d.Status(400, "RequestTimeout"),
	} {
		for _, body := range []string{"", "short", strings.Repeat("long", 1<<19)} {
			s, b := start(t, nil)
			s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: kind})
			r := strings.NewReader("head" + body)
			r.Seek(4, io.SeekStart)
			at, err := b.Put(t.Context(), "m/a", r)
			if err != nil || at.IsZero() {
				t.Errorf("Put: %v, %v, want success", at, err)
			}
			if got, _ := s.Body("bucket", "m/a"); got != body {
				t.Errorf("stored %d bytes, want %d", len(got), len(body))
			}
			wantCounts(t, "Put", s, map[s3d.Op]int{s3d.PutObject: 2})
		}
	}
}

// TestPut_FaultsThatStay: the error is what all attempts together prove.
func TestPut_FaultsThatStay(t *testing.T) {
	lost := s3d.Fault{Op: s3d.PutObject, Kind: s3d.DropAfter()}
	for _, tt := range []struct {
		name   string
		faults []s3d.Fault
		want   error
	}{
		{"reset", []s3d.Fault{{Every: true, Kind: s3d.ResetBefore()}}, bucket.ErrUnknown},
		{"dropped", []s3d.Fault{{Every: true, Kind: s3d.DropAfter()}}, bucket.ErrUnknown},
		{"500", []s3d.Fault{{Every: true, Kind: s3d.Status(500, "InternalError")}}, bucket.ErrUnknown},
		{"503 of a proxy", []s3d.Fault{{Every: true, Kind: s3d.AppliedThenStatus(503, "")}}, bucket.ErrUnknown},
		{"slow down", []s3d.Fault{{Every: true, Kind: s3d.Status(503, "SlowDown")}}, bucket.ErrThrottled},
		{"429", []s3d.Fault{{Every: true, Kind: s3d.Status(429, "")}}, bucket.ErrThrottled},
		{"dropped, then slow down", []s3d.Fault{lost, {Nth: 2, Every: true, Kind: s3d.Status(503, "SlowDown")}}, nil},
		{"dropped, then denied", []s3d.Fault{lost, {Nth: 2, Every: true, Kind: s3d.Status(403, "AccessDenied")}}, nil},
	} {
		s, b := start(t, nil)
		s.Plan(tt.faults...)
		_, err := b.Put(t.Context(), "m/a", nil)
		if tt.want != nil {
			wantErr(t, tt.name, err, tt.want)
		} else if !errors.Is(err, bucket.ErrUnknown) {
			t.Errorf("%s: %v, want ErrUnknown: the first attempt was carried out", tt.name, err)
		}
	}
}

// A body that is no Seeker is sent once, whatever is answered.
func TestPut_StreamIsSentOnce(t *testing.T) {
	for _, size := range []int{0, 10, 3 << 20} {
		s, b := start(t, nil)
		s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: s3d.Status(500, "InternalError")})
		stream := func() io.Reader { return struct{ io.Reader }{bytes.NewReader(make([]byte, size))} }
		_, err := b.Put(t.Context(), "m/a", stream())
		wantErr(t, "Put of a stream", err, bucket.ErrUnknown)
		wantCounts(t, "Put of a stream", s, map[s3d.Op]int{s3d.PutObject: 1})
		if _, err := b.Put(t.Context(), "m/a", stream()); err != nil {
			t.Error(err)
		}
		if got, _ := s.Body("bucket", "m/a"); len(got) != size {
			t.Errorf("stored %d bytes, want %d", len(got), size)
		}
	}
}

// A long Seeker that breaks off is an error of the body, and nothing is stored.
func TestPut_SeekerBreaksOff(t *testing.T) {
	broken := errors.New("the disk is gone")
	s, b := start(t, nil)
	for _, size := range []int64{100, 3 << 20} {
		_, err := b.Put(t.Context(), "m/a", &breaking{size: size, err: broken})
		if !errors.Is(err, broken) || errors.Is(err, bucket.ErrUnknown) {
			t.Errorf("Put: %v, want the body's error alone", err)
		}
	}
	if len(s.Keys("bucket")) != 0 {
		t.Errorf("stored %q", s.Keys("bucket"))
	}
}

// breaking is a body of size bytes of which only the first half can be read.
type breaking struct {
	size, at int64
	err      error
}

func (b *breaking) Read(p []byte) (int, error) {
	n := min(int64(len(p)), b.size/2-b.at)
	if n <= 0 {
		return 0, b.err
	}
	b.at += n
	return int(n), nil
}

func (b *breaking) Seek(offset int64, whence int) (int64, error) {
	b.at = offset + map[int]int64{io.SeekStart: 0, io.SeekCurrent: b.at, io.SeekEnd: b.size}[whence]
	return b.at, nil
}

// A Put that is cancelled while the store has it is unknown: the store carries it out later.
func TestPut_CancelledWhileHeld(t *testing.T) {
	s, b := start(t, nil)
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: s3d.Before(cancel)}, s3d.Fault{Op: s3d.PutObject, Nth: 2, Kind: s3d.Hold(release)})
	_, err := b.Put(ctx, "m/a", strings.NewReader("x"))
	if !errors.Is(err, context.Canceled) || !errors.Is(err, bucket.ErrUnknown) {
		t.Errorf("Put: %v, want context.Canceled and ErrUnknown", err)
	}
	close(release)
	if _, err := b.Put(t.Context(), "m/b", nil); err != nil {
		t.Error(err)
	}
}

// TestOpen_HalfABody: a body that breaks off is an error of Read, never an end.
func TestOpen_HalfABody(t *testing.T) {
	s, b := start(t, nil)
	s.Store("bucket", "a", strings.Repeat("x", 1000))
	s.Plan(s3d.Fault{Op: s3d.GetObject, Kind: s3d.HalfBody()})
	r, err := b.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err == nil || len(data) >= 1000 {
		t.Errorf("read %d bytes, %v, want an error", len(data), err)
	}
}
