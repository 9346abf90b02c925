package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"sync"
)

// requestIDHeader carries the id of a request both ways.
const requestIDHeader = "X-Request-Id"

// maxRequestID is the longest id, in bytes, that is taken from a client or a proxy.
const maxRequestID = 64

// A trace is what is known of a request beside what it asks for.
type trace struct {
	id string

	mu     sync.Mutex // guards hidden
	hidden []string   // what the client has chosen, which no error may repeat in the log
}

type traceKey struct{}

// WithRequestID returns a context that carries the id of a request, for those who answer it and write a log of their own.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, traceKey{}, &trace{id: id})
}

// RequestID is the id of the request that is answered under ctx; empty if there is none. It is at most 64 bytes of visible
// ASCII. It may have been chosen by the client, so that it is for finding lines of a log, and proves nothing.
func RequestID(ctx context.Context) string {
	if t := traceOf(ctx); t != nil {
		return t.id
	}
	return ""
}

func traceOf(ctx context.Context) *trace {
	t, _ := ctx.Value(traceKey{}).(*trace)
	return t
}

// hide keeps texts that the client has chosen out of what is logged of errors of the request.
func hide(ctx context.Context, texts ...string) {
	t := traceOf(ctx)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hidden = append(t.hidden, texts...)
}

// requestID is the id that the request came with, if it can be used, else a new one.
func requestID(h http.Header) string {
	given := h.Values(requestIDHeader)
	if len(given) != 1 || given[0] == "" || len(given[0]) > maxRequestID {
		return mintRequestID()
	}
	for _, c := range []byte(given[0]) {
		if c <= ' ' || c > '~' {
			return mintRequestID()
		}
	}
	return given[0]
}

func mintRequestID() string {
	var random [12]byte
	rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}
