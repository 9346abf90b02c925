package s3bucket

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

const (
	batchKeys     = 1000 // S3's limit
	batchesAtOnce = 4
	singlesAtOnce = 16
)

// Delete deletes in batches of 1,000, and one by one what cannot go in a batch.
func (b *Bucket) Delete(ctx context.Context, keys []bucket.Key) []error {
	d := &deletion{b: b, errs: make(map[string]error, len(keys))}
	bad := make([]error, len(keys)) // of keys that no store was asked about
	fulls := make([]string, len(keys))
	var batch, single []string
	for i, key := range keys {
		full, err := b.usable(ctx, key)
		if err != nil {
			bad[i] = err
			continue
		}
		fulls[i] = full
		if _, twice := d.errs[full]; twice {
			continue
		}
		d.errs[full] = nil
		if strings.ContainsFunc(full, notXML) {
			single = append(single, full)
		} else {
			batch = append(batch, full)
		}
	}
	single = append(single, d.batches(ctx, batch)...)
	d.singles(ctx, single)
	failed := false
	for i, key := range keys {
		if bad[i] == nil {
			bad[i] = d.errs[fulls[i]]
		}
		if bad[i] != nil {
			bad[i] = fmt.Errorf("deleting %q: %w", key, bad[i])
			failed = true
		}
	}
	if !failed {
		return nil
	}
	return bad
}

// A deletion collects the errors of one Delete by key.
type deletion struct {
	b    *Bucket
	mu   sync.Mutex
	errs map[string]error // under mu; nil: gone, or not yet asked for
	left []string         // under mu; keys of batches that the store does not take
}

func (d *deletion) set(key string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errs[key] = err
}

// batches deletes keys by DeleteObjects and returns those that must go one by one.
func (d *deletion) batches(ctx context.Context, keys []string) []string {
	if len(keys) == 1 {
		return keys // as cheap, and understood everywhere
	}
	first := min(len(keys), batchKeys)
	if first == 0 {
		return nil
	}
	// The first batch goes alone: from it the others learn what this store takes.
	d.batch(ctx, keys[:first])
	var chunks [][]string
	for rest := keys[first:]; len(rest) > 0; rest = rest[min(len(rest), batchKeys):] {
		chunks = append(chunks, rest[:min(len(rest), batchKeys)])
	}
	remote.Each(batchesAtOnce, len(chunks), func(i int) { d.batch(ctx, chunks[i]) })
	return d.left
}

func (d *deletion) singles(ctx context.Context, keys []string) {
	remote.Each(singlesAtOnce, len(keys), func(i int) { d.set(keys[i], d.b.deleteOne(ctx, keys[i])) })
}

// deleteOne deletes by DeleteObject. That the key was absent is success, that the bucket is, is none.
func (b *Bucket) deleteOne(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.try(ctx, writing, b.attempts, func() error {
		_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key})
		if err != nil && codeOf(err) == "NoSuchKey" {
			return nil
		}
		return err
	})
}
