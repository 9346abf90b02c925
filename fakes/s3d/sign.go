package s3d

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// skew is how far the time of a signature may be from the server's clock.
const skew = 15 * time.Minute

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=[^/]+/([0-9]{8}/[^/]+/s3/aws4_request), ?` +
	`SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$`)

// verify holds the request to its signature, of version 4 in the Authorization header
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
func (c *call) verify() *failure {
	h := c.r.Header
	m := authorization.FindStringSubmatch(h.Get("Authorization"))
	if m == nil {
		return &failure{http.StatusForbidden, "AccessDenied", "Access Denied", nil}
	}
	scope, names, given := m[1], m[2], m[3]
	at, err := time.Parse("20060102T150405Z", h.Get("X-Amz-Date"))
	if err != nil || at.Format("20060102") != scope[:8] {
		return &failure{http.StatusForbidden, "AccessDenied", "no date, or another one than in the scope", nil}
	}
	if at.Sub(c.now).Abs() > skew {
		return &failure{http.StatusForbidden, "RequestTimeTooSkewed",
			"The difference between the request time and the current time is too large.", nil}
	}
	sum := sha256.Sum256([]byte(c.canonical(names)))
	text := "AWS4-HMAC-SHA256\n" + h.Get("X-Amz-Date") + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
	key := []byte("AWS4" + c.s.opts.Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	if want := hex.EncodeToString(mac(key, text)); given != want {
		// AWS repeats in its answer what it was given, the signature included.
		return &failure{http.StatusForbidden, "SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided: " + given, nil}
	}
	return nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonical is the request in the form in which it is signed.
func (c *call) canonical(names string) string {
	path, _, _ := strings.Cut(c.r.RequestURI, "?")
	var query []string
	for name, values := range c.r.URL.Query() {
		for _, value := range values {
			query = append(query, escaped(name)+"="+escaped(value))
		}
	}
	slices.Sort(query)
	var headers strings.Builder
	for name := range strings.SplitSeq(names, ";") {
		value := strings.Join(c.r.Header.Values(name), ",")
		if name == "host" {
			value = c.r.Host
		}
		headers.WriteString(name + ":" + strings.Join(strings.Fields(value), " ") + "\n")
	}
	return strings.Join([]string{
		c.r.Method, path, strings.Join(query, "&"), headers.String(), names, c.r.Header.Get("X-Amz-Content-Sha256"),
	}, "\n")
}

// escaped is RFC 3986's encoding of everything but its unreserved characters.
func escaped(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// checkPayload holds the body to the hash of it that was signed, if one was.
func (c *call) checkPayload(data []byte) *failure {
	given := c.r.Header.Get("X-Amz-Content-Sha256")
	if c.s.opts.Secret == "" || given == "UNSIGNED-PAYLOAD" || strings.HasPrefix(given, "STREAMING-") {
		return nil
	}
	if sum := sha256.Sum256(data); given != hex.EncodeToString(sum[:]) {
		return &failure{http.StatusBadRequest, "XAmzContentSHA256Mismatch",
			"The provided 'x-amz-content-sha256' header does not match what was computed.", nil}
	}
	return nil
}
