package dirbucket

import (
	"errors"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A dir is an open directory. All calls on it are relative to its descriptor, so they stay in the directory that was
// opened, whatever becomes of its path, and follow no symbolic link.
type dir struct{ f *os.File }

// An identity tells files apart as long as one of them is held open.
type identity struct{ dev, ino uint64 }

// A dirKey is the identity of a directory, as a map key. It outlasts the directory's descriptor: one that gets the inode
// of a removed one is born later. (Two that are born in the same tick of the kernel's clock are taken for one.)
type dirKey struct {
	identity
	born int64 // nanoseconds since 1970; 0 if this file system does not tell
}

func (k dirKey) device() uint64 { return k.dev }

// lasting reports whether the key is good for longer than the directory is open.
func (k dirKey) lasting() bool { return k.born != 0 }

// A meta is what a stat tells.
type meta struct {
	regular bool
	size    int64
	time    time.Time
}

func (id identity) same(other identity) bool { return id == other }

// openRoot follows symbolic links: which directory the path means is for the user to say.
func openRoot(path string) (dir, error) {
	f, err := openAt(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY)
	return dir{f}, err
}

func openAt(at int, name string, flags int) (*os.File, error) {
	var fd int
	err := call("openat", name, func() (err error) {
		fd, err = unix.Openat(at, name, flags|unix.O_CLOEXEC, 0o666)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// call repeats what a signal interrupted: network and user-space file systems do return EINTR.
func call(op, name string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
}

func (d dir) fd() int { return int(d.f.Fd()) }

func (d dir) close() {
	if d.f != nil {
		d.f.Close()
	}
}

// again opens the same directory once more, with a read position of its own.
func (d dir) again() (dir, error) { return d.subdir(".") }

func (d dir) subdir(name string) (dir, error) {
	f, err := openAt(d.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	return dir{f}, err
}

func (d dir) mkdir(name string) error {
	return call("mkdirat", name, func() error { return unix.Mkdirat(d.fd(), name, 0o777) })
}

// create makes an empty file; fs.ErrExist if there is anything of that name.
func (d dir) create(name string) (*os.File, error) {
	return openAt(d.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)
}

// open opens an existing file. O_NONBLOCK: one that is a pipe must not make us wait for its other end.
func (d dir) open(name string, write bool) (*os.File, error) {
	flags := unix.O_RDONLY
	if write {
		flags = unix.O_WRONLY
	}
	return openAt(d.fd(), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK)
}

func (d dir) stat(name string) (meta, error) {
	var st unix.Stat_t
	err := call("fstatat", name, func() error {
		return unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	return metaOf(&st), err
}

func (d dir) unlink(name string) error {
	return call("unlinkat", name, func() error { return unix.Unlinkat(d.fd(), name, 0) })
}

func (d dir) rename(name string, to dir, newName string) error {
	return call("renameat", newName, func() error { return unix.Renameat(d.fd(), name, to.fd(), newName) })
}

// touch sets the file's mtime to the file system's clock and returns it, making the file if it is absent.
func (d dir) touch(name string) (time.Time, error) {
	err := call("utimensat", name, func() error {
		return unix.UtimesNanoAt(d.fd(), name, justNow(), unix.AT_SYMLINK_NOFOLLOW)
	})
	if errors.Is(err, fs.ErrNotExist) {
		var f *os.File
		if f, err = openAt(d.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW); err == nil {
			f.Close()
		}
	}
	if err != nil {
		return time.Time{}, err
	}
	m, err := d.stat(name)
	return m.time, err
}

func justNow() []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
}

func (d dir) sync() error { return d.f.Sync() }

func (d dir) identity() (identity, error) { return fileIdentity(d.f) }

func (d dir) key() (dirKey, error) { return d.keyAt("") }

// keyAt is the key of what is at a path below d, with slashes, or of d itself for "". Links on the way are followed.
func (d dir) keyAt(path string) (dirKey, error) {
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW
	var st unix.Statx_t
	err := call("statx", path, func() error {
		return unix.Statx(d.fd(), path, flags, unix.STATX_INO|unix.STATX_BTIME, &st)
	})
	if isOneOf(err, unix.ENOSYS, unix.EPERM) { // older than 4.11, or a sandbox that is
		var old unix.Stat_t
		err := call("fstatat", path, func() error { return unix.Fstatat(d.fd(), path, &old, flags) })
		return dirKey{identity: identityOf(&old)}, err
	}
	if err != nil {
		return dirKey{}, err
	}
	k := dirKey{identity: identity{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}}
	if st.Mask&unix.STATX_BTIME != 0 {
		k.born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return k, nil
}

// up opens the directory that d lies in now.
func (d dir) up() (dir, error) { return d.subdir("..") }

// read calls fn with each entry, in no order.
func (d dir) read(fn func(fs.DirEntry)) error { return readEntries(d.f, fn) }

// refreshInPlace: an empty object put again keeps its file.
const refreshInPlace = true

// refresh sets the mtime of a file open for writing to the file system's clock.
func refresh(f *os.File) error {
	ts := justNow()
	return call("futimens", f.Name(), func() error {
		// A null path means the descriptor itself. UtimesNanoAt has no null path, and AT_EMPTY_PATH needs Linux 5.8.
		_, _, no := unix.Syscall6(unix.SYS_UTIMENSAT, f.Fd(), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0)
		if no != 0 {
			return no
		}
		return nil
	})
}

func fileMeta(f *os.File) (meta, error) {
	st, err := fstat(f)
	return metaOf(st), err
}

func fileIdentity(f *os.File) (identity, error) {
	st, err := fstat(f)
	return identityOf(st), err
}

func fstat(f *os.File) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := call("fstat", f.Name(), func() error { return unix.Fstat(int(f.Fd()), &st) })
	return &st, err
}

func pathIdentity(path string) (identity, error) {
	var st unix.Stat_t
	err := call("stat", path, func() error { return unix.Stat(path, &st) })
	return identityOf(&st), err
}

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), st.Ino} }

func metaOf(st *unix.Stat_t) meta {
	return meta{
		regular: st.Mode&unix.S_IFMT == unix.S_IFREG,
		size:    st.Size,
		time:    time.Unix(st.Mtim.Unix()),
	}
}

// nameable: Linux takes any bytes but those that checkKey refuses already.
func nameable(string) bool { return true }

func sameName(a, b string) bool { return a == b }
