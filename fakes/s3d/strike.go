package s3d

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/blobindex/indexd/fakes/internal/wire"
)

// before reports whether the request is to be carried out now.
func (k Kind) before(s *Server, c *call) bool {
	if k.hook != nil {
		k.hook()
	}
	if k.judge != nil {
		if status, code := k.judge(c.r); status != 0 {
			k.refuse = &failure{status, code, "judged: " + code, nil}
		}
	}
	if k.repeat {
		again := *k.refuse
		again.message = fmt.Sprintf("%v", c.r.Header)
		k.refuse = &again
	}
	if k.hold != nil || k.delay > 0 {
		body, err := io.ReadAll(c.r.Body) // now: who has gone away cannot send it later
		if err != nil {
			return false
		}
		c.r.Body = io.NopCloser(bytes.NewReader(body))
	}
	switch {
	case k.late:
		k.postpone(s, c)
	case k.hold != nil:
		select {
		case <-k.hold:
		case <-s.quit:
		}
	default:
		wire.Wait(k.delay, s.quit)
	}
	if k.partly {
		io.CopyN(io.Discard, c.r.Body, max(c.r.ContentLength/2, 0))
	}
	if k.cut != whole {
		wire.Sever(c.w, k.cut == reset)
		return false
	}
	if k.refuse != nil {
		c.fail(*k.refuse)
		return false
	}
	return true
}

// postpone carries the request out once it is released, and nobody reads the answer.
func (k Kind) postpone(s *Server, c *call) {
	late := *c
	late.r = c.r.Clone(context.WithoutCancel(c.r.Context()))
	late.r.Body, c.r.Body = c.r.Body, http.NoBody
	late.w = &kept{ResponseWriter: nobody{}}
	s.late.Go(func() {
		select {
		case <-k.hold:
			late.date()
			late.serve()
		case <-s.quit:
		}
	})
}

// Settle waits until every request that was to be applied later has been. Their releases must be closed.
func (s *Server) Settle() { s.late.Wait() }

// nobody has a header, and no connection.
type nobody struct{ http.ResponseWriter }

func (nobody) Header() http.Header { return http.Header{} }

// wrap puts a writer before w that keeps the answer back, if the fault needs it.
func (k Kind) wrap(w http.ResponseWriter) http.ResponseWriter {
	if k.lose == whole && k.instead == nil && !k.half && k.rewrite == nil {
		return w
	}
	return &kept{ResponseWriter: w}
}

// after does to the kept answer what the fault says.
func (k Kind) after(w http.ResponseWriter) {
	held, ok := w.(*kept)
	if !ok {
		return
	}
	w = held.ResponseWriter
	body := []byte(held.body.String())
	switch {
	case k.lose != whole:
		wire.Sever(w, k.lose == reset)
	case k.instead != nil:
		w.Header().Del("Content-Length")
		(&call{s: &Server{}, w: w, r: &http.Request{}}).fail(*k.instead)
	case k.rewrite != nil:
		body = k.rewrite(body)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(max(held.status, http.StatusOK))
		w.Write(body)
	default:
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(max(held.status, http.StatusOK))
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		if k.stall == nil {
			panic(http.ErrAbortHandler)
		}
		<-k.stall
		w.Write(body[len(body)/2:])
	}
}

// A kept answer has not been sent.
type kept struct {
	http.ResponseWriter
	status int
	body   strings.Builder
}

func (k *kept) WriteHeader(status int)      { k.status = status }
func (k *kept) Write(p []byte) (int, error) { return k.body.Write(p) }

// Unwrap gives http.ResponseController the way to the connection.
func (k *kept) Unwrap() http.ResponseWriter { return k.ResponseWriter }
