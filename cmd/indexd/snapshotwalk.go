package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/blobindex/indexd/cas/snapshot"
)

// A source is a directory whose files are published.
type source struct {
	dir    string
	ignore ignoreRules // beside those of the ignoreFile
	digest bool        // compute those of the files
	bucket string      // a directory that is left out: what is published into it would change it; empty: none
}

// An account is what a walk has met.
type account struct {
	files    int64
	links    int64 // and other entries that are no regular files
	ignored  int64 // files and directories
	vanished int64 // between being listed and being looked at
	restless int64 // written to while they were read
	bucket   bool  // the bucket was met
}

// errSourceGone: the directory is not the one any more that the walk began in. What was below it may have looked empty.
var errSourceGone = errors.New("it was replaced, moved or unmounted while it was walked")

// check returns an error of usage unless the directory can be published.
func (s *source) check() error {
	info, err := os.Stat(s.dir)
	switch {
	case err != nil:
		return fmt.Errorf("the directory %.200q cannot be published: %w", s.dir, err)
	case !info.IsDir():
		return fmt.Errorf("%.200q is no directory; give the one whose files are to be published", s.dir)
	}
	return s.outside()
}

// outside returns an error if the directory is the bucket, or in it: each publication would be a change, and make the next.
func (s *source) outside() error {
	if s.bucket == "" {
		return nil
	}
	own, err := os.Stat(s.bucket)
	if err != nil {
		return nil // a bucket that is not there has nothing in it
	}
	dir, err := filepath.EvalSymlinks(s.dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	for {
		if info, err := os.Stat(dir); err == nil && os.SameFile(own, info) {
			return fmt.Errorf("%.200q is the bucket itself, or in it; give another directory, or another bucket", s.dir)
		}
		above := filepath.Dir(dir)
		if above == dir {
			return nil
		}
		dir = above
	}
}

// walk calls add with each regular file below the directory, in ascending byte order of the paths. Links are not followed, and
// are left out as what is neither file nor directory is; so is what vanishes meanwhile. A directory that cannot be read ends
// the walk, and so does a file whose digest cannot be computed: what is below would look deleted.
func (s *source) walk(ctx context.Context, add func(snapshot.Row) error, seen func(account)) (account, error) {
	w := &walker{source: s, ctx: ctx, add: add, seen: seen}
	err := w.begin()
	if err != nil && !errors.Is(err, snapshot.ErrRow) && ctx.Err() == nil {
		err = fmt.Errorf("walking %s: %w", s.dir, err)
	}
	return w.met, err
}

// A walker is one walk.
type walker struct {
	*source
	ctx    context.Context
	add    func(snapshot.Row) error
	seen   func(account) // nil: nobody looks
	rules  ignoreRules
	own    fs.FileInfo // of the bucket; nil: it is elsewhere
	met    account
	buffer []byte // for digests
}

func (w *walker) begin() error {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := w.outside(); err != nil {
		return err
	}
	was, err := root.Stat(".")
	if err != nil {
		return err
	}
	if w.bucket != "" {
		w.own, _ = os.Stat(w.bucket) // one that is not there is not met
	}
	own, err := readIgnore(root)
	if err != nil {
		return err
	}
	w.rules = slices.Concat(w.ignore, own)
	if err := w.directory(root, ""); err != nil {
		return err
	}
	// What is mounted over a directory, or was mounted there, is another one.
	if is, err := os.Stat(w.dir); err != nil || !os.SameFile(was, is) {
		return errSourceGone
	}
	return nil
}

// directory walks what is in a directory, whose path is empty or ends with a slash.
func (w *walker) directory(dir *os.Root, path string) error {
	names, err := w.list(dir)
	if err != nil && path != "" && errors.Is(gone(err), errVanished) {
		return errVanished
	}
	if err != nil {
		return fmt.Errorf("reading the directory %q: %w", path, err)
	}
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(dir, path, name); err != nil {
			return err
		}
	}
	return nil
}

// list returns the names in a directory, of directories with a slash at their end, so that their order is that of the paths
// below. It holds no more of them than that: some directories are large.
func (w *walker) list(dir *os.Root) (names []string, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			switch {
			case e.IsDir():
				names = append(names, e.Name()+"/")
			case e.Type().IsRegular():
				names = append(names, e.Name())
			default:
				w.met.links++
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	// A name that is changed while a directory is read may be read twice.
	return slices.Compact(names), nil
}

func (w *walker) entry(dir *os.Root, path, name string) error {
	if w.rules.match(path + name) {
		w.met.ignored++
		return nil
	}
	var err error
	if base, ok := strings.CutSuffix(name, "/"); ok {
		err = w.below(dir, base, path+name)
	} else {
		err = w.file(dir, name, path+name)
	}
	if errors.Is(err, errVanished) {
		w.met.vanished++
		return nil
	}
	return err
}

// errVanished: an entry is not what was listed any more.
var errVanished = errors.New("it vanished")

// gone is errVanished for errors that say so.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return errVanished
	}
	return err
}

// below walks a directory in another one.
func (w *walker) below(dir *os.Root, name, path string) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return fmt.Errorf("looking at %q: %w", path, gone(err))
	}
	if !info.IsDir() {
		return errVanished
	}
	if w.own != nil && os.SameFile(info, w.own) {
		w.met.bucket = true
		return nil
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("reading the directory %q: %w", path, gone(err))
	}
	defer sub.Close()
	// One that may be listed and not entered is refused here, and is still there.
	opened, err := sub.Stat(".")
	if err != nil {
		return fmt.Errorf("reading the directory %q: %w", path, gone(err))
	}
	// A link that has taken its place would be followed.
	if !os.SameFile(opened, info) {
		return errVanished
	}
	return w.directory(sub, path)
}

// file adds a file.
func (w *walker) file(dir *os.Root, name, path string) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return fmt.Errorf("looking at %q: %w", path, gone(err))
	}
	if !info.Mode().IsRegular() {
		return errVanished
	}
	row := snapshot.Row{Path: path, Size: info.Size(), MTime: info.ModTime()}
	if w.digest {
		if row, err = w.read(dir, name, row); err != nil {
			return err
		}
	}
	if err := w.add(row); err != nil {
		return err
	}
	w.met.files++
	if w.seen != nil {
		w.seen(w.met)
	}
	return nil
}

// readings is how often a file is read that is written to meanwhile.
const readings = 3

// read returns the row of a file with its digest, of the bytes whose number the row has. One that somebody kept writing to has
// none: it would be that of a file that never was.
func (w *walker) read(dir *os.Root, name string, row snapshot.Row) (snapshot.Row, error) {
	for range readings {
		steady, err := w.readOnce(dir, name, &row)
		if err != nil || steady {
			return row, err
		}
	}
	w.met.restless++
	row.Digest = ""
	return row, nil
}

func (w *walker) readOnce(dir *os.Root, name string, row *snapshot.Row) (steady bool, err error) {
	// Opening a pipe that has taken its place would wait for a writer.
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if err := gone(err); errors.Is(err, errVanished) {
			return false, err
		}
		return false, fmt.Errorf("computing the digest of %q: %w", row.Path, err)
	}
	defer f.Close()
	was, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !was.Mode().IsRegular() {
		return false, errVanished
	}
	sum := sha256.New()
	n, err := w.copy(sum, f)
	if err != nil {
		return false, fmt.Errorf("computing the digest of %q: %w", row.Path, err)
	}
	is, err := f.Stat()
	if err != nil {
		return false, err
	}
	row.Size, row.MTime, row.Digest = is.Size(), is.ModTime(), "sha256:"+hex.EncodeToString(sum.Sum(nil))
	return n == is.Size() && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime()), nil
}

// copy copies until the end, or until the walk is given up.
func (w *walker) copy(to io.Writer, from io.Reader) (n int64, err error) {
	if w.buffer == nil {
		w.buffer = make([]byte, 128<<10)
	}
	for {
		if err := w.ctx.Err(); err != nil {
			return n, err
		}
		read, err := from.Read(w.buffer)
		n += int64(read)
		_, _ = to.Write(w.buffer[:read]) // a hash takes everything
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
