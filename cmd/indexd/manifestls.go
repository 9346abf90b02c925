package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/web/ui"
)

func (a *app) manifestListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls NAMESPACE/NAME",
		Short: "List the entries of a manifest",
		Long: `List the entries of a manifest, in the order in which they were added. The table shortens digests; --json has all that
is stored.`,
		Args: takes(1, 1, "one NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withManifest(cmd, args[0], 0, func(c *catalog) error {
				s, err := c.load(cmd.Context())
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return a.printJSON(entriesJSON{s.Entries})
				}
				return a.print(entriesText(c, s))
			})
		},
	}
	manifestFlags(cmd)
	cmd.Flags().Bool("json", false, "answer with one JSON object")
	return cmd
}

// entriesJSON is the answer of manifest ls --json.
type entriesJSON struct {
	Entries []manifest.Entry `json:"entries"`
}

func entriesText(c *catalog, s manifest.State) string {
	if len(s.Entries) == 0 {
		return fmt.Sprintf("manifest %s has no entries\n", c.title)
	}
	rows := [][]string{{"ID", "DEDUPE KEY", "BLOBS", "SIZE", "ADDED", "DIGEST"}}
	var size int64
	for _, e := range s.Entries {
		size += e.Size
		rows = append(rows, []string{
			plain(e.ID), plain(e.DedupeKey), fmt.Sprint(len(e.Blobs)), ui.Size(e.Size), e.AddedAt.UTC().Format(time.RFC3339),
			shortDigest(e.Digest),
		})
	}
	return table(rows) + fmt.Sprintf("%s, %s\n", counted(len(s.Entries), "entry", "entries"), ui.Size(size))
}

// shortDigest is the beginning of a digest, by which people tell one from another.
func shortDigest(d string) string {
	d = plain(strings.TrimPrefix(d, "sha256:"))
	return d[:min(len(d), 12)]
}

// counted is such as "1 blob" or "2 blobs".
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
