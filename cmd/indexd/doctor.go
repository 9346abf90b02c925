package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/probe"
)

func (a *app) doctorCommand() *cobra.Command {
	var endpoints []string
	var reset bool
	cmd := &cobra.Command{
		Use:   "doctor [--endpoint URL]...",
		Short: "Find out what the bucket really honours",
		Long: `Find out what the bucket really honours, by what is there afterwards and not by answers alone: conditional writes, one
after the other and racing; torn reads; listings and their order; odd keys; deletes; clocks; settings that keep or expire
objects; what these credentials may do. Each line is yes (✓), no (✗) or not to be found out (?), and each no says what
indexd does without here and how to mend it.

With --endpoint, which may be repeated, all of these ways to the same bucket are used in turn and in races: two gateways
that are each sound may not be so together.

It works below _indexd/probe/ and deletes what it has made; interrupted, it takes up to a minute for that, and a second
signal ends it at once: what is left then, the next run deletes after an hour. Of about 4,200 requests 2,500 are writes, for
which a cloud asks about 1.5 cents; in a bucket with versions or soft delete what was deleted stays until the bucket's rules
remove it. Its verdict on conditional writes is remembered in the bucket for a day, for commands that need them.

With --reset it examines nothing. It is for after the bucket was restored from a backup: processes that have seen later
saved rules refuse the restored ones, until this gives them a new beginning.

Exit status 3 if a no disables markers, pruning or conditional writes; 0 if none does.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reset {
				return a.reset(cmd, len(endpoints) > 0)
			}
			return a.doctor(cmd, endpoints)
		},
	}
	bucketFlags(cmd)
	cmd.Flags().StringArrayVar(&endpoints, "endpoint", nil, "another way to the bucket, such as http://127.0.0.1:7070; may be repeated")
	cmd.Flags().Bool("json", false, "answer with one JSON object")
	cmd.Flags().BoolVar(&reset, "reset", false, "after a restore from a backup, let the saved rules begin anew")
	return cmd
}

// reset gives what indexd keeps by compare-and-swap a new beginning.
func (a *app) reset(cmd *cobra.Command, endpoints bool) error {
	if endpoints || wantsJSON(cmd) {
		return usagef("--reset examines nothing; leave --endpoint and --json out")
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	b, err := parseBucket(s.Bucket, existing)
	if err != nil {
		return s.blame("bucket", err)
	}
	defer b.Close()
	indexes, err := s.indexes(wiring{objects: b, rules: b, usable: b.usable})
	if err != nil {
		return err
	}
	for _, x := range indexes {
		saved, err := x.ResetRules(cmd.Context())
		if err != nil {
			return err
		}
		said := "they begin anew"
		if !saved {
			said = "none are saved"
		}
		if err := a.print(fmt.Sprintf("rules of index %q: %s\n", x.Name(), said)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) doctor(cmd *cobra.Command, endpoints []string) error {
	settings, err := a.settings(cmd)
	if err != nil {
		return err
	}
	lazy, err := parseBucket(settings.Bucket, existing)
	if err != nil {
		return settings.blame("bucket", err)
	}
	defer lazy.Close()
	indexes, err := settings.indexes(wiring{objects: lazy})
	if err != nil {
		return err
	}
	addresses, err := sitesOf(settings.Bucket, lazy.location.Scheme(), endpoints)
	if err != nil {
		return err
	}
	asked, err := parseBucket(addresses[0], existing)
	if err != nil {
		return err
	}
	sites, closeAll, err := openSites(cmd.Context(), addresses)
	defer closeAll()
	if err != nil {
		return err
	}
	opts := twins(sites[0])
	opts.Progress = stepsOn(a.stderr)
	report, err := probe.Run(cmd.Context(), sites, opts)
	d := doctorJSON{Bucket: settings.Bucket, Report: report, Foreign: []foreignJSON{}, Costs: []costJSON{}}
	if err == nil {
		err = d.look(cmd.Context(), indexes, sites[0].Objects, asked.prices())
	}
	return errors.Join(a.printDoctor(d, wantsJSON(cmd)), d.verdict(err))
}

// verdict is the exit status of a run that ended so.
func (d *doctorJSON) verdict(err error) error {
	switch {
	case errors.Is(err, bucket.ErrUnknown):
		// Nothing that the doctor writes has to be looked for.
		return &statusError{exitFailed, err}
	case err != nil:
		return err
	case len(d.Disabled) > 0:
		return &statusError{exitBroken, fmt.Errorf("this bucket cannot be relied on for %s", d.disabled())}
	}
	return nil
}

// disabled names the features that a no disables.
func (d *doctorJSON) disabled() string {
	names := map[probe.Feature]string{
		probe.Markers: "markers", probe.Pruning: "pruning", probe.CAS: "documents on conditional writes",
	}
	var all []string
	for _, f := range d.Disabled {
		all = append(all, names[f])
	}
	if n := len(all); n > 2 {
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return strings.Join(all, " and ")
}

// sitesOf returns the address of each way to the bucket: by the endpoints that are given, and by the one of the address. A
// directory has two ways, since each opening of it takes locks of its own.
func sitesOf(address, scheme string, endpoints []string) ([]string, error) {
	if scheme == "file" {
		if len(endpoints) > 0 {
			return nil, usagef("a directory has no endpoints; leave --endpoint out")
		}
		return []string{address, address}, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	var all []string
	if len(endpoints) == 0 || u.Query().Has("endpoint") {
		all = append(all, address)
	}
	for _, e := range endpoints {
		q := u.Query()
		q.Set("endpoint", e)
		with := *u
		with.RawQuery = q.Encode()
		if _, err := openbucket.Parse(with.String()); err != nil {
			return nil, fmt.Errorf("--endpoint: %w", err)
		}
		all = append(all, with.String())
	}
	return all, nil
}

// openSites opens each address. What was opened is to be closed even after an error.
func openSites(ctx context.Context, addresses []string) (sites []probe.Site, closeAll func(), err error) {
	var opened []openbucket.Bucket
	closeAll = func() {
		for _, b := range opened {
			b.Close()
		}
	}
	for _, address := range addresses {
		b, err := openbucket.Open(ctx, address)
		if err != nil {
			return nil, closeAll, err
		}
		opened = append(opened, b)
		store, ok := b.(cas.Store)
		if !ok {
			return nil, closeAll, fmt.Errorf("%s cannot be examined: %w", address, bucket.ErrUnsupported)
		}
		sites = append(sites, probe.Site{Name: address, Objects: b, Store: store})
	}
	return sites, closeAll, nil
}

// twins are what the driver has of buckets that must refuse us.
func twins(s probe.Site) *probe.Options {
	opts := &probe.Options{}
	lists := func(o bucket.Objects) func(context.Context) error {
		return func(ctx context.Context) error {
			return o.List(ctx, bucket.ListRequest{Prefix: probe.Root}, func(bucket.Page) error { return nil })
		}
	}
	if b, ok := s.Store.(interface{ WithWrongSecret() bucket.Objects }); ok {
		opts.WrongSecret = lists(b.WithWrongSecret())
	}
	if b, ok := s.Store.(interface {
		Sibling(name string) bucket.Objects
	}); ok {
		opts.AbsentBucket = lists(b.Sibling("indexd-absent-" + strings.ToLower(rand.Text())))
	}
	return opts
}

// stepsOn returns what draws a progress bar with the step at hand on w, or nil where w is no terminal.
func stepsOn(w io.Writer) func(done, total int, step string) {
	if !isTerminal(w) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int, step string) {
		if bar == nil {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(),
				progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())
		}
		bar.Describe(fmt.Sprintf("%-28s", step))
		// A bar that cannot be drawn is no reason to stop.
		_ = bar.Set(done)
	}
}
