package gcsbucket_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// TestDenied_IsNotAbsent: a permission that is missing is told as that, for each operation alone.
func TestDenied_IsNotAbsent(t *testing.T) {
	for call, op := range map[string]gcsd.Op{"List": gcsd.List, "Put": gcsd.Insert, "Open": gcsd.Download, "Head": gcsd.Get,
		"Delete": gcsd.Delete} {
		b, s := serve(t, nil, nil)
		put(t, b, "a")
		s.Plan(t, gcsd.Fault{Op: op, Every: true, Kind: gcsd.Status(403, "forbidden")})
		for other, err := range calls(t.Context(), b, "a") {
			switch {
			case other != call && err != nil:
				t.Errorf("without permission to %s: %s fails with %v", call, other, err)
			case other == call && (!errors.Is(err, bucket.ErrDenied) || errors.Is(err, bucket.ErrNotExist)):
				t.Errorf("without permission to %s: error %v, want ErrDenied", call, err)
			}
		}
	}
}

// TestAbsentBucket is told apart from an absent object, and never made.
func TestAbsentBucket(t *testing.T) {
	b, s := serve(t, nil, func(o *gcsbucket.Options) { o.Bucket = "no-such-bucket" })
	for call, err := range calls(t.Context(), b, "a") {
		if !errors.Is(err, bucket.ErrNotExist) || !strings.Contains(err.Error(), "no such bucket") {
			t.Errorf("%s in an absent bucket: error %v, want one that says so", call, err)
		}
	}
	for _, r := range s.Requests() {
		if r.Op == gcsd.Other {
			t.Errorf("request %+v", r)
		}
	}
	there := connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: s.URL()})
	for _, key := range []bucket.Key{"a", "the specified bucket does not exist"} {
		if _, err := there.Head(t.Context(), key); !errors.Is(err, bucket.ErrNotExist) || strings.Contains(err.Error(), "no such bucket") {
			t.Errorf("Head(%q): error %v, want one that says it is the object", key, err)
		}
	}
}

// TestCredentials_ExpireInTheMiddle of a listing: an error that is no absence, and no empty list.
func TestCredentials_ExpireInTheMiddle(t *testing.T) {
	b, s := serve(t, &gcsd.Options{Lies: gcsd.Lies{PageCap: 10}}, nil)
	numbered(t, b, 25)
	s.Plan(t, gcsd.Fault{Op: gcsd.List, Nth: 2, Kind: gcsd.Status(401, "authError")})
	if _, pages, err := list(t.Context(), b, bucket.ListRequest{}); !errors.Is(err, bucket.ErrDenied) || len(pages) != 1 {
		t.Errorf("List: %d pages, error %v, want 1 and ErrDenied", len(pages), err)
	}
}

// bearer authenticates, and dials the server whatever host is asked for.
type bearer struct {
	token, server string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	u, err := url.Parse(b.server)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = u.Scheme, u.Host
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// TestHTTPClient asks Google's own service, through a client that leads to a server of ours. Its order is documented.
func TestHTTPClient(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	s := gcsd.New(unhurried(&gcsd.Options{Token: "secret"}))
	t.Cleanup(s.Close)
	with := func(token string) *gcsbucket.Bucket {
		return connect(t, gcsbucket.Options{Bucket: "bucket", HTTPClient: &http.Client{Transport: bearer{token, s.URL()}}})
	}
	b := with("secret")
	for call, err := range calls(t.Context(), b, "a") {
		if err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	if _, pages, err := list(t.Context(), b, bucket.ListRequest{After: "a"}); err != nil || !pages[0].Sorted {
		t.Errorf("List after a key: %v, want sorted pages", err)
	}
	for call, err := range calls(t.Context(), with("wrong"), "a") {
		if !errors.Is(err, bucket.ErrDenied) {
			t.Errorf("%s with a wrong secret: error %v, want ErrDenied", call, err)
		}
	}
}

// TestEmulator is named by the environment as for the official client; nothing is known of its order.
func TestEmulator(t *testing.T) {
	s := gcsd.New(unhurried(nil))
	t.Cleanup(s.Close)
	for _, host := range []string{s.URL(), strings.TrimPrefix(s.URL(), "http://")} {
		t.Setenv("STORAGE_EMULATOR_HOST", host)
		b := connect(t, gcsbucket.Options{Bucket: "bucket"})
		for call, err := range calls(t.Context(), b, "a") {
			if err != nil {
				t.Errorf("%s at %s: %v", call, host, err)
			}
		}
		if _, pages, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || pages[0].Sorted {
			t.Errorf("List at %s: %v, want pages that claim no order", host, err)
		}
	}
}

// TestNew_Refused: what cannot be a bucket is said at once.
func TestNew_Refused(t *testing.T) {
	for _, opts := range []gcsbucket.Options{
		{}, {Bucket: "a/b"}, {Bucket: "b", Prefix: "caf\xc3"}, {Bucket: "b", Prefix: "a\nb"},
		{Bucket: "b", Endpoint: "127.0.0.1:7074"}, {Bucket: "b", Endpoint: "http://127.0.0.1:7074/path"},
	} {
		if _, err := gcsbucket.New(t.Context(), opts); err == nil {
			t.Errorf("New(%+v) succeeded", opts)
		}
	}
}

// TestTLS_UnknownCA: nothing is sent to who cannot be trusted, so nothing is unknown, nor tried again.
func TestTLS_UnknownCA(t *testing.T) {
	s := gcsd.NewTLS(unhurried(nil))
	t.Cleanup(s.Close)
	b := connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: s.URL(), FirstPause: time.Hour})
	for call, err := range calls(t.Context(), b, "a") {
		if err == nil || errors.Is(err, bucket.ErrUnknown) || errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("%s: error %v, want one that is none of the contract's", call, err)
		}
	}
	if n := s.Reset(); len(n) != 0 {
		t.Errorf("requests %v", n)
	}
	trusting := connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: s.URL(), HTTPClient: s.Client()})
	for call, err := range calls(t.Context(), trusting, "a") {
		if err != nil {
			t.Errorf("%s by a client that trusts the server: %v", call, err)
		}
	}
}

// TestNobodyThere: no connection was made, so no write is unknown.
func TestNobodyThere(t *testing.T) {
	b, s := serve(t, nil, nil)
	s.Close()
	for call, err := range calls(t.Context(), b, "a") {
		if err == nil || errors.Is(err, bucket.ErrUnknown) || errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("%s: error %v, want one that is none of the contract's", call, err)
		}
	}
}

// TestDeadline ends each call while the server does not answer, and while the driver waits for its next attempt.
func TestDeadline(t *testing.T) {
	for _, op := range []gcsd.Op{gcsd.List, gcsd.Insert, gcsd.Download, gcsd.Get, gcsd.Delete} {
		for _, waiting := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			b, s := serve(t, nil, func(o *gcsbucket.Options) {
				o.FirstPause = time.Hour
				o.HTTPClient = &http.Client{Transport: ender{cancel}}
			})
			put(t, b, "a")
			if waiting {
				s.Plan(t, gcsd.Fault{Op: op, Kind: gcsd.Status(500, "backendError")})
			} else {
				release := make(chan struct{})
				t.Cleanup(func() { close(release) }) // before the server ends, which waits for it
				s.Plan(t, gcsd.Fault{Op: op, Kind: gcsd.Before("silence", func() { cancel(); <-release })})
			}
			err := one(ctx, b, op)
			write := op == gcsd.Insert || op == gcsd.Delete
			if !errors.Is(err, context.Canceled) || errors.Is(err, bucket.ErrUnknown) != write {
				t.Errorf("%s, waiting %v: error %v, want context.Canceled, of unknown outcome: %v", op, waiting, err, write)
			}
			cancel()
		}
	}
}

// An ender ends the call's context once the server has answered 500.
type ender struct{ cancel func() }

func (e ender) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusInternalServerError {
		go e.cancel()
	}
	return resp, err
}

func one(ctx context.Context, b *gcsbucket.Bucket, op gcsd.Op) error {
	var err error
	switch op {
	case gcsd.List:
		_, _, err = list(ctx, b, bucket.ListRequest{})
	case gcsd.Insert:
		_, err = b.Put(ctx, "a", nil)
	case gcsd.Download:
		_, err = b.Open(ctx, "a")
	case gcsd.Get:
		_, err = b.Head(ctx, "a")
	case gcsd.Delete:
		err = errors.Join(b.Delete(ctx, []bucket.Key{"a"})...)
	}
	return err
}
