package s3bucket_test

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
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A busy store is one without a network, that is never ready.
type busy struct {
	status int
	calls  int
}

func (s *busy) Do(r *http.Request) (*http.Response, error) {
	s.calls++
	return &http.Response{StatusCode: s.status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func busyBucket(t *testing.T, s *busy, attempts int) *s3bucket.Bucket {
	o := options(&s3d.Server{URL: "http://store.invalid"})
	o.HTTPClient, o.Pause, o.Attempts = s, 0, attempts
	return open(t, o)
}

// The pauses double, up to their limit, and are cut by up to a half.
func TestRetry_Pauses(t *testing.T) {
	for _, tt := range []struct {
		status, attempts int
		most             time.Duration
	}{
		{500, 0, 100*time.Millisecond + 200*time.Millisecond + 400*time.Millisecond + 800*time.Millisecond},
		{429, 0, 500*time.Millisecond + time.Second + 2*time.Second + 4*time.Second},
		{429, 7, 500*time.Millisecond + time.Second + 2*time.Second + 4*time.Second + 5*time.Second + 5*time.Second},
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
			if took := time.Since(begin); took > tt.most || took < tt.most/2 {
				t.Errorf("%+v: took %v in %d attempts, want %v to %v", tt, took, store.calls, tt.most/2, tt.most)
			}
		})
	}
}

// A pause ends with its context.
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
