package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
)

// An act is what was done to a manifest when a call returned an error.
type act int

const (
	looks act = iota
	adds
	creates // adds to a manifest that must not be there
	removes
)

// manifestProblem turns an error of package manifest into what the client may know. That package tells a change that may
// have been made as unknown, and after any other error nothing was changed.
func manifestProblem(err error, did act) *problem {
	p := &problem{status: http.StatusServiceUnavailable, cause: err}
	trial, onTrial := errors.AsType[*trialError](err)
	switch {
	case onTrial:
		return trialProblem(trial)
	case did != looks && errors.Is(err, cas.ErrUnknown):
		p.code, p.detail = codeUnknown, "The store did not say whether the manifest was changed."
		p.action = "Look before you repeat it: GET …/entries tells what there is."
	case errors.Is(err, manifest.ErrUpload):
		return uploadProblem(err)
	case errors.Is(err, manifest.ErrState) && did == creates:
		return changed("The manifest is there already; nothing was added.", err)
	case errors.Is(err, manifest.ErrState):
		return changed("The manifest is not in the state that If-Match names; nothing was changed.", err)
	case errors.Is(err, manifest.ErrNoEntry):
		p.status, p.code, p.detail = http.StatusNotFound, codeNotFound, "The manifest has no such entry."
		p.action = "GET …/entries tells which there are."
	case errors.Is(err, manifest.ErrID):
		p.status, p.code = http.StatusConflict, codeEntryExists
		p.detail = "An entry of that id is there already; nothing was added."
		p.action = "Choose another id, or remove that entry first. If this repeats an upload, it has succeeded before."
	case errors.Is(err, manifest.ErrMissing):
		p.status, p.code = http.StatusInternalServerError, codeBlobMissing
		p.detail = "The list has this file, and the store has not: something else deleted it, such as a lifecycle rule."
		p.action = "Add the entry anew, or remove it; \"indexd manifest fsck\" tells which files are missing."
	case errors.Is(err, cas.ErrTooLarge) && did != looks:
		p.status, p.code = http.StatusRequestEntityTooLarge, codeTooLarge
		p.detail = "The list would be larger than 16 MiB; nothing was changed."
		p.action = "Remove entries, or use another manifest."
	case errors.Is(err, cas.ErrFormat):
		p.code, p.detail = codeManifestFormat, "The manifest is of a format that this server does not know; it is left as it is."
		p.action = "Use a version of indexd that knows it; the server's log names it."
	case errors.Is(err, cas.ErrCorrupt), errors.Is(err, cas.ErrTooLarge):
		return corruptManifest(err)
	case errors.Is(err, cas.ErrUnsupported), errors.Is(err, cas.ErrNoVersion):
		return unsupported(err)
	case errors.Is(err, cas.ErrConflict):
		p.code, p.retry, p.detail = codeThrottled, true, "Others kept changing the manifest; nothing was changed."
		p.action = tryAgain
	case errors.Is(err, blobindex.ErrName):
		p.status, p.code = http.StatusBadRequest, codeInvalidName
		p.detail = "The namespace, or the name of the manifest, cannot be used."
		p.action = "Both are 1 to 63 of A-Z a-z 0-9 . _ - and begin with a letter, a digit or _."
	default:
		return storeAway(err)
	}
	return p
}

// storeAway is storeProblem for a store that is not asked for a listing. Nothing was changed.
func storeAway(err error) *problem {
	p := storeProblem(err, reads)
	if p.code == codeUnavailable && p.retry && !errors.Is(err, bucket.ErrNotExist) {
		p.detail = "The store cannot be read, or written to, now; nothing was changed."
	}
	return p
}

func changed(detail string, cause error) *problem {
	return &problem{
		status: http.StatusPreconditionFailed, code: codeChanged, detail: detail, cause: cause,
		action: "GET …/entries tells the state that there is, and its ETag.",
	}
}

func corruptManifest(cause error) *problem {
	return &problem{
		status: http.StatusServiceUnavailable, code: codeManifestCorrupt, cause: cause,
		detail: "The list of the manifest is damaged, or not of indexd; it is left as it is.",
		action: "Restore it from a backup; the server's log names it.",
	}
}

func unsupported(cause error) *problem {
	return &problem{
		status: http.StatusNotImplemented, code: codeUnsupported, cause: cause,
		detail: "The bucket does not keep the conditions of writes, which manifests need; nothing was done.",
		action: "\"indexd doctor\" tells what it does with them, and how that can be mended.",
	}
}

// trialProblem: nothing was asked of the manifest, nor read of an upload.
func trialProblem(err *trialError) *problem {
	switch {
	case errors.Is(err, bucket.ErrDenied):
		return storeProblem(err, reads)
	case errors.Is(err, cas.ErrUnsupported):
		return unsupported(err)
	}
	return &problem{
		status: http.StatusServiceUnavailable, code: codeUnavailable, retry: true, cause: err,
		detail: "It is not known yet whether the bucket keeps the conditions of writes; nothing was done.", action: tryAgain,
	}
}

// uploadProblem is about a file that could not be stored, for no fault of the client's.
func uploadProblem(err error) *problem {
	p := &problem{status: http.StatusServiceUnavailable, code: codeUploadFailed, retry: true, cause: err, action: tryAgain}
	switch {
	case errors.Is(err, errStreamed):
		p.detail = "A file was gone again before the list was saved, and cannot be had a second time; nothing was added."
		p.action = "Send all of it again."
	case errors.Is(err, cas.ErrUnsupported):
		p.status, p.code, p.retry = http.StatusRequestEntityTooLarge, codeTooLarge, false
		p.detail, p.action = "The store takes no file of that size; nothing was added.", "Send it in parts."
	case errors.Is(err, bucket.ErrDenied), errors.Is(err, bucket.ErrThrottled):
		return storeProblem(err, reads)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		p.detail = "The upload took too long, or was given up; nothing was added."
	default:
		p.detail = "A file could not be stored; nothing was added."
	}
	return p
}

func entryIDProblem(cause error) *problem {
	return &problem{
		status: http.StatusBadRequest, code: codeInvalidID, cause: cause,
		detail: "The id of the entry cannot be used.",
		action: "It is 1 to 200 bytes of UTF-8 without control characters and slashes, and no dot first. Send it " +
			"percent-encoded, as one segment.",
	}
}
