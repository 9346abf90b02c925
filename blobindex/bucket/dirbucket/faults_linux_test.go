package dirbucket_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

// TestFullDisk: on a full tmpfs (ENOSPC) where one can be mounted, and always under a limit on file sizes (EFBIG).
func TestFullDisk(t *testing.T) {
	t.Run("file size limit", func(t *testing.T) { runChild(t, "small-files", t.TempDir()) })
	t.Run("tmpfs", func(t *testing.T) {
		withMounts(t, func(t *testing.T) { must(t, fullDisk(tmpfs(t, "", "size=128k"), syscall.ENOSPC)) })
	})
	t.Run("tmpfs without inodes", func(t *testing.T) {
		withMounts(t, func(t *testing.T) { noInodes(t, tmpfs(t, "", "nr_inodes=60")) })
	})
}

func smallFilesChild(dir string) error {
	limit := &syscall.Rlimit{Cur: 64 << 10, Max: 64 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, limit); err != nil {
		return err
	}
	return fullDisk(dir, syscall.EFBIG)
}

// fullDisk puts what does not fit, over an object and over none: the old object stays, and everything else goes on.
func fullDisk(dir string, want error) error {
	ctx := context.Background()
	b, err := dirbucket.Create(dir, nil)
	if err != nil {
		return err
	}
	defer b.Close()
	if _, err := b.Put(ctx, "ns/old", strings.NewReader("old body")); err != nil {
		return err
	}
	for _, key := range []bucket.Key{"ns/old", "ns/new", "other/new"} {
		_, err := b.Put(ctx, key, strings.NewReader(strings.Repeat("x", 1<<20)))
		if !errors.Is(err, want) {
			return fmt.Errorf("putting too much at %q: error %v, want %v", key, err, want)
		}
		if left := tempFiles(dir); len(left) != 0 {
			return fmt.Errorf("temporary files %q, want none", left)
		}
	}
	if body, err := read(ctx, b, "ns/old"); body != "old body" || err != nil {
		return fmt.Errorf("old body is %.20q, %v", body, err)
	}
	if keys, err := list(ctx, b, bucket.ListRequest{}); err != nil || !slices.Equal(keys, []string{"ns/old"}) {
		return fmt.Errorf("listed %q, %v, want the old object only", keys, err)
	}
	return errors.Join(b.Delete(ctx, []bucket.Key{"ns/old"})...)
}

// noInodes registers until nothing more can be made: what was acknowledged is there, what was refused is not.
func noInodes(t *testing.T, path string) {
	b := create(t, path)
	var acked []string
	for _, key := range numbered("ns/", 100) {
		_, err := b.Put(t.Context(), bucket.Key(key), nil)
		if err == nil {
			acked = append(acked, key)
		} else if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, bucket.ErrFull) {
			t.Fatalf("Put: %v, want ENOSPC and ErrFull", err)
		}
	}
	if len(acked) == 0 || len(acked) == 100 {
		t.Fatalf("%d of 100 puts succeeded: the disk was not full", len(acked))
	}
	if got, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || !slices.Equal(got, acked) {
		t.Errorf("List on a full disk: %d keys, %v, want %d", len(got), err, len(acked))
	}
}

// TestCase_C04_NoDescriptors runs out of them in a process of its own.
func TestCase_C04_NoDescriptors(t *testing.T) {
	root := t.TempDir()
	create(t, root)
	place(t, root, append(numbered("ns/a/", 10), numbered("ns/b/c/", 10)...)...)
	runChild(t, "descriptors", root)
}

// descriptorsChild gives back one descriptor after the other: every listing is an error or complete.
func descriptorsChild(dir string) error {
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	limit := &syscall.Rlimit{Cur: 64, Max: 64}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, limit); err != nil {
		return err
	}
	var taken []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	ctx := context.Background()
	_, putErr := b.Put(ctx, "ns/a/new", nil)
	_, headErr := b.Head(ctx, "ns/a/00000")
	deleteErrs := b.Delete(ctx, []bucket.Key{"ns/a/00000"})
	for call, err := range map[string]error{"Put": putErr, "Head": headErr, "Delete": errors.Join(deleteErrs...)} {
		if !errors.Is(err, syscall.EMFILE) || errors.Is(err, bucket.ErrNotExist) {
			return fmt.Errorf("%s without descriptors: %v, want EMFILE", call, err)
		}
	}
	failed, complete := 0, 0
	for _, f := range taken[:10] {
		for _, prefix := range []string{"", "ns/", "ns/a/"} {
			want := map[string]int{"": 20, "ns/": 20, "ns/a/": 10}[prefix]
			keys, err := list(ctx, b, bucket.ListRequest{Prefix: prefix})
			switch {
			case errors.Is(err, syscall.EMFILE):
				failed++
			case err != nil || len(keys) != want:
				return fmt.Errorf("listing %q with few descriptors: %d keys, %v, want EMFILE or %d", prefix, len(keys), err, want)
			default:
				complete++
			}
		}
		f.Close()
	}
	if failed < 3 || complete < 3 {
		return fmt.Errorf("%d listings failed and %d were complete, want some of both", failed, complete)
	}
	return nil
}

// TestReadOnly: a read-only mount where one can be made, and always a directory in which this user may not write.
func TestReadOnly(t *testing.T) {
	t.Run("permissions", func(t *testing.T) {
		root := openToAll(t)
		fillReadOnly(t, root)
		err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			return os.Chmod(path, info.Mode().Perm()&^0o222)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Chmod(root, 0o755) })
		runChild(t, "read-only", root)
	})
	t.Run("mount", func(t *testing.T) {
		withMounts(t, func(t *testing.T) {
			path := tmpfs(t, "", "")
			fillReadOnly(t, path)
			must(t, unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
			must(t, readOnly(path, false))
		})
	})
}

// openToAll is a directory that any user can reach; those of t.TempDir can only be reached by their owner.
func openToAll(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "dirbucket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func fillReadOnly(t *testing.T, root string) {
	t.Helper()
	b := create(t, root)
	put(t, b, "ns/empty", "")
	put(t, b, "ns/full", "body")
	place(t, root, ".indexd/tmp/left")
	// b stays open: it holds nothing open for writing, which would stand in the way of remounting.
}

// dropRights makes this process one of a user who owns nothing.
func dropRights() error {
	if os.Getuid() != 0 {
		return nil
	}
	const nobody = 65534
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
}

func readOnlyChild(dir string) error {
	owner := os.Getuid() != 0 // who may set the times of a file that is read-only even to its owner
	if err := dropRights(); err != nil {
		return err
	}
	return readOnly(dir, owner)
}

// readOnly reads and is refused writes; only the owner may still read the clock by touching its file.
func readOnly(dir string, owner bool) error {
	ctx := context.Background()
	for what, open := range map[string]func(string, *dirbucket.Options) (*dirbucket.Bucket, error){
		"Open": dirbucket.Open, "Create": dirbucket.Create,
	} {
		b, err := open(dir, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		defer b.Close()
		for _, key := range []bucket.Key{"ns/empty", "ns/full", "ns/new", "new", "new/dir/new"} {
			_, err := b.Put(ctx, key, nil)
			_, bodyErr := b.Put(ctx, key, strings.NewReader("other"))
			if !errors.Is(err, bucket.ErrDenied) || !errors.Is(bodyErr, bucket.ErrDenied) {
				return fmt.Errorf("putting %q: errors %v, %v, want ErrDenied", key, err, bodyErr)
			}
		}
		errs := b.Delete(ctx, []bucket.Key{"ns/full", "ns/absent"})
		if len(errs) != 2 || !errors.Is(errs[0], bucket.ErrDenied) || errs[1] != nil {
			return fmt.Errorf("deleting: errors %v, want ErrDenied for the one that is there", errs)
		}
		var keys []bucket.Key
		err = b.List(ctx, bucket.ListRequest{}, func(p bucket.Page) error {
			if !p.Now.IsZero() && !owner {
				return fmt.Errorf("a page of a read-only bucket tells %v, want no time", p.Now)
			}
			for _, o := range p.Objects {
				keys = append(keys, o.Key)
			}
			return nil
		})
		if err != nil || !slices.Equal(keys, []bucket.Key{"ns/empty", "ns/full"}) {
			return fmt.Errorf("listing: %q, %w, want the two objects", keys, err)
		}
		if body, err := read(ctx, b, "ns/full"); body != "body" || err != nil {
			return fmt.Errorf("body %q, %w", body, err)
		}
		if left := tempFiles(dir); !slices.Equal(left, []string{"left"}) {
			return fmt.Errorf("temporary files: %q, want the one that was there", left)
		}
	}
	return nil
}

// TestUnreadable: what this user may not see is an error, and never an empty listing.
func TestUnreadable(t *testing.T) {
	root := openToAll(t)
	create(t, root)
	place(t, root, "open/item", "shut/item", "shut/deep/item")
	if err := os.Chmod(filepath.Join(root, "shut"), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 { // one's own directory must be shut to oneself
		os.Chmod(filepath.Join(root, "shut"), 0)
		t.Cleanup(func() { os.Chmod(filepath.Join(root, "shut"), 0o700) })
	}
	runChild(t, "unreadable", root)
}

func unreadableChild(dir string) error {
	if err := dropRights(); err != nil {
		return err
	}
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, prefix := range []string{"", "s", "shut/", "shut/it", "shut/deep/"} {
		if keys, err := list(ctx, b, bucket.ListRequest{Prefix: prefix}); !errors.Is(err, bucket.ErrDenied) {
			return fmt.Errorf("listing %q: %q, %v, want ErrDenied", prefix, keys, err)
		}
	}
	_, headErr := b.Head(ctx, "shut/item")
	_, openErr := b.Open(ctx, "shut/item")
	for call, err := range map[string]error{"Head": headErr, "Open": openErr} {
		if !errors.Is(err, bucket.ErrDenied) || errors.Is(err, bucket.ErrNotExist) {
			return fmt.Errorf("%s of what may not be seen: %v, want ErrDenied", call, err)
		}
	}
	// What lies before After, or beside the prefix, is not even read.
	for req, want := range map[bucket.ListRequest]int{
		{Prefix: "open/"}: 1, {Prefix: "o"}: 1, {After: "shut0"}: 0, {Prefix: "shut/", After: "shut/~~"}: -1,
		{Prefix: "shut/", After: "t"}: 0, {Prefix: "s", After: "shut/~"}: -1,
	} {
		keys, err := list(ctx, b, req)
		if want >= 0 && (err != nil || len(keys) != want) || want < 0 && !errors.Is(err, bucket.ErrDenied) {
			return fmt.Errorf("listing %+v: %q, %v, want %d keys (-1: ErrDenied)", req, keys, err, want)
		}
	}
	return nil
}

// TestList_DeeperThanDescriptors lists a tree of more levels than a process may open files.
func TestList_DeeperThanDescriptors(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	var keys []string
	way := ""
	for range deepLevels {
		way += "d/"
		keys = append(keys, way+"a", way+"z")
	}
	place(t, root, keys...)
	put(t, b, "b", "")
	runChild(t, "deep", root)
}

const deepLevels = 300

func deepChild(dir string) error {
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	limit := &syscall.Rlimit{Cur: 64, Max: 64}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, limit); err != nil {
		return err
	}
	ctx := context.Background()
	deep := strings.Repeat("d/", 200)
	for prefix, want := range map[string]int{"": 2*deepLevels + 1, "d/": 2 * deepLevels, deep: 2 * (deepLevels - 199)} {
		keys, err := list(ctx, b, bucket.ListRequest{Prefix: prefix})
		if err != nil || len(keys) != want || !slices.IsSorted(keys) {
			return fmt.Errorf("listing below %d levels: %d keys in order: %v, %w, want %d",
				strings.Count(prefix, "/"), len(keys), slices.IsSorted(keys), err, want)
		}
	}
	if _, err := b.Head(ctx, bucket.Key(deep+"a")); err != nil {
		return err
	}
	return b.Close()
}
