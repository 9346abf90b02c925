package gcsbucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"cloud.google.com/go/auth"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// errNoBucket: it is not the object that is missing.
var errNoBucket = fmt.Errorf("no such bucket: %w", bucket.ErrNotExist)

// translate gives an error of the client or the store the contract's meaning. maybeDone says that a write may have been
// applied by any of its attempts: that is then all that can be said.
func (c call) translate(err error, maybeDone bool) error {
	said := plain(err)
	switch code := codeOf(err); {
	case maybeDone:
		return fmt.Errorf("%w: %w", bucket.ErrUnknown, said)
	case isBody(err), isFinal(err):
		return err
	case isTranslated(err) || isEnd(err):
		return said
	case errors.Is(err, errHole):
		return fmt.Errorf("%w: %w", bucket.ErrIncomplete, err)
	case isBusy(err):
		return fmt.Errorf("%w: %w", bucket.ErrThrottled, said)
	case code == http.StatusUnauthorized:
		return fmt.Errorf("the credentials are not accepted, or have expired: %w: %w", bucket.ErrDenied, said)
	case code == http.StatusForbidden, noToken(err):
		return fmt.Errorf("%w: %w", bucket.ErrDenied, said)
	case code == http.StatusNotFound && (c.onBucket || ofBucket(err)):
		return fmt.Errorf("%w: %w", errNoBucket, said)
	case code == http.StatusNotFound:
		return fmt.Errorf("no such object: %w: %w", bucket.ErrNotExist, said)
	case code == http.StatusPreconditionFailed:
		return fmt.Errorf("412 to a request that has no condition: this server or a proxy before it does not interoperate: %w: %w",
			bucket.ErrUnsupported, said)
	case code == http.StatusNotImplemented, code == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w", bucket.ErrUnsupported, said)
	default:
		return said
	}
}

// plain is the error in our words, where its own text is what a server answered: that may repeat what it was sent. What
// the context, the connection or the contract has to do with it stays in it.
func plain(err error) error {
	var api *googleapi.Error
	var refused *auth.Error
	var retrieved *oauth2.RetrieveError
	switch {
	case errors.As(err, &api):
		text := fmt.Sprintf("Cloud Storage answered %d", api.Code)
		if len(api.Errors) > 0 {
			text += " " + safeText(api.Errors[0].Reason)
		}
		if message := safeText(api.Message); message != "" {
			text += " (" + message + ")"
		}
		return keep(err, text)
	case errors.As(err, &refused):
		return keep(err, "asking for an access token: "+statusText(refused.Response))
	case errors.As(err, &retrieved):
		return keep(err, "asking for an access token: "+statusText(retrieved.Response))
	}
	return err
}

// keep gives an error another text, and keeps of it what the contract has words for.
func keep(err error, text string) error {
	for _, s := range append([]error{context.Canceled, context.DeadlineExceeded}, sentinels...) {
		if errors.Is(err, s) {
			return fmt.Errorf("%w: %s", s, text)
		}
	}
	return errors.New(text)
}

func statusText(resp *http.Response) string {
	if resp == nil {
		return "no answer"
	}
	return fmt.Sprintf("answered %d", resp.StatusCode)
}

// longWord is longer than any word that an error needs, and shorter than an access token.
var longWord = regexp.MustCompile(`[A-Za-z0-9+/=_.-]{32,}`)

// credential is in messages that repeat what was sent.
var credential = regexp.MustCompile(`(?i)Authorization|Bearer |access_token`)

// safeText is what may be repeated of a server's message.
func safeText(message string) string { return remote.Redact(message, credential, longWord) }

func isBody(err error) bool {
	var body *bucket.BodyError
	return errors.As(err, &body)
}

// sentinels are the contract's.
var sentinels = []error{bucket.ErrDenied, bucket.ErrNotExist, bucket.ErrInvalidKey, bucket.ErrUnknown, bucket.ErrThrottled,
	bucket.ErrIncomplete, bucket.ErrUnsupported}

func isTranslated(err error) bool {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}

func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// codeOf is the status that the store answered, 0 if it is none's answer.
func codeOf(err error) int {
	var api *googleapi.Error
	if errors.As(err, &api) {
		return api.Code
	}
	return 0
}

// isBusy: the store asks for fewer requests. 403 does so by its reason
// (https://cloud.google.com/storage/docs/json_api/v1/status-codes).
func isBusy(err error) bool {
	switch codeOf(err) {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case http.StatusForbidden:
		var api *googleapi.Error
		errors.As(err, &api)
		for _, e := range api.Errors {
			if e.Reason == "rateLimitExceeded" || e.Reason == "userRateLimitExceeded" {
				return true
			}
		}
	}
	return false
}

// worthRepeating: the same request may fare better. Of what carries no status, that is whatever went wrong once the
// request was handed to the transport, but for a server that is not to be trusted.
func worthRepeating(err error, x *exchange) bool {
	if isBody(err) || isFinal(err) || isTranslated(err) || x.refused {
		return false
	}
	if code := codeOf(err); code != 0 {
		return code >= 500 && code != http.StatusNotImplemented || code == http.StatusRequestTimeout ||
			code == http.StatusConflict || isBusy(err)
	}
	return x.sent > 0 && !untrusted(err)
}

// noToken: whoever gives out access tokens refused this caller one. Its being unreachable is no refusal.
func noToken(err error) bool {
	var resp *http.Response
	var refused *auth.Error
	var retrieved *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused):
		resp = refused.Response
	case errors.As(err, &retrieved):
		resp = retrieved.Response
	}
	if resp == nil {
		return false
	}
	code := resp.StatusCode
	return code == http.StatusBadRequest || code == http.StatusUnauthorized || code == http.StatusForbidden
}

// ofBucket tells the two kinds of 404 apart: they differ in their text only, which quotes the object's name in one.
func ofBucket(err error) bool {
	var api *googleapi.Error
	if !errors.As(err, &api) {
		return false
	}
	text := strings.ToLower(api.Message + " " + api.Body)
	return !strings.Contains(text, "no such object") &&
		(strings.Contains(text, "bucket does not exist") || strings.Contains(text, "no such bucket"))
}
