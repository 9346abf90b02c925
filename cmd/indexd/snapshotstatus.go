package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/web/ui"
)

func (a *app) snapshotStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status NAMESPACE/NAME",
		Short: "Tell what is published, since when and by whom",
		Long: `Tell what is published, since when, and by which class: a scheduler is a server that publishes at intervals, an operator
a command or a client. Earlier generations are listed that could be read when it was published; past the grace a sweep takes
them.`,
		Args: takes(1, 1, "one NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSnapshot(cmd, args[0], func(p *portal) error {
				s, err := p.status(cmd.Context())
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return a.printJSON(snapshotAnswer(s))
				}
				return a.print(snapshotText(s))
			})
		},
	}
	snapshotFlags(cmd)
	return cmd
}

// snapshotJSON is the answer of snapshot status --json.
type snapshotJSON struct {
	publicationJSON
	GraceMS int64    `json:"grace_ms"`
	Retired []string `json:"retired"` // ids of generations that may still be read, oldest first
}

func snapshotAnswer(s snapshot.Status) snapshotJSON {
	out := snapshotJSON{publicationAnswer(s.Current), s.Grace.Milliseconds(), []string{}}
	for _, id := range s.Retired {
		out.Retired = append(out.Retired, id.String())
	}
	return out
}

func snapshotText(s snapshot.Status) string {
	c := s.Current
	retired := "none"
	if len(s.Retired) > 0 {
		var numbers []string
		for _, id := range s.Retired {
			numbers = append(numbers, fmt.Sprint(id.Number))
		}
		retired = strings.Join(numbers, ", ")
	}
	return table([][]string{
		{"generation", fmt.Sprint(c.ID.Number)},
		{"id", c.ID.String()},
		{"published", fmt.Sprintf("%s by %s", c.PublishedAt.UTC().Format(time.RFC3339), aClass(c.Class))},
		{"files", fmt.Sprint(c.Rows)},
		{"stored as", fmt.Sprintf("%s, %s", counted(c.Parts, "part", "parts"), ui.Size(c.Bytes))},
		{"digest", plain(c.Digest)},
		{"earlier ones", fmt.Sprintf("%s (kept for %s)", retired, exact(s.Grace))},
	})
}

// aClass is such as "an operator".
func aClass(c snapshot.Class) string {
	if c == snapshot.Operator {
		return "an operator"
	}
	return "a " + plain(string(c))
}
