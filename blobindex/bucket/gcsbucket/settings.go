package gcsbucket

import (
	"context"
	"fmt"
	"strings"

	"cloud.google.com/go/storage"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Setting tells one of the bucket's settings: "versioning", "soft-delete" and "retention", each "off" or a text for people.
// bucket.ErrDenied if it may not be seen (that takes storage.buckets.get), bucket.ErrUnsupported if there is no such one.
func (b *Bucket) Setting(ctx context.Context, name string) (string, error) {
	of := map[string]func(*storage.BucketAttrs) string{
		"versioning": versioning, "soft-delete": softDelete, "retention": retention,
	}[name]
	if of == nil {
		return "", fmt.Errorf("looking at the bucket's %s: %w", name, bucket.ErrUnsupported)
	}
	a, err := b.attrs(ctx)
	if err != nil {
		return "", fmt.Errorf("looking at the bucket's %s: %w", name, err)
	}
	return of(a), nil
}

func (b *Bucket) attrs(ctx context.Context) (a *storage.BucketAttrs, err error) {
	err = b.do(ctx, call{onBucket: true}, func(ctx context.Context, x *exchange) (err error) {
		a, err = x.bucket.Attrs(ctx)
		return err
	})
	return a, err
}

func versioning(a *storage.BucketAttrs) string {
	if a.VersioningEnabled {
		return "it keeps every version"
	}
	return "off"
}

func softDelete(a *storage.BucketAttrs) string {
	if p := a.SoftDeletePolicy; p != nil && p.RetentionDuration > 0 {
		return fmt.Sprintf("what is deleted or replaced is kept for %v", p.RetentionDuration)
	}
	return "off"
}

func retention(a *storage.BucketAttrs) string {
	switch {
	case a.RetentionPolicy != nil && a.RetentionPolicy.RetentionPeriod > 0:
		return fmt.Sprintf("each object is held for %v", a.RetentionPolicy.RetentionPeriod)
	case a.DefaultEventBasedHold:
		return "each object is put on hold"
	}
	return "off"
}

// Expirations calls rule for each lifecycle rule that takes current objects away: what it begins with ("" is everything
// here), and what is done when.
func (b *Bucket) Expirations(ctx context.Context, rule func(prefix, what string)) error {
	a, err := b.attrs(ctx)
	if err != nil {
		return fmt.Errorf("looking at the bucket's lifecycle rules: %w", err)
	}
	for _, r := range a.Lifecycle.Rules {
		c := r.Condition
		if r.Action.Type != storage.DeleteAction || c.Liveness == storage.Archived || c.NumNewerVersions > 0 ||
			c.DaysSinceNoncurrentTime > 0 || !c.NoncurrentTimeBefore.IsZero() || c.DaysSinceCustomTime > 0 ||
			!c.CustomTimeBefore.IsZero() {
			continue // for former versions, or for a time that ours do not have
		}
		prefixes := c.MatchesPrefix
		if len(prefixes) == 0 {
			prefixes = []string{""}
		}
		for _, p := range prefixes {
			if here, touches := b.below(p); touches {
				rule(here, fmt.Sprintf("deletes objects after %d days", c.AgeInDays))
			}
		}
	}
	return nil
}

// below is a prefix of the whole bucket as one of keys below Options.Prefix, if it has any of them.
func (b *Bucket) below(prefix string) (here string, touches bool) {
	if rest, ok := strings.CutPrefix(prefix, b.root); ok {
		return rest, true
	}
	return "", strings.HasPrefix(b.root, prefix)
}
