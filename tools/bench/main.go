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
	holds               bool
}

// A bench fills rows in.
type bench struct {
	name string
	run  func(ctx context.Context, dir string) ([]row, error)
}

func main() {
	only := flag.String("only", "", "run the benchmarks whose name contains this")
	flag.Parse()
	if err := measure(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, only string) error {
	header()
	for _, b := range []bench{
		{"list", benchList}, {"put", benchPut}, {"million", benchMillion}, {"cards", benchCards},
	} {
		if !strings.Contains(b.name, only) {
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
			verdict := "holds"
			switch {
			case r.bound == "":
				verdict = ""
			case !r.holds:
				verdict = "**missed**"
			}
			fmt.Printf("| %s | %s | %s | %s |\n", r.what, r.figure, r.bound, verdict)
		}
	}
	return nil
}

func header() {
	fmt.Printf(`# Performance

Made by `+"`make bench`"+` on %s: %s, %d cores, %s/%s, %s. Whole milliseconds of a shared machine
say little; the ratios are between things measured in turn in one run, each the median of five pairs.

| what | measured | bound | |
| --- | --- | --- | --- |
`, time.Now().UTC().Format("2006-01-02"), cpu(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
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
