package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"
)

// pretend installs a file that says which version it is, and counts how often.
type pretend struct {
	installs *int
	got      string // what is installed, whatever was asked for; "": that
	err      error
	during   func()
}

func (p pretend) install(_ context.Context, dir, version string) error {
	*p.installs++
	if p.during != nil {
		p.during()
	}
	if p.got != "" {
		version = p.got
	}
	if err := os.WriteFile(filepath.Join(dir, "version"), []byte(version), 0o644); err != nil {
		return err
	}
	return p.err
}

func (p pretend) whole(dir, version string) bool {
	got, err := os.ReadFile(filepath.Join(dir, "version"))
	return err == nil && string(got) == version
}

func TestEnsure(t *testing.T) {
	cache, n := filepath.Join(t.TempDir(), "servers"), 0
	in := pretend{installs: &n}
	ensured := func(version string, wantInstalls int) {
		t.Helper()
		dir, err := ensure(t.Context(), cache, "server", version, in)
		if err != nil || !in.whole(dir, version) || n != wantInstalls || dir != filepath.Join(cache, "server@"+version) {
			t.Errorf("%s in %s: %d installs, %v, want %d", version, dir, n, err, wantInstalls)
		}
	}
	ensured("v1", 1)
	ensured("v1", 1) // there is one
	ensured("v2", 2)
	if err := os.WriteFile(filepath.Join(cache, "server@v1", "version"), []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	ensured("v1", 3)

	in.during = func() { // somebody else is faster
		in.during = nil
		if err := os.MkdirAll(filepath.Join(cache, "server@v3"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cache, "server@v3", "version"), []byte("v3"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ensured("v3", 4)
	left, err := filepath.Glob(filepath.Join(cache, "half-made-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
}

var errBroken = errors.New("broken")

// What fails, or is not what was asked for, is not kept.
func TestEnsure_Fails(t *testing.T) {
	n := 0
	for _, in := range []pretend{{installs: &n, err: errBroken}, {installs: &n, got: "v0"}} {
		cache := t.TempDir()
		if _, err := ensure(t.Context(), cache, "server", "v1", in); err == nil || in.err != nil && !errors.Is(err, errBroken) {
			t.Errorf("error %v", err)
		}
		if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
			t.Errorf("left over: %v, %v", left, err)
		}
	}
}

// What a killed install has left is never taken for a server, and goes when it is old.
func TestEnsure_HalfMade(t *testing.T) {
	cache, n := t.TempDir(), 0
	in := pretend{installs: &n}
	for _, name := range []string{"half-made-1", "half-made-2"} {
		if err := os.Mkdir(filepath.Join(cache, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * stale)
	if err := os.Chtimes(filepath.Join(cache, "half-made-1"), old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := ensure(t.Context(), cache, "server", "v1", in); err != nil || n != 1 {
		t.Errorf("%d installs, %v", n, err)
	}
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 2 || left[0].Name() != "half-made-2" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A program is told by what the toolchain has stamped into it; this test is one.
func TestWhole(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	this, there := goInstall{info.Main.Path, info.Path}, t.TempDir()
	if err := os.Symlink(self, filepath.Join(there, path.Base(info.Path))); err != nil {
		t.Fatal(err)
	}
	if !this.whole(there, info.Main.Version) || this.whole(there, "v1.0.0") {
		t.Error("a program is not told by its version")
	}
	if (goInstall{info.Main.Path, "example.com/" + path.Base(info.Path)}).whole(there, info.Main.Version) {
		t.Error("a program of the same name is taken for another one")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte("\x7fELF half a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if (goInstall{"example.com/server", "example.com/server"}).whole(dir, "v1.0.0") {
		t.Error("half a program is taken for a whole one")
	}
	manifest := filepath.Join(dir, "node_modules", "server", "package.json")
	if err := os.MkdirAll(filepath.Dir(manifest), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, []byte(`{"name":"server","version":"1.0.0"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if npm := (npmInstall{"server"}); !npm.whole(dir, "1.0.0") || npm.whole(dir, "1.0.1") || npm.whole(t.TempDir(), "1.0.0") {
		t.Error("a package is not told by its version")
	}
}
