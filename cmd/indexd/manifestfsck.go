package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/web/ui"
)

func (a *app) manifestCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fsck NAMESPACE/NAME",
		Short: "Compare a manifest with the files that are there",
		Long: `Compare a manifest with the files that are there, by listing them. Nothing is changed, and no file is read: it is
"indexd manifest cat" that compares digests. Orphans, and files that are noted as being deleted, are told and are no fault.

Exit status 1 if a file of an entry is missing or has another size.`,
		Args: takes(1, 1, "one NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withManifest(cmd, args[0], 0, func(c *catalog) error { return a.manifestCheck(cmd, c) })
		},
	}
	manifestFlags(cmd)
	cmd.Flags().Bool("json", false, "answer with one JSON object")
	return cmd
}

func (a *app) manifestCheck(cmd *cobra.Command, c *catalog) error {
	found, err := c.Fsck(cmd.Context())
	if err != nil {
		return c.absent(cmd.Context(), err)
	}
	if wantsJSON(cmd) {
		err = a.printJSON(checkAnswer(c, found))
	} else {
		err = a.print(checkText(c, found))
	}
	return errors.Join(err, checkVerdict(c, found))
}

// checkVerdict makes faults the exit status.
func checkVerdict(c *catalog, found manifest.Check) error {
	if len(found.Faults) == 0 {
		return nil
	}
	return fmt.Errorf("manifest %s: %s missing or damaged: something else than indexd did that, such as a lifecycle rule of the "+
		"bucket; add those entries anew, or remove them", c.title, counted(len(found.Faults), "file is", "files are"))
}

func checkText(c *catalog, found manifest.Check) string {
	var rows [][]string
	for _, f := range found.Faults {
		rows = append(rows, []string{"fault", plain(string(c.key(f.Blob.Key))), ui.Size(f.Blob.Size),
			fmt.Sprintf("file %.80q of entry %.80q: %s", f.Blob.Name, f.ID, f.Why)})
	}
	for _, o := range found.Orphans {
		row := orphanRow(o)
		rows = append(rows, []string{"orphan", row[1], row[2], row[0] + ": " + o.Why})
	}
	for _, k := range found.State.Reaping {
		rows = append(rows, []string{"noted", plain(string(c.key(k))), "", "it is being deleted"})
	}
	text := table(rows)
	if found.Foreign > 0 {
		text += fmt.Sprintf("%s among the files that indexd did not make\n", counted(found.Foreign, "object is", "objects are"))
	}
	return text + fmt.Sprintf("%s with %s: %s; %s; %d noted as being deleted\n",
		counted(len(found.State.Entries), "entry", "entries"), counted(found.Blobs, "file", "files"),
		counted(len(found.Faults), "fault", "faults"), counted(len(found.Orphans), "orphan", "orphans"),
		len(found.State.Reaping))
}

// key is where a blob is.
func (c *catalog) key(blob string) bucket.Key {
	return bucket.Key(manifest.Root + c.title + "/blobs/" + blob)
}

// checkJSON is the answer of manifest fsck --json.
type checkJSON struct {
	Manifest string       `json:"manifest"`
	Entries  int          `json:"entries"`
	Blobs    int          `json:"blobs"`
	Faults   []faultJSON  `json:"faults"`
	Orphans  []orphanJSON `json:"orphans"`
	Reaping  []bucket.Key `json:"reaping"` // noted as being deleted
	Foreign  int          `json:"foreign"`
}

type faultJSON struct {
	ID   string        `json:"id"`
	Blob manifest.Blob `json:"blob"`
	Why  string        `json:"why"`
}

func checkAnswer(c *catalog, found manifest.Check) checkJSON {
	out := checkJSON{
		Manifest: c.title, Entries: len(found.State.Entries), Blobs: found.Blobs, Faults: []faultJSON{},
		Orphans: orphanAnswers(found.Orphans), Reaping: []bucket.Key{}, Foreign: found.Foreign,
	}
	for _, f := range found.Faults {
		out.Faults = append(out.Faults, faultJSON{f.ID, f.Blob, f.Why})
	}
	for _, k := range found.State.Reaping {
		out.Reaping = append(out.Reaping, c.key(k))
	}
	return out
}
