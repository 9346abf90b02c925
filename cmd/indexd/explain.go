package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
)

func (a *app) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Say why an item is shown or hidden",
		Long:  `Say why an item is shown or hidden: by which key, which rule and whose clock, and when that will change.`,
		Args:  takes(1, 1, "one ID"),
		RunE:  a.explain,
	}
	indexFlags(cmd)
	return cmd
}

func (a *app) explain(cmd *cobra.Command, args []string) error {
	s, err := a.open(cmd, existing)
	if err != nil {
		return err
	}
	defer s.close()
	id, err := s.id(args[0])
	if err != nil {
		return err
	}
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
	seen, changes := "never", "not by itself"
	if e.LastSeen != nil {
		seen = stamp(*e.LastSeen) + ", " + humane(e.AsOf.Sub(*e.LastSeen)) + " ago"
	}
	if e.ChangesAt != nil {
		changes = stamp(*e.ChangesAt) + ", in " + humane(e.ChangesAt.Sub(e.AsOf))
	}
	started := stamp(e.StartedAt)
	if e.BornLate {
		started += " (born late: its marker was stored long after that)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s (%s)\n", plain(e.ID), verdict, e.Rule)
	b.WriteString(table([][]string{
		{"  why", plain(e.Reason)},
		{"  key", plain(firstOf(e.Key, "-"))},
		{"  as of", stamp(e.AsOf) + ", by the " + string(e.Clock) + "'s clock"},
		{"  started", started},
		{"  last seen", seen},
		{"  changes", changes},
		{"", plain(e.Changes)},
	}))
	return b.String()
}
