package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/cas/probe"
)

// checkTime is how long each look of serve --check may take.
const checkTime = 10 * time.Second

// A rehearsal is what serve --check has found.
type rehearsal struct {
	rows   [][]string
	status int // that of the worst
}

// found takes note of one line. status is exitDone for what is right, and for what serve does without.
func (r *rehearsal) found(sign probe.Answer, what string, status int, format string, args ...any) {
	r.rows = append(r.rows, []string{signs[sign], what, readable(fmt.Sprintf(format, args...))})
	// That something failed comes first: it may be what hides a difference.
	if r.status != exitFailed && status != exitDone {
		r.status = status
	}
}

// checkServe tells whether serve would work with the same flags. It asks the bucket for one page of a listing, the saved rules of
// each index, and what was found of conditional writes; it makes nothing, and writes nothing. Wrong settings are usage errors, as
// of serve itself.
func (a *app) checkServe(cmd *cobra.Command, reconfigure bool, maxUpload int64) error {
	s, err := a.serveSettings(cmd, maxUpload)
	if err != nil {
		return err
	}
	b, err := parseBucket(s.Bucket, serving)
	if err != nil {
		return s.blame("bucket", err)
	}
	defer b.Close()
	b.use = existing // whatever serve does, a look makes no directory
	indexes, err := s.indexes(wiring{objects: b, rules: b})
	if err != nil {
		return err
	}
	publishers, err := s.publishers(b, b.usable, nil)
	if err != nil {
		return err
	}
	gate, err := s.gate(indexes, nil)
	if err != nil {
		return err
	}
	if gate != nil {
		defer gate.Close()
	}
	var r rehearsal
	r.addresses(cmd.Context(), s)
	if r.bucket(cmd.Context(), s, b) {
		for _, x := range indexes {
			r.rules(cmd.Context(), x, reconfigure)
		}
		r.conditions(cmd.Context(), b, len(publishers) > 0)
	}
	for _, p := range publishers {
		r.directory(p)
	}
	r.tokens(s)
	if err := a.print(table(r.rows)); err != nil {
		return err
	}
	switch r.status {
	case exitFailed:
		return errors.New("serve would not work; the lines with ✗ say why")
	case exitBroken:
		return &statusError{exitBroken, errors.New("serve would not do what is configured; the lines with ✗ say why")}
	}
	return nil
}

// addresses tries whether they can be listened on, both at once as serve does, and lets go of them again.
func (r *rehearsal) addresses(ctx context.Context, s *settings) {
	one := func(what, addr string, listen func() (net.Listener, error)) (release func()) {
		l, err := listen()
		if err != nil {
			r.found(probe.No, what, exitFailed, "%v", err)
			return func() {}
		}
		r.found(probe.Yes, what, exitDone, "%s can be listened on", addr)
		return func() { l.Close() }
	}
	defer one("listen", s.Listen, func() (net.Listener, error) { return s.listen(ctx) })()
	if s.MetricsListen != "" {
		defer one("metrics-listen", s.MetricsListen, func() (net.Listener, error) { return listenOn(ctx, "metrics-listen", s.MetricsListen) })()
	}
}

// bucket reports whether there is one to look into.
func (r *rehearsal) bucket(ctx context.Context, s *settings, b *lazyBucket) bool {
	if b.location.Scheme() == "mem" {
		r.found(probe.Yes, "bucket", exitDone, "%s is in memory, and begins empty", s.Bucket)
		return false
	}
	if dir := b.location.Dir(); dir != "" {
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			r.found(probe.Unsure, "bucket", exitDone, "%s is not there; serve makes it", s.Bucket)
			return false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if err := readiness(b)(ctx); err != nil {
		r.found(probe.No, "bucket", exitFailed, "%s cannot be listed: %s", s.Bucket, message(err))
		return false
	}
	r.found(probe.Yes, "bucket", exitDone, "%s can be listed", s.Bucket)
	return true
}

func (r *rehearsal) rules(ctx context.Context, x *blobindex.Index, reconfigure bool) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	what := "rules of " + x.Name()
	ruling, err := x.ReadRules(ctx)
	switch {
	case err != nil:
		r.found(probe.No, what, exitFailed, "%s", message(err))
	case len(ruling.Differences) > 0 && reconfigure:
		r.found(probe.Unsure, what, exitDone, "serve changes the saved ones: %s", ruling.Different())
	case len(ruling.Differences) > 0:
		r.found(probe.No, what, exitBroken, "the saved ones are others, so that serve deletes nothing: %s; correct the configuration, "+
			"or change them with --reconfigure", ruling.Different())
	case ruling.Saved:
		r.found(probe.Yes, what, exitDone, "as they are saved")
	default:
		r.found(probe.Unsure, what, exitDone, "none are saved; serve saves those of the configuration, where it can")
	}
}

// conditions tells what was found of conditional writes within the last day. To find it out takes writes, which are left to serve
// and doctor.
func (r *rehearsal) conditions(ctx context.Context, b *lazyBucket, needed bool) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	const what = "conditional writes"
	status := exitDone
	if needed {
		status = exitBroken
	}
	store, err := b.store(ctx)
	if err != nil {
		r.found(probe.No, what, status, "%s", message(err))
		return
	}
	switch v, ok := probe.Remembered(ctx, store); {
	case !ok:
		r.found(probe.Unsure, what, exitDone, "not found out within the last day; serve does when it needs them, \"indexd doctor\" at once")
	case v.Err() != nil:
		r.found(probe.No, what, status, "%v; passes are not guarded, and nothing is published", v.Err())
	default:
		r.found(probe.Yes, what, exitDone, "are kept, as was found at %s", stamp(v.At))
	}
}

// directory tells of what is published. One that is not there may be mounted later.
func (r *rehearsal) directory(p *publisher) {
	what := "snapshot " + p.namespace + "/" + p.name
	if _, err := os.ReadDir(p.source.dir); err != nil {
		r.found(probe.Unsure, what, exitDone, "its directory cannot be read now: %v", err)
		return
	}
	r.found(probe.Yes, what, exitDone, "%s can be read", p.source.dir)
}

// tokens tells of those that have expired. Their settings have been read before.
func (r *rehearsal) tokens(s *settings) {
	if s.Auth == nil {
		return
	}
	for _, t := range s.Auth.Tokens {
		if t.Expires == nil {
			continue
		}
		if at, err := time.Parse(time.RFC3339, *t.Expires); err == nil && !time.Now().Before(at) {
			r.found(probe.Unsure, "token "+t.Name, exitDone, "has expired at %s, and lets nobody in", stamp(at))
		}
	}
}
