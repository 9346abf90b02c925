//go:build !linux

package dirbucket

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// A dir is a directory below an os.Root, which stays the directory that was opened. Symbolic links inside it are
// looked for before each step; one that is made between look and step is followed, but never out of the root.
type dir struct {
	root *os.Root
	path string
	owns bool // close closes the root
}

// An identity tells files apart as long as one of them is held open.
type identity struct{ info fs.FileInfo }

// A dirKey is a directory as a map key: these systems go by its path.
type dirKey struct {
	path string
	dev  uint64
}

func (k dirKey) device() uint64 { return k.dev }

// lasting: a path is good for as long as nobody replaces the directory, which is not looked for here.
func (k dirKey) lasting() bool { return true }

// A meta is what a stat tells.
type meta struct {
	regular bool
	size    int64
	time    time.Time
}

func (id identity) same(other identity) bool { return os.SameFile(id.info, other.info) }

// refreshInPlace: no call here sets an mtime to the file system's own clock, so an object put again is made anew.
const refreshInPlace = false

func refresh(*os.File) error { return errors.ErrUnsupported }

func openRoot(path string) (dir, error) {
	root, err := os.OpenRoot(path)
	return dir{root: root, path: ".", owns: true}, err
}

func (d dir) join(name string) string { return filepath.Join(d.path, name) }

func (d dir) close() {
	if d.owns && d.root != nil {
		d.root.Close()
	}
}

func (d dir) again() (dir, error) { return dir{root: d.root, path: d.path}, nil }

func (d dir) subdir(name string) (dir, error) {
	info, err := d.root.Lstat(d.join(name))
	if err != nil {
		return dir{}, err
	}
	if !info.IsDir() {
		return dir{}, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return dir{root: d.root, path: d.join(name)}, nil
}

func (d dir) mkdir(name string) error { return d.root.Mkdir(d.join(name), 0o777) }

// create makes an empty file; fs.ErrExist if there is anything of that name.
func (d dir) create(name string) (*os.File, error) {
	return d.root.OpenFile(d.join(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// open opens an existing regular file.
func (d dir) open(name string, write bool) (*os.File, error) {
	m, err := d.stat(name)
	if err != nil {
		return nil, err
	}
	if !m.regular {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	flags := os.O_RDONLY
	if write {
		flags = os.O_WRONLY
	}
	return d.root.OpenFile(d.join(name), flags, 0)
}

func (d dir) stat(name string) (meta, error) {
	info, err := d.root.Lstat(d.join(name))
	return metaOf(info), err
}

func (d dir) unlink(name string) error { return d.root.Remove(d.join(name)) }

func (d dir) rename(name string, to dir, newName string) error {
	return d.root.Rename(d.join(name), to.join(newName))
}

// touch has the file system set the file's mtime to its clock, by writing a byte, and returns it.
func (d dir) touch(name string) (time.Time, error) {
	f, err := d.root.OpenFile(d.join(name), os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return time.Time{}, err
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{'.'}, 0); err != nil {
		return time.Time{}, err
	}
	m, err := fileMeta(f)
	return m.time, err
}

func (d dir) sync() error {
	if runtime.GOOS == "windows" {
		return nil // it has no way to sync a directory
	}
	f, err := d.root.Open(d.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (d dir) identity() (identity, error) {
	info, err := d.root.Stat(d.path)
	return identity{info}, err
}

func (d dir) key() (dirKey, error) { return d.keyAt(".") }

// keyAt is the key of what is at a path below d, with slashes.
func (d dir) keyAt(path string) (dirKey, error) {
	path = d.join(filepath.FromSlash(path))
	info, err := d.root.Lstat(path)
	if err != nil {
		return dirKey{}, err
	}
	return dirKey{path, deviceOf(info)}, nil
}

// up is the directory that d lies in.
func (d dir) up() (dir, error) { return dir{root: d.root, path: filepath.Dir(d.path)}, nil }

// read calls fn with each entry, in no order.
func (d dir) read(fn func(fs.DirEntry)) error {
	f, err := d.root.Open(d.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return readEntries(f, fn)
}

func fileMeta(f *os.File) (meta, error) {
	info, err := f.Stat()
	return metaOf(info), err
}

func fileIdentity(f *os.File) (identity, error) {
	info, err := f.Stat()
	return identity{info}, err
}

func pathIdentity(path string) (identity, error) {
	info, err := os.Stat(path)
	return identity{info}, err
}

func metaOf(info fs.FileInfo) meta {
	if info == nil {
		return meta{}
	}
	return meta{regular: info.Mode().IsRegular(), size: info.Size(), time: info.ModTime()}
}

// nameable refuses what these systems would store under another name, or not at all.
func nameable(name string) bool {
	if !utf8.ValidString(name) {
		return false
	}
	if runtime.GOOS != "windows" {
		return true
	}
	control := func(r rune) bool { return r < ' ' }
	return filepath.IsLocal(name) && !strings.ContainsAny(name, `\/:*?"<>|`) && !strings.ContainsFunc(name, control) &&
		!strings.HasSuffix(name, ".") && !strings.HasSuffix(name, " ")
}

func sameName(a, b string) bool { return strings.EqualFold(a, b) }
