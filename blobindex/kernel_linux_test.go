package blobindex_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune/janitor"
	"golang.org/x/sys/unix"
)

// A watch counts what the kernel saw happen in one directory, which no wrapper of ours can get wrong.
type watch struct {
	t  *testing.T
	fd int
}

// seen are events by kind: files created, deleted, opened and read, and reads of the directory itself.
type seen struct{ created, deleted, opened, read, listed int }

func watchDir(t *testing.T, dir string) *watch {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_DELETE|unix.IN_OPEN|unix.IN_ACCESS); err != nil {
		t.Fatal(err)
	}
	return &watch{t, fd}
}

// take returns what was seen since the last call. Events are queued before the call that causes them returns.
func (w *watch) take() (s seen) {
	w.t.Helper()
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(w.fd, buf)
		if err == unix.EAGAIN {
			return s
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for rest := buf[:n]; len(rest) > 0; {
			mask := binary.NativeEndian.Uint32(rest[4:])
			switch dir := mask&unix.IN_ISDIR != 0; {
			case mask&unix.IN_Q_OVERFLOW != 0:
				w.t.Fatal("more events than the kernel keeps")
			case mask&unix.IN_CREATE != 0:
				s.created++
			case mask&unix.IN_DELETE != 0:
				s.deleted++
			case dir && mask&unix.IN_ACCESS != 0:
				s.listed++
			case !dir && mask&unix.IN_OPEN != 0:
				s.opened++
			case !dir && mask&unix.IN_ACCESS != 0:
				s.read++
			}
			rest = rest[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(rest[12:])):]
		}
	}
}

// TestRequests_Kernel counts on a directory what each operation may cost: registering and beating write one file and read
// nothing, a view opens no marker without labels, and pruning deletes the dead and touches no other file.
func TestRequests_Kernel(t *testing.T) {
	root := filepath.Join(t.TempDir(), "bucket")
	objects, err := dirbucket.Create(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := objects.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(root, "_active_runs", "team")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	id := func(subkey string, at time.Time) itemid.ID {
		parsed, err := itemid.Epoch.Parse(fmt.Sprintf("%s_%019d", subkey, at.UnixNano()))
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	x, err := blobindex.New(objects, blobindex.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, now := space(t, x, "team"), time.Now()
	w := watchDir(t, dir)
	check := func(what string, want seen) {
		t.Helper()
		got := w.take()
		if got.listed = min(got.listed, 1); got != want { // one listing is a few reads of the directory
			t.Errorf("%s: the kernel saw %+v, want %+v", what, got, want)
		}
	}

	register(t, n, id("a", now))
	check("register", seen{created: 1, opened: 1})
	if _, err := n.Heartbeat(t.Context(), id("a", now)); err != nil {
		t.Fatal(err)
	}
	check("heartbeat", seen{created: 1, opened: 1})
	register(t, n, id("b", now))
	w.take()
	wantCards(t, n, id("b", now), id("a", now))
	check("cards without labels", seen{listed: 1})
	if _, err := n.Finish(t.Context(), id("a", now), blobindex.Done); err != nil {
		t.Fatal(err)
	}
	check("finish", seen{created: 1, opened: 1, deleted: 2, listed: 1})

	old := now.Add(-3 * time.Hour)
	for i := range 1500 {
		path := filepath.Join(dir, id(fmt.Sprint("stale", i), old).String())
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	w.take()
	r, err := janitor.New(x, nil).Run(t.Context(), nil)
	if err != nil || r.Deleted["stale"] != 1500 {
		t.Fatalf("%+v %v", r, err)
	}
	check("prune of 1,500 dead", seen{deleted: 1500, listed: 1})
}
