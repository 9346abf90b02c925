package s3bucket_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// everyCall makes each call of the contract on one key and returns the errors by name.
func everyCall(ctx context.Context, b bucket.Objects, key bucket.Key) map[string]error {
	errs := map[string]error{}
	errs["List"] = b.List(ctx, bucket.ListRequest{}, func(bucket.Page) error { return nil })
	_, errs["Put"] = b.Put(ctx, key, nil)
	_, errs["Head"] = b.Head(ctx, key)
	_, errs["Open"] = b.Open(ctx, key)
	for name, keys := range map[string][]bucket.Key{"Delete": {key}, "Delete of two": {key, key + "2"}} {
		errs[name] = errors.Join(b.Delete(ctx, keys)...)
	}
	return errs
}

func TestErrors_NoSuchBucket(t *testing.T) {
	s := s3d.New(t, nil)
	b, err := s3bucket.New("elsewhere", options(s))
	if err != nil {
		t.Fatal(err)
	}
	for call, err := range everyCall(t.Context(), b, "m/a") {
		wantErr(t, call, err, bucket.ErrNotExist)
		if err != nil && (!strings.Contains(err.Error(), "elsewhere") || !strings.Contains(err.Error(), "bucket")) {
			t.Errorf("%s: %v, want the bucket named", call, err)
		}
	}
	if n := s.Counts(); n[s3d.CreateBucket] != 0 || n[s3d.Unknown] != 0 || n[s3d.PutObject] != 1 {
		t.Errorf("requests: %v, want no bucket created and nothing repeated", n)
	}
}

// TestErrors_Denied: each operation alone without permission; the others go on working.
func TestErrors_Denied(t *testing.T) {
	for _, denied := range []s3d.Op{s3d.ListObjectsV2, s3d.PutObject, s3d.HeadObject, s3d.GetObject, s3d.DeleteObject, s3d.DeleteObjects} {
		for _, code := range []string{"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"} {
			s, b := start(t, &s3d.Options{Refuse: func(op s3d.Op, key string) string {
				if op == denied && key != "" == (op != s3d.ListObjectsV2 && op != s3d.DeleteObjects) {
					return code
				}
				return ""
			}})
			s.Store("bucket", "m/a", "")
			call := map[s3d.Op]string{s3d.ListObjectsV2: "List", s3d.PutObject: "Put", s3d.HeadObject: "Head", s3d.GetObject: "Open",
				s3d.DeleteObject: "Delete", s3d.DeleteObjects: "Delete of two"}
			for name, err := range everyCall(t.Context(), b, "m/a") {
				switch {
				case name == call[denied] && (denied != s3d.HeadObject || code != "ExpiredToken"):
					wantErr(t, name, err, bucket.ErrDenied)
				case name == call[denied]:
					if err == nil { // to a HEAD the store can say no more than 400
						t.Errorf("%s: no error", name)
					}
				case err != nil && !errors.Is(err, bucket.ErrNotExist):
					t.Errorf("%s, with %s denied: %v", name, denied, err)
				}
			}
		}
	}
}

// An absent object of a store that must not be listed is denied, not absent: AWS answers 403.
func TestErrors_DeniedIsNotAbsent(t *testing.T) {
	s, b := start(t, nil)
	s.Plan(s3d.Fault{Op: s3d.HeadObject, Every: true, Kind: s3d.Status(403, "")}, s3d.Fault{Op: s3d.GetObject, Kind: s3d.Status(403, "AccessDenied")})
	_, err := b.Head(t.Context(), "m/a")
	wantErr(t, "Head", err, bucket.ErrDenied)
	_, err = b.Open(t.Context(), "m/a")
	wantErr(t, "Open", err, bucket.ErrDenied)
}

func TestErrors_WrongAccessKey(t *testing.T) {
	s := s3d.New(t, &s3d.Options{AccessKey: "OTHER"})
	for call, err := range everyCall(t.Context(), open(t, options(s)), "m/a") {
		wantErr(t, call, err, bucket.ErrDenied)
	}
}

// No error tells a secret, not even where the store repeats what it was sent.
func TestErrors_NoSecretTold(t *testing.T) {
	token := strings.Repeat("session+token/", 20)
	for _, kind := range []s3d.Kind{
		s3d.StatusWith(400, "InvalidToken", "bad token "+token, nil), s3d.StatusWith(500, "InternalError", token, nil),
		s3d.ResetBefore(), s3d.HalfBody(),
	} {
		s := s3d.New(t, nil)
		s.Plan(s3d.Fault{Every: true, Kind: kind})
		o := options(s)
		o.Credentials = credentials.NewStaticCredentialsProvider("AK", "the-secret-of-the-caller", token)
		for call, err := range everyCall(t.Context(), open(t, o), "m/a") {
			if err != nil && (strings.Contains(err.Error(), "the-secret") || strings.Contains(err.Error(), token[:40])) {
				t.Errorf("%s tells a secret: %v", call, err)
			}
		}
	}
}

// TestErrors_CredentialsExpire: an expired token is replaced once; if that does not help, the caller is denied.
func TestErrors_CredentialsExpire(t *testing.T) {
	for _, helps := range []bool{true, false} {
		var fresh atomic.Bool
		var asked atomic.Int32
		s := s3d.New(t, &s3d.Options{Refuse: func(s3d.Op, string) string {
			if !fresh.Load() {
				return "ExpiredToken"
			}
			return ""
		}})
		o := options(s)
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			if asked.Add(1) > 1 {
				fresh.Store(helps)
			}
			return aws.Credentials{AccessKeyID: "AK", SecretAccessKey: "s", SessionToken: "t"}, nil
		})
		b := open(t, o)
		_, err := b.Put(t.Context(), "m/a", nil)
		if helps && err != nil {
			t.Errorf("Put with credentials that were renewed: %v", err)
		}
		if !helps {
			wantErr(t, "Put with credentials that stay expired", err, bucket.ErrDenied)
		}
		wantCounts(t, "Put", s, map[s3d.Op]int{s3d.PutObject: 2})
	}
}

func TestErrors_Region(t *testing.T) {
	s := s3d.New(t, &s3d.Options{Region: "eu-west-1"})
	b := open(t, options(s))
	for call, err := range everyCall(t.Context(), b, "m/a") {
		if err == nil || !strings.Contains(err.Error(), "eu-west-1") || !strings.Contains(err.Error(), "us-east-1") {
			t.Errorf("%s: %v, want both regions named", call, err)
		}
	}
	s.Plan(s3d.Fault{Op: s3d.ListObjectsV2, Every: true, Kind: s3d.StatusWith(301, "PermanentRedirect", "elsewhere",
		http.Header{"X-Amz-Bucket-Region": {"ap-south-1"}})})
	s.Plan(s3d.Fault{Op: s3d.HeadObject, Every: true, Kind: s3d.StatusWith(301, "", "",
		http.Header{"X-Amz-Bucket-Region": {"ap-south-1"}})})
	s.Plan(s3d.Fault{Op: s3d.PutObject, Every: true, Kind: s3d.StatusWith(307, "TemporaryRedirect", "elsewhere",
		http.Header{"X-Amz-Bucket-Region": {"ap-south-1"}, "Location": {s.URL + "/bucket/elsewhere"}})})
	s.Reset()
	_, listErr := list(t, b, "")
	_, headErr := b.Head(t.Context(), "m/a")
	_, putErr := b.Put(t.Context(), "m/a", nil)
	for call, err := range map[string]error{"List": listErr, "Head": headErr, "Put": putErr} {
		if err == nil || !strings.Contains(err.Error(), "ap-south-1") || !strings.Contains(err.Error(), "us-east-1") {
			t.Errorf("%s redirected: %v, want both regions named", call, err)
		}
	}
	wantCounts(t, "redirected calls", s, map[s3d.Op]int{s3d.ListObjectsV2: 1, s3d.HeadObject: 1, s3d.PutObject: 1})
	s.Forgive()
	o := options(s)
	o.Region = "eu-west-1"
	if _, err := open(t, o).Put(t.Context(), "m/a", nil); err != nil {
		t.Errorf("Put with the right region: %v", err)
	}
}

// TestCase_C30_412ToAnUnconditionalRequest is no lost race.
func TestCase_C30_412ToAnUnconditionalRequest(t *testing.T) {
	s, b := start(t, &s3d.Options{Lies: s3d.Lies{Demands412: true}})
	_, err := b.Put(t.Context(), "m/a", nil)
	wantErr(t, "Put", err, bucket.ErrUnsupported)
	wantCounts(t, "Put", s, map[s3d.Op]int{s3d.PutObject: 1})
}

func TestErrors_UnknownAuthority(t *testing.T) {
	s := s3d.New(t, &s3d.Options{TLS: true})
	for call, err := range everyCall(t.Context(), open(t, options(s)), "m/a") {
		var unknown x509.UnknownAuthorityError
		if !errors.As(err, &unknown) || !strings.Contains(err.Error(), "not trusted here") || errors.Is(err, bucket.ErrUnknown) {
			t.Errorf("%s: %v, want the certificate's authority named, and nothing unknown", call, err)
		}
	}
	if n := s.Counts(); len(n) != 0 {
		t.Errorf("requests: %v, want none", n)
	}
	o := options(s)
	o.HTTPClient = s.Client
	for call, err := range everyCall(t.Context(), open(t, o), "m/a") {
		if err != nil && !errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("%s over https: %v", call, err)
		}
	}
}

// Nobody listens: nothing was sent, so nothing is unknown.
func TestErrors_NoServer(t *testing.T) {
	o := options(&s3d.Server{URL: "http://127.0.0.1:1"})
	for call, err := range everyCall(t.Context(), open(t, o), "m/a") {
		if err == nil || errors.Is(err, bucket.ErrUnknown) || errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("%s: %v, want a plain error", call, err)
		}
	}
}

func TestNew_Refuses(t *testing.T) {
	good := s3bucket.Options{Endpoint: "http://127.0.0.1:1", Credentials: credentials.NewStaticCredentialsProvider("AK", "hush", "")}
	if _, err := s3bucket.New("b", &good); err != nil {
		t.Errorf("New: %v", err)
	}
	for name, change := range map[string]func(*s3bucket.Options) string{
		"no name":           func(*s3bucket.Options) string { return "" },
		"name with a slash": func(*s3bucket.Options) string { return "a/b" },
		"no credentials":    func(o *s3bucket.Options) string { o.Credentials = nil; return "b" },
		"no region":         func(o *s3bucket.Options) string { o.Endpoint = ""; return "b" },
		"no URL":            func(o *s3bucket.Options) string { o.Endpoint = "127.0.0.1:9000"; return "b" },
		"secret in the URL": func(o *s3bucket.Options) string { o.Endpoint = "http://AK:hush@127.0.0.1"; return "b" },
		"dots":              func(o *s3bucket.Options) string { o.Prefix = "a/../b"; return "b" },
		"spaces":            func(o *s3bucket.Options) string { o.Prefix = "a/ /b"; return "b" },
		"control":           func(o *s3bucket.Options) string { o.Prefix = "a\x01"; return "b" },
	} {
		o := good
		bucketName := change(&o)
		_, err := s3bucket.New(bucketName, &o)
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("New with %s: error %v, want one without the secret", name, err)
		}
	}
	if _, err := s3bucket.New("b", nil); err == nil {
		t.Error("New without options: no error")
	}
}
