package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune/janitor"
	"github.com/blobindex/indexd/web/api"
)

const pruneRoute = "/v1/indexes/:index/prune"

// passTime is the longest that a pass may take over HTTP.
const passTime = 15 * time.Minute

// patient is the middleware of passes: they may take longer than the limits of the http.Server for whole requests.
func patient(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, rc := c.Request(), http.NewResponseController(c.Response())
		// Nobody wants the body, but it has to have come while there is a deadline for it. Until then the server does not see
		// the client leave either.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return bodyProblem(err)
		}
		ctx, cancel := context.WithTimeout(r.Context(), passTime)
		defer cancel()
		c.SetRequest(r.WithContext(ctx))
		err := next(c)
		if limit := serverOf(r).WriteTimeout; limit > 0 {
			// The one that the connection has was for a whole request, and may be over. Where it knows none, none is in the way.
			_ = rc.SetWriteDeadline(time.Now().Add(limit))
		}
		return err
	}
}

// PruneIndex is POST …/prune.
func (s *Server) PruneIndex(ctx context.Context, r api.PruneIndexRequestObject) (api.PruneIndexResponseObject, error) {
	x, err := s.index(r.Index)
	if err != nil {
		return nil, err
	}
	if s.opt.Prune == nil {
		return nil, &problem{
			status: http.StatusNotImplemented, code: codeUnsupported,
			detail: "This server makes no passes.", action: "Ask one that was started by \"indexd serve\".",
		}
	}
	var opt janitor.RunOptions
	if r.Params.Namespace != nil {
		opt.Namespace = *r.Params.Namespace
		if _, err := x.Namespace(opt.Namespace); err != nil {
			return nil, storeProblem(err, reads)
		}
	}
	opt.DryRun = r.Params.DryRun != nil && *r.Params.DryRun
	report, err := s.opt.Prune(ctx, x, &opt)
	if err != nil {
		return nil, passProblem(err)
	}
	return api.PruneIndex200JSONResponse(s.pruneReport(ctx, x.Name(), report)), nil
}

func (s *Server) pruneReport(ctx context.Context, index string, r janitor.Report) api.PruneReport {
	out := api.PruneReport{
		Index: index, Term: r.Term, Namespaces: r.Namespaces, Planned: byReason(r.Planned), Deleted: byReason(r.Deleted), Failures: r.Failures,
		Failed: make([]api.KeyFailure, len(r.Failed)), Left: r.Left, Deferred: append([]string{}, r.Deferred...),
		Slow: append([]string{}, r.Slow...), Foreign: r.Foreign, AsOf: instant(r.AsOf), Clock: api.PruneReportClock(r.Clock),
		Withheld: r.Withheld,
	}
	if r.Unguarded != "" {
		out.Unguarded = api.PruneReportUnguardedLeaseUnavailable
		s.log.WarnContext(ctx, "lease_unavailable", "index", index, "why", r.Unguarded)
	}
	for i, f := range r.Failed {
		out.Failed[i] = api.KeyFailure{Key: string(f.Key), Error: keyError(f.Err)}
	}
	if len(r.Failed) > 0 {
		s.log.WarnContext(ctx, "some keys could not be deleted", "index", index, "failed", r.Failures, "error", r.Failed[0].Err)
	}
	if r.Withheld != "" && (r.Ruling.Withheld() == "" || r.Ruling.Unsaved != nil) {
		// Its text may be that of an error.
		s.log.WarnContext(ctx, "nothing may be deleted", "index", index, "why", r.Withheld)
		out.Withheld = "the server could not make sure of the rules or the clocks; its log says more"
	}
	return out
}

// byReason is never null.
func byReason(n map[string]int) map[string]int {
	if n == nil {
		return map[string]int{}
	}
	return n
}

// keyError is what the client may know of why a key could not be deleted.
func keyError(err error) string {
	switch {
	case errors.Is(err, bucket.ErrDenied):
		return "denied"
	case errors.Is(err, bucket.ErrThrottled):
		return "throttled"
	case errors.Is(err, bucket.ErrUnknown):
		return "unknown"
	}
	return "failed"
}

// passProblem turns an error of a pass into what the client may know. What a pass has deleted is over in any case.
func passProblem(err error) *problem {
	p := &problem{status: http.StatusServiceUnavailable, cause: err}
	held, isHeld := errors.AsType[*lease.HeldError](err)
	switch {
	case isHeld && !errors.Is(err, context.Canceled):
		return heldProblem(held)
	case errors.Is(err, lease.ErrLost):
		p.code, p.retry = codeLeaseLost, true
		p.detail = "The pass lost its lease on the way, and has ended; what it deleted is over."
		p.action = "Ask again: another pass may be at work by now."
	case errors.Is(err, cas.ErrUnknown):
		p.code, p.detail = codeUnknown, "The store did not say whether it took a write of the pass; what was deleted is over."
		p.action = "It may be repeated as it is. For half a minute it may be answered lease_held."
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		p.code, p.retry = codeUnavailable, true
		p.detail = "The pass was ended before its end; what it deleted is over."
		p.action = "Ask again to go on; Retry-After says when."
	default:
		return otherPassProblem(err)
	}
	return p
}

func otherPassProblem(err error) *problem {
	p := storeProblem(err, reads)
	switch {
	case p.code == codeRules || p.status < http.StatusInternalServerError:
	case errors.Is(err, cas.ErrCorrupt), errors.Is(err, cas.ErrFormat), errors.Is(err, cas.ErrTooLarge):
		p.code, p.retry = codeLeaseCorrupt, false
		p.detail = "What passes note for each other is damaged, or of a format that this server does not know; nothing was deleted."
		p.action = "The server's log names the object."
	case p.code == codeThrottled:
		p.detail = "The store is busy, and the pass has ended; what it deleted is over."
	case p.code == codeUnavailable && !errors.Is(err, bucket.ErrNotExist):
		p.detail = "The store cannot be listed, read or written to now; what the pass deleted is over."
	}
	return p
}

func heldProblem(err *lease.HeldError) *problem {
	s := err.Status
	p := &problem{
		status: http.StatusConflict, code: codeLeaseHeld, held: &s, cause: err,
		action: "Leave it to them, which does the same, or ask again: Retry-After says when their lease opens if it is not renewed.",
	}
	p.detail = fmt.Sprintf("%s is at work on this index since %s; nothing was changed.", capital(s.Class),
		s.Since.UTC().Format(time.RFC3339))
	if s.Class == "" {
		p.detail = "Who was at work on this index last may not know that it is over; nothing was changed."
		p.action = "Ask again; Retry-After says when."
	}
	return p
}

func capital(c lease.Class) string {
	if c == lease.Scheduler {
		return "A scheduler"
	}
	return "An operator"
}

// leaseHeld is the problem with its members of its own.
func (p *problem) leaseHeld() api.LeaseHeld {
	out := api.LeaseHeld{
		Type: api.LeaseHeldTypeAboutBlank, Title: http.StatusText(p.status), Status: p.status, Code: api.LeaseHeldCode(p.code),
		Detail: p.detail, Action: p.action, Class: api.LeaseHeldClass(p.held.Class), Since: instant(p.held.Since),
	}
	if !p.held.Expires.IsZero() {
		out.Expires = instantOrNull(&p.held.Expires)
	}
	return out
}
