package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/cas/manifest"
)

// An attic is a manifest with one file, beside which orphans are put.
type attic struct {
	t     *testing.T
	store manifest.Store
	log   lockedBuffer
}

func newAttic(t *testing.T, opts *membucket.Options) *attic {
	t.Helper()
	a := &attic{t: t, store: membucket.New(opts)}
	m, err := manifest.New(a.store, "team", "models", nil)
	if err == nil {
		_, err = m.Add(t.Context(), manifest.AddRequest{ID: "one", Create: true, Sources: []manifest.Source{{Name: "f",
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("kept")), nil }}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *attic) orphan(n int) {
	a.t.Helper()
	key := bucket.Key(fmt.Sprintf("%steam/models/blobs/ORPHAN%d", manifest.Root, n))
	if _, err := a.store.Put(a.t.Context(), key, strings.NewReader("orphan")); err != nil {
		a.t.Fatal(err)
	}
}

// files is how many files there are beside the list.
func (a *attic) files() (n int) {
	a.t.Helper()
	err := a.store.List(a.t.Context(), bucket.ListRequest{Prefix: manifest.Root + "team/models/blobs/"}, func(p bucket.Page) error {
		n += len(p.Objects)
		return nil
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func (a *attic) collector(usable error) *collector {
	return &collector{
		store: a.store, usable: func(context.Context) error { return usable }, log: slog.New(slog.NewTextHandler(&a.log, nil)),
	}
}

// TestCollector_Daily has two servers collect one manifest: one of them does, once a day, whatever is added in between.
func TestCollector_Daily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttic(t, nil)
		ctx, stop := context.WithCancel(t.Context())
		for range 2 {
			go a.collector(nil).run(ctx)
		}
		for day := range 4 {
			a.orphan(day)
			time.Sleep(24 * time.Hour)
		}
		time.Sleep(2 * 24 * time.Hour)
		stop()
		synctest.Wait()
		if n := a.files(); n != 1 {
			t.Errorf("%d files are left, want the one that is referenced", n)
		}
		collected := strings.Count(a.log.String(), "manifest collected")
		if collected < 5 || collected > 8 {
			t.Errorf("collected %d times in 6 days by two servers:\n%s", collected, a.log.String())
		}
	})
}

// TestCollector_Defers leaves a manifest alone that somebody else holds the lease of, and one that was collected just now.
func TestCollector_Defers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttic(t, nil)
		a.orphan(1)
		time.Sleep(2 * manifest.DefaultGrace)
		other, err := lease.New(a.store, manifest.Root+"team/models", lease.Operator, &lease.Options{TTL: lease.MaxTTL})
		if err != nil {
			t.Fatal(err)
		}
		held, err := other.Acquire(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(collectDue + time.Hour)
		c := a.collector(nil)
		if err := c.look(t.Context()); err != nil || a.files() != 2 || !strings.Contains(a.log.String(), "lease_held") {
			t.Errorf("held: %v, %d files, log %s", err, a.files(), a.log.String())
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.look(t.Context()); err != nil || a.files() != 1 {
			t.Errorf("free and due: %v, %d files", err, a.files())
		}
		a.orphan(2)
		time.Sleep(collectDue - time.Minute)
		if err := c.look(t.Context()); err != nil || strings.Count(a.log.String(), "manifest collected") != 1 {
			t.Errorf("not due: %v, log %s", err, a.log.String())
		}
	})
}

// TestCollector_ClocksApart collects as often where the store's clock and the host's are far apart.
func TestCollector_ClocksApart(t *testing.T) {
	for _, apart := range []time.Duration{-365 * 24 * time.Hour, 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			a := newAttic(t, &membucket.Options{Now: func() time.Time { return time.Now().Add(apart) }})
			for day := range 3 {
				if err := a.collector(nil).look(t.Context()); err != nil || strings.Count(a.log.String(), "manifest collected") != day+1 {
					t.Errorf("%v apart, day %d: %v, log %s", apart, day, err, a.log.String())
				}
				time.Sleep(collectEvery)
			}
		})
	}
}

// TestCollector_Unusable does nothing where conditions do not hold, or that is not known, and makes no document where there is
// no manifest.
func TestCollector_Unusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttic(t, nil)
		a.orphan(1)
		time.Sleep(2 * manifest.DefaultGrace)
		if err := a.collector(cas.ErrUnsupported).look(t.Context()); err != nil || !strings.Contains(a.log.String(), "lease_unavailable") {
			t.Errorf("unusable: %v, log %s", err, a.log.String())
		}
		if err := a.collector(errOnTrial).look(t.Context()); !errors.Is(err, errOnTrial) {
			t.Errorf("on trial: %v", err)
		}
		if a.files() != 2 {
			t.Errorf("%d files are left of 2", a.files())
		}
		a.store = membucket.New(nil)
		if err := a.collector(nil).look(t.Context()); err != nil || a.files() != 0 {
			t.Errorf("empty: %v", err)
		}
		_, err := a.store.Load(t.Context(), lease.Prefix+manifest.Root+"team/models")
		if !errors.Is(err, cas.ErrNotExist) {
			t.Errorf("the lease of a manifest that is not there: %v", err)
		}
	})
}
