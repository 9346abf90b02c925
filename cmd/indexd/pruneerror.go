package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune/janitor"
)

// janitorUnguarded is the code of a pass without the lease, which is what programs look for.
const janitorUnguarded = "lease_unavailable"

// pruneError says how far a pass came that did not come to its end, and what to do.
func pruneError(index string, r janitor.Report, err error) error {
	var held *lease.HeldError
	switch {
	case errors.As(err, &held) && errors.Is(err, context.Canceled):
		return fmt.Errorf("%w; %s (nothing was deleted)", context.Canceled, heldText(index, held.Status))
	case errors.As(err, &held):
		return &statusError{exitBusy, fmt.Errorf("nothing was deleted: %s; prune again then, or wait for it with --wait 1m",
			heldText(index, held.Status))}
	case errors.Is(err, lease.ErrLost):
		// It says so itself. It is not wrapped: what a write of the pass came to is nothing to look at any more.
		return errors.New(err.Error())
	}
	done := "nothing was deleted"
	switch {
	case total(r.Deleted)+r.Failures > 0:
		done = deletedText(r) + "; prune again to go on"
	case total(r.Planned) > 0 && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		// A batch that was cut off may have been carried out in part.
		done = "what was deleted is over; prune again to go on"
	}
	out := fmt.Errorf("%w (%s)", err, done)
	if errors.Is(err, cas.ErrUnknown) {
		return &advisedError{out, "what was deleted is over, and pruning again does no harm: others wait for it for 35 seconds " +
			"at the most"}
	}
	return out
}

// heldText says who is in the way, and until when.
func heldText(index string, s lease.Status) string {
	if s.Class == "" {
		return fmt.Sprintf("whoever was at work on index %q last may not know that it is over (%s); the lease %s", index,
			plain(s.Reason), opensText(s))
	}
	return fmt.Sprintf("%v is at work on index %q since %s (%s); its lease %s at the latest, if it is not renewed", s.Class, index,
		s.Since.UTC().Format(time.RFC3339), plain(s.Reason), opensText(s))
}

// verdict tells, on stderr, what a pass left undone, and makes it the exit status.
func (a *app) verdict(r janitor.Report) error {
	a.noteEach(r.Slow, "passed over", "was passed over: listing it took too long")
	a.noteEach(r.Deferred, "left alone", "is left alone for a while, since deleting there failed; --full tries it at once")
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
	return fmt.Errorf("%s; those items stay hidden, and a later pass tries those keys again: check who may delete there",
		deletedText(r))
}

// maxNoted is how many namespaces are noted each in a line of its own: there may be thousands.
const maxNoted = 20

// noteEach notes of each namespace what became of it; of those that are too many, how many.
func (a *app) noteEach(namespaces []string, kind, what string) {
	for _, name := range namespaces[:min(len(namespaces), maxNoted)] {
		a.note("namespace %q %s", name, what)
	}
	if more := len(namespaces) - maxNoted; more > 0 {
		a.note("%d more namespaces are %s so; --json names all of them", more, kind)
	}
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
