package fakes_test

import (
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/fakes"
)

func TestConformance_Counter(t *testing.T) {
	buckettest.Run(t, buckettest.Config{
		New:   func(testing.TB) bucket.Objects { return fakes.NewCounter(membucket.New(nil)) },
		Empty: true, Sorted: true, TellsTime: true,
	})
}

func TestConformance_FaultyWithoutFaults(t *testing.T) {
	buckettest.Run(t, buckettest.Config{
		New:   func(t testing.TB) bucket.Objects { return fakes.NewFaulty(t, membucket.New(nil)) },
		Empty: true, Sorted: true, TellsTime: true,
	})
}

// The poorer stores that Faulty can make of a good one keep the contract as well.
func TestConformance_PoorerStores(t *testing.T) {
	for _, c := range []struct {
		name  string
		poor  buckettest.Config
		kinds []fakes.Kind
	}{
		{"objects shuffled", buckettest.Config{TellsTime: true}, []fakes.Kind{fakes.ShuffleObjects(1)}},
		{"pages shuffled, no times", buckettest.Config{}, []fakes.Kind{fakes.ShufflePages(1), fakes.NoTimes()}},
		{"clock ahead", buckettest.Config{Sorted: true, TellsTime: true}, []fakes.Kind{fakes.ShiftTimes(time.Hour)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.poor.Empty = true
			c.poor.New = func(t testing.TB) bucket.Objects {
				// Without the check that they fire: not every step lists or reads a time.
				f := fakes.NewFaulty(deafTB{t}, membucket.New(&membucket.Options{PageSize: 7}))
				for _, kind := range c.kinds {
					f.Plan(fakes.Fault{Every: true, Kind: kind})
				}
				return f
			}
			buckettest.Run(t, c.poor)
		})
	}
}

// deafTB runs no cleanup.
type deafTB struct{ testing.TB }

func (deafTB) Cleanup(func()) {}
