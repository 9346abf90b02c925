package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/web"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the page and the HTTP API",
		Long: `Serve the page and the HTTP API, on a loopback address only: there is no authentication yet. The bucket's directory is
made if it is not there. What readers find to be over is deleted in the background, by the TTL and skew that the server is
given: if the index is configured (ttl, late_after, skew, grammar), always pass its --config, or set INDEXD_CONFIG.

It stops on SIGINT or SIGTERM, within 10 seconds.`,
		Args: takes(0, 0, "no arguments"),
		RunE: a.serve,
	}
	bucketFlags(cmd)
	cmd.Flag("bucket").Usage = "where the indexes are: file:///dir, ./dir, or mem:// for as long as the server runs"
	cmd.Flags().String("listen", defaultListen, "address to listen on; loopback only")
	return cmd
}

func (a *app) serve(cmd *cobra.Command, _ []string) error {
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	if err := checkListen(s.Listen); err != nil {
		return s.blame("listen", err)
	}
	b, err := parseBucket(s.Bucket, serving)
	if err != nil {
		return s.blame("bucket", err)
	}
	defer b.Close()
	log := a.log(slog.LevelInfo)
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Log: log})
	defer sweeper.Close()
	indexes, err := s.indexes(wiring{objects: b, sweeper: sweeper, limits: blobindex.NewLimits(0, 0), log: log})
	if err != nil {
		return err
	}
	// The address first: a port that is in use must leave no directory behind.
	l, err := listen(cmd.Context(), s.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := b.get(); err != nil {
		return err
	}
	// A directory and memory charge nothing.
	handler, err := web.New(indexes, readiness(b), &web.Options{Log: log})
	if err != nil {
		return err
	}
	if err := a.print(fmt.Sprintf("indexd serves %s at http://%s/\n", s.Bucket, l.Addr())); err != nil {
		return err
	}
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
