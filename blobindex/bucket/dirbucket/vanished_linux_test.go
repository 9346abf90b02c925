package dirbucket_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

// ways are those in which a bucket's directory stops being the one at its path.
var ways = []struct {
	name string
	lose func(t *testing.T, root string)
}{
	{"removed", func(t *testing.T, root string) { must(t, os.RemoveAll(root)) }},
	{"renamed", func(t *testing.T, root string) { must(t, os.Rename(root, root+"-away")) }},
	{"removed and made again", func(t *testing.T, root string) {
		must(t, os.RemoveAll(root))
		must(t, os.Mkdir(root, 0o777))
	}},
	{"replaced by another bucket", func(t *testing.T, root string) {
		must(t, os.Rename(root, root+"-away"))
		create(t, root)
	}},
	{"stamp made again", func(t *testing.T, root string) {
		must(t, os.Remove(filepath.Join(root, ".indexd", "dirbucket-v1")))
		place(t, root, ".indexd/dirbucket-v1")
	}},
	{"stamp removed", func(t *testing.T, root string) {
		must(t, os.RemoveAll(filepath.Join(root, ".indexd")))
	}},
}

func TestCase_C04_VanishedBefore(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "bucket")
			b := create(t, root)
			put(t, b, "ns/item", "body")
			way.lose(t, root)
			wantGone(t, b, root)
		})
	}
}

// TestVanished_Unmounted takes the file system of the root away, though it is busy, where one can be mounted; renaming
// the directory, above, looks the same from inside.
func TestVanished_Unmounted(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		path := tmpfs(t, "", "")
		b := create(t, path)
		put(t, b, "ns/item", "body")
		must(t, unix.Unmount(path, unix.MNT_DETACH))
		wantGone(t, b, path)
		if got := names(t, path); len(got) != 0 {
			t.Errorf("in the mount point: %q, want nothing", got)
		}
	})
}

// wantGone calls everything: each call is an error that says so, and changes nothing at the path.
func wantGone(t *testing.T, b *dirbucket.Bucket, root string) {
	t.Helper()
	before := tree(t, root)
	_, listErr := list(t.Context(), b, bucket.ListRequest{})
	_, nsErr := list(t.Context(), b, bucket.ListRequest{Prefix: "no/such/"})
	_, putErr := b.Put(t.Context(), "ns/item", nil)
	_, bodyErr := b.Put(t.Context(), "ns2/item", strings.NewReader("body"))
	_, headErr := b.Head(t.Context(), "ns/item")
	_, openErr := b.Open(t.Context(), "ns/item")
	deleteErrs := b.Delete(t.Context(), []bucket.Key{"ns/item", "absent"})
	if len(deleteErrs) != 2 {
		t.Fatalf("Delete: %v, want two errors", deleteErrs)
	}
	for call, err := range map[string]error{
		"List": listErr, "List of an absent namespace": nsErr, "Put": putErr, "Put with a body": bodyErr,
		"Head": headErr, "Open": openErr, "Delete": deleteErrs[0], "Delete of an absent key": deleteErrs[1],
	} {
		if !errors.Is(err, bucket.ErrNotExist) || !strings.Contains(err.Error(), "bucket directory "+root) {
			t.Errorf("%s: %v, want ErrNotExist that names the directory", call, err)
		}
	}
	if after := tree(t, root); after != before {
		t.Errorf("at the path there was\n%s\nand is\n%s", before, after)
	}
}

// tree is all that is at a path, but for bodies on their way.
func tree(t *testing.T, root string) string {
	t.Helper()
	var paths []string
	filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && filepath.Base(filepath.Dir(path)) != "tmp" {
			paths = append(paths, path)
		}
		return nil
	})
	return strings.Join(paths, "\n")
}

// TestCase_C04_VanishedUnderReader loses the directory between two pages: what is left of the walk must not pass for the
// end of the listing.
func TestCase_C04_VanishedUnderReader(t *testing.T) {
	for _, way := range ways {
		for _, layout := range []string{"ns/", "a/b/"} {
			t.Run(way.name+" "+layout, func(t *testing.T) {
				root := filepath.Join(t.TempDir(), "bucket")
				b := create(t, root)
				place(t, root, append(numbered(layout, bucket.PageSize+10), "z/item")...)
				pages := 0
				err := b.List(t.Context(), bucket.ListRequest{}, func(bucket.Page) error {
					if pages++; pages == 1 {
						way.lose(t, root)
					}
					return nil
				})
				if !errors.Is(err, bucket.ErrNotExist) {
					t.Errorf("List: %v after %d pages, want ErrNotExist", err, pages)
				}
			})
		}
	}
}

// TestVanished_UnderWriter loses the directory while a body is read: the put is an error, and makes nothing again.
func TestVanished_UnderWriter(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "bucket")
			b := create(t, root)
			var before string
			body := io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), readFunc(func() {
				way.lose(t, root)
				before = tree(t, root)
			}))
			if _, err := b.Put(t.Context(), "ns/item", body); !errors.Is(err, bucket.ErrNotExist) {
				t.Errorf("Put: %v, want ErrNotExist", err)
			}
			if after := tree(t, root); after != before {
				t.Errorf("at the path there was\n%s\nand is\n%s", before, after)
			}
		})
	}
}
