package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/blobindex/indexd/cas/manifest"
)

// A localFile is a file to be uploaded, as it was when it was looked at.
type localFile struct {
	path string
	name string
	info fs.FileInfo // nil of standard input
	copy *os.File    // of standard input, once it is read
	size int64
}

const (
	stdinPath = "-"
	stdinName = "stdin"
)

// lookAtAll checks that all files can be uploaded. The errors are usage errors.
func lookAtAll(paths []string) ([]*localFile, error) {
	var files []*localFile
	named := map[string]string{}
	for _, path := range paths {
		f, err := lookAt(path)
		if err != nil {
			return nil, &statusError{exitUsage, err}
		}
		if other, twice := named[f.name]; twice {
			return nil, usagef("%.200q and %.200q would have the same name in the entry; rename one of them", other, path)
		}
		named[f.name] = path
		files = append(files, f)
	}
	return files, nil
}

func lookAt(path string) (*localFile, error) {
	if path == stdinPath {
		return &localFile{path: path, name: stdinName}, nil
	}
	info, err := os.Stat(path) // before it is opened: opening a pipe waits for its writer
	if err != nil {
		return nil, fmt.Errorf("the file %.200q cannot be uploaded: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%.200q is no regular file; give the files in a directory one by one, and what comes from a pipe "+
			"as -", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the file %.200q cannot be uploaded: %w", path, err)
	}
	defer f.Close()
	// A name that is no UTF-8 could not be kept as it is.
	name := strings.ToValidUTF8(filepath.Base(path), "\uFFFD")
	return &localFile{path: path, name: name, info: info, size: info.Size()}, nil
}

// open returns the body from its beginning.
func (f *localFile) open() (io.ReadCloser, error) {
	if f.info == nil {
		return io.NopCloser(io.NewSectionReader(f.copy, 0, f.size)), nil
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	s := &steady{file: file, was: f.info}
	if err := s.check(); err != nil {
		file.Close()
		return nil, err
	}
	return s, nil
}

// errChanged: a file is not the one that was looked at. Half of an old body with half of a new one is worse than none.
var errChanged = errors.New("it was changed meanwhile; add it when nobody writes to it, or add a copy")

// steady reads a file that must stay as it was.
type steady struct {
	file *os.File
	was  fs.FileInfo
	read int64
}

func (s *steady) check() error {
	now, err := s.file.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(now, s.was) || now.Size() != s.was.Size() || !now.ModTime().Equal(s.was.ModTime()) {
		return errChanged
	}
	return nil
}

func (s *steady) Read(p []byte) (int, error) {
	n, err := s.file.Read(p)
	s.read += int64(n)
	if s.read > s.was.Size() {
		return n, errChanged
	}
	if errors.Is(err, io.EOF) {
		if changed := s.check(); changed != nil {
			return n, changed
		}
		if s.read != s.was.Size() {
			return n, errChanged
		}
	}
	return n, err
}

func (s *steady) Close() error { return s.file.Close() }

// uploads are the files of one entry on their way.
type uploads struct {
	files []*localFile
	draw  func(done, total int64) // nil: nobody looks
	done  []int64                 // of each file's last attempt
	began bool
}

func (u *uploads) sources() []manifest.Source {
	u.done = make([]int64, len(u.files))
	var all []manifest.Source
	for i, f := range u.files {
		all = append(all, manifest.Source{Name: f.name, Open: func() (io.ReadCloser, error) {
			body, err := f.open()
			if err != nil {
				return nil, err
			}
			u.began, u.done[i] = true, 0
			return &watched{body, u, i}, nil
		}})
	}
	return all
}

// spool copies standard input, if it is one of the files, into a temporary file.
func (u *uploads) spool(ctx context.Context, stdin io.Reader) error {
	for _, f := range u.files {
		if f.info != nil {
			continue
		}
		temp, err := os.CreateTemp("", "indexd-stdin-")
		if err != nil {
			return fmt.Errorf("copying standard input: %w", err)
		}
		f.copy = temp
		// At once where that can be done, so that a process that is killed leaves nothing.
		_ = os.Remove(temp.Name())
		if f.size, err = copyInterruptible(ctx, temp, stdin); err != nil {
			return fmt.Errorf("copying standard input to a temporary file in %s: %w", os.TempDir(), err)
		}
	}
	return nil
}

// copyInterruptible returns when all is copied or ctx ends. Nothing can end a read or a write that waits for a terminal or a
// pipe: then it is left to the end of the process, which is near.
func copyInterruptible(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	type copied struct {
		n   int64
		err error
	}
	all := make(chan copied, 1)
	go func() {
		n, err := io.Copy(w, r)
		all <- copied{n, err}
	}()
	select {
	case c := <-all:
		return c.n, c.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// finish takes the progress away, so that an answer or an error begins on a line of its own.
func (u *uploads) finish() {
	if u.draw != nil && u.began {
		u.draw(-1, 0)
	}
}

func (u *uploads) close() {
	for _, f := range u.files {
		if f.copy != nil {
			_ = f.copy.Close()
			_ = os.Remove(f.copy.Name())
		}
	}
}

func (u *uploads) progress() {
	if u.draw == nil {
		return
	}
	var done, total int64
	for i, f := range u.files {
		done, total = done+u.done[i], total+f.size
	}
	u.draw(done, total)
}

// A watched body tells how much of it was read.
type watched struct {
	io.ReadCloser
	all *uploads
	i   int
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.all.done[w.i] += int64(n)
	w.all.progress()
	return n, err
}

// bytesOn returns what draws a progress bar of bytes on w, and clears it when done is negative; nil where w is no terminal.
func bytesOn(w io.Writer) func(done, total int64) {
	if !isTerminal(w) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int64) {
		switch {
		case done < 0 && bar != nil:
			_ = bar.Clear()
			return
		case done < 0 || total == 0:
			return
		case bar == nil:
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("uploading"),
				progressbar.OptionShowBytes(true), progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())
		}
		// A bar that cannot be drawn is no reason to stop uploading.
		_ = bar.Set64(min(done, total))
	}
}
