package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// The limits of NewHTTPServer. A request has to arrive within readTimeout, body included, and its answer may take up to
// writeTimeout, which leaves a request that ran into Options.Timeout the time to say so.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = defaultTimeout + 15*time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewHTTPServer returns an http.Server for h with all of its limits set, since net/http's own are "none". Requests are
// canceled when ctx is: Shutdown waits for those under way, canceling ctx ends them.
func NewHTTPServer(ctx context.Context, h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// ErrNotLoopback is wrapped by the errors of CheckLoopback.
var ErrNotLoopback = errors.New("web: not a loopback address")

// CheckLoopback returns an error unless addr is a host and a port of which the host is localhost, in 127.0.0.0/8, or
// ::1. Without authentication no other address may be listened on.
func CheckLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%w: %q is no host and port; give one such as 127.0.0.1:8080", ErrNotLoopback, addr)
	}
	if !loopback(host) {
		return fmt.Errorf("%w: %q would let other hosts in, and there is no authentication; listen on 127.0.0.1:PORT",
			ErrNotLoopback, addr)
	}
	return nil
}

// loopback reports whether host, without port and brackets, is this host by name or by a literal address.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Zone() == "" && !a.Is4In6() && a.IsLoopback()
}
