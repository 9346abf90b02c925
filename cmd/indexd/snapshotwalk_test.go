package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/blobindex/indexd/cas/snapshot"
)

// A forest is a directory to be walked.
type forest struct {
	t   *testing.T
	dir string
}

func newForest(t *testing.T, paths ...string) forest {
	t.Helper()
	f := forest{t, t.TempDir()}
	for _, p := range paths {
		f.write(p, p)
	}
	return f
}

func (f forest) at(path string) string { return filepath.Join(f.dir, filepath.FromSlash(path)) }

func (f forest) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f forest) write(path, body string) {
	f.t.Helper()
	f.check(os.MkdirAll(filepath.Dir(f.at(path)), 0o755))
	f.check(os.WriteFile(f.at(path), []byte(body), 0o644))
}

// walk returns the paths that were met.
func (f forest) walk(s source, met func(path string)) (paths []string, a account, err error) {
	f.t.Helper()
	s.dir = f.dir
	a, err = s.walk(f.t.Context(), func(r snapshot.Row) error {
		if met != nil {
			met(r.Path)
		}
		paths = append(paths, r.Path)
		return r.Check()
	}, nil)
	return paths, a, err
}

// TestWalk_Order: that of the bytes of the whole paths, in which a directory may stand apart from its neighbours.
func TestWalk_Order(t *testing.T) {
	want := []string{
		"a", "b", "b ", "b!/z", "b.txt", "b/\x01", "b/c/d", "b/c0", "b0", "\u00e9", "\xef\xbf\xbd/x", "\U0001f600",
		".hidden/.x", "line\nend", "-", "{}", "a b\t/c",
	}
	want[1] = "bb" // "b" is a directory
	f := newForest(t, want...)
	f.check(os.MkdirAll(f.at("empty/er"), 0o755))
	got, met, err := f.walk(source{}, nil)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) || met != (account{files: int64(len(want))}) {
		t.Errorf("%q, %+v, %v", got, met, err)
	}
}

// TestWalk_NotRegular: what is no regular file is left out and counted, and nothing is followed.
func TestWalk_NotRegular(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	f := newForest(t, "real/file")
	other := newForest(t, "elsewhere")
	for link, to := range map[string]string{
		"to-file": "real/file", "to-dir": "real", "loop": ".", "out": other.dir, "dangling": "nowhere", "real/up": "..",
	} {
		f.check(os.Symlink(to, f.at(link)))
	}
	f.check(syscall.Mkfifo(f.at("pipe"), 0o644))
	got, met, err := f.walk(source{digest: true}, nil)
	if err != nil || !slices.Equal(got, []string{"real/file"}) || met.links != 7 || met.files != 1 {
		t.Errorf("%q, %+v, %v", got, met, err)
	}
	// The directory itself may be one: it is what was asked for.
	f.check(os.Symlink(f.dir, other.at("link")))
	n, err := (&source{dir: other.at("link")}).walk(t.Context(), func(snapshot.Row) error { return nil }, nil)
	if err != nil || n.files != 1 {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestWalk_UnusablePaths: a path that cannot be published ends the walk, unless it is left out.
func TestWalk_UnusablePaths(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have no such names")
	}
	long := strings.Repeat(strings.Repeat("d", 250)+"/", 16) + strings.Repeat("e", 81)
	for name, path := range map[string]string{"not UTF-8": "sub/bad\xff", "long": long} {
		f := newForest(t, "a", "z")
		f.deep(path)
		got, _, err := f.walk(source{}, nil)
		if !errors.Is(err, snapshot.ErrRow) || len(got) > 2 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		base, _, _ := strings.Cut(path, "/")
		rules, err := parseIgnore([]string{base + "/"})
		f.check(err)
		if got, met, err := f.walk(source{ignore: rules}, nil); err != nil || len(got) != 2 || met.ignored != 1 {
			t.Errorf("%s: left out, %q, %+v, %v", name, got, met, err)
		}
	}
	f := newForest(t)
	f.deep(long[1:]) // 4,096 bytes
	if got, _, err := f.walk(source{digest: true}, nil); err != nil || len(got) != 1 || len(got[0]) != snapshot.MaxPath {
		t.Errorf("%d paths, %v", len(got), err)
	}
}

// deep writes a file whose path may be longer than the system takes at a time.
func (f forest) deep(path string) {
	f.t.Helper()
	dir, err := os.OpenRoot(f.dir)
	f.check(err)
	parts := strings.Split(path, "/")
	for _, p := range parts[:len(parts)-1] {
		f.check(dir.Mkdir(p, 0o755))
		sub, err := dir.OpenRoot(p)
		f.check(err)
		f.check(dir.Close())
		dir = sub
	}
	f.check(dir.WriteFile(parts[len(parts)-1], nil, 0o644))
	f.check(dir.Close())
}

// TestWalk_Vanishing: what is gone, or is something else, when its turn comes is left out.
func TestWalk_Vanishing(t *testing.T) {
	for _, digest := range []bool{false, true} {
		f := newForest(t, "a", "b", "c/d", "e/f", "g", "h", "i")
		secret := newForest(t, "f", "secret")
		got, met, err := f.walk(source{digest: digest}, func(path string) {
			if path != "a" {
				return
			}
			f.check(os.Remove(f.at("b")))
			f.check(os.RemoveAll(f.at("c")))
			f.check(os.RemoveAll(f.at("e")))
			f.check(os.Remove(f.at("g")))
			f.check(os.Mkdir(f.at("g"), 0o755))
			f.check(os.Remove(f.at("h")))
			if runtime.GOOS != "windows" {
				f.check(os.Symlink(secret.dir, f.at("e")))
				f.check(syscall.Mkfifo(f.at("h"), 0o644))
			}
			f.write("aa", "too late for this walk")
		})
		if err != nil || !slices.Equal(got, []string{"a", "i"}) || met.vanished != 5 {
			t.Errorf("digest %v: %q, %+v, %v", digest, got, met, err)
		}
	}
}

// TestWalk_RootGone: a directory that is replaced meanwhile was perhaps walked empty.
func TestWalk_RootGone(t *testing.T) {
	f := newForest(t, "d/a", "d/b")
	s := source{dir: f.at("d")}
	_, err := s.walk(t.Context(), func(r snapshot.Row) error {
		if r.Path == "a" {
			f.check(os.Rename(f.at("d"), f.at("moved")))
			f.check(os.Mkdir(f.at("d"), 0o755))
		}
		return nil
	}, nil)
	if !errors.Is(err, errSourceGone) {
		t.Error(err)
	}
	s.dir = f.at("nowhere")
	if _, err := s.walk(t.Context(), nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestWalk_Bucket: what is published into the bucket itself would be a change, and be published again and again. That serve
// looks at no directory before it walks makes the walk refuse it.
func TestWalk_Bucket(t *testing.T) {
	f := newForest(t, "bucket/a", "bucket/sub/deep/b", "else/c")
	f.check(os.Symlink(f.at("bucket/sub"), f.at("else/link")))
	for dir, refused := range map[string]bool{
		"bucket": true, "bucket/sub": true, "bucket/sub/deep": true, "else/link": true, "else/link/deep": true, "else": false, ".": false,
	} {
		s := source{dir: f.at(dir), bucket: f.at("bucket")}
		_, err := s.walk(t.Context(), func(snapshot.Row) error { return nil }, nil)
		if got := err != nil && strings.Contains(err.Error(), "is the bucket itself, or in it"); got != refused {
			t.Errorf("%s: %v", dir, err)
		}
		if (s.check() != nil) != refused {
			t.Errorf("%s: checked: %v", dir, s.check())
		}
	}
}

// TestWalk_Stopped: a walk ends with its context, a read of a large file too.
func TestWalk_Stopped(t *testing.T) {
	f := newForest(t, "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err := (&source{dir: f.dir}).walk(ctx, func(snapshot.Row) error { n++; cancel(); return nil }, nil)
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%d files, %v", n, err)
	}
}

// TestWalk_Digest: of what is in the file, with the size that it was computed over.
func TestWalk_Digest(t *testing.T) {
	f := newForest(t, "empty", "large")
	f.write("empty", "")
	f.write("large", strings.Repeat("x", 300_000))
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	f.check(os.Chtimes(f.at("large"), at, at))
	var rows []snapshot.Row
	_, err := (&source{dir: f.dir, digest: true}).walk(t.Context(), func(r snapshot.Row) error {
		rows = append(rows, r)
		return r.Check()
	}, nil)
	f.check(err)
	if rows[0].Digest != "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" || rows[0].Size != 0 {
		t.Errorf("%+v", rows[0])
	}
	if len(rows[1].Digest) != 71 || rows[1].Size != 300_000 || !rows[1].MTime.Equal(at) {
		t.Errorf("%+v", rows[1])
	}
}

// TestIgnore: which patterns leave out which paths.
func TestIgnore(t *testing.T) {
	all := []string{
		"a.tmp", "b/", "b/a.tmp", "b/c/", "b/c/d", "cache", "cache/", "logs/", "logs/x.gz", "logs/1/", "logs/1/2/", "logs/1/2/x.gz",
		"\xff.tmp", "line\nend.tmp", "!x", "*",
	}
	for pattern, want := range map[string]string{
		"*.tmp":        "a.tmp b/a.tmp \xff.tmp line\nend.tmp",
		"/*.tmp":       "a.tmp \xff.tmp line\nend.tmp",
		"cache":        "cache cache/",
		"cache/":       "cache/",
		"c":            "b/c/",
		"b/c":          "b/c/",
		"/c":           "",
		"b/*":          "b/a.tmp b/c/",
		"logs/**/*.gz": "logs/x.gz logs/1/2/x.gz",
		"**/1":         "logs/1/",
		"{a,cache}*":   "a.tmp b/a.tmp cache cache/",
		"[a-b]":        "b/",
		`\!x`:          "!x",
		`\*`:           "*",
		"?":            "b/ b/c/ b/c/d logs/1/ logs/1/2/ *",
	} {
		rules, err := parseIgnore([]string{pattern})
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
			continue
		}
		var got []string
		for _, p := range all {
			if rules.match(p) {
				got = append(got, p)
			}
		}
		if fmt.Sprint(got) != "["+want+"]" {
			t.Errorf("%q leaves out %q, want %q", pattern, got, want)
		}
	}
	for _, wrong := range []string{"", "/", "!x", "[", "{a", `a\`} {
		if _, err := parseIgnore([]string{wrong}); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// TestIgnore_NoFile: what has the name of the file of patterns, and is none, publishes nothing, and holds nobody up.
func TestIgnore_NoFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no such pipes")
	}
	for name, entry := range map[string]func(string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o644) },
	} {
		f := newForest(t, "a")
		f.check(entry(f.at(ignoreFile)))
		if got, _, err := f.walk(source{}, nil); err == nil || !strings.Contains(err.Error(), ".indexdignore is no file of patterns") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
