package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/prune/janitor"
	"github.com/blobindex/indexd/web"
)

func (a *app) serveCommand() *cobra.Command {
	var reconfigure bool
	var maxUpload int64
	var check bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the page and the HTTP API",
		Long: `Serve the page and the HTTP API: on a loopback address only, unless the configuration says under auth who may
do what. A directory is made if it is not there, a bucket of S3 or Cloud Storage is not. What readers find to be over is
deleted in the background, and every 5 minutes, or --prune-every, a pass over each index deletes what nobody has read. Where somebody else is at work
on an index it is left to them ("lease_held" in the log); where conditional writes cannot be used, passes are not guarded
against each other ("lease_unavailable").

Directories that the configuration lists under snapshots are published at intervals.

Manifests and snapshots are read and changed too, where the bucket keeps the conditions of writes. Their files stream through;
for S3, which has to be told their size first, one of more than 1 MiB waits in a temporary file (TMPDIR) until all of it has
come. Files that no entry of a manifest has any more are deleted about once a day, as by "indexd manifest gc".

` + rulesHelp + `

With --check it serves nothing and writes nothing: it reads the configuration, the bucket and what is saved there, tries the
addresses, tells what it found, and exits 0 if serve would work, 1 if not, 2 if the configuration is wrong, and 3 if the
configuration differs from the saved rules, or needs conditional writes that the bucket was found not to keep.

It stops on SIGINT or SIGTERM, within 10 seconds: /readyz tells so first, for 3 seconds if somebody watches it, then no more
requests are taken, and those under way end. A second signal ends it at once.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check {
				return a.checkServe(cmd, reconfigure, maxUpload)
			}
			return a.serve(cmd, reconfigure, maxUpload)
		},
	}
	bucketFlags(cmd)
	cmd.Flag("bucket").Usage = "where the indexes are: file:///dir, ./dir, s3://bucket, gs://bucket, or mem:// for as long as " +
		"the server runs"
	cmd.Flags().String("listen", defaultListen, "address to listen on; loopback only, unless auth is configured")
	cmd.Flags().String("prune-every", exact(janitor.DefaultEvery), "how often to prune each index; 0 for never")
	cmd.Flags().Int64Var(&maxUpload, "max-upload", web.DefaultMaxUpload, "bytes that one upload to a manifest or a snapshot may have")
	metricsFlag(cmd)
	logFlags(cmd, slog.LevelInfo)
	cmd.Flags().BoolVar(&check, "check", false, "tell whether serve would work, and do nothing else")
	reconfigureFlag(cmd, &reconfigure)
	return cmd
}

func (a *app) serve(cmd *cobra.Command, reconfigure bool, maxUpload int64) error {
	s, err := a.serveSettings(cmd, maxUpload)
	if err != nil {
		return err
	}
	b, err := parseBucket(s.Bucket, serving)
	if err != nil {
		return s.blame("bucket", err)
	}
	defer b.Close()
	var handler *web.Server
	counts := newMetrics(func() []live.Stats { return handler.Views() }, s.Cards)
	b.counted = counts.Objects
	trial := newTrial(cmd.Context(), b.usable)
	defer trial.end()
	log := a.logger(s, slog.LevelInfo)
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Log: log, Told: counts.Swept})
	defer sweeper.Close()
	indexes, err := s.indexes(wiring{
		objects: b, sweeper: sweeper, limits: blobindex.NewLimits(0, 0), log: log, rules: b, save: true,
		usable: trial.usable, told: logRules(log),
	})
	if err != nil {
		return err
	}
	gate, err := s.gate(indexes, log)
	if err != nil {
		return err
	}
	if gate != nil {
		defer gate.Close()
	}
	publishers, err := s.publishers(b, trial.within(changeWait), log)
	if err != nil {
		return err
	}
	for _, p := range publishers {
		p.count = counts.Published
	}
	// The address first: a port that is in use must leave no directory behind.
	l, err := s.listen(cmd.Context())
	if err != nil {
		return err
	}
	defer l.Close()
	scraped, err := s.listenMetrics(cmd.Context(), log)
	if err != nil {
		return err
	}
	if scraped != nil {
		defer scraped.Close()
	}
	if _, err := b.get(cmd.Context()); err != nil {
		return err
	}
	if reconfigure {
		trial.waitFor(trialTime) // there is no view yet that this holds up
		err = change(cmd.Context(), indexes)
		trial.waitFor(trialWait)
	} else {
		agree(cmd.Context(), indexes, log)
	}
	if err != nil {
		return err
	}
	passes := newPasses(cmd.Context(), b, trial.within(trialTime), log) // nobody looks at a page meanwhile
	passes.count = counts.Pass
	defer passes.end()
	handler, err = web.New(indexes, readiness(b), &web.Options{
		Live:   &live.Options{Observe: counts.Observe},
		Checks: checks(trial, indexes, s.issuerErr(gate)), Metrics: counts.Handler(), Observe: observed(counts),
		Log: log, Prices: b.prices(), Notice: func() string { return rulesNotice(indexes) },
		Manifests: &web.Manifests{Store: b, Usable: trial.within(changeWait), MaxUpload: maxUpload},
		Prune:     passes.run,
		Snapshots: &web.Snapshots{Store: b, Usable: trial.within(changeWait), MaxUpload: maxUpload},
		Auth:      gate, PublicURL: s.PublicURL, Origins: s.Origins,
	})
	if err != nil {
		return err
	}
	defer handler.Close()
	defer startPublishers(cmd.Context(), publishers)()
	if err := a.print(fmt.Sprintf("indexd serves %s at http://%s/\n", s.Bucket, l.Addr())); err != nil {
		return err
	}
	if s.pruneEvery > 0 {
		for _, x := range indexes {
			passes.schedule(x, s.pruneEvery)
		}
	}
	files := &collector{store: b, usable: trial.within(trialTime), log: log, count: counts.Collected}
	passes.begin(func() { files.run(passes.ctx) })
	return serveHTTP(cmd.Context(), l, handler, log, metricsSide(scraped, counts))
}

// serveSettings reads what serve is told, and tries no more of it than can be seen from here. Every error is a usage error.
func (a *app) serveSettings(cmd *cobra.Command, maxUpload int64) (*settings, error) {
	if maxUpload <= 0 {
		return nil, usagef("--max-upload is %d; give the bytes that one upload may have, such as %d", maxUpload, web.DefaultMaxUpload)
	}
	s, err := a.settings(cmd)
	if err != nil {
		return nil, err
	}
	if err := s.checkListen(); err != nil {
		return nil, err
	}
	return s, s.checkMetricsListen()
}

// readiness tells whether the bucket can be listed, by listing what is never there.
func readiness(objects bucket.Objects) func(context.Context) error {
	return func(ctx context.Context) error {
		enough := errors.New("enough")
		err := objects.List(ctx, bucket.ListRequest{Prefix: "_indexd/ready/"}, func(bucket.Page) error { return enough })
		if errors.Is(err, enough) {
			return nil
		}
		return err
	}
}
