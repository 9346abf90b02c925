package dirbucket

import (
	"context"
	"errors"
	"io/fs"
	"strings"
)

// A place is where a key lives: the open directories on the way to it, the root first, and its name in the last one.
type place struct {
	dirs []placeDir
	name string
}

type placeDir struct {
	dir
	id   dirKey
	path string // below the root, "." for the root
}

func (p *place) parent() dir { return p.dirs[len(p.dirs)-1].dir }

func (p *place) close() {
	for _, d := range p.dirs {
		d.close()
	}
}

// find opens the directories of a key; isAbsent holds of the error if one of them is not there.
func (b *Bucket) find(dirs []string, name string) (*place, error) { return b.walk(dirs, name, false) }

// make is find, but makes the directories that are missing.
func (b *Bucket) make(dirs []string, name string) (*place, error) { return b.walk(dirs, name, true) }

func (b *Bucket) walk(dirs []string, name string, mkdir bool) (_ *place, err error) {
	p := &place{dirs: make([]placeDir, 0, len(dirs)+1), name: name}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	d, err := b.root.again()
	if err != nil {
		return nil, err
	}
	if err := p.enter(d, "."); err != nil {
		return nil, err
	}
	for i, name := range dirs {
		d, err := p.parent().subdir(name)
		made, mark := false, 0
		if mkdir && errors.Is(err, fs.ErrNotExist) {
			mark = b.syncs.mark()
			d, made, err = makeSubdir(p.parent(), name)
		}
		if err != nil {
			return nil, err
		}
		if err := p.enter(d, strings.Join(dirs[:i+1], "/")); err != nil {
			return nil, err
		}
		if made {
			b.syncs.forget(p.dirs[i+1].id, mark)
		}
	}
	return p, nil
}

func (p *place) enter(d dir, path string) error {
	p.dirs = append(p.dirs, placeDir{dir: d, path: path})
	id, err := d.key()
	p.dirs[len(p.dirs)-1].id = id
	return err
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
			r, err = b.syncs.joinEntry(d, p.dirs[i+1].id)
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
