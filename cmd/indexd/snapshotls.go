package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/web/ui"
)

func (a *app) snapshotListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls NAMESPACE/NAME [PATH]",
		Short: "List the files of a snapshot",
		Long: `List the files of the current generation, in byte order of their paths: all, or those at PATH and below it. In the
text what does not print is replaced, line ends too; --json has the paths as they are, and the digests.

The answer is written while it is read. If it could not be read whole, the exit status says so, and what was written is a
part of it.`,
		Args: takes(1, 2, "one NAMESPACE/NAME and perhaps a PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := ""
			if len(args) > 1 {
				path = strings.TrimSuffix(args[1], "/")
				if err := snapshot.CheckPath(path); err != nil {
					return &statusError{exitUsage, err}
				}
			}
			return a.withSnapshot(cmd, args[0], func(p *portal) error { return a.snapshotList(cmd, p, path) })
		},
	}
	snapshotFlags(cmd)
	return cmd
}

func (a *app) snapshotList(cmd *cobra.Command, p *portal, path string) error {
	ctx := cmd.Context()
	g, err := p.open(ctx)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		head := fmt.Sprintf(`{"generation":%d,"rows":`, g.Info().ID.Number)
		return p.cut(ctx, g, a.printRows(head, `,"next":null}`, func(row func(any) error) error {
			return below(ctx, g, path, func(r snapshot.Row) error { return row(r) })
		}))
	}
	out := bufio.NewWriter(&answer{a.stdout})
	var count, size int64
	err = below(ctx, g, path, func(r snapshot.Row) error {
		count, size = count+1, size+r.Size
		_, err := fmt.Fprintf(out, "%s  %8s  %s\n", r.MTime.UTC().Format(time.RFC3339), ui.Size(r.Size), plain(r.Path))
		return err
	})
	if err != nil {
		_ = out.Flush()
		return p.cut(ctx, g, err)
	}
	fmt.Fprintf(out, "%s, %s, in generation %d\n", files(count), ui.Size(size), g.Info().ID.Number)
	return out.Flush()
}

// below calls fn with each row at a path and below it; with all if it is empty.
func below(ctx context.Context, g *snapshot.Generation, path string, fn func(snapshot.Row) error) error {
	if path == "" {
		return g.Stream(ctx, fn)
	}
	for _, prefix := range []string{path, path + "/"} {
		most := 100_000 // a part is read once for each page that it is on
		if prefix == path {
			most = 1 // no other path that begins so comes before it
		}
		after := ""
		for more := true; more; {
			rows, left, err := g.Page(ctx, prefix, after, most)
			if err != nil {
				return err
			}
			for _, r := range rows {
				if prefix != path || r.Path == path {
					if err := fn(r); err != nil {
						return err
					}
				}
				after = r.Path
			}
			more = left && most > 1
		}
	}
	return nil
}

// An answer is a writer to stdout whose error says so.
type answer struct{ w io.Writer }

func (a *answer) Write(b []byte) (int, error) {
	n, err := a.w.Write(b)
	if err != nil {
		err = fmt.Errorf("writing the answer: %w", err)
	}
	return n, err
}

// printRows writes one JSON object, around a list of values that each calls its argument with. After an error the object has
// no end.
func (a *app) printRows(head, tail string, each func(func(any) error) error) error {
	out := bufio.NewWriter(&answer{a.stdout})
	_, _ = out.WriteString(head + "[") // an error comes back from Flush
	first := true
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := each(func(v any) error {
		line.Reset()
		if !first {
			line.WriteByte(',')
		}
		first = false
		if err := enc.Encode(v); err != nil {
			return err
		}
		_, err := out.Write(bytes.TrimSuffix(line.Bytes(), []byte("\n")))
		return err
	})
	if err != nil {
		_ = out.Flush()
		return err
	}
	_, _ = out.WriteString("]" + tail + "\n")
	return out.Flush()
}
