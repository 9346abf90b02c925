package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/cas/probe"
)

func (a *app) manifestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Keep an ordered list of entries, and the files that belong to them",
		Long: `Keep an ordered list of entries, and the files that belong to them. Any number of writers may change it at once: a
change is won, lost (and then made again, on what is there) or, where an answer stays away for good, told to be unknown.

A manifest is named NAMESPACE/NAME and is kept below _indexd/manifest/NAMESPACE/NAME/ in the bucket. Writing to it needs
conditional writes, which are tried before the first change; "indexd doctor" tells what a bucket makes of them.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			cmd.SetOut(a.stderr)
			if err := cmd.Help(); err != nil {
				return err
			}
			return usagef("no command given; \"indexd help manifest\" lists them")
		},
	}
	cmd.AddCommand(a.manifestAddCommand(), a.manifestListCommand(), a.manifestRemoveCommand(), a.manifestCatCommand(),
		a.manifestCollectCommand(), a.manifestCheckCommand())
	return cmd
}

// manifestFlags adds the flags of every command that works on a manifest.
func manifestFlags(cmd *cobra.Command) {
	bucketFlags(cmd)
	cmd.Flag("bucket").Usage = "where the manifest is: file:///dir, ./dir, s3://bucket or gs://bucket"
}

// A catalog is one manifest of one bucket, as a command names it.
type catalog struct {
	*manifest.Manifest
	bucket *lazyBucket
	title  string // NAMESPACE/NAME
}

// withManifest opens the manifest that is named for do. A bucket that is not there is never made: only what registers items
// does that.
func (a *app) withManifest(cmd *cobra.Command, title string, grace time.Duration, do func(*catalog) error) error {
	return a.withTitled(cmd, "manifest", title, func(b *lazyBucket, namespace, name string) error {
		m, err := manifest.New(b, namespace, name, &manifest.Options{Usable: b.usable, Grace: grace})
		if err != nil {
			return &statusError{exitUsage, err}
		}
		c := &catalog{Manifest: m, bucket: b, title: title}
		return c.explain(do(c))
	})
}

// explain gives an error of a manifest its exit status and its advice, unless it has them.
func (c *catalog) explain(err error) error {
	var own *statusError
	var advised *advisedError
	ls := fmt.Sprintf("\"indexd manifest ls %s\"", c.title)
	switch {
	case err == nil, errors.As(err, &own), errors.As(err, &advised):
		return err
	case errors.Is(err, cas.ErrUnknown):
		return &advisedError{err, "it may have been changed: look with " + ls + " before you repeat it"}
	case errors.Is(err, probe.ErrNotUsable), errors.Is(err, cas.ErrUnsupported) && !errors.Is(err, manifest.ErrUpload):
		return &statusError{exitBroken, err}
	case errors.Is(err, manifest.ErrNoEntry):
		return &advisedError{err, ls + " tells which there are"}
	case errors.Is(err, cas.ErrCorrupt):
		return &advisedError{err, fmt.Sprintf("it is left as it is: restore %s from a backup, and then look with "+
			"\"indexd manifest fsck %s\"", c.list(), c.title)}
	case errors.Is(err, cas.ErrFormat):
		return &advisedError{err, fmt.Sprintf("%s is left as it is: use a version of indexd that knows that format", c.list())}
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, cas.ErrConflict), errors.Is(err, manifest.ErrState):
		return &statusError{exitBusy, fmt.Errorf("%w; try later", err)}
	}
	return err
}

// list is where the list is.
func (c *catalog) list() string { return manifest.Root + c.title + "/list" }

// errAbsent: there is no such manifest.
var errAbsent = errors.New("there is no manifest")

// absent says of an error that there is no such manifest if that is what it means, and what is there in its place.
func (c *catalog) absent(ctx context.Context, err error) error {
	if !errors.Is(err, cas.ErrNotExist) || errors.Is(err, manifest.ErrMissing) {
		return err
	}
	found := 0
	root := manifest.Root + c.title + "/"
	enough := errors.New("enough")
	// An absent bucket is an error here, while an absent object may look the same to a read.
	listing := c.bucket.List(ctx, bucket.ListRequest{Prefix: root}, func(p bucket.Page) error {
		if found += len(p.Objects); found > 0 {
			return enough
		}
		return nil
	})
	switch {
	case listing != nil && !errors.Is(listing, enough):
		return listing
	case found > 0:
		return &advisedError{fmt.Errorf("%w %s, but there are objects below %s: something else deleted it, and nothing was done",
			errAbsent, c.title, root), fmt.Sprintf("restore %s from a backup, or delete what is left", c.list())}
	}
	return &advisedError{fmt.Errorf("%w %s in this bucket", errAbsent, c.title), fmt.Sprintf(
		"check --bucket and the name; \"indexd manifest add %s FILE\" makes one", c.title)}
}

// load returns the manifest as it is, or says that there is none.
func (c *catalog) load(ctx context.Context) (manifest.State, error) {
	s, err := c.Load(ctx)
	return s, c.absent(ctx, err)
}

// find returns an entry of a state.
func (c *catalog) find(s manifest.State, id string) (manifest.Entry, error) {
	for _, e := range s.Entries {
		if e.ID == id {
			return e, nil
		}
	}
	return manifest.Entry{}, fmt.Errorf("reading manifest %s: %w: %.200q", c.title, manifest.ErrNoEntry, id)
}

// entryJSON is the answer of manifest rm --json, and part of that of add.
type entryJSON struct {
	Entry     manifest.Entry   `json:"entry"`
	Displaced []manifest.Entry `json:"displaced"`
}

func changeAnswer(c manifest.Change) entryJSON {
	return entryJSON{c.Entry, append([]manifest.Entry{}, c.Displaced...)}
}

// noteLeft tells of blobs that nothing references any more, and that are still there.
func (a *app) noteLeft(c *catalog, change manifest.Change) {
	if change.Left != nil {
		a.note("some files that went with it could not be deleted: %v; the next change deletes them, or "+
			"\"indexd manifest gc %s\"", change.Left, c.title)
	}
}
