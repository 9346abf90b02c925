package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/blobindex/indexd/blobindex/bucket"
)

const (
	putsAtOnce = 32
	maxPages   = 500 // of a listing that does not come to an end
	smallPage  = 3
	largePage  = 5 * bucket.PageSize
)

// listings writes more objects than a page has, and looks at them from all sides.
func listings(ctx context.Context, r *run) error {
	want := map[bucket.Key]bool{}
	for i := range r.opts.Objects {
		want[r.key(fmt.Sprintf("list/%04d", i))] = true
	}
	// Beside the prefix, on both sides, and names that a tree of directories orders in another way.
	if err := r.putAll(ctx, []bucket.Key{r.key("lis"), r.key("list-2/x"), r.key("list0")}); err != nil {
		return err
	}
	if err := r.putAll(ctx, slices.Collect(maps.Keys(want))); err != nil {
		return err
	}
	if err := r.complete(ctx, r.root+"list/", want); err != nil {
		return err
	}
	order := []bucket.Key{}
	for _, name := range []string{"A", "_b", "a-b", "a.e", "a/x", "a0", "ab", "z"} {
		order = append(order, r.key("order/"+name))
	}
	if err := r.putAll(ctx, order); err != nil {
		return err
	}
	if p, ok := r.sites[0].extra().(Pager); ok {
		return r.pages(ctx, p, order)
	}
	return r.ordered(ctx, order)
}

// putAll stores empty objects, many at once, in no order.
func (r *run) putAll(ctx context.Context, keys []bucket.Key) error {
	keys = slices.Clone(keys)
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	work := make(chan bucket.Key, len(keys))
	for _, k := range keys {
		work <- k
	}
	close(work)
	errs := make([]error, putsAtOnce)
	var done sync.WaitGroup
	for i := range putsAtOnce {
		done.Go(func() {
			for k := range work {
				if errs[i] = r.put(ctx, r.site(), k, ""); errs[i] != nil {
					return
				}
			}
		})
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// complete lists through every site, at once after the writes, and again after one of the objects is deleted.
func (r *run) complete(ctx context.Context, prefix string, want map[bucket.Key]bool) error {
	if r.can.listing != nil {
		r.no(ListAfterWrite, "%s", r.plain(r.can.listing))
		return r.can.listing
	}
	gone := bucket.Key(prefix + "0000")
	for range 2 {
		for i := range r.sites {
			s := &r.sites[i]
			got, pages, err := r.list(ctx, s, prefix)
			switch {
			case isOfRun(err) || ctx.Err() != nil || errors.Is(err, bucket.ErrDenied) || errors.Is(err, bucket.ErrThrottled):
				return err
			case err != nil:
				r.no(ListAfterWrite, "%s", r.plain(err))
				return nil
			}
			if why := differs(got, want); why != "" {
				r.no(ListAfterWrite, "of %d objects %s", len(want), why)
				return nil
			}
			if pages > (len(want)+bucket.PageSize-1)/bucket.PageSize {
				r.remark(ListAfterWrite, "%d objects took %d pages", len(want), pages)
			}
		}
		if want[gone] {
			if err := r.remove(ctx, r.site(), gone); err != nil {
				return err
			}
			delete(want, gone)
		}
	}
	r.yes(ListAfterWrite, "all of %d, and none that was deleted", r.opts.Objects)
	return nil
}

// list returns the keys of a listing as often as they came.
func (r *run) list(ctx context.Context, s *Site, prefix string) (keys map[bucket.Key]int, pages int, err error) {
	err = r.tries(ctx, func() error {
		keys, pages = map[bucket.Key]int{}, 0
		return s.Objects.List(ctx, bucket.ListRequest{Prefix: prefix}, func(p bucket.Page) error {
			pages++
			for _, o := range p.Objects {
				keys[o.Key]++
			}
			return nil
		})
	})
	return keys, pages, err
}

// differs says in what a listing is not what was written, or nothing.
func differs(got map[bucket.Key]int, want map[bucket.Key]bool) string {
	missing, more, twice := 0, 0, 0
	for k := range want {
		if got[k] == 0 {
			missing++
		}
	}
	for k, n := range got {
		if !want[k] {
			more++
		}
		if n > 1 {
			twice++
		}
	}
	if missing+more+twice == 0 {
		return ""
	}
	return fmt.Sprintf("%d are not listed, %d are listed that should not be, %d are listed more than once", missing, more, twice)
}

// ordered is for drivers whose pages are not the store's: it looks at what they declare.
func (r *run) ordered(ctx context.Context, order []bucket.Key) error {
	var got []bucket.Key
	sorted := true
	prefix := r.root + "order/"
	collect := func(p bucket.Page) error {
		sorted = sorted && p.Sorted
		for _, o := range p.Objects {
			got = append(got, o.Key)
		}
		return nil
	}
	s := r.site()
	if err := s.Objects.List(ctx, bucket.ListRequest{Prefix: prefix}, collect); err != nil {
		return err
	}
	r.judgeOrder(got)
	if !sorted {
		return nil
	}
	got = nil
	if err := s.Objects.List(ctx, bucket.ListRequest{Prefix: prefix, After: order[4]}, collect); err != nil {
		return err
	}
	r.judgeAfter(got, order[5:], nil)
	return nil
}

func (r *run) judgeOrder(got []bucket.Key) {
	if !slices.IsSorted(got) {
		r.no(ByteOrder, "it does not")
	}
	r.yes(ByteOrder, "it does")
}

// judgeAfter judges what was listed after a key.
func (r *run) judgeAfter(got, want []bucket.Key, err error) {
	got = slices.Sorted(slices.Values(got))
	switch {
	case err != nil:
		r.no(StartAfter, "%s", r.plain(err))
	case !slices.Equal(got, want):
		r.no(StartAfter, "%d keys came where %d are after it", len(got), len(want))
	}
	r.yes(StartAfter, "it can")
}

// pages looks at the store's own pages.
func (r *run) pages(ctx context.Context, p Pager, order []bucket.Key) error {
	long, err := r.walk(ctx, p, "list/", "", largePage)
	switch {
	case r.over(ctx, err) != nil:
		return err
	case errors.Is(err, bucket.ErrIncomplete):
		return r.astray(ctx, err)
	case err != nil:
		r.no(PageCap, "to a request for %d keys: %s", largePage, r.plain(err))
	case long.longest() > bucket.PageSize:
		r.no(PageCap, "a page had %d keys", long.longest())
	}
	usual, err := r.walk(ctx, p, "list/", "", bucket.PageSize)
	if err != nil {
		return r.astray(ctx, err)
	}
	small, err := r.walk(ctx, p, "order/", "", smallPage)
	if err != nil {
		return r.astray(ctx, err)
	}
	r.judgePages(usual, small, order)
	after, err := r.walk(ctx, p, "order/", string(order[4]), bucket.PageSize)
	if over := r.over(ctx, err); over != nil {
		return over
	}
	r.judgeAfter(r.own(after.keys, "order/"), order[5:], err)
	return nil
}

// astray makes a no of pages that do not lead to an end.
func (r *run) astray(ctx context.Context, err error) error {
	if errors.Is(err, bucket.ErrIncomplete) && r.over(ctx, err) == nil {
		r.no(ListAfterWrite, "page by page: %s", r.plain(err))
	}
	return err
}

// judgePages judges one listing in pages of the usual size and one in small ones.
func (r *run) judgePages(usual, small walked, order []bucket.Key) {
	for _, w := range []walked{usual, small} {
		r.judgePrefix(w)
		r.judgeOrder(w.keys)
	}
	if n := len(r.own(slices.Compact(slices.Sorted(slices.Values(small.keys))), "order/")); n != len(order) {
		r.no(ListAfterWrite, "pages of %d keys lead to %d of %d", smallPage, n, len(order))
	}
	switch {
	case small.longest() > smallPage:
		r.no(PageCap, "of %d keys that were asked for, %d came", smallPage, small.longest())
	case !usual.isFull(bucket.PageSize):
		r.no(PageCap, "pages are shorter than asked for: %d keys took %d of them", len(usual.keys), usual.count())
	case !small.isFull(smallPage):
		r.no(PageCap, "pages are shorter than asked for: %d keys took %d of them", len(small.keys), small.count())
	}
	r.yes(PageCap, "it has")
	switch usual.form {
	case "":
	case "url":
		r.yes(URLEncoding, "it does")
	default:
		r.no(URLEncoding, "it was asked to, and says that it does not")
	}
}

// own leaves out what is not below the prefix, which is another question's.
func (r *run) own(keys []bucket.Key, prefix string) []bucket.Key {
	return slices.DeleteFunc(keys, func(k bucket.Key) bool { return !strings.HasPrefix(string(k), r.root+prefix) })
}

// judgePrefix looks for keys that were not asked for.
func (r *run) judgePrefix(w walked) {
	for _, k := range w.keys {
		if !strings.HasPrefix(string(k), w.prefix) {
			r.no(ListPrefix, "%q came for the prefix %q", strings.TrimPrefix(string(k), r.root), w.prefix[len(r.root):])
			return
		}
	}
	r.yes(ListPrefix, "it does")
}

// A walked is what a listing came to, page by page.
type walked struct {
	prefix string
	keys   []bucket.Key
	sizes  []int
	form   string
}

func (w walked) longest() int { return slices.Max(w.sizes) }

// count is how many pages had keys.
func (w walked) count() (n int) {
	for _, size := range w.sizes {
		if size > 0 {
			n++
		}
	}
	return n
}

// isFull reports whether there were no more pages with keys than there had to be.
func (w walked) isFull(size int) bool { return w.count() <= (len(w.keys)+size-1)/size }

// walk asks for pages until there are no more. A store that leads nowhere is an error.
func (r *run) walk(ctx context.Context, p Pager, name, after string, size int) (walked, error) {
	w := walked{prefix: r.root + name}
	token := ""
	for range maxPages {
		var keys []string
		var next string
		err := r.tries(ctx, func() (err error) {
			keys, next, w.form, err = p.ListPage(ctx, w.prefix, after, token, size)
			return err
		})
		if err != nil {
			return w, err
		}
		w.sizes = append(w.sizes, len(keys))
		for _, k := range keys {
			w.keys = append(w.keys, bucket.Key(k))
		}
		if next == "" {
			return w, nil
		}
		if next == token {
			break
		}
		token = next
	}
	return w, fmt.Errorf("a listing of %q goes in a circle: %w", w.prefix, bucket.ErrIncomplete)
}
