package gcsbucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// List calls fn with each page. What a server returns beyond what was asked (because it ignores a prefix or an offset)
// is left out; one that declares an order and does not keep it makes the listing incomplete.
func (b *Bucket) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	l := listing{b: b, prefix: b.root + req.Prefix, fn: fn}
	if req.After != "" {
		if !b.sorted {
			return fmt.Errorf("listing %q after %q: %w", req.Prefix, req.After, bucket.ErrUnsupported)
		}
		l.after = b.root + string(req.After)
	}
	if err := l.run(ctx); err != nil {
		if l.byCaller {
			return err
		}
		return fmt.Errorf("listing %q: page %d: %w", req.Prefix, l.pages+1, err)
	}
	return nil
}

// A listing is one List on its way.
type listing struct {
	b        *Bucket
	prefix   string // of names, not of keys; so are after and last
	after    string // empty: from the start
	fn       func(bucket.Page) error
	pages    int    // answered
	last     string // the greatest name so far, on a sorted store
	byCaller bool   // the error is fn's
	buf      []bucket.Object
}

// A reply is one page as the store sent it.
type reply struct {
	items []*storage.ObjectAttrs
	next  string // the token of the next page; empty: there is none
	now   time.Time
}

func (l *listing) run(ctx context.Context) error {
	q, err := l.query()
	if err != nil {
		return err
	}
	empty := 0 // pages in a row
	for token, seen := "", map[string]bool{}; ; {
		var r reply
		err := l.b.do(ctx, call{onBucket: true}, func(ctx context.Context, x *exchange) (err error) {
			r, err = page(ctx, q, token, x)
			return err
		})
		if err != nil {
			return err
		}
		if seen[r.next] {
			return fmt.Errorf("its token has come before: %w", bucket.ErrIncomplete)
		}
		if err := l.deliver(ctx, r); err != nil {
			return err
		}
		l.pages++
		if empty++; len(r.items) > 0 {
			empty = 0
		}
		switch {
		case r.next == "":
			return nil
		case empty > l.b.maxEmpty:
			return fmt.Errorf("%d empty pages: %w", empty, bucket.ErrIncomplete)
		}
		token, seen[r.next] = r.next, true
	}
}

// query asks for as little as possible. A prefix or offset that ends within a character cannot be sent: the part before
// it finds all that is wanted, and more.
func (l *listing) query() (*storage.Query, error) {
	q := &storage.Query{
		Prefix:      validPart(l.prefix),
		StartOffset: validPart(l.after), // inclusive
		Projection:  storage.ProjectionNoACL,
	}
	if err := q.SetAttrSelection([]string{"Name", "Size", "Updated"}); err != nil {
		return nil, err
	}
	return q, nil
}

// errHole: some servers list null for an object that is deleted at that moment. It could stand for any other, so the page
// is asked for again.
var errHole = errors.New("an entry that names no object")

// page sends one request. The client's iterator sends another one by itself after a page without objects, and another,
// as long as such pages come; our transport stops the second, and the iterator still has the token of the first.
func page(ctx context.Context, q *storage.Query, token string, x *exchange) (reply, error) {
	it := x.bucket.Objects(ctx, q)
	it.PageInfo().Token, it.PageInfo().MaxSize = token, bucket.PageSize
	item, err := it.Next()
	switch {
	case x.status == http.StatusOK && (x.refused || errors.Is(err, iterator.Done)):
		return reply{next: it.PageInfo().Token, now: x.date}, nil
	case errors.Is(err, iterator.Done):
		return reply{}, fmt.Errorf("answered with status %d: %w", x.status, bucket.ErrIncomplete)
	case err != nil:
		return reply{}, err
	}
	r := reply{now: x.date}
	for n := it.PageInfo().Remaining(); ; n-- {
		if item == nil || item.Name == "" {
			return reply{}, errHole
		}
		r.items = append(r.items, item)
		if n == 0 {
			break
		}
		if item, err = it.Next(); err != nil {
			return reply{}, err
		}
	}
	r.next = it.PageInfo().Token
	return r, nil
}

// deliver hands over what belongs to the listing, in pages of the contract's size: some servers know no limit.
func (l *listing) deliver(ctx context.Context, r reply) error {
	l.buf = l.buf[:0]
	given := false
	for _, item := range r.items {
		if !strings.HasPrefix(item.Name, l.prefix) || l.after != "" && item.Name <= l.after || item.Name == l.b.root {
			continue
		}
		if l.b.sorted {
			if item.Name <= l.last {
				return fmt.Errorf("%q came after %q: %w", item.Name, l.last, bucket.ErrIncomplete)
			}
			l.last = item.Name
		}
		if len(l.buf) == bucket.PageSize {
			if err := l.give(r.now); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			given = true
		}
		l.buf = append(l.buf, bucket.Object{
			Key:       bucket.Key(item.Name[len(l.b.root):]),
			Size:      item.Size,
			StoreTime: item.Updated,
		})
	}
	if given && len(l.buf) == 0 {
		return nil
	}
	return l.give(r.now)
}

func (l *listing) give(now time.Time) error {
	err := l.fn(bucket.Page{Objects: l.buf, Now: now, Sorted: l.b.sorted})
	l.byCaller = err != nil
	l.buf = l.buf[:0]
	return err
}
