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
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobindex/indexd/fakes/s3d"
)

// TestSignatures: who has another secret, or none, is refused.
func TestSignatures(t *testing.T) {
	for secret, want := range map[string]string{"secret": "200", "other": "SignatureDoesNotMatch"} {
		s, b := lying(t, &s3d.Options{Secret: secret})
		for _, key := range []string{"a", "a b+c%2B&?=/~é\x01", "a//b"} {
			if _, err := b.put(key, "body", nil, nil); code(err) != want {
				t.Errorf("secret %q: put %q: %v, want %s", secret, key, err, want)
			}
			s.Store(name, key, "")
			in := &s3.ListObjectsV2Input{Prefix: aws.String(key), Delimiter: aws.String("/"), EncodingType: types.EncodingTypeUrl}
			if _, _, err := b.list(in); code(err) != want {
				t.Errorf("secret %q: list %q: %v, want %s", secret, key, err, want)
			}
			out, err := b.c.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(name),
				Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("x")}}}})
			if code(err) != want {
				t.Errorf("secret %q: batch delete: %v, %v, want %s", secret, out, err, want)
			}
		}
	}
}

// TestSignatures_Broken: a request that was signed, and changed on its way, is refused.
func TestSignatures_Broken(t *testing.T) {
	for what, change := range map[string]func(r *http.Request){
		"nothing":   func(*http.Request) {},
		"body":      func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("BODY")) },
		"path":      func(r *http.Request) { r.URL.Path = "/bucket/b" },
		"query":     func(r *http.Request) { r.URL.RawQuery = "x=y" },
		"header":    func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD") },
		"date":      func(r *http.Request) { r.Header.Set("X-Amz-Date", "20200101T000000Z") },
		"no header": func(r *http.Request) { r.Header.Del("Authorization") },
		"clock":     func(*http.Request) {},
	} {
		now := time.Now()
		if what == "clock" {
			now = now.Add(20 * time.Minute)
		}
		s := s3d.New(t, &s3d.Options{Secret: "secret", Now: func() time.Time { return now }})
		c := s3.New(client(s).Options(), func(o *s3.Options) {
			o.HTTPClient = changing{s.Client, change}
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired // another would find a changed body first
		})
		b := &stepper{t.Context(), c, name, nil}
		if _, err := b.put("a", "body", nil, nil); (err == nil) != (what == "nothing") || (len(s.Keys(name)) == 1) != (err == nil) {
			t.Errorf("%s changed: %v, stored %q", what, err, s.Keys(name))
		}
	}
}

// changing changes requests once they are signed.
type changing struct {
	s3.HTTPClient
	change func(*http.Request)
}

func (c changing) Do(r *http.Request) (*http.Response, error) {
	c.change(r)
	return c.HTTPClient.Do(r)
}

// TestRead_Conditions holds GET and HEAD to what RFC 9110 says of conditions and ranges.
func TestRead_Conditions(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s, b := lying(t, &s3d.Options{Now: func() time.Time { return at }})
	s.Store(name, "a", "abcdef")
	etag := aws.String(`"e80b5017098950fc58aad83c8c14978e"`)
	for _, tt := range []struct {
		in   s3.GetObjectInput
		want string
	}{
		{s3.GetObjectInput{IfMatch: etag}, "200 abcdef"},
		{s3.GetObjectInput{IfMatch: star}, "200 abcdef"},
		{s3.GetObjectInput{IfMatch: aws.String(stale)}, "412"},
		{s3.GetObjectInput{IfMatch: aws.String(stale + ", " + *etag)}, "200 abcdef"},
		{s3.GetObjectInput{IfNoneMatch: etag}, "304"},
		{s3.GetObjectInput{IfNoneMatch: aws.String(stale)}, "200 abcdef"},
		{s3.GetObjectInput{IfModifiedSince: &at}, "304"},
		{s3.GetObjectInput{IfModifiedSince: aws.Time(at.Add(-time.Second))}, "200 abcdef"},
		{s3.GetObjectInput{IfUnmodifiedSince: &at}, "200 abcdef"},
		{s3.GetObjectInput{IfUnmodifiedSince: aws.Time(at.Add(-time.Second))}, "412"},
		{s3.GetObjectInput{IfMatch: etag, IfUnmodifiedSince: aws.Time(at.Add(-time.Second))}, "200 abcdef"},
		{s3.GetObjectInput{Range: aws.String("bytes=2-")}, "206 cdef"},
		{s3.GetObjectInput{Range: aws.String("bytes=0-0")}, "206 a"},
		{s3.GetObjectInput{Range: aws.String("bytes=4-99")}, "206 ef"},
		{s3.GetObjectInput{Range: aws.String("bytes=-2")}, "206 ef"},
		{s3.GetObjectInput{Range: aws.String("bytes=6-")}, "416"},
		{s3.GetObjectInput{Range: aws.String("bytes=x")}, "416"},
		{s3.GetObjectInput{IfMatch: aws.String(stale), Range: aws.String("bytes=0-1")}, "412"},
	} {
		tt.in.Key = aws.String("a")
		if got, _ := b.get(&tt.in); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.in, got, tt.want)
		}
	}
	if _, err := b.c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(name), Key: aws.String("a"), IfMatch: aws.String(stale)}); err == nil {
		t.Error("head of a stale version succeeded")
	}
}

// TestList_Delimiter pages through common prefixes: each comes once, in its place, and counts as one key.
func TestList_Delimiter(t *testing.T) {
	for _, lies := range []s3d.Lies{{PageSize: 1}, {PageSize: 2}, {}, {Unsorted: true, PageSize: 1}} {
		s, b := lying(t, &s3d.Options{Lies: lies})
		for _, key := range []string{"p/a", "p/b/1", "p/b/2", "p/b/3/4", "p/b0", "p/c d/1", "p/d", "q/1"} {
			s.Store(name, key, "")
		}
		p := s3.NewListObjectsV2Paginator(b.c, &s3.ListObjectsV2Input{Bucket: aws.String(name), Prefix: aws.String("p/"),
			Delimiter: aws.String("/"), EncodingType: types.EncodingTypeUrl})
		seen := map[string]int{}
		for p.HasMorePages() {
			out, err := p.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range out.Contents {
				seen[*o.Key]++
			}
			for _, c := range out.CommonPrefixes {
				seen[*c.Prefix]++
			}
			if int(*out.KeyCount) != len(out.Contents)+len(out.CommonPrefixes) {
				t.Errorf("%v: KeyCount %d", lies, *out.KeyCount)
			}
		}
		if fmt.Sprint(seen) != "map[p/a:1 p/b/:1 p/b0:1 p/c+d/:1 p/d:1]" {
			t.Errorf("%v: listed %v", lies, seen)
		}
	}
}

// TestAppliedLater: the answer comes before the effect, and the effect comes.
func TestAppliedLater(t *testing.T) {
	for _, status := range []int{0, 503} {
		s, b := lying(t, nil)
		release := make(chan struct{})
		s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: s3d.AppliedLater(release, status, "SlowDown")})
		if _, err := b.put("a", "x", nil, nil); err == nil {
			t.Errorf("%d: no error", status)
		}
		if body, _ := b.get(&s3.GetObjectInput{Key: aws.String("a")}); body != "404" {
			t.Errorf("%d: a read after the answer: %s", status, body)
		}
		close(release)
		s.Settle()
		if body, _ := b.get(&s3.GetObjectInput{Key: aws.String("a")}); body != "200 x" {
			t.Errorf("%d: a read after the release: %s", status, body)
		}
	}
}

// TestFaults_Bodies break off in either direction, and may be changed on their way.
func TestFaults_Bodies(t *testing.T) {
	s, b := lying(t, nil)
	s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: s3d.HalfRequest()})
	if _, err := b.put("a", strings.Repeat("x", 1<<20), nil, nil); err == nil || len(s.Keys(name)) != 0 {
		t.Errorf("half a request: %v, stored %q", err, s.Keys(name))
	}
	b.put("a", "body", nil, nil)
	s.Plan(s3d.Fault{Op: s3d.GetObject, Kind: s3d.HalfBody()}, s3d.Fault{Op: s3d.GetObject, Nth: 2,
		Kind: s3d.Rewrite("longer", func(b []byte) []byte { return append(b, "!!"...) })})
	for _, want := range []string{"200 bo unexpected EOF", "200 body!!", "200 body"} {
		if got, _ := b.get(&s3.GetObjectInput{Key: aws.String("a")}); got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
}

// TestFaults_Delay: the request waits, whoever else comes meanwhile does not.
func TestFaults_Delay(t *testing.T) {
	s, b := lying(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.Plan(s3d.Fault{Op: s3d.PutObject, Kind: s3d.Delay(time.Hour)})
	done := make(chan error)
	slow := *b
	slow.ctx = ctx
	go func() {
		_, err := slow.put("a", "x", nil, nil)
		done <- err
	}()
	for s.Counts()[s3d.PutObject] == 0 {
		b.get(&s3.GetObjectInput{Key: aws.String("a")})
	}
	if _, err := b.put("b", "y", nil, nil); err != nil || len(s.Keys(name)) != 1 {
		t.Errorf("put beside a delayed one: %v, stored %q", err, s.Keys(name))
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("delayed put: %v", err)
	}
}

// TestFault_String is printed where a planned fault never strikes.
func TestFault_String(t *testing.T) {
	for want, f := range map[string]s3d.Fault{
		"any #1: reset before":                               {Kind: s3d.ResetBefore()},
		"PutObject of b #2: drop after":                      {Op: s3d.PutObject, Key: func(string) bool { return true }, Text: "b", Nth: 2, Kind: s3d.DropAfter()},
		"GetObject of some keys #1 and on: half a body":      {Op: s3d.GetObject, Key: func(string) bool { return true }, Every: true, Kind: s3d.HalfBody()},
		"PutObject #1: status 503 SlowDown, applied later":   {Op: s3d.PutObject, Kind: s3d.AppliedLater(nil, 503, "SlowDown")},
		"PutObject #1: closed, applied later":                {Op: s3d.PutObject, Kind: s3d.AppliedLater(nil, 0, "")},
		"PutObject #1: delayed by 1s":                        {Op: s3d.PutObject, Kind: s3d.Delay(time.Second)},
		"PutObject #1: half a request":                       {Op: s3d.PutObject, Kind: s3d.HalfRequest()},
		"PutObject #1: applied, then status 500 ServerError": {Op: s3d.PutObject, Kind: s3d.AppliedThenStatus(500, "ServerError")},
	} {
		if f.String() != want {
			t.Errorf("%q, want %q", f, want)
		}
	}
}
