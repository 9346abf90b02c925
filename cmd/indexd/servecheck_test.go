package main

import (
	"net"
	"testing"

	"github.com/blobindex/indexd/cas/probe"
)

// TestCheck_OneAddress: an address that is free is free for one listener.
func TestCheck_OneAddress(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	var r rehearsal
	r.addresses(t.Context(), &settings{fileSettings: fileSettings{Listen: addr, MetricsListen: addr}})
	if len(r.rows) != 2 || r.rows[0][0] != signs[probe.Yes] || r.rows[1][0] != signs[probe.No] || r.status != exitFailed {
		t.Errorf("%q, exit status %d", r.rows, r.status)
	}
	l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatalf("it was not let go of: %v", err)
	}
	l.Close()
}
