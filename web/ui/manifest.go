package ui

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// A ManifestPage is one manifest, or a problem, or neither: then it asks for a name.
type ManifestPage struct {
	Namespace, Name string // of the manifest; empty if nobody named one that can be
	Manifest        *Manifest
	Problem         *Problem
	Account         string // who is signed in, or empty
}

// A Manifest is what a list holds at one instant, in the order of the list.
type Manifest struct {
	Total   int     // entries of the list
	Bytes   int64   // of all of them
	Entries []Entry // the newest of them
	Now     time.Time
	API     string // the path at which the API tells the same
}

// An Entry is one line of the list.
type Entry struct {
	Place         int // in the list, from 1
	ID, DedupeKey string
	Size          int64
	Digest        string // with its algorithm in front
	Added         time.Time
	Meta          []Pair
	Files         []Download
	URL           string // at which the API tells the same
}

// A Pair is a name and a text.
type Pair struct{ Name, Text string }

// A Download is a file of an entry.
type Download struct {
	Name   string
	Size   int64
	Digest string
	URL    string
}

// RenderManifest writes the page as HTML.
func RenderManifest(w io.Writer, p ManifestPage) error { return execute(w, "manifest.html", p) }

// Headline says how many entries there are.
func (m *Manifest) Headline() string {
	switch m.Total {
	case 0:
		return "No entries"
	case 1:
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", m.Total)
}

// Ago is how long ago the entry was added.
func (m *Manifest) Ago(e Entry) time.Duration { return m.Now.Sub(e.Added) }

// Title is what the page is called.
func (p ManifestPage) Title() string {
	switch {
	case p.Manifest != nil:
		return p.Manifest.Headline()
	case p.Problem != nil:
		return p.Problem.Title
	}
	return "Manifests"
}

// Final reports whether asking again would get the same answer.
func (p ManifestPage) Final() bool {
	return p.Manifest == nil && (p.Problem == nil || p.Problem.Status < 500 || p.Problem.Status == http.StatusNotImplemented)
}

var units = [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Size writes bytes as people say them: 17 B, 1.5 KiB, 20 MiB.
func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), 0
	for ; v >= 1<<10 && unit < len(units)-1; unit++ {
		v /= 1 << 10
	}
	// Not 1024 KiB, which rounding would make of a byte less than a MiB.
	if v >= 1023.5 && unit < len(units)-1 {
		v, unit = v/(1<<10), unit+1
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f %s", v, units[unit])
	}
	return fmt.Sprintf("%.0f %s", v, units[unit])
}

// short is the beginning of a digest, by which people tell one from another.
func short(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(len(digest), 12)]
}
