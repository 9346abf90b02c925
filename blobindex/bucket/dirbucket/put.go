package dirbucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Put stores body under key, durably. The time that it returns, like that of listings, is the file's mtime. Over an
// empty object an empty one is put in place; everything else comes by rename. A body that fails changes nothing; its
// error is wrapped. Bodies are sent once: on a local disk no error goes away by repeating.
func (b *Bucket) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	t, err := b.put(ctx, key, body)
	if err != nil {
		return time.Time{}, fmt.Errorf("putting %q: %w", key, translate(err))
	}
	return t, nil
}

func (b *Bucket) put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	if err := checkKey(key); err != nil {
		return time.Time{}, err
	}
	end, err := b.begin()
	if err != nil {
		return time.Time{}, err
	}
	defer end()
	body, empty, err := peek(ctx, body)
	if err != nil {
		return time.Time{}, err
	}
	var t time.Time
	if empty {
		t, err = b.putEmpty(ctx, key)
	} else {
		t, err = b.putBody(ctx, key, body)
	}
	if err != nil {
		return time.Time{}, err
	}
	if err := b.presentFor(parentOf(key)); err != nil {
		return time.Time{}, unknown("written, but", err)
	}
	return t, nil
}

// peek tells whether the body is empty, by reading its first bytes, and puts them back.
func peek(ctx context.Context, body io.Reader) (_ io.Reader, empty bool, err error) {
	if body == nil {
		return nil, true, nil
	}
	body = bucket.ReadBody(ctx, body)
	first := make([]byte, 512)
	n, err := io.ReadAtLeast(body, first, 1)
	if err == io.EOF {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	return io.MultiReader(bytes.NewReader(first[:n]), body), false, nil
}

// putEmpty makes an empty file, or refreshes the one that is there. A crash before its syncs leaves the old object, none,
// or the new one.
func (b *Bucket) putEmpty(ctx context.Context, key bucket.Key) (time.Time, error) {
	dirs, name := splitKey(key)
	for {
		t, c, err := b.createOrRefresh(dirs, name)
		switch {
		case err == nil:
			return t, c.wait(ctx)
		case errors.Is(err, errReplace):
			return b.putBody(ctx, key, bytes.NewReader(nil))
		case !errors.Is(err, fs.ErrNotExist):
			return time.Time{}, err
		}
		// Deleted between our two looks, or its directory removed by hand, or the whole bucket: only that is final.
		if err := errors.Join(b.presentFor(parentOf(key)), ctx.Err()); err != nil {
			return time.Time{}, err
		}
	}
}

var errReplace = errors.New("dirbucket: object to be replaced")

// createOrRefresh returns errReplace if the object there must be replaced by rename, and fs.ErrNotExist if it should be
// tried again.
func (b *Bucket) createOrRefresh(dirs []string, name string) (time.Time, commit, error) {
	defer b.syncs.changing()()
	p, err := b.make(dirs, name)
	if err != nil {
		return time.Time{}, nil, err
	}
	defer p.close()
	f, err := p.parent().create(p.name)
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = openEmpty(p)
	}
	if err != nil {
		return time.Time{}, nil, err
	}
	defer f.Close()
	if !created {
		if err := refresh(f); err != nil {
			return time.Time{}, nil, err
		}
		if err := f.Sync(); err != nil {
			return time.Time{}, nil, unknown("syncing the file", err)
		}
	}
	// A new empty file needs no sync of its own: the file system makes an inode and its first entry in one transaction.
	m, err := fileMeta(f)
	if err != nil {
		return time.Time{}, nil, unknown("reading its store time", err)
	}
	c, err := b.join(p)
	return m.time, c, err
}

func openEmpty(p *place) (*os.File, error) {
	m, err := p.parent().stat(p.name)
	if err != nil {
		return nil, err
	}
	if !m.regular {
		return nil, notRegular()
	}
	if m.size > 0 || !refreshInPlace {
		return nil, errReplace
	}
	return p.parent().open(p.name, true)
}

func notRegular() error { return fmt.Errorf("not a regular file: %w", bucket.ErrInvalidKey) }

// putBody writes the body into .indexd/tmp and renames it to its place.
func (b *Bucket) putBody(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	dirs, name := splitKey(key)
	if err := b.checkTarget(dirs, name); err != nil {
		return time.Time{}, err
	}
	tmp, err := b.newTemp()
	if err != nil {
		return time.Time{}, err
	}
	defer tmp.close() // removes it unless it was renamed; a crash leaves it to removeLeftovers
	b.step(stepCreated)
	if _, err := io.Copy(tmp.f, body); err != nil {
		return time.Time{}, err
	}
	b.step(stepWritten)
	// Before the rename: else a power cut could leave the new name with an empty body.
	if err := tmp.f.Sync(); err != nil {
		return time.Time{}, fmt.Errorf("syncing the body: %w", err)
	}
	b.step(stepSynced)
	m, err := fileMeta(tmp.f)
	if err != nil {
		return time.Time{}, err
	}
	// The body may have taken long; what was held open all the time may not be the bucket any more.
	if err := errors.Join(ctx.Err(), b.presentFor(parentOf(key))); err != nil {
		return time.Time{}, err
	}
	c, err := b.moveIn(tmp, dirs, name)
	if err != nil {
		return time.Time{}, err
	}
	err = c.wait(ctx)
	b.step(stepDurable)
	return m.time, err
}

func (b *Bucket) moveIn(tmp *temp, dirs []string, name string) (commit, error) {
	defer b.syncs.changing()()
	p, err := b.make(dirs, name)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := tmp.moveTo(p); err != nil {
		return nil, err
	}
	b.step(stepRenamed)
	return b.join(p)
}

// checkTarget refuses a key that cannot be stored before anything is written.
func (b *Bucket) checkTarget(dirs []string, name string) error {
	p, err := b.find(dirs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.close()
	return p.checkRegular()
}

func (p *place) checkRegular() error {
	m, err := p.parent().stat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !m.regular {
		return notRegular()
	}
	return err
}

// A temp is a file in .indexd/tmp.
type temp struct {
	dir  dir
	name string
	f    *os.File
}

func (b *Bucket) newTemp() (*temp, error) {
	d, err := b.meta.subdir(tempName)
	if errors.Is(err, fs.ErrNotExist) {
		d, _, err = makeSubdir(b.meta, tempName)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s/%s: %w", metaName, tempName, err)
	}
	t := &temp{dir: d, name: rand.Text()}
	if t.f, err = d.create(t.name); err != nil {
		d.close()
		return nil, fmt.Errorf("creating a file in %s/%s: %w", metaName, tempName, err)
	}
	return t, nil
}

func (t *temp) moveTo(p *place) error {
	// rename would replace a symbolic link or a pipe.
	if err := p.checkRegular(); err != nil {
		return err
	}
	if err := t.dir.rename(t.name, p.parent(), p.name); err != nil {
		return err
	}
	t.name = ""
	return nil
}

func (t *temp) close() {
	t.f.Close()
	if t.name != "" {
		t.dir.unlink(t.name)
	}
	t.dir.close()
}
