package probe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A clock is the host's, and goes on by what is waited for: nothing waits in these tests.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) wait(ctx context.Context, d time.Duration) error {
	if d == probe.Overtake { // for another upload, which ends
		<-ctx.Done()
		return nil
	}
	c.ahead.Add(int64(d))
	return ctx.Err()
}

// quick are options that are small enough for many runs, and find what the defaults find.
func quick(c *clock) *probe.Options {
	return &probe.Options{Creates: 4, Increments: 1, Racers: 8, Objects: 20, Now: c.now, Wait: c.wait}
}

type driver interface {
	bucket.Objects
	cas.Store
}

func siteOf(name string, b driver) probe.Site { return probe.Site{Name: name, Objects: b, Store: b} }

func run(t testing.TB, opts *probe.Options, sites ...probe.Site) *probe.Report {
	t.Helper()
	r, err := probe.Run(t.Context(), sites, opts)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if !r.Complete {
		t.Error("the run ended well, and is not complete")
	}
	return r
}

// s3Options are those of a client of a server of which nothing is known.
func s3Options(url, secret string) *s3bucket.Options {
	return &s3bucket.Options{
		Endpoint: url, Credentials: credentials.NewStaticCredentialsProvider("AK", secret, ""), Pause: time.Microsecond,
		Config: aws.Config{
			RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
			ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		},
	}
}

func openS3(t testing.TB, name string, o *s3bucket.Options) *s3bucket.Bucket {
	t.Helper()
	b, err := s3bucket.New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An s3Bucket is a server with what s3d leaves out: the bucket's settings.
type s3Bucket struct {
	*s3d.Server
	url   string
	front *httptest.Server
}

// startS3 starts a server that tells its settings, by the name of the subresource; "" is 404.
func startS3(t testing.TB, o s3d.Options, settings map[string]string) *s3Bucket {
	t.Helper()
	s := s3d.New(t, &o)
	answers := map[string]string{"versioning": `<VersioningConfiguration/>`, "object-lock": "", "lifecycle": ""}
	if o.Versioned {
		answers["versioning"] = `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`
	}
	for name, text := range settings {
		answers[name] = text
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, text := range answers {
			if r.Method == http.MethodGet && r.URL.Query().Has(name) && strings.Count(r.URL.Path, "/") == 1 {
				tell(w, name, text)
				return
			}
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return &s3Bucket{s, front.URL, front}
}

func tell(w http.ResponseWriter, name, text string) {
	if text != "" {
		fmt.Fprint(w, text)
		return
	}
	code := map[string]string{"object-lock": "ObjectLockConfigurationNotFoundError", "lifecycle": "NoSuchLifecycleConfiguration"}[name]
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
}

const secret = "the-secret"

// probeS3 runs against a server, with twins of a wrong secret and an absent bucket.
func probeS3(t testing.TB, s *s3Bucket, c *clock, objects int) *probe.Report {
	t.Helper()
	opts := quick(c)
	opts.Objects = objects
	opts.WrongSecret = lists(openS3(t, "bucket", s3Options(s.url, "another-secret")))
	opts.AbsentBucket = lists(openS3(t, "absent", s3Options(s.url, secret)))
	return run(t, opts, siteOf(s.url, openS3(t, "bucket", s3Options(s.url, secret))))
}

func lists(b bucket.Objects) func(context.Context) error {
	return func(ctx context.Context) error {
		return b.List(ctx, bucket.ListRequest{}, func(bucket.Page) error { return nil })
	}
}

func openGCS(t testing.TB, name, url string) *gcsbucket.Bucket {
	t.Helper()
	b, err := gcsbucket.New(t.Context(), gcsbucket.Options{Bucket: name, Endpoint: url, FirstPause: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func probeGCS(t testing.TB, o gcsd.Options, c *clock, objects int) (*probe.Report, *gcsd.Server) {
	t.Helper()
	o.Now = c.now
	s := gcsd.New(&o)
	t.Cleanup(s.Close)
	opts := quick(c)
	opts.Objects = objects
	opts.AbsentBucket = lists(openGCS(t, "absent", s.URL()))
	return run(t, opts, siteOf(s.URL(), openGCS(t, "bucket", s.URL()))), s
}

// verdicts is what a report says, by question.
func verdicts(r *probe.Report) map[probe.ID]probe.Answer {
	v := map[probe.ID]probe.Answer{}
	for _, f := range r.Findings {
		v[f.ID] = f.Verdict
	}
	return v
}

// dump logs a report.
func dump(t testing.TB, r *probe.Report) {
	t.Helper()
	for _, f := range r.Findings {
		t.Logf("%-6s %-24s %s %v %s", f.Verdict, f.ID, f.Seen, f.Disables, f.Remark)
	}
	t.Logf("disabled %v, left %v, %.2f s", r.Disabled, r.Left, r.Seconds)
}
