package s3bucket

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// errMalformed: the store answered that all is well, and then something that cannot be read.
var errMalformed = errors.New("s3bucket: malformed answer")

// A failure is what an attempt came to.
type failure struct {
	err       error // in the contract's words
	again     bool  // a repetition may cure it
	ambiguous bool  // a write may have been carried out
	throttled bool
	expired   bool   // new credentials may cure it
	code      string // S3's, "" if it was none that answered
	status    int    // HTTP's, 0 if nobody answered
}

// translate gives an error of the SDK the contract's meaning. It is the only place that does.
func (b *Bucket) translate(err error, why purpose) failure {
	var answer *awshttp.ResponseError
	var sent *smithyhttp.RequestSendError
	var body *bucket.BodyError
	switch {
	case errors.As(err, &body):
		return failure{err: body} // a store keeps nothing of a body that is shorter than announced
	case errors.Is(err, errSomeKeys):
		return failure{err: err, again: true}
	case errors.Is(err, errMalformed):
		return b.lost(err, why, true)
	case errors.As(err, &answer) && answer.Response != nil && answer.HTTPStatusCode() != 0: // 0: nobody answered
		return b.answered(err, answer.Response, why)
	case errors.As(err, &sent):
		return b.unanswered(sent.Err, why)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return b.lost(err, why, false)
	}
	return failure{err: err} // before anything was sent: credentials, signing
}

// lost is for writes of which nobody knows whether they were carried out; a read is just repeated.
func (b *Bucket) lost(err error, why purpose, again bool) failure {
	if why == reading {
		return failure{err: err, again: again}
	}
	return failure{err: fmt.Errorf("%w: %w", bucket.ErrUnknown, err), again: again, ambiguous: true}
}

// unanswered is for connections that failed.
func (b *Bucket) unanswered(err error, why purpose) failure {
	var authority x509.UnknownAuthorityError
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &authority):
		return failure{err: fmt.Errorf("the endpoint's certificate is signed by an authority that is not trusted here: %w", err)}
	case errors.As(err, &certificate):
		return failure{err: fmt.Errorf("the endpoint's certificate is not valid: %w", err)}
	case errors.As(err, &plain):
		return failure{err: fmt.Errorf("the endpoint does not speak https: %w", err)}
	case errors.As(err, &dns):
		return failure{err: fmt.Errorf("the endpoint's name has no address: %w", err), again: !dns.IsNotFound}
	case errors.As(err, &op) && op.Op == "dial":
		return failure{err: err, again: true} // no connection, so nothing was sent
	}
	return b.lost(err, why, true)
}

// meanings of S3's error codes, whatever HTTP status they come with.
var meanings = map[string]error{
	"NoSuchKey": bucket.ErrNotExist, "NoSuchBucket": bucket.ErrNotExist, "NotFound": bucket.ErrNotExist,
	"AccessDenied": bucket.ErrDenied, "Forbidden": bucket.ErrDenied, "InvalidAccessKeyId": bucket.ErrDenied,
	"SignatureDoesNotMatch": bucket.ErrDenied, "ExpiredToken": bucket.ErrDenied, "InvalidToken": bucket.ErrDenied,
	"TokenRefreshRequired": bucket.ErrDenied, "RequestExpired": bucket.ErrDenied, "RequestTimeTooSkewed": bucket.ErrDenied,
	"AllAccessDisabled": bucket.ErrDenied, "AccountProblem": bucket.ErrDenied, "InvalidObjectState": bucket.ErrDenied,
	"SlowDown": bucket.ErrThrottled, "ServiceUnavailable": bucket.ErrThrottled, "Throttling": bucket.ErrThrottled,
	"ThrottlingException": bucket.ErrThrottled, "TooManyRequests": bucket.ErrThrottled,
	"TooManyRequestsException": bucket.ErrThrottled, "RequestLimitExceeded": bucket.ErrThrottled,
	"BandwidthLimitExceeded": bucket.ErrThrottled, "SlowDownRead": bucket.ErrThrottled, "SlowDownWrite": bucket.ErrThrottled,
	"KeyTooLongError": bucket.ErrInvalidKey, "InvalidObjectName": bucket.ErrInvalidKey, "InvalidURI": bucket.ErrInvalidKey,
	"XMinioInvalidObjectName": bucket.ErrInvalidKey,
	// versitygw, whose keys are paths:
	"ObjectParentIsFile": bucket.ErrInvalidKey, "ExistingObjectIsDirectory": bucket.ErrInvalidKey,
	"DirectoryObjectContainsData": bucket.ErrInvalidKey,
	"NotImplemented":              bucket.ErrUnsupported, "MethodNotAllowed": bucket.ErrUnsupported,
	"PreconditionFailed": bucket.ErrUnsupported,
}

// repeatable codes were refused for reasons that pass.
var repeatable = map[string]bool{
	"OperationAborted": true, "ConditionalRequestConflict": true, "RequestTimeout": true, "RequestTimeTooSkewed": true,
	"BadDigest": true, "IncompleteBody": true,
}

// answered is for answers that are not what was hoped for.
func (b *Bucket) answered(err error, answer *smithyhttp.Response, why purpose) failure {
	f := failure{status: answer.StatusCode}
	message := ""
	if api := smithy.APIError(nil); errors.As(err, &api) {
		f.code, message = api.ErrorCode(), api.ErrorMessage()
	}
	if name := http.StatusText(f.status); message == name && f.code == strings.ReplaceAll(name, " ", "") {
		f.code, message = "", "" // there was no body; the SDK has made them up
	}
	if f.status >= 200 && f.status < 300 {
		lost := b.lost(fmt.Errorf("%w: %w", errMalformed, err), why, true)
		lost.status = f.status
		return lost
	}
	meaning := meanings[f.code]
	if meaning == nil {
		meaning = statusMeaning(f.status, why)
	}
	f.throttled = meaning == bucket.ErrThrottled
	f.expired = f.code == "ExpiredToken" || f.code == "TokenRefreshRequired" || mute(f, answer)
	f.ambiguous = meaning == bucket.ErrUnknown
	f.again = f.throttled || repeatable[f.code] || f.status >= 500 && meaning != bucket.ErrUnsupported
	f.err = b.describe(f, meaning, answer, message)
	return f
}

// mute: to a HEAD a store cannot say what is wrong, and that the token has expired is 400.
func mute(f failure, answer *smithyhttp.Response) bool {
	return f.status == http.StatusBadRequest && f.code == "" && answer.Request != nil && answer.Request.Method == http.MethodHead
}

// statusMeaning is for answers without a code that says more: to a HEAD, or from a proxy. A bare 503 to a write is a
// proxy's, that may have passed the write on.
func statusMeaning(status int, why purpose) error {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return bucket.ErrDenied
	case status == http.StatusNotFound:
		return bucket.ErrNotExist
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable && why == reading:
		return bucket.ErrThrottled
	case status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented ||
		status == http.StatusPreconditionFailed:
		return bucket.ErrUnsupported
	case status >= 500 && why == writing:
		return bucket.ErrUnknown
	}
	return nil
}

// describe says in one line what the store answered. The SDK's error is not wrapped: its text is the store's, which
// may repeat what it was sent.
func (b *Bucket) describe(f failure, meaning error, answer *smithyhttp.Response, message string) error {
	text := strings.TrimSpace(fmt.Sprintf("S3 answered %d %s", f.status, f.code))
	region := answer.Header.Get("X-Amz-Bucket-Region")
	switch {
	case f.code == "NoSuchBucket":
		text = fmt.Sprintf("the bucket %q does not exist", b.name)
	case f.status == http.StatusNotFound && answer.Request != nil && answer.Request.Method == http.MethodHead:
		text = fmt.Sprintf("no such object in the bucket %q, or no such bucket", b.name)
	case f.status == http.StatusNotFound:
		text = "no such object"
	case region != "" && region != b.region && meaning != bucket.ErrDenied:
		text = fmt.Sprintf("the bucket %q is in the region %q, not in %q", b.name, region, b.region)
	case f.code == "AuthorizationHeaderMalformed" || f.code == "PermanentRedirect" || f.code == "TemporaryRedirect" ||
		f.status == http.StatusMovedPermanently || f.code == "IllegalLocationConstraintException":
		text = fmt.Sprintf("the bucket %q is not in the region %q: S3 answered %d %s", b.name, b.region, f.status, f.code)
	case f.status >= 300 && f.status < 400:
		text = fmt.Sprintf("S3 answered %d, a redirect, which is not followed", f.status)
	case f.status == http.StatusPreconditionFailed:
		text = "S3 answered 412 to a request that has no condition: this store or a proxy before it does not interoperate"
	case f.expired && f.code == "":
		text = "S3 answered 400, and to a HEAD cannot say why: the credentials may have expired"
	case f.expired:
		text = "the credentials have expired"
	}
	if message = safeText(message); message != "" {
		text += " (" + message + ")"
	}
	if meaning == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%s: %w", text, meaning)
}

// longWord is longer than any word that an error needs, and shorter than a session token or a signature.
var longWord = regexp.MustCompile(`[A-Za-z0-9+/=_-]{32,}`)

// signedHeader is in messages that repeat what was sent.
var signedHeader = regexp.MustCompile(`(?i)AWS4-HMAC|Authorization|X-Amz-Security-Token|Signature=|X-Amz-Credential`)

// safeText is what may be repeated of a store's message.
func safeText(message string) string { return remote.Redact(message, signedHeader, longWord) }
