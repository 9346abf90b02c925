package dirbucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// chunk is how many entries are read at once: enough to make the calls cheap, few enough for them to be garbage soon.
const chunk = 4096

// List lists in byte order. It reads each directory once, after a page that is full by then has been delivered, holds the
// names of one directory and of those above it, and stats each object when its page is made. A directory that holds
// nothing of interest, by Prefix or After, is not read.
func (b *Bucket) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	l := &lister{b: b, ctx: ctx, fn: fn, page: make([]bucket.Object, 0, bucket.PageSize)}
	err := l.list(req)
	if l.fnErr != nil {
		return l.fnErr
	}
	if err != nil {
		return fmt.Errorf("listing %q: %w", req.Prefix, translate(err))
	}
	return nil
}

// A lister is one listing under way.
type lister struct {
	b     *Bucket
	ctx   context.Context
	fn    func(bucket.Page) error
	page  []bucket.Object // what the next page has so far
	pages int             // delivered
	depth int             // of the directory that is read, below the prefix
	fnErr error           // fn's, returned as it is
}

func (l *lister) list(req bucket.ListRequest) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	end, err := l.b.begin()
	if err != nil {
		return err
	}
	defer end()
	if err := l.walk(req); err != nil {
		return err
	}
	// The walk skips what vanishes under it; were the whole bucket gone, or a file system mounted in it, that would have
	// been everything. Looked at before the last page goes out: no page of a listing that lost its directory is taken
	// for an empty one.
	if err := errors.Join(l.b.present(), l.b.mountsPresent(baseDir(req.Prefix), true)); err != nil {
		return err
	}
	if len(l.page) > 0 || l.pages == 0 {
		return l.deliver()
	}
	return nil
}

// baseDir is the path of the directory in which a prefix ends, "" for the root.
func baseDir(prefix string) string { return prefix[:max(0, strings.LastIndexByte(prefix, '/'))] }

// walk goes down to the directory in which the prefix ends, and lists it.
func (l *lister) walk(req bucket.ListRequest) error {
	base := req.Prefix[:strings.LastIndexByte(req.Prefix, '/')+1]
	after, some := below(string(req.After), base)
	if !some {
		return nil
	}
	var dirs []string
	if base != "" {
		if checkKey(bucket.Key(base+"x")) != nil {
			return nil // no key can begin like this
		}
		dirs, _ = splitKey(bucket.Key(base))
	}
	p, err := l.b.find(dirs, "")
	if err != nil {
		return l.unlessAbsent(err)
	}
	defer p.close()
	return l.directory(&p.dirs[0], base, req.Prefix[len(base):], after)
}

// unlessAbsent returns nil if a directory could not be opened because it is not there, or an object is: then no key
// lies in it.
func (l *lister) unlessAbsent(err error) error {
	switch {
	case errors.Is(err, errInTheWay):
		return fmt.Errorf("%w: %w", bucket.ErrIncomplete, err)
	case isAbsent(err):
		return nil
	}
	return err
}

// below turns a mark for the whole bucket into one for the keys that begin with base, without it: empty if all of them
// lie behind the mark. It reports false if none does.
func below(after, base string) (rest string, some bool) {
	if rest, ok := strings.CutPrefix(after, base); ok {
		return rest, true
	}
	return "", after < base
}

// directory lists d, whose keys begin with base. Of its entries it takes those that begin with prefix and lie behind
// after. A directory's name counts with its slash, as it does in the keys below it: so this order is the order of keys.
// It returns nil with d open, unless d has gone.
func (l *lister) directory(d *placeDir, base, prefix, after string) error {
	names, err := readNames(d.dir, func(name string) bool {
		if !strings.HasPrefix(name, prefix) || base == "" && isReserved(bucket.Key(name)) {
			return false
		}
		if strings.HasSuffix(name, "/") {
			_, some := below(after, name)
			return some
		}
		return name > after
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since it was opened, so what was in it was removed before
	}
	if err != nil {
		return fmt.Errorf("reading directory %q: %w", base, err)
	}
	for _, name := range names {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if strings.HasSuffix(name, "/") {
			rest, _ := below(after, name)
			err = l.subdirectory(d, base, name, rest)
		} else {
			err = l.file(d.dir, base, name)
		}
		if err != nil || d.dir == (dir{}) {
			return err
		}
	}
	return nil
}

// heldLevels is how many directories above the one that is read stay open. Indexes have fewer; somebody else's tree may
// have more levels than there are descriptors.
const heldLevels = 16

// subdirectory goes on in a directory; if that has gone, nothing that was there all the time is lost. A full page goes
// out first: however long the callback takes, the names that it is told of next are not older than that.
func (l *lister) subdirectory(d *placeDir, base, name, after string) error {
	if len(l.page) == bucket.PageSize {
		if err := l.deliver(); err != nil {
			return err
		}
	}
	opened, err := openBelow(d.dir, strings.TrimSuffix(name, "/"))
	if err != nil {
		if err = l.unlessAbsent(err); err != nil {
			err = fmt.Errorf("opening directory %q: %w", base+name, err)
		}
		return err
	}
	sub := placeDir{dir: opened, path: strings.TrimSuffix(base+name, "/")}
	defer func() { sub.close() }()
	if sub.id, err = sub.key(); err != nil {
		return fmt.Errorf("looking at directory %q: %w", base+name, err)
	}
	if err := l.b.see(sub.path, sub.id, d.id); err != nil {
		return err
	}
	release := l.depth >= heldLevels
	if release {
		d.close()
	}
	l.depth++
	err = l.directory(&sub, base+name, "", after)
	l.depth--
	if err != nil || !release {
		return err
	}
	return l.reopen(d, sub, base)
}

// reopen opens a directory that was released for the sake of one in it. It lies above that one, unless somebody moved
// either; then its path says where it is. It leaves d without a directory if that has gone.
func (l *lister) reopen(d *placeDir, sub placeDir, base string) error {
	d.dir = dir{}
	if sub.dir != d.dir {
		if up, err := sub.up(); err == nil {
			if id, err := up.key(); err == nil && id == d.id {
				d.dir = up
				return nil
			}
			up.close()
		}
	}
	var dirs []string
	if base != "" {
		dirs, _ = splitKey(bucket.Key(base))
	}
	p, err := l.b.find(dirs, "")
	if err != nil {
		return l.unlessAbsent(err)
	}
	*d = p.last()
	return nil
}

// file adds one object, unless it has gone meanwhile. A full page waits until there is another object, so that the last
// page is not empty.
func (l *lister) file(d dir, base, name string) error {
	if len(l.page) == bucket.PageSize {
		if err := l.deliver(); err != nil {
			return err
		}
	}
	m, err := d.stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !m.regular:
		return nil
	case err != nil:
		return fmt.Errorf("looking at %q: %w", base+name, err)
	}
	l.page = append(l.page, bucket.Object{Key: bucket.Key(base + name), Size: m.size, StoreTime: m.time})
	return nil
}

func (l *lister) deliver() error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	now, err := l.b.now()
	if err != nil {
		return err
	}
	l.fnErr = l.fn(bucket.Page{Objects: l.page, Now: now, Sorted: true})
	l.page = l.page[:0]
	l.pages++
	return l.fnErr
}

// readNames returns the sorted names of the regular files and directories in d that keep wants, directories with a slash
// behind. A name that came twice, as one replaced meanwhile may, is there once.
func readNames(d dir, keep func(string) bool) ([]string, error) {
	var names []string
	err := d.read(func(e fs.DirEntry) {
		name := e.Name()
		switch {
		case e.IsDir():
			name += "/"
		case !e.Type().IsRegular():
			return
		}
		if keep(name) {
			names = append(names, name)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func readEntries(f *os.File, fn func(fs.DirEntry)) error {
	for {
		entries, err := f.ReadDir(chunk)
		for _, e := range entries {
			fn(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
