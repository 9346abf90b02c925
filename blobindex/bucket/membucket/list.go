package membucket

import (
	"context"
	"fmt"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// List calls fn with pages in byte order. No lock is held while fn runs: it may write to the bucket, and the pages
// that follow show what it wrote.
func (b *Bucket) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	from := bucket.Key(req.Prefix)
	if after := req.After + "\x00"; req.After != "" && after > from {
		from = after // the successor of After: no key lies between the two
	}
	buf := make([]bucket.Object, 0, b.pageSize)
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("listing %q: %w", req.Prefix, err)
		}
		page, next := b.page(buf, from, req.Prefix)
		if err := fn(page); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		from = next
	}
}

// page fills buf with the objects at and after from, and returns the key at which the next page starts, empty if there
// is none. Its Now is read under the lock, so that it is no earlier than any store time on the page.
func (b *Bucket) page(buf []bucket.Object, from bucket.Key, prefix string) (page bucket.Page, next bucket.Key) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	b.objects.AscendGreaterOrEqual(object{key: from}, func(o object) bool {
		if !strings.HasPrefix(string(o.key), prefix) {
			return false // from is no less than prefix, so this key is past all that have it
		}
		if len(buf) == cap(buf) {
			next = o.key
			return false
		}
		buf = append(buf, o.listed())
		return true
	})
	return bucket.Page{Objects: buf, Now: b.now(), Sorted: true}, next
}
