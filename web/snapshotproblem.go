package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
)

// snapshotProblem turns an error of package snapshot into what the client may know.
func snapshotProblem(err error) *problem {
	p := &problem{status: http.StatusServiceUnavailable, cause: err}
	trial, onTrial := errors.AsType[*trialError](err)
	swept, isSwept := errors.AsType[*snapshot.SweptError](err)
	switch {
	case onTrial:
		return trialProblem(trial)
	case isSwept:
		p.status, p.code = http.StatusGone, codeSwept
		p.detail = fmt.Sprintf("Generation %d is not kept any more; generation %d is current.", swept.ID.Number, swept.Current.ID.Number)
		p.action = "Begin again, without a cursor."
		p.generation, p.pointer = swept.ID.Number, swept.Current.ID.Number
	case errors.Is(err, snapshot.ErrMissing):
		p.status, p.code = http.StatusInternalServerError, codePartMissing
		p.detail = "A part of the current generation is not in the store: something else deleted it, such as a lifecycle rule."
		p.action = "Publish again; the server's log names the part."
	case errors.Is(err, snapshot.ErrDamaged):
		p.status, p.code = http.StatusInternalServerError, codePartCorrupt
		p.detail, p.action = "A part of the generation is not as it was published.",
			"Publish again, with another grace if it is unchanged; the server's log names the part."
	case errors.Is(err, snapshot.ErrLost):
		p.code, p.detail = codeSnapshotLost, "The pointer of the snapshot is missing, and there are generations; nothing was done."
		p.action = "Restore it from a backup, or delete the generations; the server's log names both."
	case errors.Is(err, cas.ErrFormat):
		p.code, p.detail = codeSnapshotFormat, "The snapshot is of a format that this server does not know; it is left as it is."
		p.action = "Use a version of indexd that knows it; the server's log names it."
	case errors.Is(err, cas.ErrCorrupt), errors.Is(err, cas.ErrTooLarge):
		p.code, p.detail = codeSnapshotCorrupt, "The pointer of the snapshot is damaged, or not of indexd; it is left as it is."
		p.action = "Restore it from a backup; the server's log names it."
	case errors.Is(err, cas.ErrUnsupported), errors.Is(err, cas.ErrNoVersion):
		p = unsupported(err)
		p.detail = "The bucket does not keep the conditions of writes, which snapshots need; nothing was done."
	case errors.Is(err, blobindex.ErrName), errors.Is(err, itemid.ErrInvalid):
		p.status, p.code = http.StatusBadRequest, codeInvalidName
		p.detail = "The namespace, or the name of the snapshot, cannot be used."
		p.action = "Both are 1 to 63 of A-Z a-z 0-9 . _ - and begin with a letter, a digit or _."
	default:
		return storeAway(err)
	}
	return p
}

// refused is snapshotProblem, but tells a snapshot that is absent from an absent bucket.
func (p *picture) refused(ctx context.Context, err error) *problem {
	if !errors.Is(err, cas.ErrNotExist) || errors.Is(err, snapshot.ErrMissing) || errors.Is(err, snapshot.ErrSwept) {
		return snapshotProblem(err)
	}
	enough := errors.New("enough")
	listing := p.gallery.Store.List(ctx, bucket.ListRequest{Prefix: snapshot.Root + p.namespace + "/" + p.name + "/"},
		func(bucket.Page) error { return enough })
	if listing != nil && !errors.Is(listing, enough) {
		return storeAway(listing)
	}
	return &problem{
		status: http.StatusNotFound, code: codeNotFound, cause: err, detail: "There is no such snapshot.",
		action: "Check its namespace and name; publishing with If-None-Match: * makes it.",
	}
}

// notPublished says why a listing was not published, or may have been.
func (p *picture) notPublished(ctx context.Context, err error, l *listing) *problem {
	switch {
	case l.err != nil:
		return asProblem(bodyProblem(l.err))
	case errors.Is(err, snapshot.ErrRow):
		q := badRequest(fmt.Sprintf("Row %d cannot be used, or is not in its place; nothing was published.", l.rows+1),
			"Send path, size, mtime and digest of each file as a line of JSON, in ascending byte order of the paths, each once. "+
				"GET /openapi.yaml describes them.")
		q.cause = err
		return q
	case errors.Is(err, snapshot.ErrEmpty):
		return &problem{
			status: http.StatusUnprocessableEntity, code: codeEmpty, cause: err,
			detail: "There are no rows, and there were some; nothing was published.",
			action: "Check that what was walked is there, such as that it is mounted. If it is empty, send allow_empty=true.",
		}
	case errors.Is(err, cas.ErrUnknown):
		return &problem{
			status: http.StatusServiceUnavailable, code: codeUnknown, cause: err,
			detail: "The store did not say whether the listing is published.",
			action: "GET the snapshot to look. To send it again does no harm.",
		}
	case errors.Is(err, bucket.ErrDenied), errors.Is(err, bucket.ErrThrottled), errors.Is(err, cas.ErrUnsupported):
	case errors.Is(err, snapshot.ErrStage), errors.Is(err, snapshot.ErrWalk):
		return &problem{
			status: http.StatusServiceUnavailable, code: codeUploadFailed, retry: true, cause: err,
			detail: "The listing could not be kept or stored; nothing was published.", action: tryAgain,
		}
	}
	return p.refused(ctx, err)
}

// superseded tells of an attempt that somebody else was faster than.
func superseded(res snapshot.Result) *problem {
	return &problem{
		status: http.StatusConflict, code: codeSuperseded, generation: res.ID.Number, pointer: res.Pointer.ID.Number,
		detail: "Somebody else has published since the walk began; nothing was published.",
		action: "GET the snapshot for its ETag, walk again, and send that listing.",
	}
}
