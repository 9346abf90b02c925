package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) manifestRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm NAMESPACE/NAME ID",
		Short: "Take an entry out of a manifest, and delete its files",
		Long: `Take an entry out of a manifest, and delete its files: first a save of the list without the entry, which notes the files
as being deleted, and only when that is won the deletes. What an interruption leaves the next change deletes, or
"indexd manifest gc".`,
		Args: takes(2, 2, "NAMESPACE/NAME and an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withManifest(cmd, args[0], 0, func(c *catalog) error { return a.manifestRemove(cmd, c, args[1]) })
		},
	}
	manifestFlags(cmd)
	cmd.Flags().Bool("json", false, "answer with one JSON object")
	return cmd
}

func (a *app) manifestRemove(cmd *cobra.Command, c *catalog, id string) error {
	change, err := c.Remove(cmd.Context(), id, "")
	if err != nil {
		return c.absent(cmd.Context(), err)
	}
	a.noteLeft(c, change)
	if wantsJSON(cmd) {
		err = a.printJSON(changeAnswer(change))
	} else {
		err = a.print(fmt.Sprintf("removed %s\n", plain(id)))
	}
	if err != nil {
		// Not wrapped: repeating it, which is the advice of a full disk, would find no such entry.
		return fmt.Errorf("the entry %q is removed (%v)", id, err)
	}
	return nil
}
