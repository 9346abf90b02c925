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
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune/janitor"
)

func (a *app) pruneCommand() *cobra.Command {
	var o pruneFlags
	cmd := &cobra.Command{
		Use:   "prune [--dry-run | --reconfigure]",
		Short: "Delete what is proven to be over",
		Long: `Delete what is proven to be over: one pass over all namespaces of the index, or over the one named by --namespace.

Hidden items are hidden whether anybody prunes or not; a pass only tidies up. It deletes key by key what the listing
proves to be finished, superseded or past its TTL. A key that could not be deleted is tried again by a later pass.

Only one pass works on an index at a time, whoever began it: it holds the index's lease, which "indexd lease ls" shows.
While somebody else does, nothing is deleted and nothing changed, and the exit status is 75, at once or after --wait. Try
again then, or leave it to who is at work: it does the same. A pass that was killed holds the lease for 35 seconds more.
On a bucket whose conditional writes cannot be used, or a full disk, passes are not guarded: they say so
("lease_unavailable"), any number may run at once, and a key may be deleted twice, which does no harm.

A namespace in which keys could not be deleted is left alone for a while, a minute at first and then up to an hour; --full
tries it at once.

With --dry-run the plan is printed, in the order of deletion and with the reason for each key, and nothing is deleted;
with --json too, as one JSON object a line. Otherwise --json prints the report as one object.

` + rulesHelp,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.prune(cmd, o) },
	}
	indexFlags(cmd)
	namespace := cmd.Flag("namespace")
	namespace.Usage, namespace.DefValue = "only this namespace, as INDEXD_NAMESPACE names it too; without either, all of them", ""
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print what would be deleted, and why; delete nothing")
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "how long to wait for somebody else who is at work, such as 1m")
	cmd.Flags().BoolVar(&o.full, "full", false, "also in namespaces that are left alone for a while after errors")
	reconfigureFlag(cmd, &o.reconfigure)
	return cmd
}

type pruneFlags struct {
	dryRun, reconfigure, full bool
	wait                      time.Duration
}

func (o pruneFlags) check(cmd *cobra.Command) error {
	switch {
	case o.dryRun && o.reconfigure:
		return usagef("--dry-run writes nothing, and --reconfigure does; give one of them")
	case o.wait < 0:
		return usagef("--wait is %s; give a duration such as 1m, or 0", cmd.Flag("wait").Value)
	case o.dryRun && o.wait > 0:
		return usagef("--dry-run waits for nobody; leave --wait out")
	}
	return nil
}

func (a *app) prune(cmd *cobra.Command, o pruneFlags) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	s, err := a.openAll(cmd, wiring{save: !o.dryRun}, existing)
	if err != nil {
		return err
	}
	defer s.bucket.Close()
	if o.reconfigure {
		changed, err := s.index.Reconfigure(cmd.Context())
		if err != nil {
			return reconfigureError(err)
		}
		a.noteChange(s.index.Name(), changed)
		if changed.Withheld() != "" {
			return nil // it did what it was asked to; a later pass deletes
		}
	}
	opt := &janitor.RunOptions{DryRun: o.dryRun, Wait: o.wait, Full: o.full}
	if s.namespace != nil {
		opt.Namespace = s.namespace.Name()
	}
	var plan []planned
	if o.dryRun {
		opt.Planned = func(d blobindex.Deletion) { plan = append(plan, planned{d.Key, d.Reason.String()}) }
	} else {
		opt.Progress = progressOn(a.stderr)
	}
	j := janitor.New(s.index, &janitor.Options{Class: lease.Operator, Store: s.bucket, Usable: s.bucket.usable})
	report, err := j.Run(cmd.Context(), opt)
	if report.Unguarded != "" {
		a.note("%s: this pass was not guarded against others: %s", janitorUnguarded, report.Unguarded)
	}
	if err != nil {
		return pruneError(s.index.Name(), report, err)
	}
	if report.Withheld == "" {
		a.noteOwn(report.Ruling)
	}
	if o.dryRun {
		err = a.printPlan(s, plan, report, wantsJSON(cmd))
	} else if wantsJSON(cmd) {
		err = a.printJSON(reportAnswer(s, report))
	} else if report.Ruling.Withheld() == "" {
		err = a.print(reportText(s, report))
	}
	return errors.Join(err, a.verdict(report))
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
	Term       uint64         `json:"term"`       // of the lease; 0: the pass had none
	Unguarded  string         `json:"unguarded"`  // lease_unavailable: it should have had one; or empty
	Namespaces int            `json:"namespaces"` // listed
	Planned    map[string]int `json:"planned"`    // keys by reason
	Deleted    map[string]int `json:"deleted"`    // keys by reason
	Failures   int            `json:"failures"`
	Failed     []failedJSON   `json:"failed"`   // the first of them
	Left       int            `json:"left"`     // planned beyond what one pass deletes
	Deferred   []string       `json:"deferred"` // namespaces left alone for a while, since deleting there failed
	Slow       []string       `json:"slow"`     // namespaces passed over
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
		Index: s.index.Name(), Term: r.Term, Namespaces: r.Namespaces, Planned: r.Planned, Deleted: r.Deleted, Failures: r.Failures,
		Failed: []failedJSON{}, Left: r.Left, Deferred: append([]string{}, r.Deferred...), Slow: append([]string{}, r.Slow...), Foreign: r.Foreign,
		AsOf: r.AsOf.UTC(), Clock: string(r.Clock), Withheld: r.Withheld,
	}
	if r.Unguarded != "" {
		out.Unguarded = janitorUnguarded
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
