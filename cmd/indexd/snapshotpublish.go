package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/web/ui"
)

// walks is how often a directory is walked for one command, if others publish meanwhile.
const walks = 3

// An edition is what snapshot publish was given.
type edition struct {
	source     source
	patterns   []string
	allowEmpty bool
	grace      time.Duration
}

func (a *app) snapshotPublishCommand() *cobra.Command {
	var given edition
	cmd := &cobra.Command{
		Use:   "publish DIR NAMESPACE/NAME [--allow-empty] [--grace D] [--digest] [--ignore PATTERN]...",
		Short: "Publish the files of a directory as the next generation",
		Long: `Publish the files of a directory as the next generation of a snapshot: path, size and time of change of each regular
file, and with --digest the SHA-256 of what is in it. If they are those that are published, nothing is.

Links, and what else is no regular file, are left out and counted; empty directories do not show. A file that vanishes while
the directory is walked is left out. If a directory cannot be read, nothing is published; neither is it if a path is not
valid UTF-8 or longer than 4,096 bytes: rename it, or leave it out. A bucket that is below DIR is left out.

` + ignoreHelp + `

A directory without any file is refused where there were some: it may merely not be mounted. With --allow-empty it is not.

If somebody else publishes meanwhile, the directory is walked again, three times in all, and then the exit status is 75. What
an interrupted command leaves in the bucket is read by nobody, and goes with a sweep after the next publication.`,
		Example: `  indexd snapshot publish /srv/files team/files --ignore '*.tmp' --ignore cache/
  indexd snapshot ls team/files reports`,
		Args: takes(2, 2, "a DIR and one NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flag("grace").Changed {
				var err error
				if given.grace, err = readGrace(given.grace); err != nil {
					return err
				}
			}
			var err error
			if given.source.ignore, err = parseIgnore(given.patterns); err != nil {
				return &statusError{exitUsage, err}
			}
			given.source.dir = args[0]
			return a.withSnapshot(cmd, args[1], func(p *portal) error { return a.snapshotPublish(cmd, p, given) })
		},
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	snapshotFlags(cmd)
	cmd.Flags().BoolVar(&given.allowEmpty, "allow-empty", false, "publish no files where there were some")
	cmd.Flags().DurationVar(&given.grace, "grace", 0, fmt.Sprintf("keep replaced generations for so long, for who reads them "+
		"(default what is saved, else %s)", exact(snapshot.DefaultGrace)))
	cmd.Flags().BoolVar(&given.source.digest, "digest", false, "read each file, and publish its digest")
	cmd.Flags().StringArrayVar(&given.patterns, "ignore", nil, "leave out what matches the pattern; may be repeated")
	return cmd
}

// readGrace makes of a grace that was given what package snapshot takes.
func readGrace(d time.Duration) (time.Duration, error) {
	switch {
	case d == 0:
		return snapshot.NoGrace, nil
	case d < time.Millisecond || d > snapshot.MaxGrace:
		return 0, usagef("the grace is %v; give 0, or 1ms to %s", d, exact(snapshot.MaxGrace))
	}
	return d, nil
}

func (a *app) snapshotPublish(cmd *cobra.Command, p *portal, given edition) error {
	ctx := cmd.Context()
	if _, err := p.bucket.get(ctx); err != nil {
		return err // before the walk, which may take long
	}
	given.source.bucket = p.bucket.location.Dir()
	if err := given.source.check(); err != nil {
		return &statusError{exitUsage, err}
	}
	bar := &walkBar{w: a.stderr, off: !isTerminal(a.stderr)}
	var met account
	var r snapshot.Result
	for n := 1; n == 1 || r.Outcome == snapshot.Superseded && n <= walks; n++ {
		var err error
		r, err = p.Publish(ctx, func(add func(snapshot.Row) error) (err error) {
			met, err = given.source.walk(ctx, add, bar.walked)
			return err
		}, &snapshot.PublishOptions{AllowEmpty: given.allowEmpty, Grace: given.grace, Progress: bar.staged})
		bar.clear()
		if err != nil {
			return publishError(r, err)
		}
	}
	a.noteWalk(met)
	if r.Outcome == snapshot.Superseded {
		return &statusError{exitBusy, fmt.Errorf("snapshot %s: superseded at each of %d walks; generation %d is current, which "+
			"somebody else has published; try later", p.title, walks, r.Pointer.ID.Number)}
	}
	if r.SweepErr != nil {
		a.note("what was replaced could not all be removed: %v; the next publication does it, or \"indexd snapshot sweep %s\"",
			r.SweepErr, p.title)
	}
	if wantsJSON(cmd) {
		return a.printJSON(publishedJSON{r.Outcome, publicationAnswer(r.Pointer), sweptAnswer(r.Swept)})
	}
	return a.print(publishText(p, r))
}

// publishError says what is half-done.
func publishError(r snapshot.Result, err error) error {
	if errors.Is(err, snapshot.ErrStage) && r.ID.Number > 0 {
		return fmt.Errorf("%w (nothing was published; what was put goes with a sweep after the next publication)", err)
	}
	return err
}

// noteWalk tells what is not in the listing, and may have been expected there.
func (a *app) noteWalk(met account) {
	for _, n := range []struct {
		count     int64
		one, many string
	}{
		{met.links, "link or other entry that is no regular file was left out", "links and other entries that are no regular " +
			"files were left out"},
		{met.vanished, "file or directory vanished while it was walked, and was left out", "files and directories vanished while " +
			"they were walked, and were left out"},
		{met.restless, "file was written to while it was read, and has no digest", "files were written to while they were read, " +
			"and have no digest"},
	} {
		if n.count > 0 {
			a.note("%s", counted(int(n.count), n.one, n.many))
		}
	}
	if met.bucket {
		a.note("the bucket is below the directory, and was left out")
	}
}

// publishedJSON is the answer of snapshot publish --json.
type publishedJSON struct {
	Outcome snapshot.Outcome `json:"outcome"`
	Current publicationJSON  `json:"current"`
	Swept   sweptJSON        `json:"swept"`
}

func publishText(p *portal, r snapshot.Result) string {
	if r.Outcome == snapshot.Unchanged {
		return fmt.Sprintf("unchanged: generation %d of %s has these %s\n", r.Pointer.ID.Number, p.title, files(r.Pointer.Rows))
	}
	return fmt.Sprintf("published generation %d of %s: %s, in %s of %s\n", r.Pointer.ID.Number, p.title, files(r.Pointer.Rows),
		counted(r.Pointer.Parts, "part", "parts"), ui.Size(r.Pointer.Bytes))
}

// A walkBar draws how far a publication has come: files while the directory is walked, and then parts.
type walkBar struct {
	w       io.Writer
	off     bool // nobody looks
	bar     *progressbar.ProgressBar
	staging bool
}

func (b *walkBar) walked(met account) {
	if b.off {
		return
	}
	if b.bar == nil {
		b.bar = progressbar.NewOptions64(-1, b.options("walking")...)
	}
	// A bar that cannot be drawn is no reason to stop.
	_ = b.bar.Set64(met.files)
}

func (b *walkBar) staged(done, total int) {
	if b.off {
		return
	}
	if !b.staging {
		b.clear()
		b.bar, b.staging = progressbar.NewOptions64(int64(total), b.options("staging")...), true
	}
	_ = b.bar.Set64(int64(done))
}

func (b *walkBar) options(what string) []progressbar.Option {
	return []progressbar.Option{
		progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish(),
	}
}

// clear takes the bar away, so that what follows begins on a line of its own.
func (b *walkBar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
	b.bar, b.staging = nil, false
}
