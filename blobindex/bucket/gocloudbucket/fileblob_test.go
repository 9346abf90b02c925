package gocloudbucket_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/fileblob"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/buckettest"
	"github.com/blobindex/indexd/blobindex/bucket/gocloudbucket"
)

// openFiles returns a fileblob as it is best opened for an index, and its directory.
func openFiles(t testing.TB) (*blob.Bucket, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bucket")
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{
		CreateDir: true, NoTempDir: true, Metadata: fileblob.MetadataDontWrite,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b, dir
}

// races are the steps of the suite that fileblob fails when it comes to that, and what such a failure may say: a listing
// beside deletes and renames ends with an error of lstat, and temporary files are listed (TestFileblob_Deviations).
var races = map[string]bool{"ListWhileChanging": true, "Concurrent": true}

var raced = regexp.MustCompile(`lstat \S+: no such file or directory$|\.tmp" is nobody's$|context canceled$`)

// What the test binary prints.
var (
	stepBegins = regexp.MustCompile(`^=== (?:RUN|NAME) +TestFileblobSteps/(\w+)$`)
	stepEnds   = regexp.MustCompile(`^--- (PASS|FAIL): TestFileblobSteps/(\w+) `)
	complaint  = regexp.MustCompile(`^\w+\.go:\d+: `)
)

// TestConformance_Fileblob runs the suite in a process of its own, for some steps may fail.
func TestConformance_Fileblob(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileblobSteps$", "-test.v")
	cmd.Env = append(os.Environ(), "INDEXD_FILEBLOB_STEPS=1")
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	ran, step := 0, ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if m := stepBegins.FindStringSubmatch(line); m != nil {
			step = m[1]
		}
		if m := stepEnds.FindStringSubmatch(line); m != nil {
			ran++
			if m[1] == "FAIL" && !races[m[2]] {
				t.Errorf("step %s fails", m[2])
			}
		}
		if complaint.MatchString(line) && (!races[step] || !raced.MatchString(line)) {
			t.Errorf("step %s: %s", step, line)
		}
	}
	if ran < 20 {
		t.Fatalf("only %d steps ran:\n%s", ran, out)
	}
}

// TestFileblobSteps is TestConformance_Fileblob's other process.
func TestFileblobSteps(t *testing.T) {
	if os.Getenv("INDEXD_FILEBLOB_STEPS") == "" {
		return
	}
	buckettest.Run(t, buckettest.Config{
		New: func(t testing.TB) bucket.Objects {
			b, _ := openFiles(t)
			return adapt(t, b, gocloudbucket.Options{PageSize: 10_000})
		},
		Empty: true, FileTree: true, TimesObjects: true,
		Refuses: func(key bucket.Key) bool {
			for segment := range strings.SplitSeq(string(key), "/") {
				if len(segment) > 234 {
					return true // it needs room for what it appends to a temporary file's name
				}
			}
			return byDefault(key)
		},
	})
}

// TestFileblob_Deviations holds what fileblob does that no store should. One that fileblob no longer has fails the test:
// then the package comment and this list are to be changed.
func TestFileblob_Deviations(t *testing.T) {
	for _, d := range []struct {
		what string
		seen func(t *testing.T, b *blob.Bucket, g *gocloudbucket.Bucket, dir string) bool
	}{
		{"keys are lost where a directory needs more than one page", func(t *testing.T, b *blob.Bucket, _ *gocloudbucket.Bucket, _ string) bool {
			g := adapt(t, b, gocloudbucket.Options{PageSize: 10})
			names := []string{"a-b", "a.e", "a0"}
			for i := range 30 {
				names = append(names, fmt.Sprintf("a/%02d", i))
			}
			put(t, g, names...)
			return len(list(t, g, "")) < len(names)
		}},
		{"a write that is under way is listed", func(t *testing.T, b *blob.Bucket, g *gocloudbucket.Bucket, _ string) bool {
			w, err := b.NewWriter(t.Context(), "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			listed := list(t, g, "")
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			return len(listed) == 1 && strings.HasSuffix(listed[0], ".tmp")
		}},
		{"keys that end like its sidecars are refused", func(t *testing.T, _ *blob.Bucket, g *gocloudbucket.Bucket, _ string) bool {
			_, err := g.Put(t.Context(), "a.attrs", nil)
			return err != nil
		}},
		{"a directory that cannot be read is empty", func(t *testing.T, _ *blob.Bucket, g *gocloudbucket.Bucket, dir string) bool {
			put(t, g, "team/a", "team/b")
			// A link to itself cannot be opened, whoever asks.
			if err := os.Rename(filepath.Join(dir, "team"), filepath.Join(dir, "away")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("team", filepath.Join(dir, "team")); err != nil {
				t.Fatal(err)
			}
			return len(list(t, g, "team/")) == 0
		}},
	} {
		t.Run(d.what, func(t *testing.T) {
			b, dir := openFiles(t)
			if !d.seen(t, b, adapt(t, b, gocloudbucket.Options{}), dir) {
				t.Error("this is not so any more")
			}
		})
	}
}

// TestCase_C04_VanishedRoot: fileblob lists a directory that is gone as empty, and makes a new one for the next write.
func TestCase_C04_VanishedRoot(t *testing.T) {
	for what, replace := range map[string]bool{"gone": false, "replaced": true} {
		t.Run(what, func(t *testing.T) {
			b, dir := openFiles(t)
			g := adapt(t, b, gocloudbucket.Options{})
			put(t, g, "team/a")
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
			if replace {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			_, err := listed(t, g, "team/")
			wantErr(t, "List", err, bucket.ErrIncomplete)
			_, err = g.Put(t.Context(), "team/b", nil)
			wantErr(t, "Put", err, nil)
			_, err = g.Head(t.Context(), "team/a")
			wantErr(t, "Head", err, nil)
			_, err = g.Open(t.Context(), "team/a")
			wantErr(t, "Open", err, nil)
			errs := g.Delete(t.Context(), []bucket.Key{"team/a"})
			if len(errs) != 1 {
				t.Fatalf("Delete: %v, want an error: the key may come back with its directory", errs)
			}
			wantErr(t, "Delete", errs[0], nil)
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
				t.Errorf("something was made in place of the directory: %q", left)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(dir+".away", dir); err != nil {
				t.Fatal(err)
			}
			if keys := list(t, g, "team/"); len(keys) != 1 {
				t.Errorf("List once it is back: %q", keys)
			}
		})
	}
}

// TestCase_C04_RootVanishesInBetween: the directory goes away while its only page is walked, which is empty then.
func TestCase_C04_RootVanishesInBetween(t *testing.T) {
	l := &liar{dir: t.TempDir()}
	b := start(t, l, gocloudbucket.Options{})
	l.fill("team/a")
	l.page = func(context.Context, *driver.ListOptions, int) (*driver.ListPage, error) {
		return &driver.ListPage{}, os.Remove(l.dir)
	}
	keys, err := listed(t, b, "team/")
	wantErr(t, "List", err, bucket.ErrIncomplete)
	if len(keys) > 0 || l.count("list") != 1 {
		t.Errorf("List: %q after %d requests", keys, l.count("list"))
	}
}

// TestAbsentOrVanished: what is absent since the directory went away is not known to be.
func TestAbsentOrVanished(t *testing.T) {
	l := &liar{dir: t.TempDir()}
	b := start(t, l, gocloudbucket.Options{})
	l.strike = func(string, string) error { return os.Remove(l.dir) }
	_, err := b.Head(t.Context(), "team/a")
	wantErr(t, "Head", err, nil)

	l = &liar{dir: t.TempDir()}
	b = start(t, l, gocloudbucket.Options{})
	l.strike = func(string, string) error { return os.Remove(l.dir) }
	errs := b.Delete(t.Context(), []bucket.Key{"team/a"})
	if len(errs) != 1 {
		t.Fatalf("Delete: %v, want an error", errs)
	}
	wantErr(t, "Delete", errs[0], nil)
}
