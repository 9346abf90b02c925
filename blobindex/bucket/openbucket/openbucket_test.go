package openbucket_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestParse_Right: what is an address.
func TestParse_Right(t *testing.T) {
	for address, scheme := range map[string]string{
		"./indexd-data":             "file",
		"../x":                      "file",
		"/var/lib/indexd":           "file",
		"file:///var/lib/x":         "file",
		"file:///with%20room":       "file",
		"mem://":                    "mem",
		"s3://bucket":               "s3",
		"s3://bucket/":              "s3",
		"s3://my.bucket/a//b/":      "s3",
		"s3://b?region=eu-west-1":   "s3",
		"s3://b?path_style=true":    "s3",
		"gs://bucket":               "gs",
		"gs://bucket/some/path":     "gs",
		"gs://b?endpoint=http://h/": "gs",
		"s3://b/p?endpoint=https://s3.example.com:9000&region=x&path_style=false": "s3",
	} {
		l, err := openbucket.Parse(address)
		if err != nil {
			t.Errorf("Parse(%q): %v", address, err)
			continue
		}
		if l.Scheme() != scheme || l.String() != address {
			t.Errorf("Parse(%q) is %q of the scheme %q, want %q", address, l, l.Scheme(), scheme)
		}
	}
}

// TestParse_Wrong: what is none, and that no error repeats what may be a secret.
func TestParse_Wrong(t *testing.T) {
	for _, address := range []string{
		"", " ", ".", "./", "./.", "/", "//", "x", "file://", "file:///", "file:///..", "file:///%00", "file://./x", "file:///%zz",
		"file:///x?y=z", "./a\x00b", "mem://x", "http://host/bucket", "azblob://c", "://b",
		"s3://", "s3:///path", "s3://?region=x", "s3://b:1", "s3://b#x", "s3://b/%zz", "s3://b/a/../c", "s3://b/./c", "s3://b/a%0Ab",
		"s3://key:SECRET@b", "s3://SECRET@b/p", "gs://key:SECRET@b", "s3://b/p@SECRET", "s3://key:SECRET@b/%zz",
		"s3://b?secret_key=SECRET", "s3://b?region=", "s3://b?region=a/b", "s3://b?region=a&region=b", "s3://b?a=%zzSECRET",
		"s3://b?path_style=no", "s3://b?endpoint=", "s3://b?endpoint=host:9000", "s3://b?endpoint=ftp://h",
		"s3://b?endpoint=http://u:SECRET@h", "s3://b?endpoint=http://h/path", "s3://b?endpoint=http://h?x=SECRET",
		"gs://b?region=x", "gs://b?endpoint=x", "gs://",
	} {
		l, err := openbucket.Parse(address)
		if !errors.Is(err, openbucket.ErrAddress) {
			t.Errorf("Parse(%q) = %v, %v; want ErrAddress", address, l, err)
			continue
		}
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("Parse(%q) repeats the secret: %v", address, err)
		}
		if _, err := openbucket.Open(t.Context(), address); !errors.Is(err, openbucket.ErrAddress) {
			t.Errorf("Open(%q): %v", address, err)
		}
	}
}

// noCloud takes away whatever the machine has been configured with.
func noCloud(t *testing.T) {
	for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE", "STORAGE_EMULATOR_HOST"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	home := t.TempDir()
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(home, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, "credentials"))
	t.Setenv("HOME", home)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(home, "absent.json"))
}

// roundTrip puts an object through one address, and finds it through another one.
func roundTrip(t *testing.T, through, seenAt string, key bucket.Key) {
	t.Helper()
	b, err := openbucket.Open(t.Context(), through)
	if err != nil {
		t.Fatalf("opening %s: %v", through, err)
	}
	defer b.Close()
	if _, err := b.Put(t.Context(), "dir/key", strings.NewReader("body")); err != nil {
		t.Fatal(err)
	}
	whole, err := openbucket.Open(t.Context(), seenAt)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	r, err := whole.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if body, err := io.ReadAll(r); string(body) != "body" || err != nil {
		t.Errorf("%s has the body %q, %v", key, body, err)
	}
}

// TestOpen_S3 goes through an endpoint of the address, with credentials of the environment, and below a path.
func TestOpen_S3(t *testing.T) {
	noCloud(t)
	s := s3d.New(t, &s3d.Options{AccessKey: "AK", Region: "eu-test-1"})
	t.Setenv("AWS_ACCESS_KEY_ID", "AK")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
	at := "?region=eu-test-1&endpoint=" + url.QueryEscape(s.URL)
	roundTrip(t, "s3://bucket//some//path/"+at, "s3://bucket"+at, "some/path/dir/key")
}

// TestOpen_S3Environment: an endpoint of the environment is asked by path as well, and is not taken for AWS.
func TestOpen_S3Environment(t *testing.T) {
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		noCloud(t)
		s := s3d.New(t, &s3d.Options{Lies: s3d.Lies{RefusesChecksums: true}})
		t.Setenv("AWS_ACCESS_KEY_ID", "AK")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
		t.Setenv(name, s.URL)
		roundTrip(t, "s3://bucket/p", "s3://bucket", "p/dir/key")
		if l, _ := openbucket.Parse("s3://bucket"); l.Cloud() {
			t.Errorf("with %s the address is that of a cloud", name)
		}
	}
}

// TestOpen_S3Profile: the files of the AWS tools count.
func TestOpen_S3Profile(t *testing.T) {
	noCloud(t)
	s := s3d.New(t, &s3d.Options{AccessKey: "FROM-FILE"})
	text := "[default]\naws_access_key_id = WRONG\naws_secret_access_key = x\n" +
		"[work]\naws_access_key_id = FROM-FILE\naws_secret_access_key = x\n"
	if err := os.WriteFile(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_PROFILE", "work")
	at := "?endpoint=" + url.QueryEscape(s.URL)
	roundTrip(t, "s3://bucket/p"+at, "s3://bucket"+at, "p/dir/key")
}

// TestOpen_VirtualHost: path_style=false puts the bucket into the host's name.
func TestOpen_VirtualHost(t *testing.T) {
	noCloud(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AK")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
	b, err := openbucket.Open(t.Context(), "s3://bucket?path_style=false&endpoint=http://indexd.invalid")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Head(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "bucket.indexd.invalid") {
		t.Errorf("heading: %v; want an error about the host bucket.indexd.invalid", err)
	}
}

// TestOpen_S3NoCredentials: their absence is an error of the first request, and says what is missing.
func TestOpen_S3NoCredentials(t *testing.T) {
	noCloud(t)
	s := s3d.New(t, nil)
	b, err := openbucket.Open(t.Context(), "s3://bucket?endpoint="+url.QueryEscape(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.List(t.Context(), bucket.ListRequest{}, func(bucket.Page) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "credentials") || errors.Is(err, bucket.ErrNotExist) {
		t.Errorf("listing without credentials: %v", err)
	}
	if _, err := openbucket.Open(t.Context(), "s3://bucket"); !errors.Is(err, openbucket.ErrConfig) ||
		!strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("opening AWS without a region: %v", err)
	}
}

// TestOpen_GCS goes through the endpoint of the address, and the one of the environment.
func TestOpen_GCS(t *testing.T) {
	noCloud(t)
	s := gcsd.New(nil)
	defer s.Close()
	at := "?endpoint=" + url.QueryEscape(s.URL())
	roundTrip(t, "gs://bucket//some/path/"+at, "gs://bucket"+at, "some/path/dir/key")
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(s.URL(), "http://"))
	roundTrip(t, "gs://bucket/other", "gs://bucket"+at, "other/dir/key")
	if l, _ := openbucket.Parse("gs://bucket"); l.Cloud() {
		t.Error("with an emulator the address is that of a cloud")
	}
}

// TestOpen_GCSNoCredentials: their absence is an error that says so, at once.
func TestOpen_GCSNoCredentials(t *testing.T) {
	noCloud(t)
	if _, err := openbucket.Open(t.Context(), "gs://bucket"); !errors.Is(err, openbucket.ErrConfig) ||
		!strings.Contains(err.Error(), "credentials") {
		t.Errorf("opening without credentials: %v", err)
	}
}

// TestOpen_OutlivesItsContext: what a bucket was opened under may end.
func TestOpen_OutlivesItsContext(t *testing.T) {
	noCloud(t)
	s3, gcs := s3d.New(t, nil), gcsd.New(nil)
	defer gcs.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "AK")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
	for _, address := range []string{"mem://", "s3://bucket?endpoint=" + s3.URL, "gs://bucket?endpoint=" + gcs.URL()} {
		ctx, cancel := context.WithCancel(t.Context())
		b, err := openbucket.Open(ctx, address)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Put(t.Context(), "k", nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("closing %s: %v", address, err)
		}
	}
}

// TestCreate: a directory is made by Create alone.
func TestCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l, err := openbucket.Parse("file://" + filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := l.Open(t.Context()); err == nil || b != nil {
		t.Fatalf("opening a directory that is not there: %v, %v", b, err)
	}
	b, err := l.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	roundTrip(t, dir, dir, "dir/key")
	for _, address := range []string{dir, "mem://"} {
		if l, _ := openbucket.Parse(address); l.Cloud() {
			t.Errorf("%s is the address of a cloud", address)
		}
	}
	for _, address := range []string{"s3://b", "gs://b"} {
		if l, _ := openbucket.Parse(address); !l.Cloud() {
			t.Errorf("%s is not the address of a cloud", address)
		}
	}
}
