package gcsbucket_test

import (
	"net/http"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/realservers"
)

// The environment names a real server:
//
//	INDEXD_GCS_SERVER    its name in package realservers, or empty for one that does what Google documents
//	INDEXD_GCS_ENDPOINT  its base URL; empty with a bucket: Google's, or STORAGE_EMULATOR_HOST's
//	INDEXD_GCS_BUCKET    the bucket; with an endpoint it is created if it is absent, and "indexd-test" by default
const (
	serverEnv   = "INDEXD_GCS_SERVER"
	endpointEnv = "INDEXD_GCS_ENDPOINT"
	bucketEnv   = "INDEXD_GCS_BUCKET"
)

// TestReal runs the suite on the server that the environment names. A step in which it is known to deviate fails here:
// tools/testreal, which starts servers and runs this, holds the failures to what is listed. Others that they have (no page
// cap, offsets ignored, null for an object that is being deleted) are the driver's to live with.
func TestReal(t *testing.T) {
	endpoint, name := os.Getenv(endpointEnv), os.Getenv(bucketEnv)
	if endpoint == "" && name == "" {
		t.Skipf("neither %s nor %s is set: make test-real does", endpointEnv, bucketEnv)
	}
	if name == "" {
		name = "indexd-test"
	}
	if endpoint != "" {
		createBucket(t, endpoint, name)
	}
	server := realservers.Server{Sorted: true}
	if known := os.Getenv(serverEnv); known != "" {
		var ok bool
		if server, ok = realservers.Find(known); !ok {
			t.Fatalf("%s=%q: nothing is known of that server", serverEnv, known)
		}
	}
	opts := gcsbucket.Options{Bucket: name, Endpoint: endpoint, Prefix: "gcsbucket-test", Sorted: server.Sorted}
	t.Run("EmptySegments", func(t *testing.T) { emptySegments(t, connect(t, opts)) })
	opts.PathKeys = server.PathKeys
	buckettest.Run(t, buckettest.Config{
		New:    func(t testing.TB) bucket.Objects { return connect(t, opts) },
		Sorted: server.Sorted, TellsTime: true, TimeSlack: 2 * time.Second,
		Refuses: func(key bucket.Key) bool { return refused(key) || server.PathKeys && !isPath(key) },
	})
}

// emptySegments asks for a key as it was put; where that is not what comes back, Options.PathKeys is needed.
func emptySegments(t *testing.T, b *gcsbucket.Bucket) {
	put(t, b, "a//b")
	if o, err := b.Head(t.Context(), "a//b"); err != nil || o.Key != "a//b" {
		t.Errorf("Head of a//b: %q, %v", o.Key, err)
	}
	b.Delete(t.Context(), []bucket.Key{"a//b"})
}

func isPath(key bucket.Key) bool {
	return path.Clean("/"+string(key)) == "/"+strings.TrimSuffix(string(key), "/")
}

func createBucket(t *testing.T, endpoint, name string) {
	t.Helper()
	resp, err := http.Post(endpoint+"/storage/v1/b?project=test", "application/json", strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		t.Fatalf("the server does not answer: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusConflict {
		t.Fatalf("creating bucket %s: %s", name, resp.Status)
	}
}
