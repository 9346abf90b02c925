package dirbucket_test

import (
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/castest"
)

// TestConformance_CAS: each racer opens the directory anew, as another process would.
func TestConformance_CAS(t *testing.T) {
	dirs := map[cas.Store]string{}
	open := func(t testing.TB, dir string) cas.Store {
		b, err := dirbucket.Create(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	castest.Run(t, castest.Config{
		New: func(t testing.TB) cas.Store {
			dir := t.TempDir()
			s := open(t, dir)
			dirs[s] = dir
			return s
		},
		Another:         func(t testing.TB, s cas.Store) cas.Store { return open(t, dirs[s]) },
		ContentVersions: true, TellsTime: true,
	})
}
