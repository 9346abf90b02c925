// Command mutatecas breaks compare-and-swap on purpose, in one way after the other, and checks that a test notices each: the
// conditions, the judgements on lost answers, the meaning of each answer, what a version is, locks and syncs. It works on a
// copy of the module, prints which test noticed what, and fails if any mutant survives, does not compile, or no longer
// applies. Run it with `make mutate-cas`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	root := flag.String("root", "..", "the module's directory")
	only := flag.String("only", "", "run the mutants whose file or description contains one of these, separated by commas")
	workers := flag.Int("workers", 2, "how many mutants are tried at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := mutate(ctx, *root, *only, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "mutatecas:", err)
		stop()
		os.Exit(1)
	}
}

func mutate(ctx context.Context, root, only string, workers int) error {
	began := time.Now()
	all, err := mutants()
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range all {
		name := m.file + " " + m.what
		if slices.ContainsFunc(strings.Split(only, ","), func(s string) bool { return strings.Contains(name, s) }) {
			chosen = append(chosen, m)
		}
	}
	if err := applicable(root, chosen); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutatecas-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	benches := make(chan *bench, workers)
	for range workers {
		b, err := newBench(root, dir)
		if err != nil {
			return err
		}
		benches <- b
	}
	if err := unbroken(ctx, benches, chosen); err != nil {
		return err
	}
	results := make([]result, len(chosen))
	var wg sync.WaitGroup
	for i, m := range chosen {
		b := <-benches
		wg.Go(func() {
			defer func() { benches <- b }()
			results[i] = b.try(ctx, m)
			fmt.Fprintf(os.Stderr, "%3d/%d %s: %s\n", i+1, len(chosen), m.what, results[i])
		})
	}
	wg.Wait()
	return report(chosen, results, time.Since(began))
}

// applicable checks that each mutant's text is in its file exactly once, all at a time: it is quick.
func applicable(root string, chosen []mutant) error {
	var errs []error
	for _, m := range chosen {
		if _, _, err := m.applied(root); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// unbroken runs all the tests of the list on the module as it is: a test that fails anyway notices nothing.
func unbroken(ctx context.Context, benches chan *bench, chosen []mutant) error {
	tests := map[string][]string{} // by package
	for _, m := range chosen {
		if of := tests[m.pkg()]; !slices.Contains(of, m.tests) {
			tests[m.pkg()] = append(of, m.tests)
		}
	}
	b := <-benches
	defer func() { benches <- b }()
	for pkg, of := range tests {
		switch r := b.test(ctx, pkg, strings.Join(of, "|")); r.fate {
		case survived:
		default:
			return fmt.Errorf("%s fails without any mutant: %s\n%s", pkg, r, r.output)
		}
	}
	return nil
}

// report prints the table, and tells of those that were not noticed.
func report(chosen []mutant, results []result, took time.Duration) error {
	fmt.Print("| file | mutant | noticed by |\n| --- | --- | --- |\n")
	var bad []string
	noticed := 0
	for i, m := range chosen {
		r := results[i]
		fmt.Printf("| %s | %s | %s |\n", m.file, m.what, r)
		if r.fate == killed || r.fate == uncompiled && m.compiler {
			noticed++
			continue
		}
		bad = append(bad, fmt.Sprintf("%s: %s: %s\n%s", m.file, m.what, r, r.output))
	}
	fmt.Printf("\n%d of %d mutants were noticed, in %v.\n", noticed, len(chosen), took.Round(time.Second))
	if len(bad) > 0 {
		return fmt.Errorf("%d mutants were not noticed:\n%s", len(bad), strings.Join(bad, "\n"))
	}
	return nil
}
