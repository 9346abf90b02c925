package dirbucket_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

// TestCase_C22_PageBoundaries counts keys and pages of files that somebody placed, in one directory and spread.
func TestCase_C22_PageBoundaries(t *testing.T) {
	for _, spread := range []int{1, 7} {
		root := t.TempDir()
		b := create(t, root)
		names := numbered("item", 2001)
		for i, name := range names {
			names[i] = fmt.Sprintf("d%d/%s", i%spread, name)
		}
		have := 0
		for _, n := range []int{0, 1, 999, 1000, 1001, 2000, 2001} {
			place(t, root, names[have:n]...)
			have = n
			wantPages(t, b, slices.Sorted(slices.Values(names[:n])))
		}
	}
}

func wantPages(t *testing.T, b *dirbucket.Bucket, want []string) {
	t.Helper()
	var got []string
	pages := 0
	err := b.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
		pages++
		for _, o := range p.Objects {
			got = append(got, string(o.Key))
		}
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("List of %d keys: %d keys, %v (-want +got):\n%s", len(want), len(got), err, cmp.Diff(want, got))
	}
	if n := max(1, (len(want)+bucket.PageSize-1)/bucket.PageSize); pages != n {
		t.Errorf("List of %d keys: %d pages, want %d", len(want), pages, n)
	}
}

// TestCase_C22_PageEndsInsideDirectory has a directory of more than a page beside names that sort around its slash.
func TestCase_C22_PageEndsInsideDirectory(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	want := append(numbered("a/", 1500), "a-b", "a.e", "a0", "a/z/z", "a-/x", "b")
	place(t, root, want...)
	slices.Sort(want)
	got, err := list(t.Context(), b, bucket.ListRequest{})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("List: %d keys, %v, want %d (-want +got):\n%s", len(got), err, len(want), cmp.Diff(want, got))
	}
	for i := 0; i < len(want); i += 100 { // resume anywhere
		got, err := list(t.Context(), b, bucket.ListRequest{After: bucket.Key(want[i])})
		if err != nil || !slices.Equal(got, want[i+1:]) {
			t.Errorf("List after %q: %d keys, %v, want %d", want[i], len(got), err, len(want)-i-1)
		}
	}
}

// TestList_SkipsWhatVanishes deletes keys and whole directories between two pages: the rest comes, exactly once.
func TestList_SkipsWhatVanishes(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	first, second := numbered("a/", bucket.PageSize), numbered("b/", 100)
	place(t, root, append(append(first, second...), "c/1", "c/2", "d")...)
	var got []string
	err := b.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			got = append(got, string(o.Key))
		}
		os.Remove(filepath.Join(root, second[50]))
		return os.RemoveAll(filepath.Join(root, "c"))
	})
	want := append(slices.Concat(first, second[:50], second[51:]), "d")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("List: %d keys, %v (-want +got):\n%s", len(got), err, cmp.Diff(want, got))
	}
}

// TestList_NotRegular: links are not followed, and what is no file is no object, nor replaced, nor deleted.
func TestList_NotRegular(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	b := create(t, root)
	place(t, root, "real/item")
	place(t, outside, "item")
	for name, target := range map[string]string{
		"dirlink": "real", "outlink": outside, "filelink": "real/item", "dangling": "nowhere", "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	unusable := []bucket.Key{"dirlink", "dirlink/item", "outlink/item", "outlink/new", "filelink", "dangling", "loop", "loop/x"}
	for _, key := range unusable {
		wantNoObject(t, b, key)
	}
	if got, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || !slices.Equal(got, []string{"real/item"}) {
		t.Errorf("List = %q, %v, want only the file", got, err)
	}
	for name := range map[string]bool{"dirlink": true, "filelink": true, "dangling": true} {
		if _, err := os.Lstat(filepath.Join(root, name)); err != nil {
			t.Errorf("link %s: %v, want it left alone", name, err)
		}
	}
	if got := names(t, outside); !slices.Equal(got, []string{"item"}) {
		t.Errorf("outside the bucket: %q, want it left alone", got)
	}
}

// TestList_LinkInTheWay: where a directory is replaced by a link to it, a listing must not say that nothing is there.
// Below an object there is indeed nothing.
func TestList_LinkInTheWay(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	place(t, root, "act/ns/item", "file")
	must(t, os.Rename(filepath.Join(root, "act"), filepath.Join(root, "zz")))
	must(t, os.Symlink("zz", filepath.Join(root, "act")))
	must(t, os.Symlink("nowhere", filepath.Join(root, "dangling")))
	for _, prefix := range []string{"act/", "act/ns/", "act/ns/it", "act/no/such/", "dangling/"} {
		got, err := list(t.Context(), b, bucket.ListRequest{Prefix: prefix})
		if !errors.Is(err, bucket.ErrIncomplete) || errors.Is(err, bucket.ErrNotExist) ||
			!strings.Contains(err.Error(), "links are not followed") {
			t.Errorf("List %q: %q, %v, want ErrIncomplete that says why", prefix, got, err)
		}
	}
	for _, prefix := range []string{"file/", "file/x/", "zz/ns/item/", "no/such/"} {
		if got, err := list(t.Context(), b, bucket.ListRequest{Prefix: prefix}); err != nil || len(got) != 0 {
			t.Errorf("List %q: %q, %v, want nothing", prefix, got, err)
		}
	}
}

// TestList_LinkAppears replaces a directory by a link to it between two pages, before the listing gets there.
func TestList_LinkAppears(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	place(t, root, append(numbered("p/b/", bucket.PageSize), "p/c/item", "p/d/item")...)
	err := b.List(t.Context(), bucket.ListRequest{Prefix: "p/"}, func(p bucket.Page) error {
		return errors.Join(os.Rename(filepath.Join(root, "p/c"), filepath.Join(root, "p/a")),
			os.Symlink("a", filepath.Join(root, "p/c")))
	})
	if !errors.Is(err, bucket.ErrIncomplete) {
		t.Errorf("List: %v, want ErrIncomplete", err)
	}
}

// TestList_DeepAndMoved moves the directory that is read, far below the prefix, elsewhere between two pages, or removes
// the one above it: what comes after it is still listed, if it is there.
func TestList_DeepAndMoved(t *testing.T) {
	const levels = 40
	way := strings.Repeat("d/", levels)
	for what, change := range map[string]func(root string) error{
		"nothing": func(string) error { return nil },
		"moved":   func(root string) error { return os.Rename(root+"/"+way+"m", root+"/a-moved") },
		"above moved": func(root string) error {
			return os.Rename(root+"/"+way, root+"/a-moved")
		},
		"removed": func(root string) error { return os.RemoveAll(root + "/" + way) },
	} {
		root := t.TempDir()
		b := create(t, root)
		first := numbered(way+"m/", bucket.PageSize+1) // the last one makes the page go out
		last, above := way+"n/item", strings.Repeat("d/", levels-1)+"e"
		place(t, root, append(first, last, way+"o", above, "e")...)
		var got []string
		pages := 0
		err := b.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
			for _, o := range p.Objects {
				got = append(got, string(o.Key))
			}
			if pages++; pages == 1 {
				return change(root)
			}
			return nil
		})
		want := append(first, last, way+"o", above, "e")
		if what == "removed" { // what is open when it moves is listed under the names that it had
			want = append(first[:bucket.PageSize], above, "e")
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d keys, %v, want %d (-want +got):\n%s", what, len(got), err, len(want), cmp.Diff(want, got))
		}
	}
}

// TestList_WriteIntoNextDirectory is the suite's PageByPage, with a directory that comes and one that goes: whatever the
// callback does to the next directory shows.
func TestList_WriteIntoNextDirectory(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	first := numbered("a/", bucket.PageSize)
	place(t, root, append(first, "b/0", "b/1", "c/0")...)
	pages := 0
	var got []string
	err := b.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			got = append(got, string(o.Key))
		}
		if pages++; pages == 1 {
			put(t, b, "b/00", "")
			put(t, b, "b/sub/new", "")
			return errors.Join(os.Remove(filepath.Join(root, "b/1")), os.RemoveAll(filepath.Join(root, "c")))
		}
		return nil
	})
	if want := append(first, "b/0", "b/00", "b/sub/new"); err != nil || !slices.Equal(got, want) || pages != 2 {
		t.Errorf("List: %d keys in %d pages, %v (-want +got):\n%s", len(got), pages, err, cmp.Diff(want, got))
	}
}
