package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreFile is the file in the directory of a snapshot whose lines are patterns.
const ignoreFile = ".indexdignore"

// maxIgnore is the most bytes that it may have. A larger one is some other file.
const maxIgnore = 1 << 20

// ignoreHelp tells what a pattern is.
const ignoreHelp = `A pattern without a slash leaves out every file and directory of that name, wherever it is; one with a
slash the path from DIR that it spells; one that ends with a slash directories only. What is below a directory that is left
out is left out too. In patterns * and ? stand for anything but a slash, ** between slashes for any number of directories,
[a-z] for one of these, {a,b} for either, and \ takes its meaning from what follows it. The file ` + ignoreFile + ` in DIR,
if there is one, has a pattern in each line; empty lines and those that begin with # are skipped.`

// An ignoreRule leaves out what its pattern matches.
type ignoreRule struct {
	pattern string
	whole   bool // it matches paths, and not names
	dirs    bool // it matches directories only
}

type ignoreRules []ignoreRule

// parseIgnore reads patterns.
func parseIgnore(patterns []string) (rules ignoreRules, err error) {
	for _, p := range patterns {
		r := ignoreRule{pattern: p}
		r.pattern, r.dirs = strings.CutSuffix(r.pattern, "/")
		r.whole = strings.Contains(r.pattern, "/")
		r.pattern = strings.TrimPrefix(r.pattern, "/")
		switch {
		case strings.HasPrefix(p, "!"):
			return nil, fmt.Errorf("the pattern %.200q would take back another one, which is not possible here; for a name that "+
				"begins with ! write \\! in its place", p)
		case r.pattern == "" || !doublestar.ValidatePattern(r.pattern):
			return nil, fmt.Errorf("the pattern %.200q is none that can be used; write one such as *.tmp, cache/ or logs/**/*.gz", p)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// match reports whether a path, which has a slash at its end if it is a directory, is left out. What is above it is not.
func (rules ignoreRules) match(path string) bool {
	path, dir := strings.CutSuffix(path, "/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	for _, r := range rules {
		subject := name
		if r.whole {
			subject = path
		}
		if (dir || !r.dirs) && doublestar.MatchUnvalidated(r.pattern, subject) {
			return true
		}
	}
	return false
}

// readIgnore reads the patterns of the ignoreFile in a directory, if there is one.
func readIgnore(dir *os.Root) (ignoreRules, error) {
	// Opening a pipe would wait for a writer, for ever and whatever signal comes.
	f, err := dir.OpenFile(ignoreFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no file of patterns", ignoreFile), err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIgnore+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", ignoreFile, err)
	case len(text) > maxIgnore:
		return nil, fmt.Errorf("%s has more than %d bytes", ignoreFile, maxIgnore)
	}
	var patterns []string
	for line := range bytes.Lines(text) {
		if p := string(bytes.TrimRight(line, "\r\n")); p != "" && p[0] != '#' {
			patterns = append(patterns, p)
		}
	}
	rules, err := parseIgnore(patterns)
	if err != nil {
		return nil, fmt.Errorf("in %s %w", ignoreFile, err)
	}
	return rules, nil
}
