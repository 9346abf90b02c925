package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/web/api"
	"github.com/labstack/echo/v4"
)

// The stable codes of problems.
const (
	codeBadRequest  = "bad_request"
	codeInvalidID   = "invalid_id"
	codeInvalidKey  = "invalid_key"
	codeInvalidName = "invalid_name"
	codeLabels      = "labels"
	codeOutcome     = "outcome"
	codeHost        = "host"
	codeOrigin      = "origin"
	codeNotFound    = "not_found"
	codeMethod      = "method"
	codeTimeout     = "timeout"
	codeFinished    = "finished"
	codeTooLarge    = "too_large"
	codeMediaType   = "media_type"
	codeClock       = "clock"
	codeIdempotency = "idempotency"
	codeInternal    = "internal"
	codeRules       = "rules"
	codeDenied      = "store_denied"
	codeUnavailable = "store_unavailable"
	codeThrottled   = "throttled"
	codeBusy        = "busy"
	codeUnknown     = "unknown"

	codeUnauthenticated = "unauthenticated"
	codeForbidden       = "forbidden"
	codeRate            = "rate_limited"
	codeIssuer          = "issuer_unavailable"

	codeLeaseHeld    = "lease_held"
	codeLeaseLost    = "lease_lost"
	codeLeaseCorrupt = "lease_corrupt"

	codePrecondition    = "precondition"
	codeChanged         = "changed"
	codeEntryExists     = "entry_exists"
	codeBlobMissing     = "blob_missing"
	codeBlobCorrupt     = "blob_corrupt"
	codeManifestCorrupt = "manifest_corrupt"
	codeManifestFormat  = "manifest_format"
	codeUnsupported     = "unsupported"
	codeUploadFailed    = "upload_failed"

	codeSuperseded      = "superseded"
	codeSwept           = "swept"
	codeEmpty           = "empty"
	codePartMissing     = "part_missing"
	codePartCorrupt     = "part_corrupt"
	codeSnapshotLost    = "snapshot_lost"
	codeSnapshotCorrupt = "snapshot_corrupt"
	codeSnapshotFormat  = "snapshot_format"
)

// A problem is an error as the client sees it. Its cause is for the log.
type problem struct {
	status         int
	code           string
	detail, action string
	retry          bool          // try again soon
	after          time.Duration // try again then; 0: see retry
	challenge      string        // how to authenticate, or empty
	held           *lease.Status // who is in the way, of lease_held
	location       string        // where to look, or empty
	cause          error

	generation, pointer uint64 // of a snapshot: what was asked for, and what is current; 0: there is none
}

// retryAfter is the Retry-After of problems that pass by themselves, in seconds.
const retryAfter = "5"

const tryAgain = "Try again in a few seconds; Retry-After says when."

func (p *problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("web: %s: %v", p.code, p.cause)
	}
	return "web: " + p.code + ": " + p.detail
}

func (p *problem) Unwrap() error { return p.cause }

func badRequest(detail, action string) *problem {
	return &problem{status: http.StatusBadRequest, code: codeBadRequest, detail: detail, action: action}
}

func internal(cause error) *problem {
	return &problem{
		status: http.StatusInternalServerError, code: codeInternal, cause: cause,
		detail: "The server has failed at this request.",
		action: "The server's log says why. Look before you repeat a write.",
	}
}

// notTaken: the client has left, or takes nothing. The problem reaches nobody, and is no failure that belongs into the log.
func notTaken(err error) error {
	p := badRequest("The answer was not taken.", "Ask again.")
	p.cause = err
	return p
}

func tooLarge(limit int64) *problem {
	p := &problem{
		status: http.StatusRequestEntityTooLarge, code: codeTooLarge,
		detail: fmt.Sprintf("The body is longer than %d bytes; nothing was done.", limit),
		action: "Shorten it: labels take 1 KiB at the most.",
	}
	if limit > maxBody {
		p.action = "Send less in one upload, or raise the server's limit."
	}
	return p
}

// refuse is echo's error handler: it logs what must not be told, and sends the problem.
func (s *Server) refuse(err error, c echo.Context) {
	p := asProblem(err)
	if p.status >= http.StatusInternalServerError && p.cause != nil {
		s.log.WarnContext(c.Request().Context(), "request failed", "route", c.Path(), "code", p.code, "error", p.cause)
	}
	if c.Response().Committed {
		return
	}
	p.headers(c.Response().Header())
	switch {
	case c.Path() == "/" && get(c):
		err = s.problemPage(c, p)
	case c.Path() == manifestPage && get(c):
		err = s.manifestProblemPage(c, p)
	case c.Path() == snapshotPage && get(c):
		err = s.snapshotProblemPage(c, p)
	default:
		err = p.send(c)
	}
	if err != nil {
		s.log.DebugContext(c.Request().Context(), "answering failed", "route", c.Path(), "error", err)
	}
}

func (p *problem) headers(h http.Header) {
	h.Set("Cache-Control", "no-store")
	switch {
	case p.held != nil:
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(p.held.Within.Seconds())))))
	case p.after > 0:
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.after.Seconds()))))
	case p.retry:
		h.Set("Retry-After", retryAfter)
	}
	if p.location != "" {
		h.Set("Location", p.location)
	}
	if p.challenge != "" {
		h.Set("WWW-Authenticate", p.challenge)
	}
}

func (p *problem) send(c echo.Context) error {
	var v any = api.Problem{
		Type: api.ProblemTypeAboutBlank, Title: http.StatusText(p.status), Status: p.status, Code: p.code, Detail: p.detail,
		Action: p.action, Generation: orNone(p.generation), Pointer: orNone(p.pointer),
	}
	if p.held != nil {
		v = p.leaseHeld()
	}
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Blob(p.status, "application/problem+json", append(body, '\n'))
}

// orNone is the number of a generation, which is not 0.
func orNone(n uint64) *int64 {
	if n == 0 {
		return nil
	}
	number := int64(n)
	return &number
}

// asProblem finds the problem in an error of any layer. echo's own errors are of the router and the generated binding;
// they may be wrapped, and their texts repeat the request, so only their status is taken.
func asProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if errors.Is(err, http.ErrNotMultipart) || errors.Is(err, http.ErrMissingBoundary) {
		return &problem{
			status: http.StatusUnsupportedMediaType, code: codeMediaType,
			detail: "The body is not declared as a form with files.",
			action: "Send it as multipart/form-data, with its boundary.",
		}
	}
	he, ok := errors.AsType[*echo.HTTPError](err)
	if !ok {
		return internal(err)
	}
	switch he.Code {
	case http.StatusNotFound:
		return &problem{
			status: he.Code, code: codeNotFound,
			detail: "There is nothing at this path.", action: "GET /openapi.yaml describes what there is.",
		}
	case http.StatusMethodNotAllowed:
		return &problem{
			status: he.Code, code: codeMethod,
			detail: "This path does not answer this method.", action: "The Allow header names those that it does.",
		}
	case http.StatusBadRequest:
		return badRequest("A parameter is not of the form that this operation takes.",
			"GET /openapi.yaml describes it.")
	}
	return internal(err)
}

// An effect is what may have happened when a call returned an error.
type effect int

const (
	reads  effect = iota // it writes nothing
	writes               // it writes, and may be repeated at will
	mints                // it writes under a new id each time
	ends                 // it finishes an item
)

// storeProblem turns an error of package blobindex into what the client may know. What may have been written comes first:
// an error that says so often says as well what the store ran into.
func storeProblem(err error, did effect) *problem {
	if did != reads && errors.Is(err, bucket.ErrUnknown) {
		return unknownProblem(err, did)
	}
	if p := requestProblem(err); p != nil {
		return p
	}
	p := &problem{status: http.StatusServiceUnavailable, cause: err}
	rules, unread := errors.AsType[*blobindex.RulesError](err)
	switch {
	case errors.Is(err, live.ErrClosed):
		p.code, p.retry, p.detail, p.action = codeBusy, true, "The server is stopping.", tryAgain
	case errors.Is(err, live.ErrTooMany):
		p.code, p.retry, p.action = codeBusy, true, tryAgain
		p.detail = "As many views and streams are open as this server keeps at once."
	case unread && rules.Corrupt():
		p.code, p.detail = codeRules, "The saved rules of the index are damaged, or of a format that this server does not know."
		p.action = "The server's log names the object that holds them, and says what to do."
	case errors.Is(err, bucket.ErrDenied):
		p.code, p.detail = codeDenied, "The store refuses this server."
		p.action = "Give the server's account the right to list, read, write and delete in the bucket."
	case errors.Is(err, bucket.ErrThrottled):
		p.code, p.retry = codeThrottled, true
		p.detail, p.action = "The store is busy, and nothing was done.", tryAgain
	case did != reads && errors.Is(err, bucket.ErrInvalidKey):
		// An id that this store cannot spell, or a store that is damaged: a file or a link where a directory should be.
		p.status, p.code = http.StatusBadRequest, codeInvalidKey
		p.detail = "The store cannot hold the item's key; nothing was written."
		p.action = "If the id is a usual one, look at the store: something is in the way. Else choose a usual one."
	case did == reads || errors.Is(err, bucket.ErrNotExist):
		p.code, p.retry = codeUnavailable, true
		p.detail, p.action = "The store cannot be listed now.", tryAgain
		if errors.Is(err, bucket.ErrNotExist) {
			p.detail, p.action = "The bucket is not there.", "Check the server's bucket, and that it is mounted."
		}
	default:
		return unknownProblem(err, did)
	}
	return p
}

func unknownProblem(err error, did effect) *problem {
	p := &problem{
		status: http.StatusServiceUnavailable, code: codeUnknown, cause: err,
		detail: "The store did not say whether it took the write.",
		action: "Look before you repeat it. This operation may be repeated as it is.",
	}
	switch did {
	case mints:
		p.action = "Look before you repeat it: that would make another item. With an Idempotency-Key it does not."
	case ends:
		p.action = "Look before you repeat it. Finishing may be repeated with the same outcome, within the TTL."
	}
	return p
}

// requestProblem is about what the client sent; nil if err is about something else.
func requestProblem(err error) *problem {
	if clock, ok := errors.AsType[*blobindex.ClockError](err); ok {
		return clockProblem(clock)
	}
	p := &problem{status: http.StatusBadRequest, cause: err}
	switch {
	case errors.Is(err, itemid.ErrInvalid):
		p.code, p.detail = codeInvalidID, "The id, or the sub-key, cannot be used."
		if e, ok := errors.AsType[*itemid.Error](err); ok {
			p.detail = "The id, or the sub-key, cannot be used: " + e.Reason + "."
		}
		p.action = "GET /v1/indexes tells the grammar of the index. Send the id percent-encoded, as one segment."
	case errors.Is(err, blobindex.ErrName):
		p.code, p.detail = codeInvalidName, "The name of the index or the namespace cannot be used."
		p.action = "A name is 1 to 63 of A-Z a-z 0-9 . _ - and begins with a letter, a digit or _; a flat index has " +
			"the one namespace _, which no other index has."
	case errors.Is(err, blobindex.ErrLabelsTooLarge):
		p.status, p.code = http.StatusRequestEntityTooLarge, codeTooLarge
		p.detail, p.action = "The labels take more than 1 KiB as JSON; nothing was done.", "Shorten them."
	case errors.Is(err, blobindex.ErrLabels):
		p.code, p.detail = codeLabels, "The labels cannot be stored."
		p.action = "Give each label a name, and use no control characters."
	case errors.Is(err, blobindex.ErrFinished):
		p.status, p.code = http.StatusConflict, codeFinished
		p.detail, p.action = "The item is finished; nothing was written.", "Send no heartbeat after finishing."
	case errors.Is(err, blobindex.ErrRequest):
		p.code, p.detail = codeBadRequest, "The request makes no sense."
		p.action = "GET /openapi.yaml describes the operation."
	default:
		return nil
	}
	return p
}

func clockProblem(e *blobindex.ClockError) *problem {
	p := &problem{
		status: http.StatusUnprocessableEntity, code: codeClock, cause: e,
		action: "Set the clock of the host that made the id, or make an id of now.",
	}
	gap, side := e.Name.Sub(e.Store), "ahead of"
	if gap < 0 {
		gap, side = -gap, "behind"
	}
	p.detail = fmt.Sprintf("The id is dated %v %s the store's clock, and %v is allowed; ", gap.Round(time.Second), side,
		e.Limit)
	if e.Written {
		p.detail += "it was written, but is not shown."
	} else {
		p.detail += "nothing was written."
	}
	return p
}

// readyProblem says in safe words why the bucket cannot be listed.
func readyProblem(err error) *problem {
	p := storeProblem(err, reads)
	if p.status < http.StatusInternalServerError || errors.Is(err, context.DeadlineExceeded) {
		return &problem{
			status: http.StatusServiceUnavailable, code: codeUnavailable, retry: true, cause: err,
			detail: "The store did not list the bucket in time.", action: tryAgain,
		}
	}
	return p
}
