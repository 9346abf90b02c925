package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
)

// rulesHelp tells of the rules in the help of the commands that delete.
const rulesHelp = `The rules of an index (ttl, late_after, skew, grammar) are saved beside it, at _indexd/index/<prefix>, by the first serve
or prune, and from then on everybody reads and deletes by those. A configuration that sets one of them otherwise is told so,
and deletes nothing; --reconfigure changes the saved ones. A change counts for everybody at once, 5 minutes later, and until
3 minutes after that nothing is deleted. Register, heartbeat and finish go by their own configuration. On a bucket without
conditional writes, and before the rules are saved, everybody goes by their own: there, always pass the same --config.`

func reconfigureFlag(cmd *cobra.Command, into *bool) {
	cmd.Flags().BoolVar(into, "reconfigure", false, "save the rules that the configuration sets, where others are saved")
}

// agreeTime is how long a server waits for the saved rules before it serves.
const agreeTime = 10 * time.Second

// agree reads the saved rules of the indexes. That they cannot be read now is no reason not to serve: each view tries again,
// and tells.
func agree(ctx context.Context, indexes []*blobindex.Index, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, agreeTime)
	defer cancel()
	for _, x := range indexes {
		if _, err := x.ReadRules(ctx); err != nil {
			log.Warn("the rules of an index could not be read or saved; each view tries again", "index", x.Name(), "error", err)
		}
	}
}

// change saves the rules that the configuration sets.
func change(ctx context.Context, indexes []*blobindex.Index) error {
	for _, x := range indexes {
		if _, err := x.Reconfigure(ctx); err != nil {
			return reconfigureError(err)
		}
	}
	return nil
}

// logRules tells a server's log by which rules an index is read.
func logRules(log *slog.Logger) func(string, blobindex.Ruling) {
	return func(index string, r blobindex.Ruling) {
		switch {
		case len(r.Differences) > 0:
			log.Warn("this server was given other rules than the index's saved ones; it reads by those, and deletes nothing",
				"index", index, "differences", r.Different(), "to_change_them", "--reconfigure")
		case r.Next != nil:
			log.Info("the saved rules of an index are changing", "index", index, "changes", r.Changes(), "from", r.From,
				"deletes_from", r.Quiet)
		case r.Saved:
			log.Info("an index is read by its saved rules", "index", index, "grammar", r.Rules.Grammar.String(),
				"ttl", exact(r.Rules.TTL), "late_after", exact(r.Rules.LateAfter), "skew", exact(r.Rules.Skew))
		default:
			log.Info("an index is read by this server's own rules", "index", index, "why", r.Why, "ttl", exact(r.Rules.TTL))
		}
	}
}

// noteRules tells the user of a command that reads that others read by other rules than it was given.
func (a *app) noteRules(index string, r blobindex.Ruling) {
	if len(r.Differences) > 0 {
		a.note("index %q is read by its saved rules, which are others than those given here: %s", index, r.Different())
	}
}

// rulesNotice is the line on the page of a server that was given other rules than are saved.
func rulesNotice(indexes []*blobindex.Index) string {
	var lines []string
	for _, x := range indexes {
		if r := x.Ruling(); len(r.Differences) > 0 {
			lines = append(lines, fmt.Sprintf("Index %s is read by its saved rules, which are others than this server was given, so "+
				"that it deletes nothing: %s.", x.Name(), r.Different()))
		}
	}
	return strings.Join(lines, " ")
}

// noteChange tells the user what --reconfigure has done.
func (a *app) noteChange(index string, r blobindex.Ruling) {
	switch {
	case r.Next != nil:
		a.note("the rules of index %q change from %s on: %s; nothing is deleted before %s", index, stamp(r.From), r.Changes(),
			stamp(r.Quiet))
	case r.Saved:
		a.note("the rules of index %q are saved as given here", index)
	}
}
