// Command testreal runs the tests on real servers: it installs pinned versions of them outside the repository, starts each
// on the loopback interface, runs the suites that it can be put to, and prints what was seen. It fails where a server did
// not start, where a case failed that is not listed in package realservers, where a listed one passed, and where a suite ran
// no case. Run it with `make test-real`; `make compatibility` has it write docs/compatibility.md.
//
// Servers are kept in $INDEXD_SERVERS, by default indexd/servers in the user's cache directory. Their data and logs are in
// a temporary directory, which is removed. Only processes that it started are ever stopped.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// options are what the command line asks for.
type options struct {
	only, suite string
	more        bool
	out         string
	ports       string
	soak        time.Duration
}

func main() {
	// On Linux a child dies with the thread that started it, so that one must live as long as the program.
	runtime.LockOSThread()
	var o options
	flag.StringVar(&o.only, "only", "", "run on the servers whose name contains this")
	flag.StringVar(&o.suite, "suite", "", "run the suites whose name contains this")
	flag.BoolVar(&o.more, "more", false, "run on the servers that take long to install, too")
	flag.StringVar(&o.out, "out", "", "write the page about compatibility to this file")
	flag.StringVar(&o.ports, "ports", "", "take the servers' ports from this range, such as 17100-17199; default: any free one of 20000-29999")
	flag.DurationVar(&o.soak, "soak", 0, "let no soak go on for longer than this; default: 30 to 90 s, each as listed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "testreal:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.out != "" && (o.only != "" || o.suite != "") {
		return errors.New("a page about compatibility is made of all servers and suites: -out goes without -only and -suite")
	}
	r, err := newRunner(o)
	if err != nil {
		return err
	}
	if err := r.install(ctx); err != nil {
		return err
	}
	began := time.Now()
	for _, s := range r.servers {
		if err := r.server(ctx, s); err != nil {
			return err
		}
	}
	fmt.Printf("\n%s\nin %v\n", r.report.table(), time.Since(began).Round(time.Second))
	if problems := r.report.problems(); len(problems) > 0 {
		return fmt.Errorf("%d problems:\n%s", len(problems), strings.Join(problems, "\n"))
	}
	if o.out == "" {
		return nil
	}
	return replace(o.out, r.report.page())
}

// replace writes the file whole or not at all.
func replace(path, text string) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// root is the repository's, found from the working directory.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "tools", "testreal")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("this is not the repository of indexd")
		}
		dir = parent
	}
}
