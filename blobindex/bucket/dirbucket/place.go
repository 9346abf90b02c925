package dirbucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// A place is where a key lives: open directories on the way to it, the root first, and its name in the last one.
type place struct {
	dirs []placeDir
	name string
}

type placeDir struct {
	dir
	id   dirKey
	path string // below the root, "." for the root
}

func (p *place) parent() dir { return p.last().dir }

func (p *place) close() {
	for _, d := range p.dirs {
		d.close()
	}
}

// find opens the directory of a key, and no longer holds those on the way: a key may be deeper than there are
// descriptors. isAbsent holds of its error if one of them is not there.
func (b *Bucket) find(dirs []string, name string) (*place, error) {
	return b.walk(dirs, name, false, false)
}

// findWay is find, but holds all the directories on the way, as join needs them.
func (b *Bucket) findWay(dirs []string, name string) (*place, error) {
	return b.walk(dirs, name, true, false)
}

// make is findWay, but makes the directories that are missing.
func (b *Bucket) make(dirs []string, name string) (*place, error) {
	return b.walk(dirs, name, true, true)
}

func (b *Bucket) walk(dirs []string, name string, hold, mkdir bool) (_ *place, err error) {
	// Before any directory is made in an empty mount point.
	if err := b.mountsPresent(strings.Join(dirs, "/"), false); err != nil {
		return nil, err
	}
	p := &place{name: name}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	d, err := b.root.again()
	if err != nil {
		return nil, err
	}
	if err := p.enter(d, ".", hold); err != nil {
		return nil, err
	}
	for i, name := range dirs {
		above := p.last()
		d, err := openBelow(above.dir, name)
		made, mark := false, 0
		if mkdir && errors.Is(err, fs.ErrNotExist) {
			mark = b.syncs.mark()
			d, made, err = makeSubdir(above.dir, name)
		}
		if err != nil {
			return nil, err
		}
		if err := p.enter(d, strings.Join(dirs[:i+1], "/"), hold); err != nil {
			return nil, err
		}
		below := p.last()
		if err := b.see(below.path, below.id, above.id); err != nil {
			return nil, err
		}
		if made {
			b.syncs.forget(above, below, mark)
		}
	}
	return p, nil
}

func (p *place) last() placeDir { return p.dirs[len(p.dirs)-1] }

func (p *place) enter(d dir, path string, hold bool) error {
	if !hold {
		p.close()
		p.dirs = p.dirs[:0]
	}
	p.dirs = append(p.dirs, placeDir{dir: d, path: path})
	id, err := d.key()
	p.dirs[len(p.dirs)-1].id = id
	return err
}

// errInTheWay: at a directory's path is something that is neither a directory nor an object.
var errInTheWay = errors.New("neither a directory nor an object, and links are not followed: " +
	"put the directory itself there")

// openBelow opens a directory in d: fs.ErrNotExist if nothing is there, ENOTDIR if an object is, errInTheWay besides if
// it is a symbolic link, say, which may well lead to the objects that somebody is after.
func openBelow(d dir, name string) (dir, error) {
	sub, err := d.subdir(name)
	if !isOneOf(err, syscall.ENOTDIR, syscall.ELOOP) {
		return sub, err
	}
	m, statErr := d.stat(name)
	switch {
	case statErr != nil:
		return dir{}, statErr
	case m.regular:
		return dir{}, err
	}
	return dir{}, fmt.Errorf("%q is %w: %w", name, errInTheWay, err)
}

func makeSubdir(parent dir, name string) (d dir, made bool, err error) {
	err = parent.mkdir(name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return dir{}, false, err
	}
	made = err == nil
	d, err = parent.subdir(name)
	return d, made, err
}

// A commit is the syncs that make one change durable.
type commit []*round

// join begins to make a change in the place's last directory durable, with the entries of the directories on the way to
// it: they may be new, or made by another process that has not synced them yet. Its errors, and those of wait, are
// unknown outcomes: the change is made, and may well survive.
func (b *Bucket) join(p *place) (commit, error) {
	var c commit
	for i, d := range p.dirs {
		var r *round
		var err error
		if i < len(p.dirs)-1 {
			r, err = b.syncs.joinEntry(d, p.dirs[i+1])
		} else {
			r, err = b.syncs.join(d)
		}
		if err != nil {
			return nil, unknown("syncing directory "+d.path, err)
		}
		if r != nil {
			c = append(c, r)
		}
	}
	return c, nil
}

func (c commit) wait(ctx context.Context) error {
	for _, r := range c {
		if err := r.wait(ctx); err != nil {
			return unknown("syncing directory "+r.path, err)
		}
	}
	return nil
}
