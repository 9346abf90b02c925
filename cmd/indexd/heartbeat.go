package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) heartbeatCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "heartbeat ID",
		Short: "Say that an item is alive",
		Long: `Say that an item is alive now: one write of a key of its own. An item that heartbeats lives past its TTL, and is
flagged as late when heartbeats stop. Send none after finishing.`,
		Args: takes(1, 1, "one ID"),
		RunE: a.heartbeat,
	}
	indexFlags(cmd)
	return cmd
}

// beatJSON has no counterpart among the HTTP answers: that one has no body.
type beatJSON struct {
	ID       string     `json:"id"`
	At       time.Time  `json:"at"`
	StoredAt *time.Time `json:"stored_at"`
}

func (a *app) heartbeat(cmd *cobra.Command, args []string) error {
	s, err := a.open(cmd, existing)
	if err != nil {
		return err
	}
	defer s.close()
	id, err := s.id(args[0])
	if err != nil {
		return err
	}
	b, err := s.namespace.Heartbeat(cmd.Context(), id)
	if err != nil {
		return err
	}
	if b.Cleanup != nil {
		a.note("the heartbeat counts, but older ones stay for the next prune: %v", b.Cleanup)
	}
	if wantsJSON(cmd) {
		return a.printJSON(beatJSON{ID: id.String(), At: b.At.UTC(), StoredAt: orNull(b.Stored)})
	}
	return a.print(fmt.Sprintf("%s was alive at %s\n", plain(id.String()), stamp(b.At)))
}
