// Command bench measures what docs/performance.md tells: ratios in one run, each the median of alternating pairs, the
// losing rows too. It prints that page. Run it with `make bench`; it needs about 500 MB below the temporary directory.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A row is one line of the page.
type row struct {
	what, figure, bound string
	// over is what was measured as a multiple of the bound: up to 1 it holds. 0: there is no bound. skipped: it says nothing.
	over float64
}

// wide is from which multiple on a missed bound fails the run: below it a busy machine may be the reason.
const wide = 2

// A bench fills rows in.
type bench struct {
	name string
	run  func(ctx context.Context, dir string) ([]row, error)
}

func main() {
	if root := os.Getenv(crowdDir); root != "" {
		if err := crowdProcess(context.Background(), root); err != nil {
			fmt.Fprintln(os.Stderr, "bench, one of a crowd:", err)
			os.Exit(1)
		}
		return
	}
	if role := os.Getenv(servedRole); role != "" {
		if err := servedProcess(context.Background(), role); err != nil {
			fmt.Fprintln(os.Stderr, "bench, a server:", err)
			os.Exit(1)
		}
		return
	}
	only := flag.String("only", "", "run the benchmarks whose name contains one of these, separated by commas")
	flag.Parse()
	if err := measure(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, only string) error {
	header()
	var missed []string
	for _, b := range []bench{
		{"list", benchList}, {"put", benchPut}, {"million", benchMillion}, {"cards", benchCards},
		{"s3-register", benchS3Register}, {"s3-delete", benchS3Delete}, {"s3-pages", benchS3Pages},
		{"gcs-register", benchGCSRegister}, {"gcs-pages", benchGCSPages},
		{"cas-dir", benchCASDir}, {"cas-s3", benchCASS3}, {"manifest-dir", benchManifestDir}, {"manifest-s3", benchManifestS3},
		{"http-register", benchHTTPRegister}, {"http-cards", benchHTTPCards}, {"http-events", benchHTTPEvents},
		{"first-build", benchFirstBuild},
	} {
		if !slices.ContainsFunc(strings.Split(only, ","), func(s string) bool { return strings.Contains(b.name, s) }) {
			continue
		}
		dir, err := os.MkdirTemp("", "indexd-bench-")
		if err != nil {
			return err
		}
		rows, err := b.run(ctx, dir)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		for _, r := range rows {
			fmt.Printf("| %s | %s | %s | %s |\n", r.what, r.figure, r.bound, r.verdict())
			if r.over > wide {
				missed = append(missed, r.what)
			}
		}
	}
	if only == "" {
		footer()
	}
	if missed != nil {
		return fmt.Errorf("bounds missed by more than %v times: %s", wide, strings.Join(missed, "; "))
	}
	return nil
}

func (r row) verdict() string {
	switch {
	case r.bound == "":
		return ""
	case r.over == skipped:
		return "skipped"
	case r.over > 1:
		return "**missed**"
	}
	return "holds"
}

func header() {
	fmt.Printf(`# Performance

Made by `+"`make bench`"+` on %s: %s, %d cores, %s/%s, %s. Whole milliseconds of a shared machine
say little; the ratios are between things measured in turn in one run, medians of pairs, with the smallest and the largest
in brackets where there are any. What is asked over the wire is a fake of this repository, in the same process and on the
same cores, delayed where the row says so. A row is skipped, its figures told all the same, where what ours is measured
against, measured twice, differs from itself by more than 15 %%.

| what | measured | bound | |
| --- | --- | --- | --- |
`, time.Now().UTC().Format("2006-01-02"), cpu(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// footer says of rows without a bound why they are there.
func footer() {
	fmt.Print(`
The rows without a bound are there since they lose, or to set the others off: a put that is durable before it answers,
checks the root and shares directory syncs costs more than a bare create and sync. A row in which ours is the slower one
within its bound loses too: registering on S3 adds what an index checks to the SDK's own request, and listing copies each
key once more than the bare loops, which keep nothing.

An update of a document loses to the bare requests by what makes it safe: it reads, checks and writes the whole envelope,
with the 256 saves that it tells of, and on a directory reads the document twice, the second time under the lock. So does a
change of a long manifest, as the processor time tells.

A request for cards loses to the handler that only repeats them by what it is asked and told besides: who asks, under which
name, for what, by when, and a line in the log. What a stream has above a bare one is for the most part its stack: the same
checks stand on it as long as it lasts.
`)
}

func cpu() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, ok := strings.CutPrefix(s.Text(), "model name"); ok {
			return strings.TrimLeft(name, "\t :")
		}
	}
	return "unknown processor"
}

// pairs times a and b in turn n times, after one round that does not count, and returns the medians and the median of
// the ratios a/b of the pairs.
func pairs(n int, a, b func() error) (ta, tb time.Duration, ratio float64, err error) {
	var as, bs []time.Duration
	var ratios []float64
	for i := range n + 1 {
		var took [2]time.Duration
		for j, f := range []func() error{a, b} {
			began := time.Now()
			if err := f(); err != nil {
				return 0, 0, 0, err
			}
			took[j] = time.Since(began)
		}
		if i > 0 {
			as, bs = append(as, took[0]), append(bs, took[1])
			ratios = append(ratios, float64(took[0])/float64(took[1]))
		}
	}
	return median(as), median(bs), median(ratios), nil
}

func median[T time.Duration | float64](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}

func round(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}
