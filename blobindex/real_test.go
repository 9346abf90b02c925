package blobindex_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
)

// TestReal is told by the environment where to run:
//
//	INDEXD_TEST_BUCKET   address of a bucket that exists, with a path or without, such as s3://b?endpoint=http://127.0.0.1:7070;
//	                     everything is put below new paths of its own, and deleted in the end
//	INDEXD_TEST_SERVER   which server that is, one of realServers; empty for one that holds what its service documents
//
// Credentials are found as package openbucket says.
const (
	bucketEnv = "INDEXD_TEST_BUCKET"
	serverEnv = "INDEXD_TEST_SERVER"
)

// TestReal runs every vector and every behaviour on a real server, each below a path of its own.
func TestReal(t *testing.T) {
	address := os.Getenv(bucketEnv)
	if address == "" {
		t.Skipf("%s is not set; make test-real sets it to a bucket of each real server in turn", bucketEnv)
	}
	s := realSite(t, address, os.Getenv(serverEnv))
	vectors, whole, ran := readVectors(t), 0, 0
	for _, v := range vectors {
		t.Run("Vector/"+v.Name, func(t *testing.T) {
			ran++
			if v.stored(t, s) {
				whole++
			}
		})
	}
	cases := 0
	for _, b := range behaviours() {
		t.Run(strings.TrimPrefix(b.test, "Test"), func(t *testing.T) {
			cases++
			b.on(t, s)
		})
	}
	all := ran == len(vectors) && cases == len(behaviours())
	for _, d := range s.deviations {
		n := s.seen[d.why]
		t.Logf("%s: known deviation: %s: %d keys %v", s.name, d.why, n, d.fate)
		if all && n == 0 {
			t.Errorf("%s: no key was %v for: %s; a deviation that vanished", s.name, d.fate, d.why)
		}
	}
	if !t.Failed() { // else what tools/testreal reads here but of deviations would be taken for an error of this very test
		t.Logf("%s: %d vectors ran, %d of them with all their keys, and %d cases of %d", s.name, ran, whole, cases,
			len(behaviours()))
	}
}

// realSite is the store at the address.
func realSite(t *testing.T, address, server string) *site {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openbucket.Parse(address); err != nil {
		t.Fatal(err)
	}
	deviations, ok := realServers()[server]
	if !ok {
		t.Fatalf("%s=%q: nothing is known of that server", serverEnv, server)
	}
	if server == "" {
		server, deviations = u.Scheme, deviationsOf(u.Scheme)
	}
	s := &site{name: server, deviations: deviations}
	s.open = func(t *testing.T) bucket.Objects {
		below := *u
		below.Path = path.Join("/", u.Path, "indexd-test-"+strings.ToLower(rand.Text()))
		b, err := openbucket.Open(t.Context(), below.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(s.empty(t, b), b.Close()); err != nil {
				t.Errorf("cleaning up: %v", err)
			}
		})
		return b
	}
	return s
}

// empty deletes all that can be deleted. The context of the test is over by then.
func (s *site) empty(t *testing.T, b bucket.Objects) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	keys, err := keysOf(ctx, b)
	if err != nil {
		return err
	}
	var all []bucket.Key
	for _, key := range keys {
		if !s.stays(key) {
			all = append(all, bucket.Key(key))
		}
	}
	var left []error
	for i, err := range b.Delete(ctx, all) {
		if err == nil {
			continue
		}
		t.Logf("%s: in a batch: %v", s.name, err) // alone it may go
		if errs := b.Delete(ctx, all[i:i+1]); errs != nil {
			left = append(left, errs...)
		}
	}
	return errors.Join(left...)
}
