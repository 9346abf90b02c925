package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goTool is a program of a module that `go install` refuses, because it replaces a dependency. It gets a module of its own.
type goTool struct {
	goInstall
	replace string // old=new@version
}

func (g goTool) install(ctx context.Context, dir, version string) error {
	src := filepath.Join(dir, "src")
	if err := os.Mkdir(src, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "init", "server"},
		{"mod", "edit", "-replace", g.replace},
		{"get", "-tool", g.pkg + "@" + version},
		{"build", "-o", dir + string(filepath.Separator), g.pkg},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if err := quietly(cmd, src); err != nil {
			return err
		}
	}
	return nil
}

// debian is what Debian's packages install; nothing of it is kept here.
type debian struct{ program, packages string }

func (d debian) install(ctx context.Context, dir, version string) error {
	out, err := exec.CommandContext(ctx, d.program, "--version").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: apt-get install --no-install-recommends %s", err, d.packages)
	}
	if err != nil {
		return err
	}
	// ceph version 16.2.15 (…) pacific (stable)
	if words := strings.Fields(string(out)); len(words) < 3 || words[2] != version {
		return fmt.Errorf("this is %q", strings.TrimSpace(string(out)))
	}
	return os.WriteFile(filepath.Join(dir, "version"), []byte(version), 0o644)
}

func (d debian) whole(dir, version string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "version"))
	if err != nil || string(text) != version {
		return false
	}
	_, err = exec.LookPath(d.program)
	return err == nil
}
