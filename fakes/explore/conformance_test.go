package explore_test

import (
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/fakes/explore"
)

// The store that the actors see keeps the contract, as each kind of store that a scenario can ask for.
func TestConformance(t *testing.T) {
	for name, s := range map[string]explore.Scenario{
		"sorted":    {PageSize: bucket.PageSize},
		"unsorted":  {PageSize: 400, Unsorted: true},
		"no time":   {PageSize: bucket.PageSize, NoStoreTime: true},
		"scattered": {PageSize: bucket.PageSize, ScatterDeletes: true},
	} {
		t.Run(name, func(t *testing.T) {
			buckettest.Run(t, buckettest.Config{
				New:    func(t testing.TB) bucket.Objects { return explore.FreeStore(t, s) },
				Empty:  true,
				Sorted: !s.Unsorted, TellsTime: !s.NoStoreTime,
			})
		})
	}
}
