package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

// soakBucketEnv names the address of a bucket that exists, such as s3://b?endpoint=http://127.0.0.1:7070. TestSoak works
// below a new path of it, and deletes that in the end. Credentials are found as package openbucket says.
const soakBucketEnv = "INDEXD_TEST_BUCKET"

// A soakGround is the bucket that a soak works on.
type soakGround interface {
	address() string
	env() []string       // that finds its credentials
	skew() time.Duration // of its indexes; short, so that what is superseded is deleted while the test goes on
	config() string      // of its indexes
	indexes() []string   // their names
	crew() []string      // roles of the processes beside the producers
	plant()              // foreign keys, and keys that are over, so that the pruners have work from the start
	foreign() string     // describes all that nobody may touch
	leftovers() []string // keys that are long over
}

func newSoakGround(t *testing.T, root string) soakGround {
	if address := os.Getenv(soakBucketEnv); address != "" {
		return newRemoteGround(t, address)
	}
	g := dirGround{t, filepath.Join(root, "bucket")}
	b, err := dirbucket.Create(g.dir, nil)
	g.check(err)
	g.check(b.Close())
	return g
}

// foreignNames are keys that are nobody's items, or another index's.
var foreignNames = []string{
	"photos/cat.jpg",
	"_indexd/other/document.json",
	"_active_runs2/default/job_1700000000",
	"_active_runs-old/default/job_1700000000",
	"_active_runs/stray_1700000000",
	"_active_runs/-bad/job_1700000000",
	"_active_runs/default/notes.txt",
	"_active_runs/default/job_17",
	"_active_runs/default/job_1700000000~weird",
	"_active_runs/default/job_1700000000~170000000000",
	"_active_runs/default/.hidden_1700000000",
	"_active_runs/default/line\nbreak_1700000000",
	"_active_runs/default/bad\xff_1700000000",
	"_active_runs/default/nested/job_1700000000",
}

// futureName is foreign until its store time is past the TTL.
const futureName = "default/job_4102444800"

// A dirGround is a directory, in which times can be set.
type dirGround struct {
	t   *testing.T
	dir string
}

func (g dirGround) check(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g dirGround) address() string     { return g.dir }
func (g dirGround) env() []string       { return nil }
func (g dirGround) skew() time.Duration { return time.Second }
func (g dirGround) config() string {
	return fmt.Sprintf("indexes: [{name: running, skew: %v}]\n", g.skew())
}
func (g dirGround) indexes() []string { return []string{blobindex.DefaultName} }
func (g dirGround) crew() []string    { return []string{"reader", "reader", "pruner", "pruner"} }

func (g dirGround) plant() {
	old := time.Now().Add(-3 * time.Hour)
	for i := range 500 {
		name := fmt.Sprintf("_active_runs/%s/stale%d_%d", []string{"default", "other"}[i%2], i, old.Unix())
		g.place(name, "", old)
	}
	older := time.Now().Add(-1000 * time.Hour)
	for i, name := range foreignNames {
		g.place(name, fmt.Sprintf("body %d\x00\xff", i), older)
	}
	g.place("_active_runs/"+futureName, "from the future", time.Now())
}

func (g dirGround) place(name, body string, at time.Time) {
	path := filepath.Join(g.dir, name)
	g.check(os.MkdirAll(filepath.Dir(path), 0o755))
	g.check(os.WriteFile(path, []byte(body), 0o644))
	g.check(os.Chtimes(path, at, at))
}

func (g dirGround) foreign() string {
	var b strings.Builder
	for _, name := range append([]string{"_active_runs/" + futureName}, foreignNames...) {
		path := filepath.Join(g.dir, name)
		info, err := os.Lstat(path)
		g.check(err)
		body, err := os.ReadFile(path)
		g.check(err)
		fmt.Fprintf(&b, "%q %v %v %q\n", name, info.Mode(), info.ModTime(), body)
	}
	return b.String()
}

func (g dirGround) leftovers() []string {
	stale, err := filepath.Glob(filepath.Join(g.dir, "_active_runs/*/stale*"))
	g.check(err)
	return stale
}
