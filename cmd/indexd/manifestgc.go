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
	"github.com/blobindex/indexd/web/ui"
)

func (a *app) manifestCollectCommand() *cobra.Command {
	var opts manifest.GCOptions
	cmd := &cobra.Command{
		Use:   "gc NAMESPACE/NAME [--dry-run] [--force]",
		Short: "Delete files that no entry of a manifest has any more",
		Long: `Delete files that no entry of a manifest has any more: those that it has noted as being deleted, and orphans, such as
an interrupted add leaves, that are older than the manifest's grace by the store's clock. Each is noted in the list, by a
save that is won, before it is deleted. It may run beside writers and readers, and be repeated at will.

Where the list is absent or cannot be read nothing is deleted. An orphan from before the manifest was made may belong to one
of the same name that something else deleted: it goes with --force only.

With --dry-run every orphan is printed, with why it would go or stay, and nothing is deleted.`,
		Args: takes(1, 1, "one NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withManifest(cmd, args[0], 0, func(c *catalog) error { return a.manifestCollect(cmd, c, opts) })
		},
	}
	manifestFlags(cmd)
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "print what would be deleted, and why; delete nothing")
	cmd.Flags().BoolVar(&opts.Force, "force", false, "delete orphans from before the manifest was made, too")
	cmd.Flags().Bool("json", false, "answer with one JSON object")
	return cmd
}

func (a *app) manifestCollect(cmd *cobra.Command, c *catalog, opts manifest.GCOptions) error {
	r, err := c.GC(cmd.Context(), &opts)
	if err != nil {
		return collectError(cmd.Context(), c, r, err)
	}
	if wantsJSON(cmd) {
		err = a.printJSON(collectAnswer(c, opts, r))
	} else {
		err = a.print(collectText(opts, r))
	}
	return errors.Join(err, a.collectVerdict(c, r))
}

// collectError says how far a collection came that did not come to its end.
func collectError(ctx context.Context, c *catalog, r manifest.GCReport, err error) error {
	switch {
	case errors.Is(err, cas.ErrNotExist):
		return c.absent(ctx, err)
	case r.Deleted > 0:
		err = fmt.Errorf("%w (%d deleted, %d failed)", err, r.Deleted, r.Failures)
	default:
		err = fmt.Errorf("%w (nothing was deleted)", err)
	}
	if errors.Is(err, cas.ErrUnknown) {
		return &advisedError{err, fmt.Sprintf("files that nothing references may have been noted as being deleted: "+
			"\"indexd manifest fsck %s\" tells, and repeating it does no harm", c.title)}
	}
	return err
}

// collectVerdict tells, on stderr, what could not be deleted, and makes it the exit status.
func (a *app) collectVerdict(c *catalog, r manifest.GCReport) error {
	if r.Failures == 0 {
		return nil
	}
	for _, err := range r.Failed {
		fmt.Fprintf(a.stderr, "indexd: %s\n", readable(err.Error()))
	}
	return fmt.Errorf("%d deleted, %d failed; those are noted in the manifest, and the next change or \"indexd manifest gc %s\" "+
		"tries them again: check who may delete there", r.Deleted, r.Failures, c.title)
}

func collectText(opts manifest.GCOptions, r manifest.GCReport) string {
	var rows [][]string
	goes, stay := 0, 0
	for _, o := range r.Orphans {
		if o.Goes {
			goes++
		} else {
			stay++
		}
		rows = append(rows, orphanRow(o))
	}
	done := fmt.Sprintf("%d deleted", r.Deleted)
	if opts.DryRun {
		done = fmt.Sprintf("%d would be deleted", goes+r.Resumed)
	}
	if r.Resumed > 0 {
		done += fmt.Sprintf(" (%d noted by an earlier change)", r.Resumed)
	}
	if r.Failures > 0 {
		done += fmt.Sprintf(", %d failed", r.Failures)
	}
	return table(rows) + done + "; " + counted(stay, "orphan stays", "orphans stay") + "\n"
}

func orphanRow(o manifest.Orphan) []string {
	fate := "stays"
	if o.Goes {
		fate = "goes"
	}
	return []string{fate, plain(string(o.Key)), ui.Size(o.Size), o.Why}
}

// collectJSON is the answer of manifest gc --json.
type collectJSON struct {
	Manifest string       `json:"manifest"`
	DryRun   bool         `json:"dry_run"`
	Listed   int          `json:"listed"` // files
	Orphans  []orphanJSON `json:"orphans"`
	Resumed  int          `json:"resumed"` // files noted as being deleted before
	Deleted  int          `json:"deleted"`
	Failures int          `json:"failures"`
	Failed   []string     `json:"failed"` // why, of the first of them
}

type orphanJSON struct {
	Key      bucket.Key `json:"key"`
	Size     int64      `json:"size"`
	StoredAt *time.Time `json:"stored_at"` // null: the store does not tell
	Goes     bool       `json:"goes"`
	Why      string     `json:"why"`
}

func orphanAnswers(orphans []manifest.Orphan) []orphanJSON {
	all := make([]orphanJSON, len(orphans))
	for i, o := range orphans {
		all[i] = orphanJSON{o.Key, o.Size, orNull(o.StoreTime), o.Goes, o.Why}
	}
	return all
}

func collectAnswer(c *catalog, opts manifest.GCOptions, r manifest.GCReport) collectJSON {
	out := collectJSON{
		Manifest: c.title, DryRun: opts.DryRun, Listed: r.Listed, Orphans: orphanAnswers(r.Orphans), Resumed: r.Resumed,
		Deleted: r.Deleted, Failures: r.Failures, Failed: []string{},
	}
	for _, err := range r.Failed {
		out.Failed = append(out.Failed, readable(err.Error()))
	}
	return out
}
