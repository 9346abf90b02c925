package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/prune"
)

func (a *app) finishCommand() *cobra.Command {
	var outcome string
	cmd := &cobra.Command{
		Use:   "finish ID [--outcome done|failed|cancelled]",
		Short: "Say that an item is over",
		Long: `Say that an item is over: it is hidden from then on, whatever still arrives of it late, and listed by "indexd recent"
for some time. Finish an item once; repeat it only after an error.`,
		Args: takes(1, 1, "one ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.finish(cmd, args[0], outcome) },
	}
	indexFlags(cmd)
	cmd.Flags().StringVar(&outcome, "outcome", string(prune.Done), "done, failed or cancelled")
	return cmd
}

// finishedJSON has no counterpart among the HTTP answers: that one has no body.
type finishedJSON struct {
	ID       string     `json:"id"`
	Outcome  string     `json:"outcome"`
	StoredAt *time.Time `json:"stored_at"`
}

func (a *app) finish(cmd *cobra.Command, text, outcomeText string) error {
	s, err := a.open(cmd, existing)
	if err != nil {
		return err
	}
	defer s.close()
	id, err := s.id(text)
	if err != nil {
		return err
	}
	outcome, ok := prune.ParseOutcome(outcomeText)
	if !ok {
		return usagef("the outcome %.40q is unknown; choose done, failed or cancelled", outcomeText)
	}
	f, err := s.namespace.Finish(cmd.Context(), id, outcome)
	if err != nil {
		return err
	}
	if f.Cleanup != nil {
		a.note("the item is finished, but some of its keys stay for the next prune: %v", f.Cleanup)
	}
	if wantsJSON(cmd) {
		return a.printJSON(finishedJSON{ID: id.String(), Outcome: string(outcome), StoredAt: orNull(f.Stored)})
	}
	return a.print(fmt.Sprintf("%s is finished (%s)\n", plain(id.String()), outcome))
}
