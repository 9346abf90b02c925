package gcsbucket

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"cloud.google.com/go/storage"

	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// connections are kept open when idle, so that parallel deletes do not dial anew for each key.
const connections = 2 * deleters

// transportOf returns the transport of the client that was given, or a new one if none was.
func transportOf(given *http.Client) http.RoundTripper {
	switch {
	case given == nil:
		t := http.DefaultTransport.(*http.Transport).Clone()
		remote.Tune(t, connections)
		t.DisableCompression = true // bodies are read as they are stored
		return t
	case given.Transport == nil:
		return http.DefaultTransport
	}
	return given.Transport
}

// An exchange is what one attempt did on the wire. It belongs to the goroutine of the call; the client's own goroutines
// have finished with it when the attempt returns.
type exchange struct {
	bucket *storage.BucketHandle // by which it is sent
	limit  int                   // requests that it may send

	sent      int
	refused   bool      // a request beyond the limit was stopped
	maybeDone bool      // a request may have been carried out although no clear answer says so
	status    int       // of the last answer
	date      time.Time // the last answer's Date; zero if it has none
}

type exchangeKey struct{}

// Why a request beyond the limit of its exchange was stopped. A redirect is one: what it leads to is another object.
var (
	errBeyond   = errors.New("gcsbucket: no further request within this attempt")
	errRedirect = errors.New("gcsbucket: the server redirects, which is not followed")
)

// A recorder is the transport that keeps each exchange. Requests without one pass unseen.
type recorder struct{ base http.RoundTripper }

// RoundTrip sends the request if its exchange still allows one.
func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return r.base.RoundTrip(req)
	}
	if redirected := 300 <= x.status && x.status < 400; redirected || x.sent >= x.limit {
		x.refused = true
		if req.Body != nil {
			req.Body.Close()
		}
		if redirected {
			return nil, errRedirect
		}
		return nil, errBeyond
	}
	x.sent++
	if req.Header.Get("Accept-Encoding") == "" {
		// Bodies as they are stored, and metadata as they are read: without a word on it any encoding is as good to a proxy.
		req = req.Clone(req.Context())
		req.Header.Set("Accept-Encoding", "identity")
	}
	if req.Body != nil && req.Body != http.NoBody {
		req = req.Clone(req.Context())
		req.Body = guarded{req.Body, req.Context()}
	}
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		x.maybeDone = x.maybeDone || !neverLeft(err)
		return nil, err
	}
	x.status = resp.StatusCode
	// 408 and 5xx may come from something between us and a store that has carried the request out. Of a success the
	// body may still be cut: who reads it decides.
	switch code := resp.StatusCode; {
	case code < 300, code == http.StatusRequestTimeout, code >= 500 && code != http.StatusNotImplemented:
		x.maybeDone = true
	}
	x.date = time.Time{}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		x.date = t
	}
	return resp, nil
}

// A guarded body sends nothing more once its context is over. The client ends a multipart body that breaks off with its
// closing boundary before it tells of the error, and a server that goes by boundaries then stores half a body as a whole.
type guarded struct {
	io.ReadCloser
	ctx context.Context
}

func (g guarded) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	if end := g.ctx.Err(); end != nil {
		return 0, end
	}
	return n, err
}

// neverLeft: no connection was made, so that nothing can have been carried out.
func neverLeft(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || untrusted(err)
}

// untrusted: the server's certificate is not to be trusted. Nothing was sent, and a repetition would not help.
func untrusted(err error) bool {
	var cert *tls.CertificateVerificationError
	return errors.As(err, &cert)
}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}
