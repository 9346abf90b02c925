package dirbucket

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// mostPlain bounds how many ordinary directories are remembered. One that is forgotten costs nothing, unless a file
// system is mounted over it afterwards, which then goes unnoticed.
const mostPlain = 1 << 14

// devices remembers on which file system the directories were that were listed, read or written through: an empty
// mount point must not pass for the directory that was mounted there, nor a mount hide what lies below it. A directory
// that was not a mount point may go and come as it likes.
type devices struct {
	mu     sync.Mutex        // guards all below
	mounts map[string]dirKey // by path below the root: directories on another file system than the one above them
	plain  map[string]uint64 // the devices of the others
}

// see remembers the directory at path, which lies in above; it reports false if that is not where it was before.
func (v *devices) see(path string, dir, above dirKey) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if dev, ok := v.plain[path]; ok {
		return dev == dir.device()
	}
	if k, ok := v.mounts[path]; ok {
		return k == dir
	}
	if dir.device() != above.device() {
		if v.mounts == nil {
			v.mounts = map[string]dirKey{}
		}
		v.mounts[path] = dir
		return true
	}
	if v.plain == nil {
		v.plain = map[string]uint64{}
	}
	if len(v.plain) >= mostPlain {
		dropOne(v.plain, "")
	}
	v.plain[path] = dir.device()
	return true
}

// dropOne deletes any key but that one.
func dropOne[K comparable, V any](m map[K]V, but K) {
	for k := range m {
		if k != but {
			delete(m, k)
			return
		}
	}
}

// mountsFor are the mount points that a call at a directory depends on: on the way to it, itself and, if deep, those
// below it.
func (v *devices) mountsFor(path string, deep bool) map[string]dirKey {
	v.mu.Lock()
	defer v.mu.Unlock()
	var some map[string]dirKey
	for mount, k := range v.mounts {
		if within(path, mount) || deep && within(mount, path) {
			if some == nil {
				some = map[string]dirKey{}
			}
			some[mount] = k
		}
	}
	return some
}

// within reports whether path is dir or lies below it; every path lies below "", the root.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (dir == "" || rest == "" || rest[0] == '/')
}

// see is an error if the directory at path is not on the file system that it was on.
func (b *Bucket) see(path string, dir, above dirKey) error {
	if b.devices.see(path, dir, above) {
		return nil
	}
	return b.movedError(path)
}

func (b *Bucket) movedError(path string) error {
	return fmt.Errorf("%s is not on the file system that it was on when this process used it first: unmounted, or another "+
		"one mounted over it; restart once the mount is right: %w", filepath.Join(b.path, path), bucket.ErrNotExist)
}

// mountsPresent returns an error unless the mount points that a call at a directory depends on are what they were.
func (b *Bucket) mountsPresent(path string, deep bool) error {
	for mount, want := range b.devices.mountsFor(path, deep) {
		switch k, err := b.root.keyAt(mount); {
		case isAbsent(err) || err == nil && k != want:
			return b.movedError(mount)
		case err != nil:
			return fmt.Errorf("looking for %s: %w", filepath.Join(b.path, mount), translate(err))
		}
	}
	return nil
}

// presentFor is present, and mountsPresent for what lies in the directory at path.
func (b *Bucket) presentFor(path string) error {
	if err := b.present(); err != nil {
		return err
	}
	return b.mountsPresent(path, false)
}
