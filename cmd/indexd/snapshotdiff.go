package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/web/ui"
)

func (a *app) snapshotDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff NAMESPACE/NAME A B",
		Short: "Tell in what two generations differ",
		Long: `Tell in what generation B differs from generation A: a line with + for each file that only B has, - for one that only A has,
and ~ for one whose size, time of change or digest is another. A generation is given by its number, its id, or as current; one that
was replaced can be read until it is swept: "indexd snapshot status" tells which.`,
		Args: takes(3, 3, "one NAMESPACE/NAME and two generations"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSnapshot(cmd, args[0], func(p *portal) error { return a.snapshotDiff(cmd, p, args[1], args[2]) })
		},
	}
	snapshotFlags(cmd)
	return cmd
}

func (a *app) snapshotDiff(cmd *cobra.Command, p *portal, from, to string) error {
	ctx := cmd.Context()
	s, err := p.status(ctx)
	if err != nil {
		return err
	}
	var sides [2]*snapshot.Generation
	for i, which := range []string{from, to} {
		id, err := p.find(s, which)
		if err != nil {
			return err
		}
		if sides[i], err = p.OpenID(ctx, id); errors.Is(err, snapshot.ErrSwept) {
			// It never comes back: unlike a reader that was overtaken, who asked for it is not told to try later.
			return &statusError{exitFailed, fmt.Errorf("%w; \"indexd snapshot status %s\" tells which may be read", err, p.title)}
		}
		if err != nil {
			return err
		}
	}
	was, is := sides[0], sides[1]
	if wantsJSON(cmd) {
		head := fmt.Sprintf(`{"from":%d,"to":%d,"changes":`, was.Info().ID.Number, is.Info().ID.Number)
		return p.cutDiff(ctx, sides, a.printRows(head, "}", func(row func(any) error) error {
			return compare(ctx, was, is, func(c rowChange) error { return row(c) })
		}))
	}
	out := bufio.NewWriter(&answer{a.stdout})
	counts := map[string]int{}
	err = compare(ctx, was, is, func(c rowChange) error {
		counts[c.Change]++
		_, err := fmt.Fprintln(out, c)
		return err
	})
	if err != nil {
		_ = out.Flush()
		return p.cutDiff(ctx, sides, err)
	}
	fmt.Fprintf(out, "%d added, %d removed, %d changed, from generation %d to %d\n", counts[added], counts[removed], counts[changed],
		was.Info().ID.Number, is.Info().ID.Number)
	return out.Flush()
}

// cutDiff is cut for whichever generation could not be read.
func (p *portal) cutDiff(ctx context.Context, sides [2]*snapshot.Generation, err error) error {
	for _, g := range sides {
		if told := p.cut(ctx, g, err); told != err {
			return told
		}
	}
	return err
}

// Kinds of changes.
const (
	added   = "added"
	removed = "removed"
	changed = "changed"
)

// A rowChange is what became of one file.
type rowChange struct {
	Change string        `json:"change"` // added, removed or changed
	Was    *snapshot.Row `json:"was"`    // null if it was added
	Is     *snapshot.Row `json:"is"`     // null if it was removed
}

// String is a line for people.
func (c rowChange) String() string {
	switch c.Change {
	case added:
		return fmt.Sprintf("+ %s  %s", plain(c.Is.Path), ui.Size(c.Is.Size))
	case removed:
		return fmt.Sprintf("- %s  %s", plain(c.Was.Path), ui.Size(c.Was.Size))
	}
	if c.Was.Size == c.Is.Size {
		return fmt.Sprintf("~ %s  %s", plain(c.Is.Path), ui.Size(c.Is.Size))
	}
	return fmt.Sprintf("~ %s  %s, was %s", plain(c.Is.Path), ui.Size(c.Is.Size), ui.Size(c.Was.Size))
}

// compare calls fn with each difference, in byte order of the paths. It holds a part of either side at a time.
func compare(ctx context.Context, was, is *snapshot.Generation, fn func(rowChange) error) error {
	nextOld, stopOld := iter.Pull2(rowsOf(ctx, was))
	defer stopOld()
	nextNew, stopNew := iter.Pull2(rowsOf(ctx, is))
	defer stopNew()
	a, err, hasA := nextOld()
	b, err2, hasB := nextNew()
	for hasA || hasB {
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		was, is := a, b
		var c rowChange
		switch {
		case !hasB || hasA && a.Path < b.Path:
			c = rowChange{removed, &was, nil}
			a, err, hasA = nextOld()
		case !hasA || b.Path < a.Path:
			c = rowChange{added, nil, &is}
			b, err2, hasB = nextNew()
		default:
			c = rowChange{changed, &was, &is}
			same := was.Size == is.Size && was.Digest == is.Digest && was.MTime.Equal(is.MTime)
			a, err, hasA = nextOld()
			b, err2, hasB = nextNew()
			if same {
				continue
			}
		}
		if err := fn(c); err != nil {
			return err
		}
	}
	return nil
}

// errStopped: who asked for rows wants no more.
var errStopped = errors.New("stopped")

// rowsOf are the rows of a generation, and at the end an error, if there was one.
func rowsOf(ctx context.Context, g *snapshot.Generation) iter.Seq2[snapshot.Row, error] {
	return func(yield func(snapshot.Row, error) bool) {
		err := g.Stream(ctx, func(r snapshot.Row) error {
			if !yield(r, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(snapshot.Row{}, err)
		}
	}
}
