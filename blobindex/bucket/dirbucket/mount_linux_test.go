package dirbucket_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

// namespaceVar is set in a process that has a mount namespace of its own; it ends with cannotMount if it has no use.
const (
	namespaceVar = "DIRBUCKET_TEST_NAMESPACE"
	cannotMount  = 77
)

// withMounts runs the calling test again, as a process with a mount namespace of its own, in which run may mount and
// unmount: nobody else sees it, and nothing is left behind. It does so with this user's rights, or else as the root of a
// new user namespace. It reports false where the system allows neither: each caller also has a fault that needs no
// rights.
func withMounts(t *testing.T, run func(t *testing.T)) bool {
	t.Helper()
	if os.Getenv(namespaceVar) != "" {
		run(t)
		return true
	}
	own := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	for _, attr := range []*syscall.SysProcAttr{
		{Cloneflags: syscall.CLONE_NEWNS},
		{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER, UidMappings: own(os.Getuid()), GidMappings: own(os.Getgid())},
	} {
		self, err := os.Executable()
		must(t, err)
		pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
		cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.count=1", "-test.run", pattern)
		cmd.Env = append(os.Environ(), namespaceVar+"=1")
		cmd.SysProcAttr = attr
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.ExitCode() == cannotMount:
			continue
		case err != nil && exit == nil:
			t.Logf("no process in a namespace of its own: %v", err)
			continue
		case err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")):
			t.Errorf("in a mount namespace: %v\n%s", err, out)
		}
		return true
	}
	t.Log("this user may mount nothing: using a fault that needs no rights")
	return false
}

// tmpfs mounts a file system at a new path, or at the given one. It must be called by what withMounts runs.
func tmpfs(t *testing.T, path, options string) string {
	t.Helper()
	if path == "" {
		path = t.TempDir()
	}
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", path, "tmpfs", 0, options),
	)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		os.Exit(cannotMount)
	}
	must(t, err)
	t.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

// wantUnmounted calls everything on a bucket whose directory mnt is not on the file system that it was on: each call is
// an error that says so and what to do, and makes nothing. What lies beside it goes on.
func wantUnmounted(t *testing.T, b *dirbucket.Bucket, root string) {
	t.Helper()
	before := tree(t, filepath.Join(root, "mnt"))
	errs := map[string]error{}
	for _, prefix := range []string{"", "m", "mnt/", "mnt/ns/", "mnt/ns/it", "mnt/no/such/"} {
		_, errs["List "+prefix] = list(t.Context(), b, bucket.ListRequest{Prefix: prefix})
	}
	_, errs["Put"] = b.Put(t.Context(), "mnt/ns/item", nil)
	_, errs["Put with a body"] = b.Put(t.Context(), "mnt/new/item", strings.NewReader("body"))
	_, errs["Head"] = b.Head(t.Context(), "mnt/ns/item")
	_, errs["Open"] = b.Open(t.Context(), "mnt/ns/item")
	deleteErrs := b.Delete(t.Context(), []bucket.Key{"mnt/ns/item", "beside/none"})
	if len(deleteErrs) != 2 || deleteErrs[1] != nil {
		t.Fatalf("Delete: %v, want an error for the first key only", deleteErrs)
	}
	errs["Delete"] = deleteErrs[0]
	for call, err := range errs {
		if !errors.Is(err, bucket.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join(root, "mnt")) ||
			!strings.Contains(err.Error(), "restart") {
			t.Errorf("%s: %v, want ErrNotExist that names the directory and what to do", call, err)
		}
	}
	if after := tree(t, filepath.Join(root, "mnt")); after != before {
		t.Errorf("at the mount point there was\n%s\nand is\n%s", before, after)
	}
	put(t, b, "beside/item", "")
	if got, err := list(t.Context(), b, bucket.ListRequest{Prefix: "beside/"}); err != nil || len(got) != 1 {
		t.Errorf("List beside it: %q, %v, want it to go on", got, err)
	}
}

// TestMount_Lost takes away a file system that was mounted below the root, listed or written through: what is at the
// mount point then must not pass for the objects that were there.
func TestMount_Lost(t *testing.T) {
	use := map[string]func(t *testing.T, b *dirbucket.Bucket){
		"written": func(t *testing.T, b *dirbucket.Bucket) { put(t, b, "mnt/ns/item", "") },
		"listed": func(t *testing.T, b *dirbucket.Bucket) {
			_, err := list(t.Context(), b, bucket.ListRequest{Prefix: "mnt/"})
			must(t, err)
		},
		"listed with all": func(t *testing.T, b *dirbucket.Bucket) {
			_, err := list(t.Context(), b, bucket.ListRequest{})
			must(t, err)
		},
	}
	for how, use := range use {
		t.Run(how, func(t *testing.T) {
			withMounts(t, func(t *testing.T) {
				root := t.TempDir()
				b := create(t, root)
				mnt := filepath.Join(root, "mnt")
				must(t, os.Mkdir(mnt, 0o777))
				tmpfs(t, mnt, "")
				use(t, b)
				must(t, unix.Unmount(mnt, unix.MNT_DETACH))
				wantUnmounted(t, b, root)
				tmpfs(t, mnt, "") // another one, which may have got the number of the first
				wantUnmounted(t, b, root)
				must(t, unix.Unmount(mnt, unix.MNT_DETACH))
				must(t, os.Remove(mnt)) // who could remove it, had unmounted it
				wantUnmounted(t, b, root)
				must(t, os.WriteFile(mnt, nil, 0o666))
				wantUnmounted(t, b, root)
			})
		})
	}
}

// TestMount_Late mounts a file system over a directory that was listed already: the objects in it are hidden.
func TestMount_Late(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		root := t.TempDir()
		b := create(t, root)
		put(t, b, "mnt/ns/item", "")
		tmpfs(t, filepath.Join(root, "mnt"), "")
		wantUnmounted(t, b, root)
	})
}

// TestMount_LostWhileListing unmounts a namespace between two pages, before the listing gets there.
func TestMount_LostWhileListing(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		root := t.TempDir()
		b := create(t, root)
		mnt := filepath.Join(root, "p", "mnt")
		place(t, root, append(numbered("p/a/", bucket.PageSize), "p/mnt/hidden")...)
		tmpfs(t, mnt, "")
		put(t, b, "p/mnt/item", "")
		pages := 0
		err := b.List(t.Context(), bucket.ListRequest{Prefix: "p/"}, func(bucket.Page) error {
			if pages++; pages > 1 {
				return nil
			}
			return unix.Unmount(mnt, unix.MNT_DETACH)
		})
		if !errors.Is(err, bucket.ErrNotExist) || pages != 1 {
			t.Errorf("List: %v after %d pages, want ErrNotExist after the first", err, pages)
		}
	})
}

// TestMount_OtherDevice is TestMount_Lost and TestMount_Late without a mount: as if the directory had been on another
// device when it was used, as an ordinary directory or as a mount point.
func TestMount_OtherDevice(t *testing.T) {
	for _, mounted := range []bool{false, true} {
		root := t.TempDir()
		b := create(t, root)
		put(t, b, "mnt/ns/item", "")
		dirbucket.PretendDevice(b, "mnt", mounted)
		wantUnmounted(t, b, root)
	}
}

// TestMount_Removed: an ordinary directory that an administrator removes or replaces is only that.
func TestMount_Removed(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	put(t, b, "p/ns/item", "")
	must(t, os.RemoveAll(filepath.Join(root, "p")))
	for _, prefix := range []string{"", "p/", "p/ns/"} {
		if got, err := list(t.Context(), b, bucket.ListRequest{Prefix: prefix}); err != nil || len(got) != 0 {
			t.Errorf("List %q of a removed directory: %q, %v, want nothing", prefix, got, err)
		}
	}
	place(t, root, "p/ns/other")
	if got, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || !slices.Equal(got, []string{"p/ns/other"}) {
		t.Errorf("List of one made again: %q, %v, want what is there", got, err)
	}
}
