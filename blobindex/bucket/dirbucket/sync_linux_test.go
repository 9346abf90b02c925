package dirbucket_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

// syncLog collects the directories that were synced since it was last asked.
type syncLog struct {
	mu   sync.Mutex
	dirs []string
}

func (l *syncLog) options() *dirbucket.Options {
	return &dirbucket.Options{OnDirSync: func(dir string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.dirs = append(l.dirs, dir)
	}}
}

func (l *syncLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	dirs := l.dirs
	l.dirs = nil
	slices.Sort(dirs)
	return dirs
}

func stat(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	var st syscall.Stat_t
	must(t, syscall.Stat(path, &st))
	return &st
}

// TestPut_DirectoryMadeAgain has somebody else remove and make a directory, or move one. Its entry may not be durable,
// whatever was synced of the one before, though it has got the same inode.
func TestPut_DirectoryMadeAgain(t *testing.T) {
	root := t.TempDir()
	var log syncLog
	b := createWith(t, root, log.options())
	put(t, b, "p/ns/x", "")
	dir := func(path string) string { return filepath.Join(root, path) }
	old := stat(t, dir("p/ns"))
	// On ext4 the first try gets the inode; on others it may never come again, and there is nothing to confuse.
	for try := 0; ; try++ {
		must(t, os.RemoveAll(dir("p/ns")))
		must(t, os.Mkdir(dir("p/ns"), 0o777))
		now := stat(t, dir("p/ns"))
		later := now.Mtim.Nano() > old.Mtim.Nano() // the clock has ticked since
		if later && (now.Ino == old.Ino || try > 10_000) {
			t.Logf("same inode: %v", now.Ino == old.Ino)
			break
		}
	}
	log.take()
	for _, step := range []struct {
		what, key string
		do        func() error
		want      []string
	}{
		{"made again", "p/ns/y", func() error { return nil }, []string{"p", "p/ns"}},
		{"used again", "p/ns/y", func() error { return nil }, []string{"p/ns"}},
		{"renamed", "p/ns2/y", func() error { return os.Rename(dir("p/ns"), dir("p/ns2")) }, []string{"p", "p/ns2"}},
		{"moved", "q/ns2/y", func() error {
			put(t, b, "q/x", "")
			log.take()
			return os.Rename(dir("p/ns2"), dir("q/ns2"))
		}, []string{"q", "q/ns2"}},
		{"above made again", "q/ns2/z", func() error {
			for was := stat(t, dir("q")).Mtim.Nano(); ; {
				must(t, os.RemoveAll(dir("q")))
				must(t, os.MkdirAll(dir("q/ns2"), 0o777))
				if stat(t, dir("q")).Mtim.Nano() > was {
					return nil
				}
			}
		}, []string{".", "q", "q/ns2"}},
	} {
		must(t, step.do())
		put(t, b, bucket.Key(step.key), "")
		if got := log.take(); !slices.Equal(got, step.want) {
			t.Errorf("put in a directory that was %s: synced %q, want %q", step.what, got, step.want)
		}
	}
}

// TestPut_RemembersBounded puts in more directories than are remembered as durable: the forgotten ones cost a sync more.
func TestPut_RemembersBounded(t *testing.T) {
	var log syncLog
	b := createWith(t, t.TempDir(), log.options())
	const most, dirs = 8, 40
	dirbucket.RememberAtMost(b, most)
	for i := range dirs {
		put(t, b, bucket.Key(fmt.Sprintf("p/ns%d/item", i)), "")
		if n := dirbucket.Remembered(b); n > most {
			t.Fatalf("after %d directories %d are remembered, want at most %d", i+1, n, most)
		}
	}
	log.take()
	again := 0
	for i := range dirs {
		put(t, b, bucket.Key(fmt.Sprintf("p/ns%d/item", i)), "")
		if slices.Contains(log.take(), "p") {
			again++
		}
	}
	if again < dirs-most {
		t.Errorf("%d of %d directories had their entry synced again, want all but %d", again, dirs, most)
	}
}
