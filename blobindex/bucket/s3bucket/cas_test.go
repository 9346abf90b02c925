package s3bucket_test

import (
	"testing"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/castest"
	"github.com/blobindex/indexd/fakes/s3d"
)

func TestConformance_CAS(t *testing.T) {
	castest.Run(t, castest.Config{
		New:             func(t testing.TB) cas.Store { return open(t, options(s3d.New(t, nil))) },
		ContentVersions: true, TellsTime: true, Creates: 3, Increments: 2,
	})
}
