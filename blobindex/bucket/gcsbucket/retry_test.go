package gcsbucket_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
)

// A busy store is one without a network, that is never ready.
type busy struct {
	status int
	calls  int
}

func (s *busy) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls++
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return &http.Response{StatusCode: s.status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func busyBucket(t *testing.T, s *busy, attempts int) *gcsbucket.Bucket {
	return connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: "http://store.invalid", Attempts: attempts,
		HTTPClient: &http.Client{Transport: s}})
}

// TestRetry_Pauses: they double from 200 ms, are a second at the least where the store asks for slower requests, and get up
// to half of it more by chance. Their number is bounded.
func TestRetry_Pauses(t *testing.T) {
	for _, tt := range []struct {
		status, attempts int
		least            time.Duration
	}{
		{500, 0, 200*time.Millisecond + 400*time.Millisecond + 800*time.Millisecond + 1600*time.Millisecond},
		{429, 0, time.Second + time.Second + time.Second + 1600*time.Millisecond},
		{500, 2, 200 * time.Millisecond},
		{500, 1, 0},
		{400, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &busy{status: tt.status}
			b := busyBucket(t, store, tt.attempts)
			begin := time.Now()
			if _, err := b.Head(t.Context(), "a"); err == nil {
				t.Error("Head of a busy store succeeded")
			}
			if took := time.Since(begin); took < tt.least || took > tt.least*3/2 {
				t.Errorf("%+v: took %v in %d attempts, want %v to %v", tt, took, store.calls, tt.least, tt.least*3/2)
			}
		})
	}
}

// TestRetry_CancelledInAPause: a pause ends with its context, and so does the call.
func TestRetry_CancelledInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := busyBucket(t, &busy{status: 500}, 100)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := b.Put(ctx, "a", nil)
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("Put ended after %v, want 3s", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, bucket.ErrUnknown) {
			t.Errorf("Put: %v, want the context's error, and ErrUnknown: an earlier attempt was sent", err)
		}
	})
}
