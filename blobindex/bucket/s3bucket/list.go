package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A listing is on its way through the pages of one.
type listing struct {
	prefix string // of the keys that are wanted, Bucket.prefix included
	asked  string // of the keys that the store was asked for; a prefix of prefix
	after  string // keys up to this one are not wanted
	sorted bool
	skip   int    // bytes of Bucket.prefix
	last   string // key that came before, of a sorted listing
	buf    []bucket.Object
}

// List calls fn with the pages of the listing. An answer of more keys than a page holds is cut into several pages.
func (b *Bucket) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	// The callback's own error goes back as it is, every other one says what was listed.
	var stop error
	err := b.list(ctx, req, func(p bucket.Page) error {
		stop = fn(p)
		return stop
	})
	if stop != nil || err == nil {
		return stop
	}
	return fmt.Errorf("listing %q: %w", req.Prefix, err)
}

func (b *Bucket) list(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if req.After != "" && !b.sorted {
		return fmt.Errorf("listing after a key of a store that is not known to be sorted: %w", bucket.ErrUnsupported)
	}
	l, in := b.begin(req)
	seen, empty := map[string]bool{}, 0
	for {
		out, err := b.answer(ctx, in)
		if err != nil {
			return err
		}
		if err := b.deliver(ctx, l, out, fn); err != nil {
			return err
		}
		if empty++; len(out.Contents) > 0 {
			empty = 0
		}
		more, err := next(out, seen)
		switch {
		case err != nil || more == "":
			return err
		case empty > b.maxEmpty:
			return fmt.Errorf("%d empty pages: %w", empty, bucket.ErrIncomplete)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		in.ContinuationToken, in.StartAfter = &more, nil // the token knows where the listing began
	}
}

// begin returns the listing and the request for its first page.
func (b *Bucket) begin(req bucket.ListRequest) (*listing, *s3.ListObjectsV2Input) {
	l := &listing{prefix: b.prefix + req.Prefix, sorted: b.sorted, skip: len(b.prefix)}
	l.asked = b.askable(l.prefix)
	in := &s3.ListObjectsV2Input{
		Bucket: &b.name, EncodingType: types.EncodingTypeUrl, MaxKeys: aws.Int32(bucket.PageSize),
	}
	if l.asked != "" {
		in.Prefix = &l.asked
	}
	if req.After != "" {
		l.after = b.prefix + string(req.After)
		if start := b.askable(l.after); start != "" {
			in.StartAfter = &start
		}
	}
	return l, in
}

// deliver calls fn with the pages of an answer.
func (b *Bucket) deliver(
	ctx context.Context, l *listing, out *s3.ListObjectsV2Output, fn func(bucket.Page) error,
) error {
	pages, err := l.pages(out)
	if err != nil {
		return err
	}
	now := serverTime(out.ResultMetadata)
	for _, objects := range pages {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(bucket.Page{Objects: objects, Now: now, Sorted: b.sorted}); err != nil {
			return err
		}
	}
	return nil
}

// answer asks for one page. What cannot be read to its end is incomplete, and so is an answer that does not say whether
// there is more: the SDK takes a body that is missing altogether for an empty listing.
func (b *Bucket) answer(ctx context.Context, in *s3.ListObjectsV2Input) (*s3.ListObjectsV2Output, error) {
	var out *s3.ListObjectsV2Output
	err := b.try(ctx, reading, b.attempts, func() (err error) {
		out, err = b.client.ListObjectsV2(ctx, in)
		if err == nil && out.IsTruncated == nil {
			return fmt.Errorf("the answer does not say whether it is the last one: %w", errMalformed)
		}
		return err
	})
	if errors.Is(err, errMalformed) {
		return nil, fmt.Errorf("%w: %w", bucket.ErrIncomplete, err)
	}
	return out, err
}

// next returns the token of the next page, "" if there is none. Every token may come once.
func next(out *s3.ListObjectsV2Output, seen map[string]bool) (string, error) {
	token := aws.ToString(out.NextContinuationToken)
	switch {
	case !*out.IsTruncated:
		return "", nil
	case token == "":
		return "", fmt.Errorf("the store says that there is more, but not how to get it: %w", bucket.ErrIncomplete)
	case seen[token]:
		return "", fmt.Errorf("the store sends us round in a circle: %w", bucket.ErrIncomplete)
	}
	seen[token] = true
	return token, nil
}

// pages turns an answer into pages, at least one.
func (l *listing) pages(out *s3.ListObjectsV2Output) ([][]bucket.Object, error) {
	l.buf = l.buf[:0]
	encoded := strings.EqualFold(string(out.EncodingType), string(types.EncodingTypeUrl))
	for i := range out.Contents {
		key, err := l.key(&out.Contents[i], encoded)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(key, l.prefix) || l.after != "" && key <= l.after || len(key) <= l.skip {
			continue // not asked for; or the path of the bucket itself, made as a directory
		}
		l.buf = append(l.buf, bucket.Object{
			Key:       bucket.Key(key[l.skip:]),
			Size:      aws.ToInt64(out.Contents[i].Size),
			StoreTime: aws.ToTime(out.Contents[i].LastModified),
		})
	}
	rest := l.buf
	var pages [][]bucket.Object
	for len(rest) > bucket.PageSize {
		pages = append(pages, rest[:bucket.PageSize:bucket.PageSize])
		rest = rest[bucket.PageSize:]
	}
	return append(pages, rest), nil
}

// key decodes a key and holds it to what was asked for. It is empty if the object came right before.
func (l *listing) key(o *types.Object, encoded bool) (string, error) {
	key := aws.ToString(o.Key)
	if encoded {
		// A space comes as a plus from AWS and some others, as %20 from the rest; a plus always comes as %2B.
		plain, err := url.QueryUnescape(key)
		if err != nil {
			return "", fmt.Errorf("key %q is not encoded as the answer says: %w", key, bucket.ErrIncomplete)
		}
		key = plain
	}
	switch {
	case key == "":
		return "", fmt.Errorf("an object without a key: %w", bucket.ErrIncomplete)
	case !strings.HasPrefix(key, l.asked):
		return "", fmt.Errorf("key %q is not below the prefix that was asked for: %w", key, bucket.ErrIncomplete)
	case l.sorted && key < l.last:
		return "", fmt.Errorf("key %q came after %q on a store that is declared sorted: %w", key, l.last, bucket.ErrIncomplete)
	}
	if key == l.last {
		return "", nil // rclone lists an object twice while it is being replaced
	}
	l.last = key
	return key, nil
}

// serverTime is the Date header of an answer, zero if it had none.
func serverTime(m middleware.Metadata) time.Time {
	t, _ := awsmiddleware.GetServerTime(m)
	return t
}
