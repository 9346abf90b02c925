package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// benchFirstBuild builds the command as on a machine that has only Go: the module cache and the build cache are empty. It
// needs the network. The processor time tells more than the clock where others use the machine.
func benchFirstBuild(ctx context.Context, dir string) ([]row, error) {
	var rows []row
	for _, tags := range []string{"", "disable_grpc_modules"} {
		root := filepath.Join(dir, "tags-"+tags)
		b := coldBuild{env: append(os.Environ(), "GOMODCACHE="+filepath.Join(root, "mod"), "GOCACHE="+filepath.Join(root, "cache"),
			"GOFLAGS=-modcacherw")} // so that it can be removed
		packages, err := b.run(ctx, "list", "-deps", "-tags="+tags, "./cmd/indexd")
		if err != nil {
			return nil, err
		}
		download := b.took
		if _, err := b.run(ctx, "build", "-tags="+tags, "-o", filepath.Join(root, "indexd"), "./cmd/indexd"); err != nil {
			return nil, err
		}
		what := "the README's first command with empty caches: download, then build"
		if tags != "" {
			what = "the same, with -tags " + tags
		}
		total := download + b.built
		rows = append(rows, row{
			what, fmt.Sprintf("%.0f s + %.0f s (%.0f s of processor time; %d packages)", download.Seconds(), b.built.Seconds(),
				b.computed.Seconds(), bytes.Count(packages, []byte("\n"))), "≤ 180 s", total.Seconds() / 180,
		})
	}
	return rows, nil
}

// A coldBuild is the go command with caches of its own.
type coldBuild struct {
	env             []string
	took            time.Duration // of the last command
	built, computed time.Duration // of the build: by the clock, and on all cores together
}

func (b *coldBuild) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = "..", b.env, os.Stderr // bench is run in the tools' folder
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	if b.took = time.Since(began); args[0] == "build" {
		b.built, b.computed = b.took, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	}
	return out, nil
}
