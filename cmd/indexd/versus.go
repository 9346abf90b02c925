package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

// How often the readers of a demonstration read, how often a comparison is audited, and how often its count is printed
// where there is no terminal.
const (
	readEvery  = 2 * time.Second
	auditEvery = time.Second
	printEvery = 5 * time.Second
)

// A versus reads both sides of a comparison as dashboards do, and counts what each has lost.
type versus struct {
	s         *stage
	namespace *blobindex.Namespace
	began     time.Time
}

func newVersus(s *stage, index *blobindex.Index) (*versus, error) {
	namespace, err := index.Namespace(defaultNamespace)
	return &versus{s, namespace, time.Now()}, err
}

// read reads like a dashboard until ctx ends: the index with its sweeper, and the list, which its readers prune.
func (v *versus) read(ctx context.Context) {
	every(ctx, readEvery, func() error {
		if _, err := v.namespace.Cards(ctx, blobindex.CardsRequest{}); err != nil || v.s.list == nil {
			return err
		}
		return v.s.list.prune(ctx)
	}, v.failed)
}

func (v *versus) failed(err error) {
	v.s.log.Warn("a simulated reader failed and goes on", "error", err)
}

// every does something again and again until ctx ends.
func every(ctx context.Context, interval time.Duration, do func() error, failed func(error)) {
	for {
		if err := do(); err != nil && ctx.Err() == nil {
			failed(err)
		}
		if pause(ctx, interval) != nil {
			return
		}
	}
}

// audit looks once what each side really lists. A side that could not be read is not audited.
func (v *versus) audit(ctx context.Context) error {
	due := v.s.theirs.due(time.Now())
	entries, err := v.s.list.read(ctx)
	if err != nil {
		return err
	}
	listed := make(map[string]bool, len(entries))
	for _, e := range entries {
		listed[e.ID] = true
	}
	v.s.theirs.audit(due, listed, time.Now())

	due = v.s.ours.due(time.Now())
	l, err := v.namespace.List(ctx)
	if err != nil {
		return err
	}
	listed = make(map[string]bool, len(l.Items))
	for _, it := range l.Items {
		listed[it.ID] = true
	}
	v.s.ours.audit(due, listed, time.Now())
	return nil
}

// watch audits until ctx ends, and shows the count on w: in one line that changes on a terminal, else in a line every few
// seconds.
func (v *versus) watch(ctx context.Context, w io.Writer) {
	terminal := isTerminal(w)
	var printed time.Time
	every(ctx, auditEvery, func() error {
		if err := v.audit(ctx); err != nil {
			return err
		}
		if terminal {
			fmt.Fprintf(w, "\r\x1b[K%s", v.text())
		} else if time.Since(printed) >= printEvery {
			printed = time.Now()
			fmt.Fprintln(w, v.text())
		}
		return nil
	}, v.failed)
	if terminal {
		fmt.Fprintln(w)
	}
}

// text is the state of the comparison in one line.
func (v *versus) text() string {
	list, index := v.s.theirs.tally(), v.s.ours.tally()
	return fmt.Sprintf("after %s, at %v to %v a request: the shared list has lost %d of %d items (%d missing right "+
		"now); indexd has lost %d of %d", humane(time.Since(v.began)), shortestDelay, longestDelay, list.Lost, list.Total, list.Gone,
		index.Lost, index.Total)
}
