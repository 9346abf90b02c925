package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/blobindex/indexd/cas/snapshot"
)

// snapshotSettings are a directory in the configuration file whose files the server publishes.
//
//   - namespace: team
//     name: files
//     dir: /srv/files
//     every: 60s
//     grace: 60s                  # default what is saved, else 60s
//     ignore: ["*.tmp", "cache/"]
//     digest: false
//     allow_empty: false
type snapshotSettings struct {
	Namespace  string   `koanf:"namespace" give:"a text such as team"`
	Name       string   `koanf:"name" give:"a text such as files"`
	Dir        string   `koanf:"dir" give:"a text such as /srv/files"`
	Every      *string  `koanf:"every" give:"a duration with its unit, such as 60s"`
	Grace      *string  `koanf:"grace" give:"a duration with its unit, such as 60s"`
	Ignore     []string `koanf:"ignore" give:"a list of patterns" each:"a pattern such as *.tmp"`
	Digest     bool     `koanf:"digest" give:"true or false"`
	AllowEmpty bool     `koanf:"allow_empty" give:"true or false"`
}

// Of the intervals at which directories are published.
const (
	defaultEvery = time.Minute
	leastEvery   = time.Second
)

// A publisher publishes one directory at intervals.
type publisher struct {
	snapshot        *snapshot.Snapshot
	namespace, name string
	source          source
	every           time.Duration
	opts            snapshot.PublishOptions
	log             *slog.Logger
	count           func(namespace, name string, outcome snapshot.Outcome, err error) // nil: nobody counts
}

// publishers returns what is configured to be published. It makes no request, and looks at no directory: one that is not
// mounted yet may be later. Every error is a usage error.
func (s *settings) publishers(b *lazyBucket, usable func(context.Context) error, log *slog.Logger) ([]*publisher, error) {
	var all []*publisher
	var titles []string
	for i, c := range s.Snapshots {
		p := &publisher{namespace: c.Namespace, name: c.Name, log: log}
		p.source = source{dir: c.Dir, digest: c.Digest, bucket: b.location.Dir()}
		p.opts.AllowEmpty = c.AllowEmpty
		err := c.read(p)
		if err == nil {
			p.snapshot, err = snapshot.New(b, c.Namespace, c.Name, &snapshot.Options{Class: snapshot.Scheduler, Usable: usable})
		}
		title := c.Namespace + "/" + c.Name
		if err == nil && slices.Contains(titles, title) {
			err = errors.New("it is there twice; one directory is published under one name")
		}
		if err != nil {
			return nil, usagef("snapshots[%d] (%.200q) in the configuration: %w", i, title, err)
		}
		all, titles = append(all, p), append(titles, title)
	}
	return all, nil
}

func (c *snapshotSettings) read(p *publisher) (err error) {
	if c.Dir == "" {
		return errors.New("it has no dir; say which directory is to be published")
	}
	if p.source.ignore, err = parseIgnore(c.Ignore); err != nil {
		return err
	}
	p.every = defaultEvery
	if c.Every != nil {
		if p.every, err = time.ParseDuration(*c.Every); err != nil || p.every < leastEvery {
			return fmt.Errorf("every is %.40q; give a duration of %s or more with its unit, such as 60s", *c.Every, leastEvery)
		}
	}
	if c.Grace != nil {
		d, err := time.ParseDuration(*c.Grace)
		if err != nil {
			return fmt.Errorf("grace is %.40q; give a duration with its unit, such as 60s", *c.Grace)
		}
		if p.opts.Grace, err = readGrace(d); err != nil {
			return err
		}
	}
	return nil
}

// startPublishers publishes each directory now and at its interval. What it returns stops that, and waits until nothing is
// asked of the bucket any more.
func startPublishers(ctx context.Context, all []*publisher) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, p := range all {
		running.Go(func() { p.run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// run publishes until ctx ends. Of the ticks that come while it publishes one is made up for, at once; the others are skipped.
func (p *publisher) run(ctx context.Context) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		p.publish(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// publish publishes once, and logs what came of it. Whatever that is, the next tick tries again: who was overtaken walks anew
// then.
func (p *publisher) publish(ctx context.Context) {
	log := p.log.With("namespace", p.namespace, "name", p.name, "class", string(snapshot.Scheduler))
	var met account
	r, err := p.snapshot.Publish(ctx, func(add func(snapshot.Row) error) (err error) {
		met, err = p.source.walk(ctx, add, nil)
		return err
	}, &p.opts)
	if ctx.Err() != nil && (err != nil || r.Outcome == "") {
		return // it was told to stop
	}
	if p.count != nil {
		p.count(p.namespace, p.name, r.Outcome, err)
	}
	switch {
	case err != nil:
		log.Error("snapshot_failed", "generation", r.ID.Number, "pointer", r.Pointer.ID.Number, "error", readable(err.Error()))
		return
	case r.Outcome == snapshot.Superseded:
		log.Info("snapshot_superseded", "generation", r.ID.Number, "pointer", r.Pointer.ID.Number)
		return
	case r.Outcome == snapshot.Unchanged:
		log.Debug("snapshot_unchanged", "generation", r.Pointer.ID.Number)
	default:
		log.Info("snapshot_published", "generation", r.Pointer.ID.Number, "rows", r.Pointer.Rows, "links", met.links,
			"vanished", met.vanished, "restless", met.restless, "swept", r.Swept.Generations)
	}
	if r.SweepErr != nil && ctx.Err() == nil {
		log.Warn("snapshot_sweep_failed", "generation", r.Pointer.ID.Number, "error", readable(r.SweepErr.Error()))
	}
}
