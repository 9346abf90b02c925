package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/blobindex/indexd/web"
)

// shutdownTime is how long requests that are under way have when the server is told to stop.
const shutdownTime = 8 * time.Second

// checkListen refuses addresses that cannot, or must not, be listened on. Its errors are usage errors.
func checkListen(addr string) error {
	if err := web.CheckLoopback(addr); err != nil {
		return &statusError{exitUsage, err}
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return &statusError{exitUsage, err}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return usagef("the port %.20q is no number from 0 to 65535", port)
	}
	return nil
}

// listen listens on a loopback address. What a name such as localhost stands for is known only then: where that is
// another address, it is let go of before anybody is served, and the error is a usage error.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := listenAnywhere(ctx, addr)
	if err != nil {
		return nil, err
	}
	if got, ok := l.Addr().(*net.TCPAddr); !ok || !got.IP.IsLoopback() {
		l.Close()
		return nil, usagef("%s is %s on this host, which would let other hosts in; listen on 127.0.0.1:PORT", addr, l.Addr())
	}
	return l, nil
}

func listenAnywhere(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w; stop what uses it, or choose another --listen", addr, err)
	}
	return l, nil
}

// serveHTTP serves until ctx ends, then ends the streams, lets the requests under way end, and cuts them off after shutdownTime.
func serveHTTP(ctx context.Context, l net.Listener, h *web.Server, log *slog.Logger) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
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
	err := server.Shutdown(patience)
	<-served // it ends as soon as Shutdown has begun
	if err == nil {
		return nil
	}
	cut()
	server.Close()
	return fmt.Errorf("stopping: requests took longer than %v and were cut off: %w", shutdownTime, err)
}
