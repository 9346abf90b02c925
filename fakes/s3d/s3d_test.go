package s3d_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/blobindex/indexd/fakes/s3d"
)

const name = "bucket"

// client is the bare SDK with its defaults, but for retries.
func client(s *s3d.Server) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &s.URL, UsePathStyle: true, Region: "us-east-1", HTTPClient: s.Client, Retryer: aws.NopRetryer{},
		Credentials:                credentials.NewStaticCredentialsProvider("AK", "secret", ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
	})
}

func code(err error) string {
	var api smithy.APIError
	switch {
	case err == nil:
		return "200"
	case errors.As(err, &api):
		return api.ErrorCode()
	}
	return err.Error()
}

func put(ctx context.Context, c *s3.Client, key, body string, match, none *string) (string, error) {
	out, err := c.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(name), Key: &key, Body: strings.NewReader(body), IfMatch: match, IfNoneMatch: none,
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.ETag), nil
}

// An ETag is a hash of the content: equal bodies share one, and A→B→A comes back to it.
func TestFaithful_ETags(t *testing.T) {
	s := s3d.New(t, nil)
	c := client(s)
	var tags []string
	for _, body := range []string{"A", "B", "A"} {
		etag, err := put(t.Context(), c, "a", body, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		tags = append(tags, etag)
	}
	other, _ := put(t.Context(), c, "b", "A", nil, nil)
	if tags[0] != tags[2] || tags[0] == tags[1] || other != tags[0] || tags[0] != `"7fc56270e7a70fa81a5935b72eacbe29"` {
		t.Errorf("ETags %q, %q", tags, other)
	}
}

// The SDK's own checksums and framing, as it sends them over https, are taken off again.
func TestFaithful_FramedBodies(t *testing.T) {
	for _, lies := range []s3d.Lies{{}, {StoresFraming: true}, {RefusesChecksums: true}} {
		s := s3d.New(t, &s3d.Options{TLS: true, Lies: lies})
		_, err := put(t.Context(), client(s), "a", "body", nil, nil)
		got, _ := s.Body(name, "a")
		framed := strings.Contains(got, "\r\n")
		if (err != nil) != lies.RefusesChecksums || framed != lies.StoresFraming || !lies.RefusesChecksums && !strings.Contains(got, "body") {
			t.Errorf("%v: stored %q, %v", lies, got, err)
		}
		if s.Header(s3d.PutObject).Get("Content-Encoding") != "aws-chunked" {
			t.Errorf("the SDK sent no framing: nothing is tested")
		}
	}
}

// TestFaithful_List pages through with the SDK's own paginator.
func TestFaithful_List(t *testing.T) {
	s := s3d.New(t, nil)
	for i := range 2001 {
		s.Store(name, fmt.Sprintf("a b/%05d", i), "")
	}
	s.Store(name, "a", "")
	s.Store(name, "b", "")
	p := s3.NewListObjectsV2Paginator(client(s), &s3.ListObjectsV2Input{
		Bucket: aws.String(name), Prefix: aws.String("a b/"), StartAfter: aws.String("a b/00000"), EncodingType: types.EncodingTypeUrl,
	})
	n := 0
	for p.HasMorePages() {
		out, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 && aws.ToString(out.Contents[0].Key) != "a+b/00001" {
			t.Errorf("first key %q, want it after 00000, encoded", *out.Contents[0].Key)
		}
		n += len(out.Contents)
	}
	if n != 2000 || s.Counts()[s3d.ListObjectsV2] != 2 {
		t.Errorf("%d keys, %v, want 2000 in 2 requests", n, s.Counts())
	}
}

// A batch turns control characters into U+FFFD before it is sent, and is told verbosely or quietly what became of it.
func TestFaithful_Batch(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		s := s3d.New(t, &s3d.Options{Refuse: func(_ s3d.Op, key string) string {
			if key == "denied" {
				return "AccessDenied"
			}
			return ""
		}})
		keys := []string{"a", "denied", "c\x01", "absent"}
		var ids []types.ObjectIdentifier
		for _, key := range keys {
			if key != "absent" {
				s.Store(name, key, "")
			}
			ids = append(ids, types.ObjectIdentifier{Key: aws.String(key)})
		}
		out, err := client(s).DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(name),
			Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(quiet)}})
		if err != nil {
			t.Fatal(err)
		}
		if deleted := map[bool]int{false: 3, true: 0}[quiet]; len(out.Deleted) != deleted || len(out.Errors) != 1 {
			t.Errorf("quiet %v: %d deleted, %d errors, want %d and 1", quiet, len(out.Deleted), len(out.Errors), deleted)
		}
		if left := strings.Join(s.Keys(name), " "); left != "c\x01 denied" {
			t.Errorf("left %q", left)
		}
	}
}

// Times are the clock's, in whole seconds, on every answer.
func TestFaithful_Clock(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 600, time.UTC)
	s := s3d.New(t, &s3d.Options{Now: func() time.Time { return now }})
	s.Store(name, "a", "")
	r, err := s.Client.Get(s.URL + "/bucket/a")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	want := "Wed, 02 Jan 2030 03:04:05 GMT"
	if r.Header.Get("Date") != want || r.Header.Get("Last-Modified") != want {
		t.Errorf("Date %q, Last-Modified %q, want %q", r.Header.Get("Date"), r.Header.Get("Last-Modified"), want)
	}
}

// TestFaults strikes the second of three requests.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		kind    s3d.Kind
		applied bool
		want    string
	}{
		{s3d.ResetBefore(), false, "request send failed"},
		{s3d.DropAfter(), true, "EOF"},
		{s3d.Status(503, "SlowDown"), false, "SlowDown"},
		{s3d.AppliedThenStatus(500, "InternalError"), true, "InternalError"},
	} {
		s := s3d.New(t, nil)
		s.Plan(s3d.Fault{Op: s3d.PutObject, Key: func(key string) bool { return key != "b" }, Nth: 2, Kind: tt.kind})
		c := client(s)
		for i, key := range []string{"a", "b", "c", "d"} {
			_, err := put(t.Context(), c, key, "x", nil, nil)
			_, there := s.Body(name, key)
			if struck := i == 2; struck != (err != nil) || there != (!struck || tt.applied) {
				t.Errorf("%v, request %d: %v, stored %v", tt.kind, i, err, there)
			} else if struck && code(err) != tt.want && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: %v, want %s", tt.kind, err, tt.want)
			}
		}
	}
}

// A held request is carried out when it is released, though its client has gone away.
func TestFaults_Hold(t *testing.T) {
	s := s3d.New(t, nil)
	release, arrived := make(chan struct{}), make(chan struct{})
	s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: s3d.Hold(release)}, s3d.Fault{Op: s3d.HeadBucket, Kind: s3d.Before(func() { close(arrived) })})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := put(ctx, client(s), "a", "x", nil, nil)
		gone <- err
	}()
	for s.Counts()[s3d.PutObject] == 0 {
		if r, err := s.Client.Head(s.URL + "/bucket/x"); err == nil { // gives the other goroutine its time
			r.Body.Close()
		}
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v, want context.Canceled", err)
	}
	if r, err := s.Client.Head(s.URL + "/bucket"); err == nil {
		r.Body.Close()
	}
	<-arrived
	if _, ok := s.Body(name, "a"); ok {
		t.Error("the object is there before the release")
	}
	close(release)
	for {
		if _, ok := s.Body(name, "a"); ok {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the object never came")
		}
	}
}

// A planned fault that never strikes is an error of the test.
func TestFaults_Unstruck(t *testing.T) {
	f := &recorder{TB: t}
	s := s3d.New(f, nil)
	s.Plan(s3d.Fault{Op: s3d.PutObject, Nth: 2, Kind: s3d.DropAfter()})
	f.end()
	if f.errors != 1 {
		t.Errorf("%d errors, want 1", f.errors)
	}
}

type recorder struct {
	testing.TB
	cleanups []func()
	errors   int
}

func (r *recorder) Cleanup(fn func())     { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Errorf(string, ...any) { r.errors++ }
func (r *recorder) end() {
	for _, fn := range r.cleanups {
		fn()
	}
}

// What the server does not speak is refused, and counted.
func TestUnknownOperations(t *testing.T) {
	s := s3d.New(t, nil)
	for _, path := range []string{"/bucket/a?uploads", "/bucket?versions", "/bucket?list-type=2"} {
		r, err := s.Client.Post(s.URL+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != http.StatusNotImplemented || !strings.Contains(string(body), "NotImplemented") {
			t.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
	}
	if s.Counts()[s3d.Unknown] != 3 {
		t.Errorf("requests %v, want 3 unknown", s.Counts())
	}
}
