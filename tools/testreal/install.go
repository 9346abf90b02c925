package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// An installer puts a version of a server into an empty directory.
type installer interface {
	install(ctx context.Context, dir, version string) error
	// whole reports whether dir has that version.
	whole(dir, version string) bool
}

// stale is the age from which on a half-made install is taken for one whose program was killed.
const stale = 6 * time.Hour

// ensure returns the directory below cache that has the server, installing it if need be. It is made under another name and
// renamed, so that one that was killed half-way is never taken for a whole one, and two at once do no harm.
func ensure(ctx context.Context, cache, name, version string, in installer) (string, error) {
	dir := filepath.Join(cache, name+"@"+version)
	if in.whole(dir, version) {
		return dir, nil
	}
	if err := sweep(cache); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(cache, "half-made-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	fmt.Printf("installing %s %s\n", name, version)
	if err := in.install(ctx, temp, version); err != nil {
		return "", fmt.Errorf("installing %s %s: %w", name, version, err)
	}
	if !in.whole(temp, version) {
		return "", fmt.Errorf("installing %s %s: what was installed is another version", name, version)
	}
	if err := os.Rename(temp, dir); err == nil {
		return dir, nil
	}
	if in.whole(dir, version) { // by somebody else, meanwhile
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Rename(temp, dir)
}

// sweep removes what killed installs have left.
func sweep(cache string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(cache, "half-made-*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if time.Since(info.ModTime()) > stale {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// goInstall is a program of a Go module.
type goInstall struct{ module, pkg string }

func (g goInstall) install(ctx context.Context, dir, version string) error {
	cmd := exec.CommandContext(ctx, "go", "install", g.pkg+"@"+version)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod", "GOWORK=off")
	return quietly(cmd, dir)
}

// whole reads what the toolchain has stamped into the program.
func (g goInstall) whole(dir, version string) bool {
	info, err := buildinfo.ReadFile(filepath.Join(dir, path.Base(g.pkg)))
	if err != nil || info.Path != g.pkg {
		return false
	}
	if info.Main.Path == g.module {
		return info.Main.Version == version
	}
	for _, dep := range info.Deps {
		if dep.Path == g.module {
			return dep.Version == version
		}
	}
	return false
}

// npmInstall is a package of Node's.
type npmInstall struct{ pkg string }

func (n npmInstall) install(ctx context.Context, dir, version string) error {
	cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefix", dir, n.pkg+"@"+version)
	return quietly(cmd, dir)
}

func (n npmInstall) whole(dir, version string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", n.pkg, "package.json"))
	var manifest struct{ Version string }
	return err == nil && json.Unmarshal(text, &manifest) == nil && manifest.Version == version
}

// quietly runs the command in dir and puts what it printed into its error. It is ended with its children.
func quietly(cmd *exec.Cmd, dir string) error {
	var out strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	own(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, tail(out.String()))
	}
	return nil
}

// tail is the last lines of a log, none of them very long.
func tail(log string) string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	lines = lines[max(0, len(lines)-30):]
	for i, line := range lines {
		if len(line) > 400 {
			lines[i] = strings.ToValidUTF8(line[:400], "") + "…"
		}
	}
	return strings.Join(lines, "\n")
}
