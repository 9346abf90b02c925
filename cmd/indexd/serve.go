package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/prune/janitor"
	"github.com/blobindex/indexd/web"
)

func (a *app) serveCommand() *cobra.Command {
	var reconfigure bool
	var maxUpload int64
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

It stops on SIGINT or SIGTERM, within 10 seconds.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, reconfigure, maxUpload) },
	}
	bucketFlags(cmd)
	cmd.Flag("bucket").Usage = "where the indexes are: file:///dir, ./dir, s3://bucket, gs://bucket, or mem:// for as long as " +
		"the server runs"
	cmd.Flags().String("listen", defaultListen, "address to listen on; loopback only, unless auth is configured")
	cmd.Flags().String("prune-every", exact(janitor.DefaultEvery), "how often to prune each index; 0 for never")
	cmd.Flags().Int64Var(&maxUpload, "max-upload", web.DefaultMaxUpload, "bytes that one upload to a manifest or a snapshot may have")
	reconfigureFlag(cmd, &reconfigure)
	return cmd
}

func (a *app) serve(cmd *cobra.Command, reconfigure bool, maxUpload int64) error {
	if maxUpload <= 0 {
		return usagef("--max-upload is %d; give the bytes that one upload may have, such as %d", maxUpload, web.DefaultMaxUpload)
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	check, open := checkListen, listen
	if s.Auth != nil {
		check, open = checkAddress, listenAnywhere
	}
	if err := check(s.Listen); err != nil {
		return s.blame("listen", err)
	}
	b, err := parseBucket(s.Bucket, serving)
	if err != nil {
		return s.blame("bucket", err)
	}
	defer b.Close()
	trial := newTrial(cmd.Context(), b.usable)
	defer trial.end()
	log := a.log(slog.LevelInfo)
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Log: log})
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
	// The address first: a port that is in use must leave no directory behind.
	l, err := open(cmd.Context(), s.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
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
	defer passes.end()
	handler, err := web.New(indexes, readiness(b), &web.Options{
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
	files := &collector{store: b, usable: trial.within(trialTime), log: log}
	passes.begin(func() { files.run(passes.ctx) })
	return serveHTTP(cmd.Context(), l, handler, log)
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
