package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/realservers"
)

// A runner puts servers to suites, one after the other: they would take each other's time.
type runner struct {
	options
	root, cache string
	servers     []server
	dirs        map[string]string // where each is installed
	report      *report
}

func newRunner(o options) (*runner, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	r := &runner{options: o, root: dir, cache: os.Getenv("INDEXD_SERVERS"), dirs: map[string]string{}}
	if r.cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("finding a place for servers, which INDEXD_SERVERS could name: %w", err)
		}
		r.cache = filepath.Join(user, "indexd", "servers")
	}
	if r.cache, err = filepath.Abs(r.cache); err != nil {
		return nil, err
	}
	for _, s := range servers() {
		if strings.Contains(s.name, o.only) && (o.more || !s.more) {
			r.servers = append(r.servers, s)
		}
	}
	if len(r.servers) == 0 {
		return nil, fmt.Errorf("no server's name contains %q", o.only)
	}
	r.report = newReport()
	return r, nil
}

// install has every server before the first one is started.
func (r *runner) install(ctx context.Context) error {
	for _, s := range r.servers {
		dir, err := ensure(ctx, r.cache, cmp.Or(s.program, s.name), s.version, s.install)
		if err != nil {
			return err
		}
		r.dirs[s.name] = dir
	}
	return nil
}

// server runs the suites on one server. What goes wrong with it is reported; the error is one that ends all.
func (r *runner) server(ctx context.Context, s server) error {
	known, ok := realservers.Find(s.name)
	if !ok {
		return fmt.Errorf("nothing is known of server %q", s.name)
	}
	return r.running(ctx, s, known, func(t target, p *process) error {
		for _, suite := range s.suites {
			if !strings.Contains(string(suite), r.suite) {
				continue
			}
			var v verdict
			for try := 0; try < 3 && (try == 0 || v.missed > 0 && v.missed == v.failed); try++ {
				var err error
				if v, err = r.put(ctx, p.alive(ctx), t, suite); err != nil {
					return err
				}
			}
			fate := p.fate()
			if fate != nil {
				v.problems = append(v.problems, fmt.Sprintf("%s, %s: %v; its log:\n%s", s.name, suite, fate, p.log()))
			}
			r.report.add(s, known, v)
			if fate != nil {
				return nil
			}
		}
		return nil
	})
}

// running starts the server for the time of fn.
func (r *runner) running(ctx context.Context, s server, known realservers.Server, fn func(target, *process) error) (err error) {
	port, err := freePort(r.ports)
	if err != nil {
		return err
	}
	argv := func(data string) []string { return s.argv(r.dirs[s.name], data, port) }
	p, err := launch(ctx, argv, port)
	if err == nil {
		defer func() { err = errors.Join(err, p.stop()) }()
	}
	if err == nil && s.pair {
		if port, err = freePort(r.ports); err != nil {
			return err
		}
		err = p.join(ctx, argv, port)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.report.add(s, known, verdict{problems: []string{fmt.Sprintf("%s: starting: %v", s.name, err)}})
		return nil
	}
	t := target{server: s, Server: known, url: p.url, root: r.root, most: r.soak}
	if p.beside != nil {
		t.beside = p.beside.url
	}
	return fn(t, p)
}

// put puts the server to one suite. Tests run as long as alive, for they would try long to reach a server that has ended.
func (r *runner) put(ctx, alive context.Context, t target, suite realservers.Suite) (verdict, error) {
	fmt.Printf("%s %s: %s\n", t.server.name, t.version, suite)
	began := time.Now()
	run := t.run
	var report *probe.Report
	switch suite {
	case realservers.ByHand:
		run = t.byHand
	case realservers.Doctor:
		run = func(ctx context.Context, _ realservers.Suite) (results []result, _ []string, err error) {
			report, results, err = t.doctor(ctx)
			return results, nil, err
		}
	}
	results, notes, err := run(alive, suite)
	for _, d := range t.listed(suite, realservers.Ends) {
		if err != nil {
			break
		}
		var more []result
		more, err = r.end(ctx, t, d)
		results = append(results, more...)
	}
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	v := judge(t.Server, suite, results)
	v.took, v.notes, v.report = time.Since(began), append(v.notes, notes...), report
	if err != nil {
		v.failed++
		v.problems = append(v.problems, fmt.Sprintf("%s, %s: %v", t.server.name, suite, err))
	}
	return v, nil
}

// end runs a case that ends a server on one of its own.
func (r *runner) end(ctx context.Context, t target, d realservers.Deviation) (results []result, err error) {
	err = r.running(ctx, t.server, t.Server, func(t target, p *process) error {
		test := t.test(d.Suite)
		if results, _, err = t.goTest(ctx, d.Suite, "-run", alone(test, d), test.pkg); err != nil {
			return err
		}
		if !p.ended() {
			return fmt.Errorf("the server survives %s, although: %s", d.Case, d.Why)
		}
		return nil
	})
	return results, err
}

// suiteNames are those that some server is put to, in their order.
func suiteNames() []realservers.Suite {
	var names []realservers.Suite
	for _, suite := range []realservers.Suite{
		realservers.Bucket, realservers.Agreement, realservers.Index, realservers.CAS, realservers.Doctor, realservers.Soak,
		realservers.Manifest, realservers.Snapshot, realservers.ByHand,
	} {
		if slices.ContainsFunc(servers(), func(s server) bool { return slices.Contains(s.suites, suite) }) {
			names = append(names, suite)
		}
	}
	return names
}
