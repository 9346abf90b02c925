package dirbucket_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/cas"
)

func save(t *testing.T, b *dirbucket.Bucket, key bucket.Key, body string, p cas.Precondition) cas.Version {
	t.Helper()
	v, err := b.Save(t.Context(), key, []byte(body), p)
	must(t, err)
	return v
}

// TestSave_Durable: the directory is synced before Save answers, and so are those above it if they are new.
func TestSave_Durable(t *testing.T) {
	root := t.TempDir()
	var log syncLog
	b := createWith(t, root, log.options())
	v := save(t, b, "a/b/k", "one", cas.IfAbsent())
	if got := log.take(); !slices.Equal(got, []string{".", "a", "a/b"}) {
		t.Errorf("after the first Save %q are synced", got)
	}
	save(t, b, "a/b/k", "two", cas.IfMatch(v))
	if got := log.take(); !slices.Equal(got, []string{"a/b"}) {
		t.Errorf("after the second Save %q are synced", got)
	}
}

// TestSave_AnotherBucket: Save lets go of its lock, whatever became of it.
func TestSave_AnotherBucket(t *testing.T) {
	root := t.TempDir()
	one, other := create(t, root), create(t, root)
	v := save(t, one, "k", "one", cas.IfAbsent())
	checkLocks(t, root)
	save(t, other, "k", "two", cas.IfMatch(v))
	if _, err := one.Save(t.Context(), "k", []byte("six"), cas.IfMatch(v)); !errors.Is(err, cas.ErrConflict) {
		t.Errorf("Save with a stale token: %v", err)
	}
	checkLocks(t, root)
}

// TestSave_LockHeld by another process: the wait ends with its context, and nothing was done.
func TestSave_LockHeld(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	v := save(t, b, "k", "one", cas.IfAbsent())
	dir := filepath.Join(root, ".indexd", "locks")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("locks: %v, %v", entries, err)
	}
	held := flock.New(filepath.Join(dir, entries[0].Name()))
	must(t, held.Lock())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = b.Save(ctx, "k", []byte("two"), cas.IfMatch(v))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cas.ErrUnknown) || errors.Is(err, cas.ErrConflict) {
		t.Errorf("Save while the lock is held: %v", err)
	}
	must(t, held.Close())
	save(t, b, "k", "two", cas.IfMatch(v))
}

// TestSave_DirectoryReplaced while it waited for the lock: that is what it says, not that the object has changed; after it
// has written: unknown.
func TestSave_DirectoryReplaced(t *testing.T) {
	for _, at := range []string{"locked", "durable"} {
		for _, way := range ways {
			t.Run(at+"/"+way.name, func(t *testing.T) {
				root := filepath.Join(t.TempDir(), "bucket")
				b := create(t, root)
				p := cas.IfMatch(save(t, b, "k", "one", cas.IfAbsent()))
				if at == "locked" {
					p = cas.IfMatch("stale")
				}
				dirbucket.OnStep(b, func(step string) {
					if step == at {
						way.lose(t, root)
					}
				})
				want := map[string]error{"locked": bucket.ErrNotExist, "durable": cas.ErrUnknown}[at]
				_, err := b.Save(t.Context(), "k", []byte("two"), p)
				if !errors.Is(err, want) || errors.Is(err, cas.ErrConflict) || at == "locked" && errors.Is(err, cas.ErrUnknown) {
					t.Errorf("Save: %v, want %v", err, want)
				}
			})
		}
	}
}

// TestSave_NotRegular: what is no object is neither replaced nor waited for.
func TestSave_NotRegular(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o666))
	must(t, os.Symlink("pipe", filepath.Join(root, "link")))
	must(t, os.Mkdir(filepath.Join(root, "dir"), 0o777))
	for _, key := range []bucket.Key{"pipe", "link", "dir"} {
		for _, p := range []cas.Precondition{cas.IfAbsent(), cas.IfMatch("v")} {
			if _, err := b.Save(t.Context(), key, []byte("x"), p); !errors.Is(err, bucket.ErrInvalidKey) {
				t.Errorf("Save of %s %v: %v, want ErrInvalidKey", key, p, err)
			}
		}
	}
	if got := tempFiles(root); len(got) != 0 {
		t.Errorf("temporary files: %q", got)
	}
}

// TestLoad_NotRegular: what is no file is no absence. A document that was moved away, and linked to, is not lost.
func TestLoad_NotRegular(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	save(t, b, "moved", "one", cas.IfAbsent())
	must(t, os.Symlink("moved", filepath.Join(root, "link")))
	must(t, os.Symlink("nowhere", filepath.Join(root, "dangling")))
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o666))
	must(t, os.Mkdir(filepath.Join(root, "dir"), 0o777))
	for _, key := range []bucket.Key{"link", "dangling", "pipe", "dir"} {
		if _, err := b.Load(t.Context(), key); !errors.Is(err, bucket.ErrInvalidKey) || errors.Is(err, cas.ErrNotExist) {
			t.Errorf("Load of %s: %v, want ErrInvalidKey", key, err)
		}
	}
}

// TestLoad_TooLarge: a body that no document has is not read into memory, but compared as any other.
func TestLoad_TooLarge(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	must(t, os.WriteFile(filepath.Join(root, "k"), nil, 0o666))
	must(t, os.Truncate(filepath.Join(root, "k"), cas.MaxSize+1))
	if o, err := b.Load(t.Context(), "k"); !errors.Is(err, cas.ErrTooLarge) {
		t.Errorf("Load: %d bytes, %v, want ErrTooLarge", len(o.Body), err)
	}
	sum := sha256.Sum256(make([]byte, cas.MaxSize+1))
	for _, p := range []cas.Precondition{cas.IfAbsent(), cas.IfMatch("v")} {
		if _, err := b.Save(t.Context(), "k", []byte("x"), p); !errors.Is(err, cas.ErrConflict) {
			t.Errorf("Save %v: %v, want ErrConflict", p, err)
		}
	}
	save(t, b, "k", "x", cas.IfMatch(cas.Version(hex.EncodeToString(sum[:]))))
}

// TestSave_AnotherUser: the files of locks have the permissions that the umask leaves, as all others do; else who shares the
// directory with the first one to save could never save.
func TestSave_AnotherUser(t *testing.T) {
	root := t.TempDir()
	save(t, create(t, root), "k", "one", cas.IfAbsent())
	object, err := os.Stat(filepath.Join(root, "k"))
	must(t, err)
	locks, err := filepath.Glob(filepath.Join(root, ".indexd", "locks", "*"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("locks: %v, %v", locks, err)
	}
	lock, err := os.Stat(locks[0])
	must(t, err)
	if lock.Mode() != object.Mode() {
		t.Errorf("the lock has the mode %v, and the object %v", lock.Mode(), object.Mode())
	}
}

// TestSave_SyncFails: where the body cannot be made durable, nothing is changed; where the directory cannot, it is unknown.
func TestSave_SyncFails(t *testing.T) {
	for _, step := range []string{"locked", "renamed"} {
		cmd := command(t, "sync-fails", t.TempDir())
		cmd.Env = append(cmd.Env, childArg+"="+step)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("syncs fail when it is %s: %v\n%s", step, err, out)
		}
	}
}

// syncFailsChild has the kernel refuse syncs from a step on, in the way of a failing disk. The filter stays for good, which
// is why this is a process of its own.
func syncFailsChild(dir string) error {
	at, ctx := os.Getenv(childArg), context.Background()
	b, err := dirbucket.Create(dir, nil)
	if err != nil {
		return err
	}
	v, err := b.Save(ctx, "k", []byte("one"), cas.IfAbsent())
	if err != nil {
		return err
	}
	var failed error
	dirbucket.OnStep(b, func(step string) {
		if step == at {
			failed = failSyncs()
		}
	})
	_, err = b.Save(ctx, "k", []byte("two"), cas.IfMatch(v))
	if failed != nil {
		return fmt.Errorf("the kernel takes no filter: %w", failed)
	}
	if unknown := errors.Is(err, cas.ErrUnknown); !errors.Is(err, syscall.EIO) || unknown != (at == "renamed") {
		return fmt.Errorf("Save: %w, want EIO, and unknown: %t", err, at == "renamed")
	}
	o, err := b.Load(ctx, "k")
	if want := map[string]string{"locked": "one", "renamed": "two"}[at]; err != nil || string(o.Body) != want {
		return fmt.Errorf("afterwards there is %q, %w, want %q", o.Body, err, want)
	}
	if left := tempFiles(dir); len(left) != 0 {
		return fmt.Errorf("temporary files: %q", left)
	}
	return nil
}

// failSyncs makes each fsync of this process fail with EIO from now on.
func failSyncs() error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the system call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FSYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	runtime.LockOSThread() // both calls are of one thread; the second one is for all of them
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter)))
	if no != 0 {
		return no
	}
	return nil
}
