package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/fakes/s3d"
)

const (
	wirePointer     = snapshot.Root + "team/files/pointer"
	wireGenerations = snapshot.Root + "team/files/generations/"
)

func isIndex(key string) bool {
	return strings.HasPrefix(key, wireGenerations) && strings.HasSuffix(key, "_index")
}

func isPointer(key string) bool { return key == wirePointer }

// onSnapshot is onWire with a directory of two files, and one generation of it.
func onSnapshot(t *testing.T) (w *wire, dir string) {
	w = onWire(t, nil)
	dir = t.TempDir()
	writeFile(t, dir, "a")
	writeFile(t, dir, "b")
	w.must("snapshot", "publish", dir, "team/files")
	return w, dir
}

// generations are the ids of those of which anything is there.
func (w *wire) generations() map[string]int {
	found := map[string]int{}
	for _, k := range w.s.Keys("bucket") {
		if rest, ok := strings.CutPrefix(k, wireGenerations); ok {
			id, _, _ := strings.Cut(rest, "_")
			found[id]++
		}
	}
	return found
}

// rival publishes another directory, as somebody else does who has walked a moment ago. It may be called by a server.
func (w *wire) rival(dir, path string, flags ...string) {
	if err := os.WriteFile(filepath.Join(dir, path), nil, 0o644); err != nil {
		w.t.Error(err)
	}
	if status, _, stderr := w.run(append([]string{"snapshot", "publish", dir, "team/files"}, flags...)...); status != 0 {
		w.t.Errorf("the rival: exit status %d, %s", status, stderr)
	}
}

// TestSnapshot_Superseded: who is overtaken walks again, three times in all, and is then told to try later.
func TestSnapshot_Superseded(t *testing.T) {
	w, dir := onSnapshot(t)
	other := t.TempDir()
	for times, want := range map[int32]int{2: exitDone, 3: exitBusy} {
		writeFile(t, dir, fmt.Sprint("c", times))
		var met atomic.Int32
		w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isIndex, Every: true, Kind: s3d.Before(func() {
			if n := met.Add(1); n%2 == 1 && n < 2*times { // each other index is the rival's
				w.rival(other, fmt.Sprint("of", times, "-", n))
			}
		})})
		status, stdout, stderr := w.run("snapshot", "publish", dir, "team/files")
		w.s.Forgive()
		if status != want {
			t.Errorf("overtaken %d times: exit status %d, want %d; %s", times, status, want, stderr)
		}
		if want == exitBusy && (stdout != "" || !strings.Contains(stderr, "superseded at each of 3 walks; generation ")) {
			t.Errorf("%q, %q", stdout, stderr)
		}
		if want == exitDone && !strings.HasPrefix(stdout, "published generation ") {
			t.Errorf("%q", stdout)
		}
	}
	// Its leftovers go with the next publication that is won.
	w.must("snapshot", "publish", dir, "team/files", "--grace", "0")
	if found := w.generations(); len(found) != 1 {
		t.Errorf("left: %v", found)
	}
}

// TestSnapshot_WireFailures: what each failure says and leaves, and with which status.
func TestSnapshot_WireFailures(t *testing.T) {
	w, dir := onSnapshot(t)
	writeFile(t, dir, "c")
	publish := []string{"snapshot", "publish", dir, "team/files"}
	before, _ := w.s.Body("bucket", wirePointer)
	w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isIndex, Every: true, Kind: s3d.Status(403, "AccessDenied")})
	w.fails(exitFailed, []string{"nothing was published; what was put goes with a sweep"}, publish...)
	w.s.Forgive()
	w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isPointer, Every: true, Kind: s3d.Status(403, "AccessDenied")})
	w.fails(exitFailed, nil, publish...)
	w.s.Forgive()
	if now, _ := w.s.Body("bucket", wirePointer); now != before {
		t.Errorf("the pointer is another one")
	}
	// The answer is lost, and so is what would tell.
	var saved atomic.Bool
	w.s.Plan(
		s3d.Fault{Op: s3d.PutObject, Key: func(key string) bool {
			if isPointer(key) {
				saved.Store(true)
			}
			return isPointer(key)
		}, Kind: s3d.ResetAfter()},
		s3d.Fault{Op: s3d.GetObject, Key: func(key string) bool { return isPointer(key) && saved.Load() }, Every: true,
			Kind: s3d.Status(403, "AccessDenied")},
	)
	w.fails(exitUnknown, []string{`it may have been published: look with "indexd snapshot status team/files"`}, publish...)
	w.s.Forgive()
	if out := w.must(publish...); !strings.HasPrefix(out, "unchanged: ") {
		t.Errorf("repeated: %q", out)
	}
	w.s.Plan(s3d.Fault{Op: s3d.DeleteObjects, Every: true, Kind: s3d.Status(403, "AccessDenied")},
		s3d.Fault{Op: s3d.DeleteObject, Every: true, Kind: s3d.Status(403, "AccessDenied")})
	writeFile(t, dir, "d")
	status, stdout, stderr := w.run(append(publish, "--grace", "0")...)
	if status != exitDone || !strings.HasPrefix(stdout, "published ") || !strings.Contains(stderr, "could not all be removed") {
		t.Errorf("undeletable: exit status %d, %q, %q", status, stdout, stderr)
	}
	w.fails(exitFailed, []string{"deleting"}, "snapshot", "sweep", "team/files")
	w.s.Forgive()
	w.must("snapshot", "sweep", "team/files")
	if found := w.generations(); len(found) != 1 {
		t.Errorf("left: %v", found)
	}
	// A part that something else deletes.
	for _, k := range w.s.Keys("bucket") {
		if strings.HasPrefix(k, wireGenerations) && strings.HasSuffix(k, "_000000") {
			w.s.Forget("bucket", k)
		}
	}
	status, _, stderr = w.run("snapshot", "ls", "team/files")
	if status != exitFailed || !strings.Contains(stderr, "missing part: 000000") || !strings.Contains(stderr, "publish again") {
		t.Errorf("exit status %d, %s", status, stderr)
	}
	if out := w.must(publish...); !strings.HasPrefix(out, "published ") {
		t.Errorf("not repaired: %q", out)
	}
	w.must("snapshot", "ls", "team/files")
}

// TestSnapshot_Interrupted: an interrupted publication changes nothing, and what it leaves goes with the sweep after the next.
func TestSnapshot_Interrupted(t *testing.T) {
	w, dir := onSnapshot(t)
	writeFile(t, dir, "c")
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGKILL} {
		cmd := w.command("snapshot", "publish", dir, "team/files")
		// It is not answered before the process has ended, and then refused: it comes to no end, and leaves nothing late.
		started, ended := make(chan struct{}), make(chan struct{})
		w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isIndex, Kind: s3d.Judge(func(*http.Request) (int, string) {
			<-started
			if err := cmd.Process.Signal(sig); err != nil {
				t.Error(err)
			}
			<-ended
			return http.StatusServiceUnavailable, "SlowDown"
		})})
		wait := startChild(t, cmd)
		close(started)
		status, stdout, stderr := wait()
		close(ended)
		w.s.Forgive()
		if stdout != "" || sig == os.Interrupt && (status != exitFailed || !strings.Contains(stderr, "interrupted: ")) {
			t.Errorf("%v: exit status %d, %q, %s", sig, status, stdout, stderr)
		}
	}
	w.must("snapshot", "publish", dir, "team/files", "--grace", "0")
	w.must("snapshot", "sweep", "team/files")
	if found := w.generations(); len(found) != 1 {
		t.Errorf("left: %v", found)
	}
}

// TestSnapshot_WireRequests counts what commands ask for at the socket.
func TestSnapshot_WireRequests(t *testing.T) {
	w, dir := onSnapshot(t)
	type counts = map[s3d.Op]int
	for _, c := range []struct {
		args   []string
		change string
		want   counts
	}{
		// 1 GET of each is for what was found out about the bucket.
		{[]string{"publish", dir, "team/files"}, "", counts{s3d.GetObject: 3, s3d.ListObjectsV2: 1}},
		{[]string{"publish", dir, "team/files"}, "c", counts{s3d.GetObject: 3, s3d.ListObjectsV2: 2, s3d.PutObject: 4}},
		{[]string{"publish", dir, "team/files", "--grace", "0"}, "d",
			counts{s3d.GetObject: 3, s3d.ListObjectsV2: 2, s3d.PutObject: 4, s3d.DeleteObjects: 1}},
		{[]string{"sweep", "team/files"}, "", counts{s3d.GetObject: 3, s3d.ListObjectsV2: 1}},
		{[]string{"status", "team/files"}, "", counts{s3d.GetObject: 1}},
		{[]string{"ls", "team/files"}, "", counts{s3d.GetObject: 3}},
		{[]string{"ls", "team/files", "c"}, "", counts{s3d.GetObject: 4}},
		{[]string{"diff", "team/files", "current", "current"}, "", counts{s3d.GetObject: 7}},
	} {
		if c.change != "" {
			writeFile(t, dir, c.change)
		}
		w.s.Reset()
		w.must(append([]string{"snapshot"}, c.args...)...)
		if got := w.s.Counts(); !maps.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.args, got, c.want)
		}
	}
}

// TestSnapshot_SweptWhileRead: a generation that goes while it is read is no loss, and no whole answer either.
func TestSnapshot_SweptWhileRead(t *testing.T) {
	w, _ := onSnapshot(t)
	other := t.TempDir()
	writeFile(t, other, "a")
	for i, args := range [][]string{{"ls", "team/files"}, {"ls", "team/files", "a"}, {"diff", "team/files", "current", "current"}} {
		w.s.Plan(s3d.Fault{Op: s3d.GetObject, Key: func(key string) bool { return strings.HasSuffix(key, "_000000") },
			Kind: s3d.Before(func() { w.rival(other, fmt.Sprint(i), "--grace", "0") })})
		status, stdout, stderr := w.run(append([]string{"snapshot"}, args...)...)
		w.s.Forgive()
		if status != exitBusy || stdout != "" || !strings.Contains(stderr, "was swept while it was read, and the answer is not whole") {
			t.Errorf("%q: exit status %d, %q, %s", args, status, stdout, stderr)
		}
	}
}
