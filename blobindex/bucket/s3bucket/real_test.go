package s3bucket_test

import (
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/realservers"
)

// TestReal runs the conformance suite on a real server. Which one is told by the environment:
//
//	INDEXD_S3_SERVER      its name in package realservers
//	INDEXD_S3_ENDPOINT    such as http://127.0.0.1:7070
//	INDEXD_S3_KEY         access key and secret, with a colon between them
//
// A step in which the server is known to deviate fails here: tools/testreal, which starts servers and runs this, holds
// the failures to what is listed.
func TestReal(t *testing.T) {
	name := os.Getenv("INDEXD_S3_SERVER")
	if name == "" {
		t.Skip("INDEXD_S3_SERVER is not set: make test-real does")
	}
	server, ok := realservers.Find(name)
	if !ok {
		t.Fatalf("nothing is known of server %q", name)
	}
	access, secret, _ := strings.Cut(os.Getenv("INDEXD_S3_KEY"), ":")
	opts := s3bucket.Options{
		Endpoint: os.Getenv("INDEXD_S3_ENDPOINT"), Sorted: server.Sorted,
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
	}
	buckettest.Run(t, buckettest.Config{
		New:   func(t testing.TB) bucket.Objects { return fresh(t, opts) },
		Empty: true, FileTree: server.FileTree, Sorted: server.Sorted, TellsTime: true, TimeSlack: 2 * time.Second,
		Refuses: refuses(false, ""),
	})
	if !server.Sorted {
		t.Run("DisorderIsNoticed", func(t *testing.T) { disorder(t, opts) })
	}
}

// fresh creates a bucket.
func fresh(t testing.TB, opts s3bucket.Options) *s3bucket.Bucket {
	t.Helper()
	hc := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	t.Cleanup(hc.CloseIdleConnections)
	client := s3.New(s3.Options{
		BaseEndpoint: &opts.Endpoint, UsePathStyle: true, Region: "us-east-1", Credentials: opts.Credentials, HTTPClient: hc,
	})
	name := "indexd-" + strings.ToLower(rand.Text())
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(name)}); err != nil {
		t.Fatal(err)
	}
	b, err := s3bucket.New(name, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// disorder declares a server sorted that is not.
func disorder(t *testing.T, opts s3bucket.Options) {
	opts.Sorted = true
	b := fresh(t, opts)
	for _, key := range []bucket.Key{"a/1", "a-b", "a.e", "a0", "B", "A/1", "é", "_"} {
		if _, err := b.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := list(t, b, ""); !errors.Is(err, bucket.ErrIncomplete) {
		t.Errorf("a listing out of order, declared sorted: %q, error %v, want ErrIncomplete", keys, err)
	}
}
