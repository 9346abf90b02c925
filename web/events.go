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

// GetEvents is GET …/events. It waits for a view no longer than a request may take.
func (s *Server) GetEvents(ctx context.Context, r api.GetEventsRequestObject) (api.GetEventsResponseObject, error) {
	_, n, err := s.namespace(r.Index, r.Namespace)
	if err != nil {
		return nil, err
	}
	var last string
	if r.Params.LastEventID != nil {
		last = *r.Params.LastEventID
	}
	req, err := n.Check(cardsRequest(r.Params.Limit, r.Params.Subkey, r.Params.Owner))
	if err != nil {
		return nil, storeProblem(err, reads)
	}
	release, err := s.shares.take(ctx, n, req)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	stream, err := s.hub.Subscribe(wait, n, req, last)
	if err != nil {
		release()
		return nil, storeProblem(err, reads)
	}
	p := caller(ctx)
	over := func() bool { return p != nil && !p.Expires.IsZero() && !s.opt.Now().Before(p.Expires) }
	return &eventStream{ctx, stream, release, over}, nil
}

// An eventStream is the answer that events are.
type eventStream struct {
	ctx     context.Context // the request's
	stream  *live.Stream
	release func() // of the caller's share
	// over reports whether the token has expired. The context ends with it as well, but by a timer, which stands still while the host
	// is suspended, and does not know that its clock was set.
	over func() bool
}

// VisitGetEventsResponse writes events until the client, the stream, or the right to it has come to its end.
func (a *eventStream) VisitGetEventsResponse(w http.ResponseWriter) error {
	defer a.release()
	defer a.stream.Close()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would hold back what is no full buffer
	w.WriteHeader(http.StatusOK)
	out := newEventWriter(w)
	silence := time.NewTimer(heartbeat)
	defer silence.Stop()
	retry := shortestRetry + rand.N(longestRetry-shortestRetry)
	if err := out.write([]byte("retry: " + strconv.FormatInt(retry.Milliseconds(), 10) + "\n\n")); err != nil {
		return notTaken(err)
	}
	for !a.over() {
		more, err := a.drain(out)
		switch {
		case errors.Is(err, live.ErrClosed) || errors.Is(err, live.ErrSlow):
			out.timeout = endTimeout
			_ = out.write([]byte(": connect again\n\n"))
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
		case <-a.ctx.Done():
			return nil
		}
	}
	return nil
}

// drain writes the events that there are, and returns what to wait for.
func (a *eventStream) drain(out *eventWriter) (<-chan struct{}, error) {
	for {
		e, more, err := a.stream.TryNext()
		if err != nil || more != nil {
			return more, err
		}
		if err := out.write(e.Data); err != nil {
			return nil, err
		}
		if err := a.ctx.Err(); err != nil {
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

func (e *eventWriter) write(p []byte) error {
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
