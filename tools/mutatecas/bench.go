package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is one way to break a file.
type mutant struct {
	file     string // below the root, with slashes
	what     string // is wrong then
	was, is  string // whole lines; was is in the file exactly once
	tests    string // that are to notice: a regular expression for -run
	in       string // package of the tests; empty: the file's
	compiler bool   // notices
}

// pkg is the package of the tests.
func (m mutant) pkg() string {
	if m.in != "" {
		return m.in
	}
	return "./" + m.file[:strings.LastIndexByte(m.file, '/')]
}

// applied returns the text of the mutant's file as it is and as the mutant has it.
func (m mutant) applied(root string) (was, is []byte, err error) {
	was, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, nil, err
	}
	text := "\n" + string(was) // so that each line begins after a newline
	if n := strings.Count(text, "\n"+m.was); n != 1 {
		return nil, nil, fmt.Errorf("%s: %s: its lines are there %d times, want once:\n%s", m.file, m.what, n, m.was)
	}
	return was, []byte(strings.Replace(text, "\n"+m.was, "\n"+m.is, 1)[1:]), nil
}

// A fate is what became of a mutant.
type fate int

const (
	survived fate = iota
	killed
	uncompiled
	broken // the tests did not run to their end, and none of them says why
)

type result struct {
	fate   fate
	test   string // that noticed
	output string
}

func (r result) String() string {
	switch r.fate {
	case survived:
		return "**nobody**"
	case killed:
		return r.test
	case uncompiled:
		return "the compiler"
	}
	return "**no test, but the run broke off**"
}

// A bench is a copy of the module to work on.
type bench struct{ root string }

func newBench(root, dir string) (*bench, error) {
	own, err := os.MkdirTemp(dir, "module-")
	if err != nil {
		return nil, err
	}
	return &bench{own}, copyModule(own, root)
}

// copyModule copies what the tests of the main module need: its files, but no other module's, and nothing that is hidden.
func copyModule(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		switch name := e.Name(); {
		case e.IsDir() && (name == "tools" || name == "bin" || name == "node_modules" || name[0] == '.'):
			return fs.SkipDir
		case e.IsDir():
			return os.Mkdir(filepath.Join(to, rel), 0o755)
		case !e.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o644)
	})
}

// try breaks the copy, runs the tests and mends it.
func (b *bench) try(ctx context.Context, m mutant) result {
	was, is, err := m.applied(b.root)
	if err != nil {
		return result{fate: broken, output: err.Error()}
	}
	path := filepath.Join(b.root, filepath.FromSlash(m.file))
	if err := os.WriteFile(path, is, 0o644); err != nil {
		return result{fate: broken, output: err.Error()}
	}
	r := b.test(ctx, m.pkg(), m.tests)
	if err := os.WriteFile(path, was, 0o644); err != nil {
		return result{fate: broken, output: err.Error()}
	}
	return r
}

// patience with tests that a mutant may well let run for ever.
const patience = "60s"

// test runs tests, and stops at the first that fails.
func (b *bench) test(ctx context.Context, pkg, tests string) result {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-failfast", "-vet=off",
		"-timeout", patience, "-run", tests, pkg)
	cmd.Dir = b.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return result{fate: broken, output: err.Error()}
	}
	r := read(out)
	r.output += stderr.String()
	if err == nil && r.fate == survived || r.fate != survived {
		return r
	}
	r.fate = broken
	return r
}

// read finds the first test that failed in what go test -json tells, or, if the run broke off, the one that it broke off in.
func read(out []byte) result {
	var r result
	var said, running []string
	for _, line := range bytes.Split(out, []byte("\n")) {
		var e struct{ Action, Test, Output, FailedBuild string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		said = append(said, e.Output)
		switch {
		case e.FailedBuild != "":
			r.fate = uncompiled
		case e.Action == "run":
			running = append(running, e.Test)
		case e.Action == "fail" && e.Test != "" && r.fate == survived:
			r.fate, r.test = killed, e.Test
		case e.Action == "fail" && r.fate == survived && len(running) > 0:
			r.fate, r.test = killed, running[len(running)-1]+", which did not end"
		case e.Action == "pass" || e.Action == "skip":
			running = slices.DeleteFunc(running, func(t string) bool { return t == e.Test })
		}
	}
	if len(said) > 60 {
		said = said[len(said)-60:]
	}
	r.output = strings.Join(said, "")
	return r
}
