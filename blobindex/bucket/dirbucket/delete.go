package dirbucket

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Delete removes the objects, durably, with one directory sync for all keys of a directory. A directory is synced even
// if its keys were gone: whoever deleted them may not have lived to do so.
func (b *Bucket) Delete(ctx context.Context, keys []bucket.Key) []error {
	if len(keys) == 0 {
		return nil
	}
	errs := b.delete(ctx, keys)
	failed := false
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("deleting %q: %w", keys[i], translate(err))
			failed = true
		}
	}
	if !failed {
		return nil
	}
	return errs
}

func (b *Bucket) delete(ctx context.Context, keys []bucket.Key) []error {
	errs := make([]error, len(keys))
	end, err := b.begin()
	if err != nil {
		return fillNil(errs, err)
	}
	defer end()
	// Directory by directory, so that few are open at once.
	byDir := map[string][]int{}
	for i, key := range keys {
		if errs[i] = checkKey(key); errs[i] == nil {
			parent := string(key[:strings.LastIndexByte(string(key), '/')+1])
			byDir[parent] = append(byDir[parent], i)
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(byDir)) {
		b.deleteIn(ctx, keys, byDir[parent], errs)
	}
	if err := b.present(); err != nil {
		return fillNil(errs, unknown("deleted, but", err))
	}
	return errs
}

// fillNil gives every key that has no error yet this one.
func fillNil(errs []error, err error) []error {
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// deleteIn deletes the keys of the given indexes, which are all of one directory. A crash leaves the rest of them.
func (b *Bucket) deleteIn(ctx context.Context, keys []bucket.Key, indexes []int, errs []error) {
	dirs, _ := splitKey(keys[indexes[0]])
	p, err := b.findWay(dirs, "")
	if isAbsent(err) {
		return
	}
	if err != nil {
		for _, i := range indexes {
			errs[i] = err
		}
		return
	}
	defer p.close()
	gone := false
	for _, i := range indexes {
		if errs[i] = ctx.Err(); errs[i] == nil {
			_, p.name = splitKey(keys[i])
			errs[i] = p.remove()
			gone = gone || errs[i] == nil
		}
	}
	if !gone {
		return
	}
	c, err := b.join(p)
	if err == nil {
		err = c.wait(ctx)
	}
	if err == nil {
		if err = b.mountsPresent(strings.Join(dirs, "/"), false); err != nil {
			err = unknown("deleted, but", err)
		}
	}
	if err != nil {
		for _, i := range indexes {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
}

// remove unlinks the object; what is no regular file is none, and stays.
func (p *place) remove() error {
	m, err := p.parent().stat(p.name)
	if err == nil && m.regular {
		err = p.parent().unlink(p.name)
	}
	if isAbsent(err) {
		return nil
	}
	return err
}
