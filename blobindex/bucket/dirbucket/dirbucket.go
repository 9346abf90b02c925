package dirbucket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// Names in the root directory that no key may begin with, and below it.
const (
	metaName  = ".indexd"
	stampName = "dirbucket-v1"
	clockName = "clock"
	tempName  = "tmp"
)

// leftover is the age at which a file in .indexd/tmp cannot belong to a write that goes on: each write to it counts.
const leftover = time.Hour

// Options configures a Bucket; nil and zero fields mean the defaults.
type Options struct {
	// OnDirSync, if not nil, is called after each sync of a directory that a Put or Delete asked for, with its path
	// below the root ("." for the root), before any of them answers. It may be called concurrently.
	OnDirSync func(dir string)
}

// A Bucket is an object store in a directory. It is safe for concurrent use; Close it after use.
type Bucket struct {
	path      string // absolute: the working directory may change
	stampPath string
	root      dir
	meta      dir
	stamp     *os.File // held, so that its identity cannot be given to another file
	rootID    identity
	stampID   identity
	syncs     *syncer
	devices   devices
	uses      uses
	locks     [lockFiles]ticket
	onStep    func(step string) // for tests of crashes; nil but there
}

var (
	_ bucket.Objects = (*Bucket)(nil)
	_ cas.Store      = (*Bucket)(nil)
)

// Open opens the bucket in a directory that Create has made, by whatever process, and removes what crashed writers left
// there. It works on a read-only directory. bucket.ErrNotExist if there is no directory, or none with a stamp;
// bucket.ErrDenied if this user may not look into it.
func Open(path string, opts *Options) (*Bucket, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening bucket directory %s: %w", path, err)
	}
	b, err := open(abs, opts)
	if err != nil {
		return nil, err
	}
	b.removeLeftovers()
	return b, nil
}

func open(path string, opts *Options) (_ *Bucket, err error) {
	if opts == nil {
		opts = &Options{}
	}
	b := &Bucket{
		path:      path,
		stampPath: filepath.Join(path, metaName, stampName),
	}
	b.syncs = newSyncer(opts.OnDirSync, &b.uses)
	defer func() {
		if err != nil {
			b.closeFiles()
		}
	}()
	if b.root, err = openRoot(path); err != nil {
		return nil, openError(path, err, "does not exist; create it with indexd serve or register, or check the mount")
	}
	if b.meta, err = b.root.subdir(metaName); err == nil {
		b.stamp, err = b.meta.open(stampName, false)
	}
	if err != nil {
		return nil, openError(path, err, "is no bucket: it has no "+filepath.Join(metaName, stampName)+
			"; check the path and the mount, or make it one with indexd serve or register")
	}
	if b.rootID, err = b.root.identity(); err != nil {
		return nil, openError(path, err, "has gone")
	}
	if b.stampID, err = fileIdentity(b.stamp); err != nil {
		return nil, openError(path, err, "has gone")
	}
	// Whoever made the stamp may have crashed before it was durable.
	if err := b.meta.sync(); err != nil && !isDenied(err) {
		return nil, fmt.Errorf("syncing %s of bucket directory %s, without which nothing there is durable: %w",
			metaName, path, err)
	}
	return b, nil
}

// openError says what to do about a directory that cannot be used; absent is what to say of one that is not there.
func openError(path string, err error, absent string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("bucket directory %s %s: %w", path, absent, bucket.ErrNotExist)
	case isDenied(err):
		return fmt.Errorf("bucket directory %s may not be used by this user; check its permissions: %w", path, translate(err))
	case isAbsent(err):
		return fmt.Errorf("bucket directory %s cannot be one: %w: %w", path, bucket.ErrNotExist, err)
	}
	return fmt.Errorf("opening bucket directory %s: %w", path, err)
}

// Create opens the bucket in a directory as Open does, after making the directory and its stamp where they are absent.
// Any number of processes may do so at once; all get the same bucket. The directory is durable when Create returns.
func Create(path string, opts *Options) (*Bucket, error) {
	b, err := Open(path, opts)
	if !errors.Is(err, bucket.ErrNotExist) {
		return b, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("creating bucket directory %s: %w", path, err)
	}
	if err := create(abs); err != nil {
		return nil, openError(abs, err, "cannot be created")
	}
	return Open(abs, opts)
}

// create makes the stamp last: who finds it finds all else, the directories above the root durable. A crash before it
// leaves directories that the next Create goes on with.
func create(path string) error {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	if err := syncAbove(path); err != nil {
		return err
	}
	root, err := openRoot(path)
	if err != nil {
		return err
	}
	defer root.close()
	if err := root.mkdir(metaName); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	meta, err := root.subdir(metaName)
	if err != nil {
		return err
	}
	defer meta.close()
	if err := meta.mkdir(tempName); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range []string{clockName, stampName} {
		f, err := meta.create(name)
		if errors.Is(err, fs.ErrExist) {
			continue // another process is ahead
		}
		if err != nil {
			return err
		}
		f.Close()
	}
	return errors.Join(meta.sync(), root.sync())
}

// syncAbove makes the way to path durable, once in a bucket's life. Which of the directories on it are new cannot be told
// when several processes make them at once, so all are synced, but those that this user may not read and hence did not
// make.
func syncAbove(path string) error {
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		above, err := openRoot(path)
		if isDenied(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = above.sync()
		above.close()
		if err != nil && !isDenied(err) && !isOneOf(err, syscall.EINVAL, syscall.ENOTSUP) {
			return err
		}
	}
	return nil
}

// Close waits for the calls that go on, and lets go of the directory; later calls fail with os.ErrClosed. It must not be
// called from the callback of a List. Bodies that Open returned stay readable.
func (b *Bucket) Close() error {
	if !b.uses.close() {
		return fmt.Errorf("closing bucket directory %s: %w", b.path, os.ErrClosed)
	}
	b.closeFiles()
	return nil
}

func (b *Bucket) closeFiles() {
	b.root.close()
	b.meta.close()
	if b.stamp != nil {
		b.stamp.Close()
	}
}

// begin is what every call does first: it keeps the bucket open until end and looks whether the directory is there.
func (b *Bucket) begin() (end func(), err error) {
	if !b.uses.add() {
		return nil, fmt.Errorf("bucket directory %s: %w", b.path, os.ErrClosed)
	}
	if err := b.present(); err != nil {
		b.uses.done()
		return nil, err
	}
	return b.uses.done, nil
}

// present returns an error unless the path still leads to the directory that was opened and to its stamp. Both are held
// open, so nobody else can have got their identities.
func (b *Bucket) present() error {
	for _, p := range []struct {
		path string
		want identity
	}{{b.path, b.rootID}, {b.stampPath, b.stampID}} {
		switch id, err := pathIdentity(p.path); {
		case isAbsent(err):
			return fmt.Errorf("bucket directory %s is gone: removed, renamed or unmounted: %w", b.path, bucket.ErrNotExist)
		case err != nil:
			return fmt.Errorf("looking for bucket directory %s: %w", b.path, translate(err))
		case !id.same(p.want):
			return fmt.Errorf("bucket directory %s is not the one that was opened: replaced or unmounted: %w",
				b.path, bucket.ErrNotExist)
		}
	}
	return nil
}

// now reads the file system's clock, by touching the clock file. It is zero where this user may not, and where the disk
// is full: listings go on.
func (b *Bucket) now() (time.Time, error) {
	t, err := b.meta.touch(clockName)
	if isDenied(err) || isFull(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the clock of bucket directory %s: %w", b.path, translate(err))
	}
	return t, nil
}

// removeLeftovers removes what crashed writers left. Whatever stands in its way is no reason not to open: nobody lists
// these files, and the next Open tries again.
func (b *Bucket) removeLeftovers() {
	now, err := b.now()
	if err != nil || now.IsZero() {
		return
	}
	temp, err := b.meta.subdir(tempName)
	if err != nil {
		return
	}
	defer temp.close()
	temp.read(func(e fs.DirEntry) {
		if m, err := temp.stat(e.Name()); err == nil && m.regular && now.Sub(m.time) > leftover {
			temp.unlink(e.Name())
		}
	})
}
