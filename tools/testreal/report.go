package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/blobindex/indexd/fakes/realservers"
)

// A report collects verdicts, in the order in which they come.
type report struct {
	machine string
	date    time.Time
	rows    []row
}

type row struct {
	server
	known realservers.Server
	verdict
}

// family is as much of a kernel's version as is of interest.
var family = regexp.MustCompile(`^\w+ \d+\.\d+`)

func newReport() *report {
	kernel := runtime.GOOS
	if out, err := exec.Command("uname", "-sr").Output(); err == nil {
		kernel = family.FindString(string(out))
	}
	return &report{
		date:    time.Now().UTC(),
		machine: fmt.Sprintf("%d cores, %s, %s, %s", runtime.NumCPU(), runtime.GOARCH, kernel, runtime.Version()),
	}
}

func (r *report) add(s server, known realservers.Server, v verdict) {
	r.rows = append(r.rows, row{s, known, v})
}

// problems are all that make the program fail.
func (r *report) problems() []string {
	var all []string
	for _, row := range r.rows {
		all = append(all, row.problems...)
	}
	return all
}

// table is for a terminal.
func (r *report) table() string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "server\tversion\tsuite\tcases\tpassed\tknown deviations\tnot run\tfailed\ttook")
	for _, row := range r.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%v\n", row.name, row.version, row.suite, row.run, row.passed, row.verdict.known,
			row.notRun, row.failed, row.took.Round(100*time.Millisecond))
	}
	w.Flush()
	for _, row := range r.rows {
		for _, text := range append(slices.Clone(row.notes), row.figures...) {
			fmt.Fprintf(&out, "%s, %s: %s\n", row.name, row.suite, text)
		}
	}
	return out.String()
}
