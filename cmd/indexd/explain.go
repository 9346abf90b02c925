package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
)

func (a *app) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Say why an item is shown or hidden",
		Long:  `Say why an item is shown or hidden: by which key, which rule and whose clock, and when that will change.`,
		Args:  takes(1, 1, "one ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, existing, func(s *session) error {
				id, err := s.index.ParseID(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.explain(cmd, s, id)
			})
		},
	}
	indexFlags(cmd)
	return cmd
}

func (a *app) explain(cmd *cobra.Command, s *session, id itemid.ID) error {
	e, err := s.namespace.Explain(cmd.Context(), id)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return a.printJSON(e)
	}
	return a.print(explanation(e))
}

func explanation(e blobindex.Explanation) string {
	verdict := "hidden"
	if e.Shown {
		verdict = "shown"
	}
	changes := "not by itself"
	if e.ChangesAt != nil {
		changes = stamp(*e.ChangesAt) + ", in " + humane(e.ChangesAt.Sub(e.AsOf))
	}
	started := stamp(e.StartedAt)
	if e.BornLate {
		started += " (born late: its marker was stored long after that)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s (%s)\n", plain(e.ID), verdict, e.Rule)
	rows := [][]string{
		{"  why", plain(e.Reason)},
		{"  key", plain(cmp.Or(e.Key, "-"))},
		{"  as of", stamp(e.AsOf) + ", by the " + string(e.Clock) + "'s clock"},
		{"  started", started},
	}
	// Of a finished item the tombstone alone may be left, and it tells no sighting.
	if e.LastSeen != nil {
		rows = append(rows, []string{"  last seen", stamp(*e.LastSeen) + ", " + humane(e.AsOf.Sub(*e.LastSeen)) + " ago"})
	}
	rows = append(rows, []string{"  changes", changes}, []string{"", plain(e.Changes)})
	b.WriteString(table(rows))
	return b.String()
}
