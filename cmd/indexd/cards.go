package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
)

func (a *app) cardsCommand() *cobra.Command {
	var req blobindex.CardsRequest
	cmd := &cobra.Command{
		Use:   "cards",
		Short: "Show the newest running items with what is known of them",
		Long: `Show the newest running items with what is known of them. The line of counts says what was left out: live items beyond
the limit, superseded and stale ones, keys that are no item's.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, existing, func(s *session) error { return a.cards(cmd, s, req) })
		},
	}
	indexFlags(cmd)
	cmd.Flags().IntVar(&req.Limit, "limit", blobindex.DefaultCards, fmt.Sprintf("the most cards, 1 to %d", blobindex.MaxCards))
	cmd.Flags().StringVar(&req.Subkey, "subkey", "", "only items of this sub-key")
	cmd.Flags().StringVar(&req.Owner, "owner", "", "only items of this owner")
	return cmd
}

// cardsJSON is the body of GET …/cards.
type cardsJSON struct {
	Cards      []blobindex.Card `json:"cards"`
	Counts     blobindex.Counts `json:"counts"`
	Complete   bool             `json:"complete"`
	StaleSince *time.Time       `json:"stale_since"`
}

func (a *app) cards(cmd *cobra.Command, s *session, req blobindex.CardsRequest) error {
	if !cmd.Flag("limit").Changed {
		req.Limit = 0 // as configured
	} else if req.Limit < 1 || req.Limit > blobindex.MaxCards {
		return usagef("--limit is %d; give 1 to %d", req.Limit, blobindex.MaxCards)
	}
	for name, value := range map[string]string{"subkey": req.Subkey, "owner": req.Owner} {
		if cmd.Flag(name).Changed && value == "" {
			return usagef("--%s is set to nothing; give a value, or leave it out", name)
		}
	}
	v, err := s.namespace.Cards(cmd.Context(), req)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return a.printJSON(cardsJSON{
			Cards: v.Cards, Counts: v.Counts, Complete: v.Complete, StaleSince: orNull(v.StaleSince),
		})
	}
	return a.print(cardsTable(s, v))
}

func cardsTable(s *session, v blobindex.View) string {
	if len(v.Cards) == 0 {
		return "nothing is running in " + s.inNamespace() + "\n" + countsLine(v.Counts) + "\n"
	}
	rows := [][]string{{"TITLE", "OWNER", "STATE", "AGE", "SEEN", "PROGRESS", "ID", "URL"}}
	for _, c := range v.Cards {
		rows = append(rows, []string{
			plain(cmp.Or(c.Title, c.Subkey)), plain(cmp.Or(c.Owner, "-")),
			c.State + flags(map[string]bool{", late": c.Late}, ", late"),
			humane(v.AsOf.Sub(c.StartedAt)), humane(v.AsOf.Sub(c.LastSeen)) + " ago", progress(c.Progress),
			plain(c.ID), plain(c.URL),
		})
	}
	return table(rows) + countsLine(v.Counts) + "\n"
}

func progress(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%d%%", int(*p*100))
}

// countsLine says what a view shows and what it leaves out, such as "8 of 37 shown · 2 superseded".
func countsLine(c blobindex.Counts) string {
	parts := []string{fmt.Sprintf("%d of %d shown", c.Shown, c.Live)}
	for _, p := range []struct {
		n    int
		what string
	}{
		{c.Unresolved, "not resolved"}, {c.Superseded, "superseded"}, {c.Stale, "stale"}, {c.BornLate, "born late"},
		{c.Foreign, "foreign"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, " · ")
}
