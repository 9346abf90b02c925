package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/cas/manifest"
)

// A collector has the files deleted that no entry of a manifest has any more: of each manifest about once a day, however many
// servers run, under a lease of the manifest's own that tells when it was done last.
type collector struct {
	store  manifest.Store
	usable func(context.Context) error
	log    *slog.Logger
	count  func(term uint64, deleted int, err error) // called with each collection that is begun; nil: nobody counts
}

const (
	// collectFirst is within what a server looks at the manifests when it has started, by chance.
	collectFirst = time.Hour
	collectEvery = 24 * time.Hour
	// collectDue is how long ago a manifest was collected that is to be collected again: less than a day, since servers do
	// not look at the same hour each day.
	collectDue = 18 * time.Hour
)

// run looks at the manifests until ctx ends.
func (c *collector) run(ctx context.Context) {
	wait := rand.N(collectFirst)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if err := c.look(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("manifests not looked at", "error", err)
		}
		wait = collectEvery - rand.N(collectEvery/10)
	}
}

// look collects each manifest that is due. It makes nothing where there is no manifest.
func (c *collector) look(ctx context.Context) error {
	titles, err := c.titles(ctx)
	if err != nil || len(titles) == 0 {
		return err
	}
	switch err := c.usable(ctx); {
	case errors.Is(err, cas.ErrUnsupported), errors.Is(err, cas.ErrDenied):
		c.log.Warn("manifests are not collected", "code", "lease_unavailable", "error", err)
		return nil
	case err != nil:
		return err
	}
	for _, title := range titles {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.collect(ctx, title); err != nil && ctx.Err() == nil {
			c.log.Error("manifest not collected", "manifest", title, "error", err)
		}
	}
	return nil
}

// titles are the names of all manifests: of what has a list.
func (c *collector) titles(ctx context.Context) ([]string, error) {
	var titles []string
	err := c.store.List(ctx, bucket.ListRequest{Prefix: manifest.Root}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			title, isList := strings.CutSuffix(strings.TrimPrefix(string(o.Key), manifest.Root), "/list")
			if isList && strings.Count(title, "/") == 1 {
				titles = append(titles, title)
			}
		}
		return nil
	})
	slices.Sort(titles)
	return titles, err
}

// collect collects one manifest, if that is due and nobody else is at it.
func (c *collector) collect(ctx context.Context, title string) (err error) {
	l, err := lease.New(c.store, manifest.Root+title, lease.Scheduler, nil)
	if err != nil {
		return err
	}
	was, err := l.Status(ctx)
	if err != nil || !was.Since.IsZero() && time.Since(was.Since).Abs() < collectDue { // one that is ahead comes of another clock
		return err
	}
	var term uint64
	var deleted int
	var came error // that is no error of ours
	defer func() {
		if c.count != nil && ctx.Err() == nil {
			c.count(term, deleted, errors.Join(came, err))
		}
	}()
	held, err := l.Acquire(ctx, &lease.AcquireOptions{Reason: "gc"})
	if errors.Is(err, lease.ErrHeld) {
		came = err
		c.log.Info("manifest left to who is at it", "manifest", title, "code", "lease_held")
		return nil
	}
	if err != nil {
		return err
	}
	term = held.Term()
	defer func() {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		err = errors.Join(err, held.Release(release))
	}()
	namespace, name, _ := strings.Cut(title, "/")
	m, err := manifest.New(c.store, namespace, name, &manifest.Options{Usable: c.usable})
	if err != nil {
		return err
	}
	work, cancel := held.Context(ctx)
	defer cancel()
	r, err := m.GC(work, nil)
	deleted = r.Deleted
	if err != nil {
		if errors.Is(context.Cause(work), lease.ErrLost) {
			err = context.Cause(work)
		}
		return err
	}
	c.log.Info("manifest collected", "manifest", title, "files", r.Listed, "deleted", r.Deleted, "failures", r.Failures)
	return nil
}
