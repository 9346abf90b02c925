package gcsbucket_test

import (
	"errors"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClose lets go of the idle connections of each kind of client, and a call after it works all the same.
func TestClose(t *testing.T) {
	for name, given := range map[string]*http.Client{
		"our client":              nil,
		"a client that was given": {Transport: &http.Transport{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := gcsd.New(unhurried(nil))
			defer s.Close()
			b := connect(t, gcsbucket.Options{Bucket: "bucket", Endpoint: s.URL(), HTTPClient: given})
			before := goleak.IgnoreCurrent()
			for range 2 {
				put(t, b, "a")
				if err := errors.Join(b.Close(), goleak.Find(before)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
