package membucket_test

import (
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/castest"
)

func TestConformance_CAS(t *testing.T) {
	castest.Run(t, castest.Config{
		New: func(testing.TB) cas.Store { return membucket.New(nil) }, ContentVersions: true, TellsTime: true,
	})
}

func TestConformance_CASGenerations(t *testing.T) {
	castest.Run(t, castest.Config{
		New:       func(testing.TB) cas.Store { return membucket.New(&membucket.Options{Generations: true}) },
		TellsTime: true,
	})
}
