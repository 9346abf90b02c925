package ui

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// A SnapshotPage is one directory of a snapshot, or a problem, or neither: then it asks for a name.
type SnapshotPage struct {
	Namespace, Name string // of the snapshot; empty if nobody named one that can be
	Snapshot        *Snapshot
	Problem         *Problem
	Account         string // who is signed in, or empty
}

// A Snapshot is what is published at one instant, and one directory of it.
type Snapshot struct {
	Generation uint64
	Rows       int64 // files of all directories
	Class      string
	Published  time.Time
	Digest     string // with its algorithm in front
	Path       string // of the directory; empty: the topmost one
	Above      []Step // from the topmost one to this
	Entries    []SnapshotEntry
	More       bool // entries than are here
	Now        time.Time
	API        string // the path at which the API tells of the snapshot
	RowsAPI    string // and what is in this directory and below it
}

// A Step is a directory on the way.
type Step struct{ Name, URL string }

// A SnapshotEntry is a file, or a directory, which has a name and a URL only.
type SnapshotEntry struct {
	Name      string
	Directory bool
	URL       string
	Size      int64
	Changed   time.Time
	Digest    string // empty: nobody computed one
}

// RenderSnapshot writes the page as HTML.
func RenderSnapshot(w io.Writer, p SnapshotPage) error { return execute(w, "snapshot.html", p) }

// Headline says how many files there are in all.
func (s *Snapshot) Headline() string {
	switch s.Rows {
	case 0:
		return "No files"
	case 1:
		return "1 file"
	}
	return fmt.Sprintf("%d files", s.Rows)
}

// By is who published it, such as "an operator".
func (s *Snapshot) By() string {
	if strings.HasPrefix(s.Class, "o") {
		return "an " + s.Class
	}
	return "a " + s.Class
}

// Ago is how long ago something was.
func (s *Snapshot) Ago(t time.Time) time.Duration { return s.Now.Sub(t) }

// Title is what the page is called.
func (p SnapshotPage) Title() string {
	switch {
	case p.Snapshot != nil:
		return p.Snapshot.Headline()
	case p.Problem != nil:
		return p.Problem.Title
	}
	return "Snapshots"
}

// Final reports whether asking again would get the same answer.
func (p SnapshotPage) Final() bool {
	return p.Snapshot == nil && (p.Problem == nil || p.Problem.Status < 500 || p.Problem.Status == http.StatusNotImplemented)
}
