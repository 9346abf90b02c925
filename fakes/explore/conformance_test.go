package explore_test

import (
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/castest"
	"github.com/blobindex/indexd/fakes/explore"
)

// The store that the actors see keeps the contract, as the best and the poorest store that a scenario can ask for.
func TestConformance(t *testing.T) {
	for name, s := range map[string]explore.Scenario{
		"rich": {PageSize: bucket.PageSize},
		"poor": {PageSize: 400, Unsorted: true, NoStoreTime: true, ScatterDeletes: true},
	} {
		t.Run(name, func(t *testing.T) {
			buckettest.Run(t, buckettest.Config{
				New:    func(t testing.TB) bucket.Objects { return explore.FreeStore(t, s) },
				Empty:  true,
				Sorted: !s.Unsorted, TellsTime: !s.NoStoreTime,
			})
			castest.Run(t, castest.Config{
				New:             func(t testing.TB) cas.Store { return explore.FreeStore(t, s) },
				ContentVersions: true, TellsTime: !s.NoStoreTime,
			})
		})
	}
}
