package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
)

func (a *app) finishCommand() *cobra.Command {
	var outcomeText string
	cmd := &cobra.Command{
		Use:   "finish ID [--outcome done|failed|cancelled]",
		Short: "Say that an item is over",
		Long: `Say that an item is over: it is hidden from then on, whatever still arrives of it late, and listed by "indexd recent"
for some time. Finish an item once; repeat it only after an error. The first outcome counts: another one that comes later
changes nothing.`,
		Args: takes(1, 1, "one ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withItem(cmd, args[0], func(s *session, id itemid.ID) error {
				outcome, ok := prune.ParseOutcome(outcomeText)
				if !ok {
					return usagef("the outcome %.40q is unknown; choose done, failed or cancelled", outcomeText)
				}
				return a.finish(cmd, s, id, outcome)
			})
		},
	}
	indexFlags(cmd)
	cmd.Flags().StringVar(&outcomeText, "outcome", string(prune.Done), "done, failed or cancelled")
	return cmd
}

// finishedJSON has no counterpart among the HTTP answers: that one has no body. The outcome is the one that counts.
type finishedJSON struct {
	ID       string     `json:"id"`
	Outcome  string     `json:"outcome"`
	StoredAt *time.Time `json:"stored_at"`
}

func (a *app) finish(cmd *cobra.Command, s *session, id itemid.ID, outcome prune.Outcome) error {
	f, err := s.namespace.Finish(cmd.Context(), id, outcome)
	if err != nil {
		return err
	}
	before := f.Outcome != outcome
	switch {
	case f.Cleanup != nil:
		a.note("the item is finished, but some of its keys stay for the next prune: %v", f.Cleanup)
	case f.Sightings == 0 && !before: // of an item that was finished before none is left
		a.note("no marker or heartbeat of %s was here; check the id (a tombstone was left)", plain(id.String()))
	}
	if wantsJSON(cmd) {
		return a.printJSON(finishedJSON{ID: id.String(), Outcome: string(f.Outcome), StoredAt: orNull(f.Stored)})
	}
	if before {
		return a.print(fmt.Sprintf("%s was finished before, as %s; that outcome stays\n", plain(id.String()), f.Outcome))
	}
	return a.print(fmt.Sprintf("%s is finished (%s)\n", plain(id.String()), outcome))
}
