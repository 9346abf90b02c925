package membucket

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// Generations are large, and not consecutive, so that nobody takes them for a count.
const (
	firstGeneration = 1_700_000_000_000_000
	generationStep  = 1_009
)

// Load returns the object with its version and the bucket's clock.
func (b *Bucket) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	o, err := b.get(ctx, key)
	if err != nil {
		return cas.Object{}, fmt.Errorf("loading %q: %w", key, err)
	}
	return cas.Object{Body: []byte(o.body), Version: b.version(o), ModTime: o.time, StoreTime: b.now()}, nil
}

// Save compares and stores under one lock.
func (b *Bucket) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if err := p.Check(); err != nil {
		return "", fmt.Errorf("saving %q: %w", key, err)
	}
	if err := usable(ctx, key); err != nil {
		return "", fmt.Errorf("saving %q: %w", key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o, found := b.objects.Get(object{key: key})
	switch {
	case p.Absent() && found:
		return "", fmt.Errorf("saving %q %v: there is one: %w", key, p, cas.ErrConflict)
	case !p.Absent() && !found:
		return "", fmt.Errorf("saving %q %v: no such object: %w", key, p, cas.ErrNotExist)
	case !p.Absent() && b.version(o) != p.Version():
		return "", fmt.Errorf("saving %q %v: %w", key, p, cas.ErrConflict)
	}
	return b.version(b.store(key, string(body))), nil
}

// version is the object's, of the bucket's character.
func (b *Bucket) version(o object) cas.Version {
	if b.numbers {
		return cas.Version(strconv.FormatInt(o.generation, 10))
	}
	sum := md5.Sum([]byte(o.body))
	return cas.Version(`"` + hex.EncodeToString(sum[:]) + `"`)
}
