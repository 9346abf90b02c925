package openbucket_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log"
	"net/url"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/castest"
	"github.com/blobindex/indexd/cas/probe"
)

// TestReal is told by the environment where to run:
//
//	INDEXD_TEST_BUCKET   address of a bucket that exists, such as s3://b?endpoint=http://127.0.0.1:7070; everything is put
//	                     below a new path of its own, and deleted in the end
//	INDEXD_TEST_BESIDE   address of the same bucket by another gateway; empty for none
//
// Credentials are found as the package says.
const (
	bucketEnv = "INDEXD_TEST_BUCKET"
	besideEnv = "INDEXD_TEST_BESIDE"
)

// TestReal runs the conformance suite of cas.Store on a real server by the driver that its address has, and lets processes
// change one document there. What a server that honours no conditions breaks fails here: tools/testreal, which starts
// servers and runs this, holds the failures to what is listed.
func TestReal(t *testing.T) {
	if os.Getenv(bucketEnv) == "" {
		t.Skipf("%s is not set; make test-real sets it to a bucket of each real server in turn", bucketEnv)
	}
	quiet()
	ways := realWays(t)
	var stores []cas.Store
	for range clientsEach {
		for _, way := range ways {
			stores = append(stores, openReal(t, way))
		}
	}
	var turn atomic.Int64
	next := func() cas.Store { return stores[int(turn.Add(1))%len(stores)] }
	castest.Run(t, castest.Config{
		New:             func(testing.TB) cas.Store { return stores[0] },
		Another:         func(testing.TB, cas.Store) cas.Store { return next() },
		ContentVersions: strings.HasPrefix(ways[0], "s3:"), TellsTime: true,
	})
	t.Run("DocumentProcesses", func(t *testing.T) { documentProcesses(t, stores[0], ways) })
}

// quiet drops what net/http logs of servers that send more than they have announced.
func quiet() { log.SetOutput(io.Discard) }

// clientsEach is how many clients each way to the bucket has, with connections of their own.
const clientsEach = 4

// realWays are addresses of one new path in the bucket, and has it emptied when the test ends.
func realWays(t *testing.T) []string {
	below := "indexd-test-" + strings.ToLower(rand.Text())
	var ways []string
	for _, address := range []string{os.Getenv(bucketEnv), os.Getenv(besideEnv)} {
		if address == "" {
			continue
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = path.Join("/", u.Path, below)
		ways = append(ways, u.String())
	}
	t.Cleanup(func() {
		if err := empty(ways[0]); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	return ways
}

// openReal opens the address as features do: it asks the probe, which tells the driver how versions go back. What the probe
// has against the store is for the steps to show.
func openReal(t *testing.T, address string) cas.Store {
	t.Helper()
	s, err := openWay(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A way is a bucket that can hold documents.
type way interface {
	openbucket.Bucket
	cas.Store
}

func openWay(ctx context.Context, address string) (way, error) {
	b, err := openbucket.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	s, ok := b.(way)
	if !ok {
		return nil, errors.Join(bucket.ErrUnsupported, b.Close())
	}
	if _, err := probe.Usable(ctx, s, s, nil); err != nil && !errors.Is(err, probe.ErrNotUsable) {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// empty deletes all that is below the address. The context of the test is over by then.
func empty(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	b, err := openbucket.Open(ctx, address)
	if err != nil {
		return err
	}
	defer b.Close()
	var keys []bucket.Key
	err = b.List(ctx, bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, o.Key)
		}
		return nil
	})
	return errors.Join(err, errors.Join(b.Delete(ctx, keys)...))
}
