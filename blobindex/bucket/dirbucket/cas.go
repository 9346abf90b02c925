package dirbucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// Locks of Save. A lock file is never removed: who waits for one that somebody unlinks would hold another one than who
// comes after.
const (
	lockName  = "locks"
	lockFiles = 256
	lockPoll  = 2 * time.Millisecond // the system's wait for a lock cannot be ended by a context
)

// Load returns the object with the SHA-256 of its body as its version; size and mtime would not tell two bodies apart. The
// body is of one file, which is never written again. What is no file is ErrInvalidKey, and a body of more than cas.MaxSize
// ErrTooLarge. StoreTime is zero where this user may not touch the clock.
func (b *Bucket) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	var o cas.Object
	err := b.look(ctx, key, func(p *place) (err error) {
		o, err = p.load()
		return err
	})
	if err == nil {
		o.StoreTime, err = b.now()
	}
	if err != nil {
		return cas.Object{}, fmt.Errorf("loading %q: %w", key, err)
	}
	return o, nil
}

// openSaved opens what is at the place. That there is something else than a file is no absence: a document that was moved
// away, and linked to, say.
func (p *place) openSaved() (*os.File, meta, error) {
	if err := p.checkRegular(); err != nil {
		return nil, meta{}, err // a pipe, say, must not even be opened
	}
	f, err := p.parent().open(p.name, false)
	if err != nil {
		return nil, meta{}, err
	}
	m, err := fileMeta(f)
	if err == nil && !m.regular { // it has become something else since
		err = notRegular()
	}
	if err != nil {
		f.Close()
		return nil, meta{}, err
	}
	return f, m, nil
}

func (p *place) load() (cas.Object, error) {
	f, m, err := p.openSaved()
	if err != nil {
		return cas.Object{}, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, cas.MaxSize+1))
	switch {
	case err != nil:
		return cas.Object{}, err
	case len(body) > cas.MaxSize:
		return cas.Object{}, fmt.Errorf("more than %d bytes: %w", cas.MaxSize, cas.ErrTooLarge)
	}
	return cas.Object{Body: body, Version: versionOf(body), ModTime: m.time}, nil
}

// version is that of the body, however large it is.
func (p *place) version() (cas.Version, error) {
	f, _, err := p.openSaved()
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return cas.Version(hex.EncodeToString(h.Sum(nil))), nil
}

func versionOf(body []byte) cas.Version {
	sum := sha256.Sum256(body)
	return cas.Version(hex.EncodeToString(sum[:]))
}

// Save compares and renames under a lock that all processes of this host take, and lets go of it when the object is
// durable; a killed holder's is let go of by the system. Put and Delete take no lock: a key is either saved or put. An
// error of ctx before the lock is held says that nothing was done.
func (b *Bucket) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	v, err := b.save(ctx, key, body, p)
	if err != nil {
		return "", fmt.Errorf("saving %q %v: %w", key, p, translate(err))
	}
	return v, nil
}

func (b *Bucket) save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if err := p.Check(); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := checkKey(key); err != nil {
		return "", err
	}
	end, err := b.begin()
	if err != nil {
		return "", err
	}
	defer end()
	unlock, err := b.lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	b.step(stepLocked)
	// The lock may have been waited for while the directory was replaced.
	if err := b.presentFor(parentOf(key)); err != nil {
		return "", err
	}
	if err := b.compare(key, p); err != nil {
		return "", err
	}
	b.step(stepCompared)
	// A crash before the rename in it leaves a file in .indexd/tmp, one after it the saved object.
	if _, err := b.putBody(ctx, key, bytes.NewReader(body)); err != nil {
		return "", err
	}
	if err := b.presentFor(parentOf(key)); err != nil {
		return "", unknown("written, but", err)
	}
	return versionOf(body), nil
}

// compare holds what is at key to the precondition.
func (b *Bucket) compare(key bucket.Key, p cas.Precondition) error {
	place, err := b.find(splitKey(key))
	var now cas.Version
	if err == nil {
		defer place.close()
		now, err = place.version()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.Absent():
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no such object: %w", bucket.ErrNotExist)
	case err != nil:
		return err
	case p.Absent():
		return fmt.Errorf("there is one: %w", cas.ErrConflict)
	case now != p.Version():
		return cas.ErrConflict
	}
	return nil
}

// lock takes the lock of a key: in this process, then on this host.
func (b *Bucket) lock(ctx context.Context, key bucket.Key) (unlock func(), err error) {
	sum := sha256.Sum256([]byte(key))
	own := &b.locks[sum[0]]
	select {
	case own.turn() <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the lock: %w", ctx.Err())
	}
	dir := filepath.Join(b.path, metaName, lockName)
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		<-own.turn()
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	f := flock.New(filepath.Join(dir, hex.EncodeToString(sum[:1])), flock.SetPermissions(0o666))
	if _, err := f.TryLockContext(ctx, lockPoll); err != nil {
		f.Close()
		<-own.turn()
		return nil, fmt.Errorf("waiting for the lock: %w", err)
	}
	return func() {
		f.Close() // lets go of it
		<-own.turn()
	}, nil
}

// A ticket lets one goroutine of this process at a time wait for a file's lock.
type ticket struct {
	once sync.Once
	c    chan struct{}
}

func (t *ticket) turn() chan struct{} {
	t.once.Do(func() { t.c = make(chan struct{}, 1) })
	return t.c
}
