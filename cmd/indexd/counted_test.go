package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/prune/janitor"
)

// TestPasses_Counted: each pass is told once with what came of it, also the one that is left to somebody else; a dry run is none.
func TestPasses_Counted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		tells := make(chan string, 10)
		s.passes.count = func(index string, r janitor.Report, err error) {
			tells <- fmt.Sprintf("%s %d %d %t", index, r.Term, total(r.Deleted), errors.Is(err, lease.ErrHeld))
		}
		s.stale(2)
		for _, dry := range []bool{true, false} {
			if _, err := s.passes.run(t.Context(), s.index, &janitor.RunOptions{DryRun: dry}); err != nil {
				t.Fatal(err)
			}
		}
		h, err := s.lease().Acquire(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.passes.run(t.Context(), s.index, &janitor.RunOptions{}); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("beside an operator: %v", err)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.passes.schedule(s.index, 5*time.Minute)
		var told []string
		for range 3 {
			told = append(told, <-tells)
		}
		s.stop() // before the scheduler's second pass, whenever its first one was
		s.passes.end()
		close(tells)
		for more := range tells {
			told = append(told, more)
		}
		if want := []string{"running 1 2 false", "running 0 0 true", "running 3 0 false"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// TestCollector_Counted: so is each collection.
func TestCollector_Counted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttic(t, nil)
		a.orphan(1)
		time.Sleep(2 * manifest.DefaultGrace)
		var told []string
		c := a.collector(nil)
		c.count = func(term uint64, deleted int, err error) {
			told = append(told, fmt.Sprintf("%d %d %t %t", term, deleted, errors.Is(err, lease.ErrHeld), err == nil))
		}
		l, err := lease.New(a.store, manifest.Root+"team/models", lease.Operator, &lease.Options{TTL: lease.MaxTTL})
		if err != nil {
			t.Fatal(err)
		}
		held, err := l.Acquire(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(collectDue + time.Hour)
		for range 2 {
			if err := c.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.look(t.Context()); err != nil { // not due
			t.Fatal(err)
		}
		if want := []string{"0 0 true false", "2 1 false true"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// TestPublisher_Counted: so is each publication, but for one that was told to stop.
func TestPublisher_Counted(t *testing.T) {
	dir := t.TempDir()
	var usable error
	s, err := snapshot.New(membucket.New(nil), "team", "files", &snapshot.Options{
		Usable: func(context.Context) error { return usable },
	})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	p := &publisher{snapshot: s, namespace: "team", name: "files", source: source{dir: dir}, log: slog.New(slog.DiscardHandler)}
	p.count = func(namespace, name string, o snapshot.Outcome, err error) {
		told = append(told, fmt.Sprintf("%s/%s %s %t", namespace, name, o, err == nil))
	}
	usable = cas.ErrUnsupported
	p.publish(t.Context())
	usable = nil
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.publish(t.Context())
	p.publish(t.Context())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	p.publish(over)
	if want := []string{"team/files  false", "team/files published true", "team/files unchanged true"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
