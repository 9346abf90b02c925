package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/web/api"
	"github.com/labstack/echo/v4"
)

const eventsRoute = namespaceRoute + "/events"

// Limits of a stream of events.
const (
	// heartbeat is the longest silence: proxies give up after a minute of it, and so is a client noticed that has vanished.
	heartbeat = 12 * time.Second
	// eventTimeout is how long one write may take. What is on its way to a client that does not read waits in buffers of the
	// system, so that it is noticed when these are full. It is less than what a shutdown leaves, which waits for such a write, and
	// then for what is said at the end, which may take endTimeout.
	eventTimeout = 3 * time.Second
	endTimeout   = time.Second
	// A client connects again after a time between these, so that not all of them come at once when a server is back.
	shortestRetry, longestRetry = time.Second, 4 * time.Second
)

// sharing is how the server wants its views.
func (s *Server) sharing() *live.Options {
	var opt live.Options
	if s.opt.Live != nil {
		opt = *s.opt.Live
	}
	opt.Encode, opt.Log = encodeEvent, cmp.Or(opt.Log, s.opt.Log)
	return &opt
}

// lasting is the middleware of streams: they have no deadline but those of their writes.
func lasting(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		// Nobody wants the body, but it has to have come while there is a deadline for it.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return bodyProblem(err)
		}
		rc := http.NewResponseController(c.Response().Writer)
		// When the server's own passed, that would be taken for the client's end. Where the connection knows no deadlines it has none
		// that could be in the way.
		_, _ = rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{})
		err := next(c)
		if limit := serverOf(r).WriteTimeout; limit > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(limit)) // for a problem, or the end
		}
		return err
	}
}

// events is GET …/events. What a stream stands on for as long as it lasts is kept small: the rest is done in calls that return.
func (s *Server) events(c echo.Context) error {
	stream, release, err := s.subscribe(c)
	if err != nil {
		return err
	}
	defer release()
	defer stream.Close()
	return s.follow(c.Request().Context(), stream, newEventWriter(c.Response()))
}

// subscribe waits for a view no longer than a request may take. release gives back what the stream takes of its caller's share.
func (s *Server) subscribe(c echo.Context) (stream *live.Stream, release func(), err error) {
	var names [2]string
	for i, param := range []string{"index", "namespace"} {
		if names[i], err = pathName(c, param); err != nil {
			return nil, nil, err
		}
	}
	_, n, err := s.namespace(names[0], names[1])
	if err != nil {
		return nil, nil, err
	}
	limit, _ := strconv.Atoi(c.QueryParam("limit")) // a number, or not there
	req, err := n.Check(blobindex.CardsRequest{Limit: limit, Subkey: c.QueryParam("subkey"), Owner: c.QueryParam("owner")})
	if err != nil {
		return nil, nil, storeProblem(err, reads)
	}
	ctx := c.Request().Context()
	if release, err = s.shares.take(ctx, n, req); err != nil {
		return nil, nil, err
	}
	wait, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	if stream, err = s.hub.Subscribe(wait, n, req, c.Request().Header.Get("Last-Event-ID")); err != nil {
		release()
		return nil, nil, storeProblem(err, reads)
	}
	return stream, release, nil
}

// follow writes events until the client, the stream, or the right to it has come to its end.
func (s *Server) follow(ctx context.Context, stream *live.Stream, out *eventWriter) error {
	if err := out.begin(); err != nil {
		return notTaken(err)
	}
	silence := time.NewTimer(heartbeat)
	defer silence.Stop()
	for !s.expired(ctx) {
		more, err := drain(ctx, stream, out)
		switch {
		case errors.Is(err, live.ErrClosed) || errors.Is(err, live.ErrSlow):
			out.timeout = endTimeout
			_ = out.write([]byte(": connect again\n\n")) // who does not get it sees the end
			_ = out.flush()
			return nil
		case err == nil:
			err = out.flush()
		}
		if err != nil {
			return notTaken(err)
		}
		silence.Reset(heartbeat)
		select {
		case <-more:
		case <-silence.C:
			if err := out.write([]byte(":\n\n")); err != nil {
				return notTaken(err)
			}
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// expired reports whether the caller's token has. The context ends with it as well, but by a timer, which stands still while the
// host is suspended, and does not know that its clock was set.
func (s *Server) expired(ctx context.Context) bool {
	p := caller(ctx)
	return p != nil && !p.Expires.IsZero() && !s.opt.Now().Before(p.Expires)
}

// drain writes the events that there are, and returns what to wait for.
func drain(ctx context.Context, stream *live.Stream, out *eventWriter) (<-chan struct{}, error) {
	for {
		e, more, err := stream.TryNext()
		if err != nil || more != nil {
			return more, err
		}
		if err := out.write(e.Data); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// An eventWriter gives each write a deadline of its own. Between the writes there is none: over HTTP/2 it would end the stream
// though nothing is being written.
type eventWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
}

func newEventWriter(w http.ResponseWriter) *eventWriter {
	inner := w
	if r, ok := w.(*echo.Response); ok {
		inner = r.Writer // whose Flush has an error
	}
	return &eventWriter{w, http.NewResponseController(inner), eventTimeout}
}

// begin writes the header, and when to connect again.
func (e *eventWriter) begin() error {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would hold back what is no full buffer
	e.w.WriteHeader(http.StatusOK)
	retry := shortestRetry + rand.N(longestRetry-shortestRetry)
	return e.write([]byte("retry: " + strconv.FormatInt(retry.Milliseconds(), 10) + "\n\n"))
}

func (e *eventWriter) write(p []byte) error {
	// A connection that knows no deadlines is one of a test: see lasting.
	_ = e.rc.SetWriteDeadline(time.Now().Add(e.timeout))
	_, err := e.w.Write(p)
	return err
}

func (e *eventWriter) flush() error {
	err := e.rc.Flush()
	_ = e.rc.SetWriteDeadline(time.Time{})
	return err
}

// encodeEvent makes the bytes of an event, which all streams of its shape send. Its data is one line: JSON has neither CR nor LF
// outside of texts, and escapes them there.
func encodeEvent(e live.Event) ([]byte, error) {
	body := cardsBody(e.View)
	event := api.Event{
		AsOf: instant(e.View.AsOf), Complete: body.Complete, StaleSince: body.StaleSince, Counts: body.Counts,
	}
	if e.Prev != "" {
		event.Prev = &e.Prev
	}
	switch e.Kind {
	case live.Snapshot:
		event.Cards, event.Reset = &body.Cards, &e.Reset
	case live.Upsert:
		event.Cards = &body.Cards
	case live.Remove:
		event.Ids = &e.Removed
	}
	data, err := json.Marshal(event)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, 0, len(data)+len(e.ID)+40)
	frame = append(frame, "id: "+e.ID+"\nevent: "+string(e.Kind)+"\ndata: "...)
	frame = append(frame, data...)
	return append(frame, "\n\n"...), nil
}
