package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
)

// An addition is what manifest add was given.
type addition struct {
	id, dedupeKey string
	meta          []string
	grace         time.Duration
}

func (a *app) manifestAddCommand() *cobra.Command {
	var given addition
	cmd := &cobra.Command{
		Use:   "add NAMESPACE/NAME FILE... [--id ID] [--dedupe-key K] [--meta k=v]...",
		Short: "Upload files, and add them to a manifest as one entry; print its id",
		Long: `Upload files, and add them to a manifest as one entry at its end; print the entry's id. A manifest that is not there is
made; a directory or a bucket is not.

A FILE of - is standard input; it is copied to a temporary file first, since an upload may have to be repeated. Other files
must be regular ones, with base names that differ, and must stay as they are until the command ends.

An entry that has the same --dedupe-key is displaced: it is taken out by the save that adds this one, and its files are
deleted after that. Without one, or with an empty one, nothing is displaced.

Files are uploaded before the list is saved. What a failure leaves of them is referenced by nothing and is deleted by
"indexd manifest gc", once it is older than the manifest's grace.`,
		Example: `  indexd manifest add team/models model.bin metrics.json --dedupe-key train-eu --meta owner=ann
  pg_dump orders | indexd manifest add team/dumps - --id orders-$(date +%F)`,
		Args: takes(2, 10_000, "NAMESPACE/NAME and one FILE or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flag("grace").Changed && given.grace == 0 {
				return usagef("--grace is 0; give %s or longer", exact(manifest.MinGrace))
			}
			return a.withManifest(cmd, args[0], given.grace, func(c *catalog) error {
				return a.manifestAdd(cmd, c, given, args[1:])
			})
		},
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
	manifestFlags(cmd)
	cmd.Flags().StringVar(&given.id, "id", "", "of the entry; no other may have it (default a random one)")
	cmd.Flags().StringVar(&given.dedupeKey, "dedupe-key", "", "the entry that has the same key is displaced")
	cmd.Flags().StringArrayVar(&given.meta, "meta", nil, "what else is to be kept of the entry, as name=value; may be repeated")
	cmd.Flags().DurationVar(&given.grace, "grace", 0, fmt.Sprintf("of a manifest that is made: files without an entry are kept "+
		"for so long (default %s)", exact(manifest.DefaultGrace)))
	cmd.Flags().Bool("json", false, "answer with one JSON object")
	return cmd
}

func (a *app) manifestAdd(cmd *cobra.Command, c *catalog, given addition, paths []string) error {
	ctx := cmd.Context()
	meta, err := parsePairs("meta", given.meta)
	if err != nil {
		return err
	}
	if cmd.Flag("id").Changed && given.id == "" {
		return usagef("--id is set to nothing; give an id, or leave it out and one is minted")
	}
	files, err := lookAtAll(paths)
	if err != nil {
		return err
	}
	req := manifest.AddRequest{ID: given.id, DedupeKey: given.dedupeKey, Meta: meta, Create: true}
	if req.ID == "" {
		// Minted here, so that it can be told when the outcome is unknown.
		req.ID = strings.ToLower(rand.Text())
	}
	up := &uploads{files: files, draw: bytesOn(a.stderr)}
	defer up.close()
	req.Sources = up.sources()
	if err := req.Check(); err != nil {
		return &statusError{exitUsage, err}
	}
	if err := a.precheck(ctx, c, req, given.grace); err != nil {
		return err
	}
	if err := up.spool(ctx, a.stdin); err != nil {
		return err
	}
	change, err := c.Add(ctx, req)
	up.finish()
	if err != nil {
		return addError(c, req.ID, up.began, err)
	}
	a.noteLeft(c, change)
	if wantsJSON(cmd) {
		err = a.printJSON(changeAnswer(change))
	} else {
		err = a.print(req.ID + "\n")
	}
	if err != nil {
		// Not wrapped: repeating it, which is the advice of a full disk, would add another entry.
		return fmt.Errorf("the entry %s is added: use that id, or remove it (%v)", req.ID, err)
	}
	return nil
}

// precheck reads the list once more than Add does, so that nothing is uploaded for what can be seen to be refused.
func (a *app) precheck(ctx context.Context, c *catalog, req manifest.AddRequest, grace time.Duration) error {
	if _, err := c.bucket.get(ctx); err != nil {
		return err // an absent directory is told as an absent list is
	}
	s, err := c.Load(ctx)
	if err != nil && !errors.Is(err, cas.ErrNotExist) {
		return err
	}
	if taken := slices.IndexFunc(s.Entries, func(e manifest.Entry) bool {
		return e.ID == req.ID && (req.DedupeKey == "" || e.DedupeKey != req.DedupeKey)
	}); taken >= 0 {
		return fmt.Errorf("adding to manifest %s: an entry %q is there already, and nothing was uploaded; choose another --id, "+
			"or remove that one first", c.title, req.ID)
	}
	if grace != 0 && s.Grace != 0 && s.Grace != grace {
		a.note("manifest %s is there already: its grace of %s stays", c.title, exact(s.Grace))
	}
	return nil
}

// addError says what is half-done.
func addError(c *catalog, id string, began bool, err error) error {
	const gc = "\"indexd manifest gc %s\" deletes them later"
	switch {
	case errors.Is(err, cas.ErrUnknown):
		return &advisedError{err, fmt.Sprintf("the entry %s may have been added: look with \"indexd manifest ls %s\" before you "+
			"repeat it (if it is not there, its files are left over: "+gc+")", id, c.title, c.title)}
	case began:
		return fmt.Errorf("%w (nothing was added; files that were uploaded are left over: "+gc+")", err, c.title)
	}
	return fmt.Errorf("%w (nothing was uploaded)", err)
}
