package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
)

func (a *app) heartbeatCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "heartbeat ID",
		Short: "Say that an item is alive",
		Long: fmt.Sprintf(`Say that an item is alive now: one write of a key of its own. Send one every minute while the item runs, and none
after finishing it.

An item is hidden once its latest sign of life, which is its registration or a heartbeat, is older than the TTL (%s
unless configured). One that ever sent a heartbeat is flagged as late when there was none for late_after (%s).`,
			exact(prune.DefaultTTL), exact(prune.DefaultLateAfter)),
		Args: takes(1, 1, "one ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withItem(cmd, args[0], func(s *session, id itemid.ID) error { return a.heartbeat(cmd, s, id) })
		},
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

func (a *app) heartbeat(cmd *cobra.Command, s *session, id itemid.ID) error {
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
