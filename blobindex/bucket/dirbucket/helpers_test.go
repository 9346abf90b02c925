package dirbucket_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

func create(t testing.TB, path string) *dirbucket.Bucket {
	t.Helper()
	return createWith(t, path, nil)
}

func createWith(t testing.TB, path string, opts *dirbucket.Options) *dirbucket.Bucket {
	t.Helper()
	b, err := dirbucket.Create(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// counted opens a bucket that counts its directory syncs.
func counted(t testing.TB, path string, syncs *atomic.Int64) *dirbucket.Bucket {
	t.Helper()
	return createWith(t, path, &dirbucket.Options{OnDirSync: func(string) { syncs.Add(1) }})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, b *dirbucket.Bucket, key bucket.Key, body string) {
	t.Helper()
	if _, err := b.Put(t.Context(), key, strings.NewReader(body)); err != nil {
		t.Error(err)
	}
}

// place makes files directly, as people and other programs may.
func place(t testing.TB, root string, keys ...string) {
	t.Helper()
	made := map[string]bool{}
	for _, key := range keys {
		path := filepath.Join(root, key)
		if dir := filepath.Dir(path); !made[dir] {
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			made[dir] = true
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return names
}

// list returns the keys in the order in which they came.
func list(ctx context.Context, b *dirbucket.Bucket, req bucket.ListRequest) ([]string, error) {
	var keys []string
	err := b.List(ctx, req, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, string(o.Key))
		}
		return nil
	})
	return keys, err
}

func read(ctx context.Context, b *dirbucket.Bucket, key string) (string, error) {
	r, err := b.Open(ctx, bucket.Key(key))
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

// tempFiles are the names in .indexd/tmp.
func tempFiles(root string) []string {
	entries, err := os.ReadDir(filepath.Join(root, ".indexd", "tmp"))
	if err != nil {
		return []string{err.Error()}
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A readFunc is a reader at its end, which does something when it is asked.
type readFunc func()

func (f readFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
