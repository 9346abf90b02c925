package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/cas/snapshot"
)

func (a *app) snapshotSweepCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sweep NAMESPACE/NAME",
		Short: "Remove generations that can never be current again",
		Long: `Remove generations that can never be current again: those that were replaced longer ago than the grace, and what
publishers left that were overtaken, or killed. Each publication does so too. What a publisher left that was killed since the
last publication stays until the next one: it cannot be told from one that is being made.`,
		Args: takes(1, 1, "one NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSnapshot(cmd, args[0], func(p *portal) error { return a.snapshotSweep(cmd, p) })
		},
	}
	snapshotFlags(cmd)
	return cmd
}

func (a *app) snapshotSweep(cmd *cobra.Command, p *portal) error {
	if _, err := p.status(cmd.Context()); err != nil {
		return err // a wrong name must not look like a sweep that found nothing
	}
	swept, err := p.Sweep(cmd.Context())
	if err != nil {
		return fmt.Errorf("%w (%s removed before)", err, counted(swept.Keys, "object was", "objects were"))
	}
	if wantsJSON(cmd) {
		return a.printJSON(sweptAnswer(swept))
	}
	return a.print(fmt.Sprintf("%s removed, %s; %s\n", counted(swept.Generations, "generation", "generations"),
		counted(swept.Keys, "object", "objects"), counted(swept.Kept, "stays beside the current one", "stay beside the current one")))
}

// sweptJSON is the answer of snapshot sweep --json.
type sweptJSON struct {
	Generations int `json:"generations"` // that were removed
	Objects     int `json:"objects"`     // of those
	Kept        int `json:"kept"`        // generations beside the current one
}

func sweptAnswer(s snapshot.Swept) sweptJSON { return sweptJSON{s.Generations, s.Keys, s.Kept} }
