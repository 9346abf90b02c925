package gocloudbucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gocloudbucket"
)

// azureError has the shape of azcore.ResponseError.
type azureError struct {
	ErrorCode  string
	StatusCode int
}

func (e *azureError) Error() string { return fmt.Sprint("azure: ", e.StatusCode, " ", e.ErrorCode) }

// awsError is what an operation of the AWS SDK returns.
func awsError(status int, code string) error {
	return &smithy.OperationError{ServiceID: "S3", OperationName: "PutObject", Err: &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
			Err:      &smithy.GenericAPIError{Code: code, Message: "told " + code},
		},
	}}
}

// none stands for an error without a meaning in the contract.
var none error

// TestErrors: what drivers call an error, what the store really said, and what callers are told.
func TestErrors(t *testing.T) {
	dns := &url.Error{Op: "Put", URL: "https://x.blob.core.windows.net", Err: &net.OpError{Op: "dial", Err: &net.DNSError{
		Err: "no such host", IsNotFound: true}}}
	unknown := bucket.ErrUnknown
	for _, tt := range []struct {
		name         string
		err          error
		code         gcerrors.ErrorCode // that the driver gives it
		read, write  error
		reads, calls int // how often a read and a write are tried
	}{
		{"gcsblob, denied", &googleapi.Error{Code: 403}, gcerrors.NotFound, bucket.ErrDenied, bucket.ErrDenied, 1, 1},
		{"gcsblob, denied, wrapped", fmt.Errorf("x: %w", &googleapi.Error{Code: 403}), gcerrors.NotFound, bucket.ErrDenied, bucket.ErrDenied, 1, 1},
		{"gcsblob, not signed in", &googleapi.Error{Code: 401}, gcerrors.Unknown, bucket.ErrDenied, bucket.ErrDenied, 1, 1},
		{"gcsblob, absent", &googleapi.Error{Code: 404}, gcerrors.NotFound, bucket.ErrNotExist, bucket.ErrNotExist, 1, 1},
		{"gcsblob, throttled", &googleapi.Error{Code: 429}, gcerrors.ResourceExhausted, bucket.ErrThrottled, unknown, 3, 3},
		{"gcsblob, 503", &googleapi.Error{Code: 503}, gcerrors.Unknown, bucket.ErrThrottled, unknown, 3, 3},
		{"s3blob, denied", awsError(403, "AccessDenied"), gcerrors.PermissionDenied, bucket.ErrDenied, bucket.ErrDenied, 1, 1},
		{"s3blob, wrong secret", awsError(403, "SignatureDoesNotMatch"), gcerrors.Unknown, bucket.ErrDenied, bucket.ErrDenied, 1, 1},
		{"s3blob, expired", awsError(400, "ExpiredToken"), gcerrors.Unknown, bucket.ErrDenied, bucket.ErrDenied, 1, 1},
		{"s3blob, SlowDown", awsError(503, "SlowDown"), gcerrors.Unknown, bucket.ErrThrottled, unknown, 3, 3},
		{"s3blob, 429", awsError(429, "TooManyRequests"), gcerrors.Unknown, bucket.ErrThrottled, unknown, 3, 3},
		{"s3blob, other region", awsError(301, ""), gcerrors.NotFound, none, none, 1, 1},
		{"s3blob, not made for it", awsError(501, "NotImplemented"), gcerrors.Unknown, bucket.ErrUnsupported, bucket.ErrUnsupported, 1, 1},
		{"s3blob, 500", awsError(500, "InternalError"), gcerrors.Unknown, none, unknown, 3, 3},
		{"s3blob, 409", awsError(409, "ConditionalRequestConflict"), gcerrors.Unknown, none, none, 1, 1},
		{"azureblob, denied", &azureError{"AuthorizationFailure", 403}, gcerrors.Unknown, bucket.ErrDenied, bucket.ErrDenied, 1, 1},
		{"azureblob, absent", &azureError{"BlobNotFound", 404}, gcerrors.NotFound, bucket.ErrNotExist, bucket.ErrNotExist, 1, 1},
		{"azureblob, busy", &azureError{"ServerBusy", 503}, gcerrors.Unknown, bucket.ErrThrottled, unknown, 3, 3},
		{"azureblob, no such host", dns, gcerrors.NotFound, none, unknown, 3, 3},
		{"memblob, absent", errors.New("blob not found"), gcerrors.NotFound, bucket.ErrNotExist, bucket.ErrNotExist, 1, 1},
		{"no answer", io.ErrUnexpectedEOF, gcerrors.Unknown, none, unknown, 3, 3},
		{"denied, no status", errors.New("x"), gcerrors.PermissionDenied, bucket.ErrDenied, bucket.ErrDenied, 1, 1},
		{"exhausted, no status", errors.New("x"), gcerrors.ResourceExhausted, bucket.ErrThrottled, unknown, 3, 3},
		{"refused argument", errors.New("x"), gcerrors.InvalidArgument, none, none, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &liar{code: func(error) gcerrors.ErrorCode { return tt.code }}
			b := start(t, l, gocloudbucket.Options{})
			l.strike = func(string, string) error { return tt.err }
			ctx := t.Context()

			_, err := b.Head(ctx, "a")
			wantErr(t, "Head", err, tt.read)
			_, err = b.Open(ctx, "a")
			wantErr(t, "Open", err, tt.read)
			_, err = listed(t, b, "")
			wantErr(t, "List", err, tt.read)
			_, err = b.Put(ctx, "a", strings.NewReader("body"))
			wantErr(t, "Put", err, tt.write)
			errs := b.Delete(ctx, []bucket.Key{"a", "b"})
			if len(errs) != 2 {
				t.Fatalf("Delete: %v, want two errors: the bucket cannot be listed", errs)
			}
			wantErr(t, "Delete", errs[1], tt.write)
			listings := tt.reads
			if tt.read == bucket.ErrNotExist {
				listings++ // Delete looks whether it is the bucket
			}
			for op, want := range map[string]int{
				"head": tt.reads, "open": tt.reads, "list": listings, "put": tt.calls, "delete": 2 * tt.calls,
			} {
				if n := l.count(op); n != want {
					t.Errorf("%s was asked %d times, want %d", op, n, want)
				}
			}
		})
	}
}

// TestErrorsPassing: an error that passes is not seen.
func TestErrorsPassing(t *testing.T) {
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	l.strike = func(op, _ string) error {
		if l.count(op) == 1 && op != "read" {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	if _, err := b.Put(t.Context(), "a", strings.NewReader("body")); err != nil {
		t.Errorf("Put: %v", err)
	}
	if o, err := b.Head(t.Context(), "a"); err != nil || o.Size != 4 {
		t.Errorf("Head: %+v, %v", o, err)
	}
	r, err := b.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(r); err != nil || string(data) != "body" {
		t.Errorf("Open: %q, %v", data, err)
	}
	r.Close()
	if keys := list(t, b, ""); len(keys) != 1 {
		t.Errorf("List: %q", keys)
	}
	if errs := b.Delete(t.Context(), []bucket.Key{"a"}); errs != nil {
		t.Errorf("Delete: %v", errs)
	}
}

// TestPanics: a driver that panics has failed, and whether it had written nobody knows.
func TestPanics(t *testing.T) {
	l := &liar{strike: func(op, _ string) error { panic("at " + op) }}
	b := start(t, l, gocloudbucket.Options{})
	_, err := b.Head(t.Context(), "a")
	wantErr(t, "Head", err, nil)
	_, err = b.Open(t.Context(), "a")
	wantErr(t, "Open", err, nil)
	_, err = b.Put(t.Context(), "a", nil)
	wantErr(t, "Put", err, bucket.ErrUnknown)
	errs := b.Delete(t.Context(), []bucket.Key{"a"})
	if len(errs) != 1 {
		t.Fatalf("Delete: %v", errs)
	}
	wantErr(t, "Delete", errs[0], bucket.ErrUnknown)

	l.strike = func(op, _ string) error {
		if op == "read" || op == "close" {
			panic("at " + op)
		}
		return nil
	}
	_, err = b.Put(t.Context(), "a", strings.NewReader("body"))
	wantErr(t, "Put that panics when it is closed", err, bucket.ErrUnknown)
	r, err := b.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadAll(r); err == nil {
		t.Error("a read that panics: no error")
	}
}

// TestClosed: calls on a bucket that its owner has closed fail at once.
func TestClosed(t *testing.T) {
	inner := memblob.OpenBucket(nil)
	b := adapt(t, inner, gocloudbucket.Options{})
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := listed(t, b, "")
	wantErr(t, "List", err, nil)
	_, err = b.Put(t.Context(), "a", nil)
	wantErr(t, "Put", err, nil)
}

// TestCancelledRetry: what may have been written before the context ended is unknown, and says that it ended.
func TestCancelledRetry(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	l.strike = func(op, _ string) error {
		if op == "close" {
			cancel()
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	_, err := b.Put(ctx, "a", nil)
	wantErr(t, "Put", err, bucket.ErrUnknown)
	if !errors.Is(err, context.Canceled) || l.count("put") != 1 {
		t.Errorf("Put: %v after %d tries, want context.Canceled after 1", err, l.count("put"))
	}
}

// TestCancelledPause: a context that ends in a pause ends the call, without another attempt.
func TestCancelledPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := &liar{}
		b := start(t, l, gocloudbucket.Options{Pause: time.Hour})
		l.strike = func(string, string) error { return io.ErrUnexpectedEOF }
		began := time.Now()
		_, err := b.Head(ctx, "a")
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second || l.count("head") != 1 {
			t.Errorf("Head: %v after %v and %d tries, want the end of its context after a second and 1", err, took, l.count("head"))
		}
	})
}
