package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/prune/janitor"
)

func (a *app) pruneCommand() *cobra.Command {
	var dryRun, reconfigure bool
	cmd := &cobra.Command{
		Use:   "prune [--dry-run | --reconfigure]",
		Short: "Delete what is proven to be over",
		Long: `Delete what is proven to be over: one pass over all namespaces of the index, or over the one named by --namespace.

Hidden items are hidden whether anybody prunes or not; a pass only tidies up. It deletes key by key what the listing
proves to be finished, superseded or past its TTL. A key that could not be deleted is tried again by the next pass.
Passes are not guarded against each other yet: any number may run at once, beside producers, readers and a server. That
is safe, and costs at worst that a key is deleted twice.

With --dry-run the plan is printed, in the order of deletion and with the reason for each key, and nothing is deleted;
with --json too, as one JSON object a line. Otherwise --json prints the report as one object.

` + rulesHelp,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.prune(cmd, dryRun, reconfigure) },
	}
	indexFlags(cmd)
	namespace := cmd.Flag("namespace")
	namespace.Usage, namespace.DefValue = "only this namespace, as INDEXD_NAMESPACE names it too; without either, all of them", ""
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be deleted, and why; delete nothing")
	reconfigureFlag(cmd, &reconfigure)
	return cmd
}

func (a *app) prune(cmd *cobra.Command, dryRun, reconfigure bool) error {
	if dryRun && reconfigure {
		return usagef("--dry-run writes nothing, and --reconfigure does; give one of them")
	}
	s, err := a.openAll(cmd, wiring{save: !dryRun}, existing)
	if err != nil {
		return err
	}
	defer s.bucket.Close()
	if reconfigure {
		changed, err := s.index.Reconfigure(cmd.Context())
		if err != nil {
			return reconfigureError(err)
		}
		a.noteChange(s.index.Name(), changed)
		if changed.Withheld() != "" {
			return nil // it did what it was asked to; a later pass deletes
		}
	}
	opt := &janitor.RunOptions{DryRun: dryRun}
	if s.namespace != nil {
		opt.Namespace = s.namespace.Name()
	}
	var plan []planned
	if dryRun {
		opt.Planned = func(d blobindex.Deletion) { plan = append(plan, planned{d.Key, d.Reason.String()}) }
	} else {
		opt.Progress = progressOn(a.stderr)
	}
	report, err := janitor.New(s.index, nil).Run(cmd.Context(), opt)
	if err != nil {
		return pruneError(report, err)
	}
	if report.Withheld == "" {
		a.noteOwn(report.Ruling)
	}
	if dryRun {
		err = a.printPlan(s, plan, report, wantsJSON(cmd))
	} else if wantsJSON(cmd) {
		err = a.printJSON(reportAnswer(s, report))
	} else if report.Ruling.Withheld() == "" {
		err = a.print(reportText(s, report))
	}
	return errors.Join(err, a.verdict(report))
}

// pruneError says how far a pass came that did not come to its end.
func pruneError(r janitor.Report, err error) error {
	if n := total(r.Deleted) + r.Failures; n > 0 {
		return fmt.Errorf("%w (%s; prune again to go on)", err, deletedText(r))
	}
	return fmt.Errorf("%w (nothing was deleted)", err)
}

// verdict tells, on stderr, what a pass left undone, and makes it the exit status.
func (a *app) verdict(r janitor.Report) error {
	for _, name := range r.Slow {
		a.note("namespace %q was passed over: listing it took too long", name)
	}
	if r.Left > 0 {
		a.note("%d more keys may go; prune again to go on", r.Left)
	}
	if err := withheld(r); err != nil {
		return err
	}
	if r.Failures == 0 {
		return nil
	}
	for _, f := range r.Failed {
		fmt.Fprintf(a.stderr, "indexd: %s\n", readable(fmt.Sprintf("%q: %v", f.Key, f.Err)))
	}
	return fmt.Errorf("%s; those items stay hidden, and the next pass tries those keys again: check who may delete there",
		deletedText(r))
}

// withheld makes an error of why a pass may not delete.
func withheld(r janitor.Report) error {
	switch {
	case r.Withheld == "":
		return nil
	case len(r.Ruling.Differences) > 0:
		return &statusError{exitBroken, fmt.Errorf("nothing was deleted: %s; take them over into the configuration, or change the "+
			"saved ones for everybody with \"indexd prune --reconfigure\"", r.Withheld)}
	case !r.Ruling.Quiet.IsZero():
		return &statusError{exitBusy, fmt.Errorf("nothing was deleted: %s; prune again then", r.Withheld)}
	case r.Left > 0:
		return &statusError{exitBusy, fmt.Errorf("stopped after %s: %s; prune again to go on", deletedText(r), r.Withheld)}
	}
	return &statusError{exitBroken, fmt.Errorf("nothing may be deleted: %s", r.Withheld)}
}

// noteOwn tells by whose rules a pass went where they are not the index's saved ones.
func (a *app) noteOwn(r blobindex.Ruling) {
	if !r.Saved {
		a.note("this pass went by the rules given here, a TTL of %s among them: %s", exact(r.Rules.TTL), r.Why)
	}
}

// reconfigureError makes an error of --reconfigure fit for exit statuses.
func reconfigureError(err error) error {
	if errors.Is(err, cas.ErrUnsupported) {
		return &statusError{exitBroken, err}
	}
	return err
}

// deletedText is such as "7 deleted, 3 failed".
func deletedText(r janitor.Report) string {
	return fmt.Sprintf("%d deleted, %d failed", total(r.Deleted), r.Failures)
}

func total(byReason map[string]int) (n int) {
	for _, c := range byReason {
		n += c
	}
	return n
}

// reasonsText is such as " (finished 3, stale 4)", or nothing.
func reasonsText(byReason map[string]int) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, byReason[reason]))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func reportText(s *session, r janitor.Report) string {
	text := fmt.Sprintf("%d deleted%s", total(r.Deleted), reasonsText(r.Deleted))
	if r.Failures > 0 {
		text += fmt.Sprintf(", %d failed", r.Failures)
	}
	return text + scopeText(s, r) + "\n"
}

// A planned key is a line of prune --dry-run --json.
type planned struct {
	Key    bucket.Key `json:"key"`
	Reason string     `json:"reason"`
}

func (a *app) printPlan(s *session, plan []planned, r janitor.Report, asJSON bool) error {
	if r.Withheld != "" {
		return nil // there is no plan, and the verdict says why
	}
	if asJSON {
		for _, p := range plan {
			if err := a.printJSON(p); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([][]string, len(plan))
	for i, p := range plan {
		rows[i] = []string{p.Reason, plain(string(p.Key))}
	}
	return a.print(table(rows) + fmt.Sprintf("%d would be deleted%s%s\n", len(plan), reasonsText(r.Planned), scopeText(s, r)))
}

// scopeText says where a pass worked and by which rule, such as " in 2 namespaces, by a TTL of 2h".
func scopeText(s *session, r janitor.Report) string {
	where := fmt.Sprintf("%d namespaces", r.Namespaces)
	switch {
	case s.namespace != nil:
		where = fmt.Sprintf("namespace %q", s.namespace.Name())
	case r.Namespaces == 1:
		where = "1 namespace"
	}
	return fmt.Sprintf(" in %s, by a TTL of %s", where, exact(r.Ruling.Rules.TTL))
}

// reportJSON is the answer of prune --json.
type reportJSON struct {
	Index      string         `json:"index"`
	Namespaces int            `json:"namespaces"` // listed
	Planned    map[string]int `json:"planned"`    // keys by reason
	Deleted    map[string]int `json:"deleted"`    // keys by reason
	Failures   int            `json:"failures"`
	Failed     []failedJSON   `json:"failed"` // the first of them
	Left       int            `json:"left"`   // planned beyond what one pass deletes
	Slow       []string       `json:"slow"`   // namespaces passed over
	Foreign    int            `json:"foreign"`
	AsOf       time.Time      `json:"as_of"`
	Clock      string         `json:"clock"`
	Withheld   string         `json:"withheld"` // why nothing may be deleted, or empty
}

type failedJSON struct {
	Key   bucket.Key `json:"key"`
	Error string     `json:"error"`
}

func reportAnswer(s *session, r janitor.Report) reportJSON {
	out := reportJSON{
		Index: s.index.Name(), Namespaces: r.Namespaces, Planned: r.Planned, Deleted: r.Deleted, Failures: r.Failures,
		Failed: []failedJSON{}, Left: r.Left, Slow: append([]string{}, r.Slow...), Foreign: r.Foreign,
		AsOf: r.AsOf.UTC(), Clock: string(r.Clock), Withheld: r.Withheld,
	}
	for _, f := range r.Failed {
		out.Failed = append(out.Failed, failedJSON{f.Key, readable(f.Err.Error())})
	}
	return out
}

// progressOn returns what draws a progress bar on w, or nil where w is no terminal.
func progressOn(w io.Writer) func(done, total int) {
	if !isTerminal(w) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int) {
		if bar == nil {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("deleting"),
				progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())
		}
		// A bar that cannot be drawn is no reason to stop deleting.
		_ = bar.Set(done)
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
