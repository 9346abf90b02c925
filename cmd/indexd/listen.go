package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/blobindex/indexd/web"
)

// shutdownTime is how long requests that are under way have when the server is told to stop.
const shutdownTime = 8 * time.Second

// drainTime is how long a server that is told to stop goes on taking requests while somebody watches /readyz, who is told to leave
// meanwhile. It is a part of shutdownTime.
const drainTime = 3 * time.Second

// checkListen refuses addresses that cannot, or must not, be listened on. Its errors are usage errors.
func checkListen(addr string) error {
	if err := web.CheckLoopback(addr); err != nil {
		return &statusError{exitUsage, err}
	}
	return checkAddress(addr)
}

// checkAddress refuses what is no address to listen on. Its errors are usage errors.
func checkAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return usagef("%.80q is no host and port; give one such as 127.0.0.1:9090", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return usagef("the port %.20q is no number from 0 to 65535", port)
	}
	return nil
}

// checkListen is that of the address to serve on, which may be any where the configuration says who may come in.
func (s *settings) checkListen() error {
	if s.Auth != nil {
		return s.blame("listen", checkAddress(s.Listen))
	}
	err := checkListen(s.Listen)
	if errors.Is(err, web.ErrNotLoopback) {
		err = usagef("%w, or configure auth", err)
	}
	return s.blame("listen", err)
}

func (s *settings) listen(ctx context.Context) (net.Listener, error) {
	if s.Auth != nil {
		return listenOn(ctx, "listen", s.Listen)
	}
	return listen(ctx, s.Listen)
}

// listen listens on a loopback address. What a name such as localhost stands for is known only then: where that is
// another address, it is let go of before anybody is served, and the error is a usage error.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := listenOn(ctx, "listen", addr)
	if err != nil {
		return nil, err
	}
	if got, ok := l.Addr().(*net.TCPAddr); !ok || !got.IP.IsLoopback() {
		l.Close()
		return nil, usagef("%s is %s on this host, which would let other hosts in; listen on 127.0.0.1:PORT", addr, l.Addr())
	}
	return l, nil
}

// listenOn listens on an address that the flag of that name sets.
func listenOn(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w; stop what uses it, or choose another --%s", addr, err, flag)
	}
	return l, nil
}

// serveHTTP serves until ctx ends. Then it tells so on /readyz, and goes on for drainTime if somebody watches that; lets go of
// the address; ends the streams; lets the requests under way end; and cuts them off shutdownTime after ctx has ended. Beside it
// the side is served, to the very end.
func serveHTTP(ctx context.Context, l net.Listener, h *web.Server, log *slog.Logger, beside *side) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer beside.start(ctx, log)()
	server := web.NewHTTPServer(base, h, log)
	server.RegisterOnShutdown(h.EndStreams) // they would be waited for
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	patience, stop := context.WithTimeout(base, shutdownTime)
	defer stop()
	if h.Drain() {
		log.Info("stopping; /readyz tells so", "within", drainTime)
		select {
		case err := <-served:
			return fmt.Errorf("serving on %s: %w", l.Addr(), err)
		case <-time.After(drainTime):
		}
	}
	err := server.Shutdown(patience)
	<-served // it ends as soon as Shutdown has begun
	if err == nil {
		return nil
	}
	cut()
	server.Close()
	return fmt.Errorf("stopping: requests took longer than %v and were cut off: %w", shutdownTime, err)
}
