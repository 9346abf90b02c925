package dirbucket_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

func TestConformance(t *testing.T) {
	buckettest.Run(t, buckettest.Config{
		New:   func(t testing.TB) bucket.Objects { return create(t, t.TempDir()) },
		Empty: true, FileTree: true, Sorted: true, PageByPage: true, TellsTime: true,
	})
}

func TestOpen_Refuses(t *testing.T) {
	dir := t.TempDir()
	place(t, dir, "file", "plain/object", "spoiled/.indexd")
	for _, tt := range []struct{ path, hint string }{
		{"absent", "does not exist; create it with indexd serve or register, or check the mount"},
		{"absent/below", "does not exist; create it"},
		{"file", "not a directory"},
		{"plain", "is no bucket: it has no .indexd/dirbucket-v1; check the path and the mount"},
		{"spoiled", "cannot be one"},
	} {
		path := filepath.Join(dir, tt.path)
		_, err := dirbucket.Open(path, nil)
		if !errors.Is(err, bucket.ErrNotExist) || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), tt.hint) {
			t.Errorf("Open(%s): error %v, want ErrNotExist that names the path and says %q", tt.path, err, tt.hint)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"file", "plain", "spoiled"}) {
		t.Errorf("after it there are %q: something was made", got)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "deep", "dir")
	put(t, create(t, path), "a", "kept")
	for what, open := range map[string]func(string, *dirbucket.Options) (*dirbucket.Bucket, error){
		"Create": dirbucket.Create, "Open": dirbucket.Open,
	} {
		b, err := open(path, nil)
		if err != nil {
			t.Fatalf("%s of an existing bucket: %v", what, err)
		}
		if body, err := read(t.Context(), b, "a"); body != "kept" || err != nil {
			t.Errorf("%s of an existing bucket: body %q, %v", what, body, err)
		}
		b.Close()
	}
	file := filepath.Join(t.TempDir(), "file")
	place(t, filepath.Dir(file), "file")
	if _, err := dirbucket.Create(file, nil); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("Create over a file: error %v, want one that says so", err)
	}
}

// TestFiles shows that a key is its path, both ways.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	put(t, b, "team/item", "body")
	if data, err := os.ReadFile(filepath.Join(root, "team", "item")); string(data) != "body" || err != nil {
		t.Errorf("ReadFile: %q, %v", data, err)
	}
	place(t, root, "team/other")
	when := time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)
	if err := os.Chtimes(filepath.Join(root, "team", "other"), time.Time{}, when); err != nil {
		t.Fatal(err)
	}
	o, err := b.Head(t.Context(), "team/other")
	if err != nil || !o.StoreTime.Equal(when) {
		t.Errorf("Head of a touched file: %+v, %v, want store time %v", o, err, when)
	}
}

// TestOwnDirectory: what is in .indexd is nobody's key.
func TestOwnDirectory(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	put(t, b, "_item", "")
	put(t, b, ".indexd2/item", "")
	put(t, b, "team/.indexd/item", "")
	for _, key := range []bucket.Key{".indexd", ".indexd/dirbucket-v1", ".indexd/clock", ".indexd/tmp/x", ".indexd/new"} {
		_, putErr := b.Put(t.Context(), key, nil)
		_, headErr := b.Head(t.Context(), key)
		_, openErr := b.Open(t.Context(), key)
		deleteErrs := b.Delete(t.Context(), []bucket.Key{key})
		for call, err := range map[string]error{
			"Put": putErr, "Head": headErr, "Open": openErr, "Delete": errors.Join(deleteErrs...),
		} {
			if !errors.Is(err, bucket.ErrInvalidKey) {
				t.Errorf("%s(%q): error %v, want ErrInvalidKey", call, key, err)
			}
		}
	}
	for prefix, want := range map[string][]string{
		"":            {".indexd2/item", "_item", "team/.indexd/item"},
		".":           {".indexd2/item"},
		".indexd":     {".indexd2/item"},
		".indexd/":    nil,
		".indexd/tmp": nil,
	} {
		if got, err := list(t.Context(), b, bucket.ListRequest{Prefix: prefix}); err != nil || !slices.Equal(got, want) {
			t.Errorf("List(%q) = %q, %v, want %q", prefix, got, err, want)
		}
	}
}

func TestCase_C56_LeftoversInvisibleAndCleaned(t *testing.T) {
	root := t.TempDir()
	create(t, root).Close()
	place(t, root, ".indexd/tmp/crashed", ".indexd/tmp/writing")
	old := time.Now().Add(-61 * time.Minute)
	if err := os.Chtimes(filepath.Join(root, ".indexd", "tmp", "crashed"), old, old); err != nil {
		t.Fatal(err)
	}
	b, err := dirbucket.Open(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := tempFiles(root); !slices.Equal(got, []string{"writing"}) {
		t.Errorf("temporary files after Open: %q, want only the recent one", got)
	}
	if got, err := list(t.Context(), b, bucket.ListRequest{}); len(got) != 0 || err != nil {
		t.Errorf("List = %q, %v, want nothing", got, err)
	}
}

func TestClose(t *testing.T) {
	b := create(t, t.TempDir())
	put(t, b, "a", "body")
	r, err := b.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var wg sync.WaitGroup
	for range 8 { // calls that go on are finished, later ones refused
		wg.Go(func() {
			for {
				if _, err := b.Put(t.Context(), "b", nil); err != nil {
					if !errors.Is(err, os.ErrClosed) {
						t.Errorf("Put while closing: %v", err)
					}
					return
				}
			}
		})
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wg.Wait()
	if _, err := list(t.Context(), b, bucket.ListRequest{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("List after Close: %v, want os.ErrClosed", err)
	}
	if err := b.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Close: %v, want os.ErrClosed", err)
	}
	var first [1]byte
	if _, err := r.Read(first[:]); err != nil || first[0] != 'b' {
		t.Errorf("reading a body after Close: %q, %v", first, err)
	}
}
