package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// Limits of what streams. The times of the http.Server are for whole requests; a body that streams has ReadTimeout for each
// paceBytes that arrive, and WriteTimeout for each write, however long all of it takes.
const (
	paceBytes  = 16 << 10
	settleTime = 15 * time.Minute // for what is left to do when an upload has arrived: a store may get it only then
)

// streamedIn is the middleware of uploads.
func (s *Server) streamedIn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, rc := c.Request(), http.NewResponseController(c.Response())
		server := serverOf(r)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		var settle *time.Timer
		body := &pacedBody{
			ReadCloser: r.Body, pace: server.ReadTimeout, now: time.Now, deadline: rc.SetReadDeadline,
			ended: func() { settle = time.AfterFunc(settleTime, cancel) },
		}
		defer func() {
			if settle != nil {
				settle.Stop()
			}
		}()
		r = r.WithContext(ctx)
		r.Body = body
		if c.Path() != rowsRoute { // whose lines need no end: the body is cut, or it is not
			r.Body = newFormBody(r)
		}
		c.SetRequest(r)
		// Where the connection knows no deadlines it has none that could be in the way.
		_ = rc.SetWriteDeadline(time.Time{})
		err := next(c)
		if server.WriteTimeout > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(server.WriteTimeout)) // for the answer
		}
		return err
	}
}

// serverOf is the server that a request came to; one without limits if it came to none.
func serverOf(r *http.Request) *http.Server {
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		return server
	}
	return &http.Server{}
}

// A pacedBody must arrive at paceBytes for each pace at the least. Only the time that it is waited for counts, so that a
// slow store is not taken for a slow client.
type pacedBody struct {
	io.ReadCloser
	pace     time.Duration // 0: any
	now      func() time.Time
	deadline func(time.Time) error // of the connection
	ended    func()                // called when all has arrived

	left time.Duration // for what is missing of paceBytes
	got  int           // of paceBytes
	done bool
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if b.got == 0 && b.left == 0 {
		b.left = b.pace
	}
	began := b.now()
	if b.pace > 0 && !b.done {
		_ = b.deadline(began.Add(b.left))
	}
	n, err := b.ReadCloser.Read(p)
	// Not 0, which means that the time begins anew.
	b.left = max(b.left-b.now().Sub(began), 1)
	if b.got += n; b.got >= paceBytes {
		b.got, b.left = 0, 0
	}
	if errors.Is(err, io.EOF) && !b.done {
		b.done = true
		// From here on the server watches the connection for its end.
		_ = b.deadline(time.Time{})
		b.ended()
	}
	return n, err
}

// errNoBody ends a handler that answers HEAD when it comes to the body.
var errNoBody = errors.New("web: HEAD has no body")

// streamedOut is the middleware of downloads.
func streamedOut(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		res := c.Response()
		out := res.Writer
		res.Writer = &pacedWriter{
			ResponseWriter: out, head: c.Request().Method == http.MethodHead, pace: serverOf(c.Request()).WriteTimeout,
			deadline: http.NewResponseController(out).SetWriteDeadline,
		}
		defer func() { res.Writer = out }()
		if err := next(c); !errors.Is(err, errNoBody) {
			return err
		}
		return nil
	}
}

type pacedWriter struct {
	http.ResponseWriter
	head     bool
	pace     time.Duration
	deadline func(time.Time) error
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	if w.head {
		return 0, errNoBody
	}
	if w.pace > 0 {
		_ = w.deadline(time.Now().Add(w.pace))
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
