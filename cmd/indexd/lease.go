package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/cas/probe"
)

func (a *app) leaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lease",
		Short: "See who works alone on something, and break a lease",
		Long: fmt.Sprintf(`See who works alone on something, and break a lease. What one of several processes does at a time, such as pruning an
index, it does under a lease, an object below %s in the bucket. A holder renews it all the time; of one that
has died or hangs, the lease opens by itself, %v after the last renewal unless it was made otherwise.

A lease saves cost and nothing else: whoever works without one, or longer than it had one, deletes no more than what is
proven to be over.`, lease.Prefix, lease.DefaultTTL+lease.Margin),
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			cmd.SetOut(a.stderr)
			if err := cmd.Help(); err != nil {
				return err
			}
			return usagef("no command given; \"indexd help lease\" lists them")
		},
	}
	cmd.AddCommand(a.leaseListCommand(), a.leaseBreakCommand())
	return cmd
}

func (a *app) leaseListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List all leases of the bucket",
		Long: `List all leases of the bucket: in which term each is, by whom it is held (a scheduler, which is a server, or an
operator, which is a command or a request), since when and what for, and when it opens if it is not renewed.

State is held; lapsed, where the holder has stopped renewing for so long that anybody may take the lease; waiting, where
nobody holds it and the last holder may not know that yet; or free.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLeases(cmd, func(b *lazyBucket) error { return a.leaseList(cmd, b) })
		},
	}
	leaseFlags(cmd)
	return cmd
}

func (a *app) leaseBreakCommand() *cobra.Command {
	var term uint64
	cmd := &cobra.Command{
		Use:   "break NAME --term N",
		Short: "Take a lease away from a holder that is known to be dead",
		Long: `Take a lease away from a holder that is known to be dead, or that hangs. NAME and N are those that "indexd lease ls"
shows: of a holder that has come since, nothing is taken.

It makes nobody wait less: the holder may live, and finds out when it next renews. So the lease can be acquired only when
the holder's trust in it is over by itself, as long after the break as it would have been after a renewal. That is the use
of it: a holder that goes on renewing and does no work is stopped. For one that is dead it is enough to wait.`,
		Args: takes(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if term == 0 {
				return usagef("--term says which term is to be ended, and \"indexd lease ls\" shows it; give 1 or more")
			}
			return a.withLeases(cmd, func(b *lazyBucket) error { return a.leaseBreak(cmd, b, args[0], term) })
		},
	}
	leaseFlags(cmd)
	cmd.Flags().Uint64Var(&term, "term", 0, "the term that is to be ended")
	return cmd
}

func leaseFlags(cmd *cobra.Command) {
	bucketFlags(cmd)
	cmd.Flag("bucket").Usage = "where the leases are: file:///dir, ./dir, s3://bucket or gs://bucket"
	cmd.Flags().Bool("json", false, "answer with one JSON object")
}

// withLeases opens the bucket for do.
func (a *app) withLeases(cmd *cobra.Command, do func(*lazyBucket) error) error {
	settings, err := a.settings(cmd)
	if err != nil {
		return err
	}
	b, err := parseBucket(settings.Bucket, existing)
	if err != nil {
		return settings.blame("bucket", err)
	}
	defer b.Close()
	return leaseError(do(b))
}

func (a *app) leaseList(cmd *cobra.Command, b *lazyBucket) error {
	// Without real conditions there are no leases, which must not look as if nobody held one. To see them it is enough to
	// read: who may do no more is told what there is.
	if err := b.usable(cmd.Context()); err != nil && !errors.Is(err, bucket.ErrDenied) {
		return err
	}
	all, listErr := lease.List(cmd.Context(), b, b)
	if listErr != nil && len(all) == 0 {
		return listErr
	}
	out := leasesJSON{Leases: make([]leaseJSON, len(all))}
	for i, s := range all {
		out.Leases[i] = leaseAnswer(s)
	}
	if wantsJSON(cmd) {
		return errors.Join(a.printJSON(out), listErr)
	}
	return errors.Join(a.print(leasesText(out.Leases)), listErr)
}

func (a *app) leaseBreak(cmd *cobra.Command, b *lazyBucket, name string, term uint64) error {
	l, err := lease.New(b, name, lease.Operator, nil)
	if err != nil {
		return &statusError{exitUsage, err}
	}
	if err := b.usable(cmd.Context()); err != nil {
		return err
	}
	s, err := l.Break(cmd.Context(), term)
	if err != nil {
		return err
	}
	// A save tells no time; whoever breaks a lease wants to know when it opens.
	if is, err := l.Status(cmd.Context()); err == nil && is.Term == term {
		s = is
	}
	out := leaseAnswer(s)
	if wantsJSON(cmd) {
		err = a.printJSON(out)
	} else {
		err = a.print(fmt.Sprintf("broken; lease %q %s\n", plain(name), opensText(s)))
	}
	if err != nil {
		return fmt.Errorf("lease %q is broken (%v)", name, err) // not wrapped: repeating it would find another state
	}
	return nil
}

// opensText is such as "opens at 2026-11-30T12:00:35Z".
func opensText(s lease.Status) string {
	if s.Expires.IsZero() {
		return "opens in " + humane(s.Within.Round(time.Second)) // of a store that tells no time
	}
	return "opens at " + s.Expires.UTC().Format(time.RFC3339)
}

// A leaseJSON is a lease in the answer of lease ls --json, and the answer of lease break --json.
type leaseJSON struct {
	Name    string      `json:"name"`
	State   string      `json:"state"` // held, lapsed, waiting or free
	Term    uint64      `json:"term"`  // of the last acquisition
	Class   lease.Class `json:"class"` // of the holder, also of one that has lapsed; empty if there is none
	Since   *time.Time  `json:"since"`
	Expires *time.Time  `json:"expires"` // when it opens if it is not renewed; null: now, or the store tells no time
	Reason  string      `json:"reason"`
}

// leasesJSON is the answer of lease ls --json.
type leasesJSON struct {
	Leases []leaseJSON `json:"leases"`
}

func leaseAnswer(s lease.Status) leaseJSON {
	state := "free"
	switch {
	case s.Class != "" && s.Within > 0:
		state = "held"
	case s.Class != "":
		state = "lapsed"
	case s.Within > 0:
		state = "waiting"
	}
	out := leaseJSON{Name: s.Name, State: state, Term: s.Term, Class: s.Class, Since: orNull(s.Since), Reason: s.Reason}
	if s.Within > 0 {
		out.Expires = orNull(s.Expires)
	}
	return out
}

func leasesText(all []leaseJSON) string {
	if len(all) == 0 {
		return "there are no leases in this bucket\n"
	}
	rows := [][]string{{"NAME", "TERM", "STATE", "CLASS", "SINCE", "OPENS", "REASON"}}
	for _, l := range all {
		rows = append(rows, []string{
			plain(l.Name), fmt.Sprint(l.Term), l.State, orDash(string(l.Class)), instantText(l.Since), instantText(l.Expires),
			orDash(plain(l.Reason)),
		})
	}
	return table(rows)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func instantText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// leaseError gives an error of a lease its exit status and its advice.
func leaseError(err error) error {
	const ls = "\"indexd lease ls\""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, probe.ErrNotUsable), errors.Is(err, cas.ErrUnsupported):
		return &statusError{exitBroken, err}
	case errors.Is(err, cas.ErrUnknown):
		return &advisedError{err, "it may have been broken: look with " + ls + " before you repeat it"}
	case errors.Is(err, lease.ErrTerm):
		return &advisedError{err, "nothing was changed; " + ls + " tells what there is"}
	case errors.Is(err, cas.ErrCorrupt), errors.Is(err, cas.ErrTooLarge):
		return &advisedError{err, "it is left as it is: delete that object if nothing else needs it"}
	case errors.Is(err, cas.ErrFormat):
		return &advisedError{err, "it is left as it is: use a version of indexd that knows that format"}
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, cas.ErrConflict):
		return &statusError{exitBusy, fmt.Errorf("%w; nothing was changed: look with %s, and try again", err, ls)}
	}
	return err
}
