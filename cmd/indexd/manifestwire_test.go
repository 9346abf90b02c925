package main

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestManifest_Stores runs the commands on S3 and on Cloud Storage, addressed as a user does, below a path.
func TestManifest_Stores(t *testing.T) {
	gcs := gcsd.New(&gcsd.Options{Lies: gcsd.Lies{NoPace: true}})
	t.Cleanup(gcs.Close)
	for scheme, endpoint := range map[string]string{"s3": s3d.New(t, nil).URL, "gs": gcs.URL()} {
		t.Run(scheme, func(t *testing.T) {
			address := func(name string) string {
				return scheme + "://" + name + "/some/path?endpoint=" + url.QueryEscape(endpoint)
			}
			runScripts(t, testscript.Params{Files: []string{"testdata/manifest/store.txtar"}},
				"INDEXD_BUCKET="+address("bucket"), "ABSENT="+address("absent"),
				"AWS_ACCESS_KEY_ID=AK", "AWS_SECRET_ACCESS_KEY=the-secret", "AWS_EC2_METADATA_DISABLED=true")
		})
	}
}

// TestManifest_Terminal: what is drawn while files are uploaded.
func TestManifest_Terminal(t *testing.T) {
	runScripts(t, testscript.Params{Files: []string{"testdata/manifest/terminal.txtar"}})
}

// TestManifest_NoRoom: a full disk.
func TestManifest_NoRoom(t *testing.T) {
	runScripts(t, testscript.Params{Files: []string{"testdata/manifest/full.txtar"}})
}

// A wire is a server and the command as processes that use it.
type wire struct {
	t   *testing.T
	s   *s3d.Server
	dir string
}

const (
	wireBlobs = manifest.Root + "team/models/blobs/"
	wireList  = manifest.Root + "team/models/list"
)

// onWire returns one on which conditional writes were tried already.
func onWire(t *testing.T, opts *s3d.Options) *wire {
	w := &wire{t, s3d.New(t, opts), t.TempDir()}
	w.must("manifest", "add", "team/first", w.file("first", "x"))
	return w
}

// file makes a file and returns its path.
func (w *wire) file(name, body string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *wire) command(args ...string) *exec.Cmd {
	cmd := child(w.t, "indexd", args...)
	cmd.Env = append(cmd.Env, s3Vars(w.s)...)
	return cmd
}

// run returns the exit status, and what was told.
func (w *wire) run(args ...string) (status int, stdout, stderr string) {
	w.t.Helper()
	return runChild(w.t, w.command(args...))
}

func runChild(t *testing.T, cmd *exec.Cmd) (status int, stdout, stderr string) {
	t.Helper()
	return startChild(t, cmd)()
}

// startChild returns once the child has a process; what it returns waits for its end.
func startChild(t *testing.T, cmd *exec.Cmd) (wait func() (status int, stdout, stderr string)) {
	t.Helper()
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (int, string, string) {
		t.Helper()
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), out.String(), told.String()
	}
}

func (w *wire) must(args ...string) string {
	w.t.Helper()
	status, stdout, stderr := w.run(args...)
	if status != 0 {
		w.t.Fatalf("%q: exit status %d, %s", args, status, stderr)
	}
	return stdout
}

// fails holds a command to an exit status and to what it tells.
func (w *wire) fails(want int, says []string, args ...string) {
	w.t.Helper()
	status, stdout, stderr := w.run(args...)
	if status != want || stdout != "" {
		w.t.Errorf("%q: exit status %d, want %d; stdout %q, stderr %s", args, status, want, stdout, stderr)
	}
	for _, s := range says {
		if !strings.Contains(stderr, s) {
			w.t.Errorf("%q says nothing of %q: %s", args, s, stderr)
		}
	}
}

// blobs are the files of the manifest that are there, referenced or not.
func (w *wire) blobs() (keys []string) {
	for _, k := range w.s.Keys("bucket") {
		if strings.HasPrefix(k, wireBlobs) {
			keys = append(keys, k)
		}
	}
	return keys
}

func isBlob(key string) bool { return strings.HasPrefix(key, wireBlobs) }

func isList(key string) bool { return key == wireList }

// TestManifest_FileChanges: files that shrink, grow or disappear between the check and their upload. Nothing is added, and
// what was uploaded of the others is told.
func TestManifest_FileChanges(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"shrinks":    func(path string) error { return os.Truncate(path, 2) },
		"grows":      func(path string) error { return os.Truncate(path, 2000) },
		"disappears": os.Remove,
	} {
		w := onWire(t, nil)
		second := w.file("second", strings.Repeat("x", 1000))
		// The first file's upload is when the second one has been checked, and is not open yet.
		w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isBlob, Kind: s3d.Before(func() {
			if err := change(second); err != nil {
				t.Error(err)
			}
		})})
		says := []string{`"second"`, `nothing was added; files that were uploaded are left over: "indexd manifest gc team/models"`}
		if name != "disappears" {
			says = append(says, "it was changed meanwhile")
		}
		w.fails(1, says, "manifest", "add", "team/models", w.file("a", "a"), second)
		if _, ok := w.s.Body("bucket", wireList); ok || len(w.blobs()) != 1 {
			t.Errorf("%s: the list is there: %v; files %q, want the first one", name, ok, w.blobs())
		}
	}
}

// loseForGood carries the next save of the list out and answers nothing, then or to who looks for it.
func (w *wire) loseForGood() {
	var saved atomic.Bool
	w.s.Plan(
		s3d.Fault{Op: s3d.PutObject, Key: func(key string) bool {
			saved.Store(saved.Load() || isList(key))
			return isList(key)
		}, Kind: s3d.ResetAfter()},
		s3d.Fault{Op: s3d.GetObject, Key: func(key string) bool { return isList(key) && saved.Load() }, Every: true,
			Kind: s3d.Status(403, "AccessDenied")},
	)
}

// TestManifest_LostAnswers: what each lost answer is told to be. An upload's leaves nothing added; that of a save is looked
// for, and is unknown only if that does not help.
func TestManifest_LostAnswers(t *testing.T) {
	const left = `nothing was added; files that were uploaded are left over`
	w := onWire(t, nil)
	add := []string{"manifest", "add", "team/models", w.file("f", "body"), "--id", "x"}

	w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isBlob, Kind: s3d.ResetAfter()})
	w.fails(1, []string{`"f"`, left}, add...)
	w.s.Forgive()
	w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isBlob, Every: true, Kind: s3d.Status(503, "SlowDown")})
	w.fails(75, []string{left, "try later"}, add...)
	w.s.Forgive()
	w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isList, Every: true, Kind: s3d.Status(403, "AccessDenied")})
	w.fails(1, []string{left, "check who may read and write there"}, add...)
	w.s.Forgive()
	if _, ok := w.s.Body("bucket", wireList); ok {
		t.Fatal("there is a list")
	}

	// Carried out, its answer lost, and nothing to be read afterwards.
	w.loseForGood()
	status, _, stderr := w.run(add[:len(add)-2]...) // by a minted id, which has to be told
	told := regexp.MustCompile(`the entry ([a-z2-7]{26}) may have been added: look with "indexd manifest ls team/models" before you ` +
		`repeat it`).FindStringSubmatch(stderr)
	if status != 4 || told == nil {
		t.Fatalf("exit status %d, %s", status, stderr)
	}
	w.s.Forgive()
	if out := w.must("manifest", "cat", "team/models", told[1]); out != "body" {
		t.Errorf("it is %q", out)
	}
	w.must("manifest", "rm", "team/models", told[1])
	w.must(add...)
	w.fails(1, []string{`an entry "x" is there already`}, add...)

	// The same of rm, whose effect is seen by a repetition.
	w.loseForGood()
	w.fails(4, []string{`look with "indexd manifest ls team/models" before you repeat it`}, "manifest", "rm", "team/models", "x")
	w.s.Forgive()
	w.fails(1, []string{"no such entry"}, "manifest", "rm", "team/models", "x")

	// An answer that is lost and found is no matter.
	w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isList, Kind: s3d.DropAfter()})
	w.must(append(add[:len(add)-1], "y")...)
	if out := w.must("manifest", "ls", "team/models", "--json"); strings.Count(out, `"id":`) != 1 {
		t.Errorf("it is there more than once: %s", out)
	}
}

// TestManifest_DeletesFail: what could not be deleted is told, and gone with the next pass; it is no failure of a change, and
// one of gc.
func TestManifest_DeletesFail(t *testing.T) {
	w := onWire(t, nil)
	w.must("manifest", "add", "team/models", w.file("a", "a"), w.file("b", "b"), "--id", "x")
	w.s.Plan(s3d.Fault{Op: s3d.DeleteObjects, Every: true, Kind: s3d.Status(403, "AccessDenied")},
		s3d.Fault{Op: s3d.DeleteObject, Every: true, Kind: s3d.Status(403, "AccessDenied")})
	status, stdout, stderr := w.run("manifest", "rm", "team/models", "x")
	if status != 0 || stdout != "removed x\n" || !strings.Contains(stderr, "note: some files that went with it could not be deleted") {
		t.Errorf("rm: %d, %q, %s", status, stdout, stderr)
	}
	status, stdout, stderr = w.run("manifest", "gc", "team/models")
	if status != 1 || stdout != "0 deleted (2 noted by an earlier change), 2 failed; 0 orphans stay\n" ||
		!strings.Contains(stderr, "AccessDenied") || !strings.Contains(stderr, "check who may delete there") {
		t.Errorf("gc: %d, %q, %s", status, stdout, stderr)
	}
	if out := w.must("manifest", "fsck", "team/models"); strings.Count(out, "it is being deleted") != 2 {
		t.Errorf("fsck: %s", out)
	}
	w.s.Forgive()
	w.must("manifest", "gc", "team/models")
	if out := w.must("manifest", "fsck", "team/models"); len(w.blobs()) > 0 || !strings.Contains(out, "; 0 noted") {
		t.Errorf("left %q: %s", w.blobs(), out)
	}
}

// TestP8_KilledAdd: what an add leaves that is killed at its second upload is referenced by nobody, stays for the grace, and
// goes with gc then; whatever is referenced stays.
func TestP8_KilledAdd(t *testing.T) {
	var ahead atomic.Int64
	w := onWire(t, &s3d.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	w.must("manifest", "add", "team/models", w.file("kept", "kept"), "--id", "kept", "--grace", "1h")
	reached, release := make(chan struct{}), make(chan struct{})
	w.s.Plan(s3d.Fault{Op: s3d.PutObject, Key: isBlob, Nth: 2, Kind: s3d.Before(func() {
		close(reached)
		<-release
	})})
	t.Cleanup(func() { close(release) })
	cmd := w.command("manifest", "add", "team/models", w.file("a", "a"), w.file("b", "b"), "--id", "x", "--dedupe-key", "k")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if len(w.blobs()) != 2 {
		t.Fatalf("it left %q, want what was there and its first file", w.blobs())
	}
	if out := w.must("manifest", "ls", "team/models"); strings.Contains(out, "x ") || !strings.Contains(out, "1 entry, 4 B") {
		t.Errorf("ls: %s", out)
	}
	if out := w.must("manifest", "gc", "team/models"); !strings.HasSuffix(out, "0 deleted; 1 orphan stays\n") ||
		!strings.Contains(out, "it is not older than the grace of 1h0m0s") {
		t.Errorf("gc within the grace: %s", out)
	}
	ahead.Store(int64(2 * time.Hour))
	dry := w.must("manifest", "gc", "team/models", "--dry-run")
	if !strings.Contains(dry, "nothing references it, and it is older than the grace of 1h0m0s") || len(w.blobs()) != 2 {
		t.Errorf("gc --dry-run: %s", dry)
	}
	if out := w.must("manifest", "gc", "team/models"); !strings.HasSuffix(out, "1 deleted; 0 orphans stay\n") || len(w.blobs()) != 1 {
		t.Errorf("gc: %s; left %q", out, w.blobs())
	}
	if out := w.must("manifest", "cat", "team/models", "kept"); out != "kept" {
		t.Errorf("the other entry is %q", out)
	}
	w.must("manifest", "add", "team/models", w.file("a", "a"), "--id", "x", "--dedupe-key", "k")
}

// TestP8_KilledAdd_Directory: the same in the middle of writing a file. Half a file is no file, for nobody.
func TestP8_KilledAdd_Directory(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big")
	if err := errors.Join(os.WriteFile(big, nil, 0o600), os.Truncate(big, 16<<30)); err != nil {
		t.Fatal(err)
	}
	bucket := "--bucket=file://" + dir + "/bucket"
	if status, _, stderr := runChild(t, child(t, "indexd", "register", "--subkey", "a", bucket)); status != 0 {
		t.Fatal(stderr)
	}
	small := filepath.Join(dir, "small")
	if err := os.WriteFile(small, []byte("small"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := runChild(t, child(t, "indexd", "manifest", "add", "team/models", small, "--id", "kept", bucket)); status != 0 {
		t.Fatal(stderr)
	}
	cmd := child(t, "indexd", "manifest", "add", "team/models", big, bucket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "half a file", func() bool { return largest(t, filepath.Join(dir, "bucket")) > 1<<20 })
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	for _, c := range []struct{ command, says string }{
		{"fsck", "1 entry with 1 file: 0 faults; 0 orphans; 0 noted as being deleted\n"},
		{"gc", "0 deleted; 0 orphans stay\n"},
		{"ls", "1 entry, 5 B\n"},
	} {
		status, stdout, stderr := runChild(t, child(t, "indexd", "manifest", c.command, "team/models", bucket))
		if status != 0 || !strings.HasSuffix(stdout, c.says) {
			t.Errorf("%s: %d, %s%s", c.command, status, stdout, stderr)
		}
	}
}

// largest is the size of the largest file below a directory.
func largest(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while we looked
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n = max(n, info.Size())
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestManifest_Interrupted: while standard input is waited for, a signal ends the command, with nothing uploaded and no
// temporary file left.
func TestManifest_Interrupted(t *testing.T) {
	w := onWire(t, nil)
	cmd := w.command("manifest", "add", "team/models", "-")
	temp := t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// More than a pipe holds: it is being read.
	if _, err := stdin.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // by its status
	left, err := os.ReadDir(temp)
	if got := cmd.ProcessState.ExitCode(); got != 1 || err != nil || len(left) > 0 || len(w.blobs()) > 0 ||
		!strings.HasPrefix(stderr.String(), "indexd: interrupted: ") {
		t.Errorf("exit status %d, left %v, %v, uploaded %q: %s", got, left, err, w.blobs(), &stderr)
	}
}

// TestManifest_Requests counts what the README says.
func TestManifest_Requests(t *testing.T) {
	w := onWire(t, nil)
	type counts = map[s3d.Op]int
	for _, c := range []struct {
		args []string
		want counts
	}{
		{[]string{"add", "team/models", w.file("a", "a"), w.file("b", "b"), "--id", "x", "--dedupe-key", "k"},
			counts{s3d.GetObject: 3, s3d.HeadObject: 2, s3d.PutObject: 3}},
		{[]string{"add", "team/models", w.file("c", "c"), "--id", "y", "--dedupe-key", "k"},
			counts{s3d.GetObject: 3, s3d.HeadObject: 1, s3d.PutObject: 2, s3d.DeleteObjects: 1}},
		{[]string{"add", "team/models", w.file("c", "c"), "--id", "y"}, nil},
		{[]string{"ls", "team/models"}, counts{s3d.GetObject: 1}},
		{[]string{"cat", "team/models", "y"}, counts{s3d.GetObject: 2}},
		{[]string{"fsck", "team/models"}, counts{s3d.GetObject: 2, s3d.ListObjectsV2: 1}},
		{[]string{"gc", "team/models", "--dry-run"}, counts{s3d.GetObject: 1, s3d.ListObjectsV2: 1}},
	} {
		w.s.Reset()
		if c.want == nil {
			// An id that is taken is seen with one request.
			c.want = counts{s3d.GetObject: 1}
			w.fails(1, []string{"is there already"}, append([]string{"manifest"}, c.args...)...)
		} else {
			w.must(append([]string{"manifest"}, c.args...)...)
		}
		if got := w.s.Counts(); !maps.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.args, got, c.want)
		}
	}
}
