package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/cas/snapshot"
)

func (a *app) snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Publish whole listings of files, one generation after the other",
		Long: `Publish whole listings of files, one generation after the other. Any number of processes may publish and read at
once: a reader sees one whole listing, what is published never goes back to an older one, and who was overtaken is told.

A snapshot is named NAMESPACE/NAME and is kept below _indexd/snapshot/NAMESPACE/NAME/ in the bucket. Publishing needs
conditional writes, which are tried before the first time; "indexd doctor" tells what a bucket makes of them.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			cmd.SetOut(a.stderr)
			if err := cmd.Help(); err != nil {
				return err
			}
			return usagef("no command given; \"indexd help snapshot\" lists them")
		},
	}
	cmd.AddCommand(a.snapshotPublishCommand(), a.snapshotListCommand(), a.snapshotStatusCommand(), a.snapshotDiffCommand(),
		a.snapshotSweepCommand())
	return cmd
}

// snapshotFlags adds the flags of every command that works on a snapshot.
func snapshotFlags(cmd *cobra.Command) {
	bucketFlags(cmd)
	cmd.Flag("bucket").Usage = "where the snapshot is: file:///dir, ./dir, s3://bucket or gs://bucket"
	cmd.Flags().Bool("json", false, "answer with one JSON object")
}

// A portal is one snapshot of one bucket, as a command names it.
type portal struct {
	*snapshot.Snapshot
	bucket *lazyBucket
	title  string // NAMESPACE/NAME
}

// withSnapshot opens the snapshot that is named for do. A bucket that is not there is never made: only what registers items
// does that.
func (a *app) withSnapshot(cmd *cobra.Command, title string, do func(*portal) error) error {
	return a.withTitled(cmd, "snapshot", title, func(b *lazyBucket, namespace, name string) error {
		s, err := snapshot.New(b, namespace, name, &snapshot.Options{Usable: b.usable})
		if err != nil {
			return &statusError{exitUsage, err}
		}
		p := &portal{Snapshot: s, bucket: b, title: title}
		return p.explain(do(p))
	})
}

// explain gives an error of a snapshot its exit status and its advice, unless it has them.
func (p *portal) explain(err error) error {
	var own *statusError
	var advised *advisedError
	status := fmt.Sprintf("\"indexd snapshot status %s\"", p.title)
	switch {
	case err == nil, errors.As(err, &own), errors.As(err, &advised):
		return err
	case errors.Is(err, cas.ErrUnknown):
		return &advisedError{err, "it may have been published: look with " + status + "; to repeat it does no harm"}
	case errors.Is(err, probe.ErrNotUsable), errors.Is(err, cas.ErrUnsupported):
		return &statusError{exitBroken, err}
	case errors.Is(err, snapshot.ErrEmpty):
		return &advisedError{err, "that is what --allow-empty is for"}
	case errors.Is(err, snapshot.ErrSwept):
		return &statusError{exitBusy, fmt.Errorf("%w; "+status+" tells which are there", err)}
	case errors.Is(err, snapshot.ErrMissing):
		return &advisedError{err, "something else has deleted or changed it, such as a lifecycle rule: publish again"}
	case errors.Is(err, snapshot.ErrDamaged):
		// Of damage that keeps the size a listing tells nothing: see Publish.
		return &advisedError{err, "something else has changed it: publish again, with another --grace if it says unchanged"}
	case errors.Is(err, snapshot.ErrLost):
		return err // it says what to do
	case errors.Is(err, cas.ErrCorrupt):
		return &advisedError{err, "it is left as it is: restore it from a backup, or delete what is below " + p.root() +
			" and publish again"}
	case errors.Is(err, cas.ErrFormat):
		return &advisedError{err, "it is left as it is: use a version of indexd that knows that format"}
	}
	return err
}

// root is what everything of the snapshot is below.
func (p *portal) root() string { return snapshot.Root + p.title + "/" }

// absent says of an error that there is no such snapshot if that is what it means. An absent bucket is another error.
func (p *portal) absent(ctx context.Context, err error) error {
	if !errors.Is(err, cas.ErrNotExist) || errors.Is(err, snapshot.ErrMissing) || errors.Is(err, snapshot.ErrSwept) {
		return err
	}
	enough := errors.New("enough")
	listing := p.bucket.List(ctx, bucket.ListRequest{Prefix: p.root()}, func(bucket.Page) error { return enough })
	if listing != nil && !errors.Is(listing, enough) {
		return listing
	}
	return &advisedError{fmt.Errorf("there is no snapshot %s in this bucket", p.title), fmt.Sprintf(
		"check --bucket and the name; \"indexd snapshot publish DIR %s\" makes one", p.title)}
}

// status returns what is published, or says that nothing is.
func (p *portal) status(ctx context.Context) (snapshot.Status, error) {
	s, err := p.Status(ctx)
	return s, p.absent(ctx, err)
}

// open opens the current generation.
func (p *portal) open(ctx context.Context) (*snapshot.Generation, error) {
	g, err := p.Open(ctx)
	return g, p.absent(ctx, err)
}

// find returns the id of a generation by its number, its id, or "current".
func (p *portal) find(s snapshot.Status, which string) (snapshot.ID, error) {
	if which == "current" {
		return s.Current.ID, nil
	}
	if id, err := snapshot.ParseID(which); err == nil {
		return id, nil
	}
	n, err := strconv.ParseUint(which, 10, 64)
	if err != nil {
		return snapshot.ID{}, usagef("%.120q is no generation; give its number, its id, or current", which)
	}
	var there []string
	for _, id := range append(s.Retired, s.Current.ID) {
		if id.Number == n {
			return id, nil
		}
		there = append(there, strconv.FormatUint(id.Number, 10))
	}
	return snapshot.ID{}, fmt.Errorf("generation %d of snapshot %s is not there; those that may be read are %s", n, p.title,
		strings.Join(there, ", "))
}

// cut explains an error of reading a generation of which some may have been answered already: one that was swept meanwhile
// is no loss.
func (p *portal) cut(ctx context.Context, g *snapshot.Generation, err error) error {
	if !errors.Is(err, snapshot.ErrMissing) {
		return err
	}
	if s, loading := p.Status(ctx); loading != nil || s.Current.ID == g.Info().ID {
		return err
	}
	return &statusError{exitBusy, fmt.Errorf("generation %d of snapshot %s was swept while it was read, and the answer is not "+
		"whole; repeat it, or let publishers keep generations longer, with --grace", g.Info().ID.Number, p.title)}
}

// A publicationJSON is a published generation, as the API tells it.
type publicationJSON struct {
	Generation  uint64         `json:"generation"`
	ID          string         `json:"id"`
	Rows        int64          `json:"rows"`
	Parts       int            `json:"parts"`
	Bytes       int64          `json:"bytes"`
	Digest      string         `json:"digest"`
	Class       snapshot.Class `json:"class"`
	PublishedAt time.Time      `json:"published_at"`
}

func publicationAnswer(i snapshot.Info) publicationJSON {
	return publicationJSON{i.ID.Number, i.ID.String(), i.Rows, i.Parts, i.Bytes, i.Digest, i.Class, i.PublishedAt.UTC()}
}

// files is such as "1 file" or "2 files".
func files(n int64) string { return counted(int(n), "file", "files") }
