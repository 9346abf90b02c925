package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
)

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List all items that are running",
		Long: `List all items that are running, newest first, as the listing of the bucket tells: no state is looked up. "indexd cards"
shows the newest ones with what is known of them.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, existing, func(s *session) error { return a.ls(cmd, s) })
		},
	}
	indexFlags(cmd)
	return cmd
}

func (a *app) ls(cmd *cobra.Command, s *session) error {
	l, err := s.namespace.List(cmd.Context())
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return a.printJSON(listJSON[blobindex.Live]{Items: l.Items})
	}
	return a.print(lsTable(s, l))
}

func lsTable(s *session, l blobindex.Listing) string {
	if len(l.Items) == 0 {
		return "nothing is running in " + s.inNamespace() + "\n"
	}
	rows := [][]string{{"ID", "AGE", "SEEN", ""}}
	for _, it := range l.Items {
		rows = append(rows, []string{
			plain(it.ID), humane(l.AsOf.Sub(it.StartedAt)), humane(l.AsOf.Sub(it.LastSeen)) + " ago",
			flags(map[string]bool{"late": it.Late, "born late": it.BornLate}, "late", "born late"),
		})
	}
	return table(rows) + fmt.Sprintf("%d running\n", len(l.Items))
}
