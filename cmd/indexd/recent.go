package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
)

const defaultRecent = 20

func (a *app) recentCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "recent",
		Short: "List the items that finished lately",
		Long: `List the items that finished lately, last ended first, as long as their tombstones are kept: the TTL and twice the
tolerated skew of the clocks.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, existing, func(s *session) error { return a.recent(cmd, s, limit) })
		},
	}
	indexFlags(cmd)
	cmd.Flags().IntVar(&limit, "limit", defaultRecent, "the most items; with --json all by default")
	return cmd
}

func (a *app) recent(cmd *cobra.Command, s *session, limit int) error {
	if limit < 1 {
		return usagef("--limit is %d; give 1 or more", limit)
	}
	recent, err := s.namespace.Recent(cmd.Context())
	if err != nil {
		return err
	}
	ended := recent.Items
	if !wantsJSON(cmd) || cmd.Flag("limit").Changed {
		ended = ended[:min(limit, len(ended))]
	}
	if wantsJSON(cmd) {
		return a.printJSON(listJSON[blobindex.Ended]{Items: ended})
	}
	return a.print(recentTable(s, ended, recent.AsOf))
}

func recentTable(s *session, ended []blobindex.Ended, now time.Time) string {
	if len(ended) == 0 {
		return "nothing has finished lately in " + s.inNamespace() + "\n"
	}
	rows := [][]string{{"ID", "OUTCOME", "ENDED", "TOOK"}}
	for _, e := range ended {
		rows = append(rows, []string{
			plain(e.ID), string(e.Outcome), fmt.Sprintf("%s ago", humane(now.Sub(e.EndedAt))),
			humane(e.EndedAt.Sub(e.StartedAt)),
		})
	}
	return table(rows)
}
