package gcsbucket_test

import (
	"testing"
	"time"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/castest"
	"github.com/blobindex/indexd/fakes/gcsd"
)

func TestConformance_CAS(t *testing.T) {
	castest.Run(t, castest.Config{
		New: func(t testing.TB) cas.Store {
			b, _ := serve(t, &gcsd.Options{Now: gcsd.Ticking(time.Now(), time.Second)}, nil)
			return b
		},
		TellsTime: true, Creates: 3, Increments: 2,
	})
}
