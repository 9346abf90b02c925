package buckettest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// boundaries lists prefixes that end at, before and after a slash, with neighbours that sort around the slash.
func boundaries(e *env) {
	all := []string{
		"act/x", "act/y", "act2/x", "act-old/x", "act.e/x", "acu", "ac",
		"a/1", "a/2/3", "a-b", "a.e", "a0", "a!", "b",
	}
	if !e.FileTree {
		all = append(all, "act", "a", "a/", "act/x/below")
	}
	all = without(all, e.refuses)
	e.fill(all)
	for _, prefix := range []string{
		"", "a", "a/", "a-", "a.", "a/2", "a/2/", "a/2/3", "a/2/3/", "ac", "act", "act/", "act/x", "act/xx", "act2",
		"act2/", "act-", "act-old/", "act.e/", "act//", "act/.", "act/..", "c", "a\x00", "\xff",
	} {
		e.wantNames(prefix, below(all, prefix))
	}
}

func below(names []string, prefix string) []string {
	var some []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			some = append(some, name)
		}
	}
	return some
}

// wholeBucket lists everything, where that is known; before it no object exists at all.
func wholeBucket(e *env) {
	if !e.Empty {
		// Of a bucket with others' objects in it only this can be told: what is there is listed.
		e.put("item", "")
		found := false
		for _, o := range e.list(bucket.ListRequest{}) {
			found = found || o.Key == e.key("item")
		}
		if !found {
			e.Errorf("List of the whole bucket: %q is missing", e.key("item"))
		}
		return
	}
	if objects := e.list(bucket.ListRequest{}); len(objects) != 0 {
		e.Errorf("List of an empty bucket: %v", objects)
	}
	e.fill([]string{"a", "b/c"})
	if objects := e.list(bucket.ListRequest{}); len(objects) != 2 {
		e.Errorf("List of the whole bucket: %v, want 2 objects", objects)
	}
	if objects := e.list(bucket.ListRequest{Prefix: "buckettest-"}); len(objects) != 2 {
		e.Errorf("List of a prefix without a slash: %v, want 2 objects", objects)
	}
}

// order uses names in which each byte stands right before, at and after where another name has its slash.
func order(e *env) {
	var names []string
	for _, c := range []string{" ", "!", "-", ".", "0", "A", "_", "a", "~", "é", "\x7f"} {
		names = append(names, "m"+c, "m/"+c+"f", "n"+c+"/f"+c, "n/"+c+"f", "n/d"+c+"/"+c+"f", "n/d/"+c+"f")
	}
	names = without(names, e.refuses)
	e.fill(names)
	e.wantNames("", names)
	e.wantNames("n/", below(names, "n/"))
}

func without(names []string, drop func(string) bool) []string {
	var rest []string
	for _, name := range names {
		if !drop(name) {
			rest = append(rest, name)
		}
	}
	return rest
}

// after starts listings at, before and behind every key.
func after(e *env) {
	names := []string{"a!", "a-b", "a.e", "a/1", "a/2/3", "a/2/4", "a/20", "a0", "b/1", "b/2", "c"}
	names = without(names, e.refuses)
	e.fill(names)
	if !e.Sorted {
		err := e.o.List(e.Context(), bucket.ListRequest{Prefix: e.prefix, After: e.key("a/1")},
			func(bucket.Page) error { return nil })
		if !errors.Is(err, bucket.ErrUnsupported) {
			e.Errorf("List with After on an unsorted store: error %v, want ErrUnsupported", err)
		}
		return
	}
	marks := append([]string{"", "A", "a", "a/", "a/2", "a/2/", "a/2/3\x00", "a/3", "a/~", "b", "b/", "b/3", "~"}, names...)
	for _, prefix := range []string{"", "a", "a/", "a/2", "b/", "x"} {
		for _, mark := range marks {
			e.wantAfter(prefix, e.key(mark), names)
		}
		e.wantAfter(prefix, "a", names)    // before the step's prefix: all
		e.wantAfter(prefix, "\xff", names) // behind it: none
	}
}

func (e *env) wantAfter(prefix string, mark bucket.Key, names []string) {
	e.Helper()
	want := without(below(names, prefix), func(name string) bool { return e.key(name) <= mark })
	got := e.list(bucket.ListRequest{Prefix: e.prefix + prefix, After: mark})
	if len(got) != len(want) {
		e.Errorf("List(%q, after %q): %d objects %v, want %q", prefix, mark, len(got), got, want)
		return
	}
	for i, o := range got {
		if o.Key != e.key(want[i]) {
			e.Errorf("List(%q, after %q): object %d is %q, want %q", prefix, mark, i, o.Key, want[i])
		}
	}
}

func callbackError(e *env) {
	e.fill(numbered(bucket.PageSize + 1))
	enough := fmt.Errorf("enough, for once: %w", bucket.ErrThrottled)
	calls := 0
	err := e.o.List(e.Context(), bucket.ListRequest{Prefix: e.prefix}, func(bucket.Page) error {
		calls++
		return enough
	})
	if err != enough || calls != 1 {
		e.Errorf("List with a callback that fails: error %v after %d calls, want that very error after 1", err, calls)
	}
}

// cancelled calls everything with a context that is over, and ends one between two pages.
func cancelled(e *env) {
	names := numbered(bucket.PageSize + 1)
	e.fill(names)
	ctx, cancel := context.WithCancel(e.Context())
	pages := 0
	errs := map[string]error{}
	errs["List, from its first page on"] = e.o.List(ctx, bucket.ListRequest{Prefix: e.prefix}, func(bucket.Page) error {
		pages++
		cancel()
		return nil
	})
	cancel()
	if pages != 1 {
		e.Errorf("List cancelled from its first page: %d pages", pages)
	}
	errs["List"] = e.o.List(ctx, bucket.ListRequest{Prefix: e.prefix}, func(bucket.Page) error { return nil })
	_, errs["Put"] = e.o.Put(ctx, e.key("new"), nil)
	_, errs["Put with a body"] = e.o.Put(ctx, e.key("new"), strings.NewReader("body"))
	_, errs["Head"] = e.o.Head(ctx, e.key(names[0]))
	_, errs["Open"] = e.o.Open(ctx, e.key(names[0]))
	refused := e.o.Delete(ctx, e.keys(names[:2]...))
	if len(refused) != 2 {
		e.Fatalf("Delete of 2 keys: %d errors", len(refused))
	}
	errs["Delete, first key"], errs["Delete, second key"] = refused[0], refused[1]
	for call, err := range errs {
		if !errors.Is(err, context.Canceled) {
			e.Errorf("%s: error %v, want context.Canceled", call, err)
		}
	}
	e.wantNames("", names)
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("m%05d", i)
	}
	return names
}
