package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/blobindex/indexd/web/api"
)

// TestServe_OneDirectoryWithOthers: the server and other processes share a directory, and it stops when it is told to.
func TestServe_OneDirectoryWithOthers(t *testing.T) {
	p := launch(t, "serve", "--listen", "127.0.0.1:0", "--bucket", "./data")
	status, body := p.do(http.MethodPost, "/v1/indexes/running/default/items", `{"subkey":"over-http"}`)
	if status != http.StatusCreated {
		t.Fatalf("registering over HTTP: %d: %s", status, body)
	}
	if status, body := p.do(http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz: %d: %s", status, body)
	}
	beside := child(t, "indexd", "register", "--subkey", "by-command", "--bucket", "./data")
	beside.Dir = p.cmd.Dir
	id, err := beside.Output()
	if err != nil {
		t.Fatal(err)
	}
	var cards api.Cards
	p.get("/v1/indexes/running/default/cards", &cards)
	if len(cards.Cards) != 2 || cards.Cards[0].Id != strings.TrimSpace(string(id)) {
		t.Errorf("cards: %+v", cards.Cards)
	}
	if status, body := p.do(http.MethodGet, "/", ""); status != http.StatusOK || !strings.Contains(body, "by-command") {
		t.Errorf("the page: %d: %s", status, body)
	}
	if rest, status := p.stop(syscall.SIGTERM); status != exitDone || len(rest) > 0 {
		t.Errorf("after SIGTERM: status %d, stdout %q, stderr %s", status, rest, p.stderr)
	}
}

// TestServe_Memory: the bucket lives as long as the server does.
func TestServe_Memory(t *testing.T) {
	p := launch(t, "serve", "--listen", "127.0.0.1:0", "--bucket", "mem://")
	p.do(http.MethodPost, "/v1/indexes/running/default/items", `{"subkey":"a"}`)
	var items api.Items
	p.get("/v1/indexes/running/default/items", &items)
	if len(items.Items) != 1 {
		t.Errorf("items: %+v", items)
	}
	if _, status := p.stop(os.Interrupt); status != exitDone {
		t.Errorf("after SIGINT: status %d", status)
	}
	if left, err := os.ReadDir(p.cmd.Dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

// TestServe_LetsRequestsEnd: a request that is under way when the server is told to stop is still answered.
func TestServe_LetsRequestsEnd(t *testing.T) {
	p := launch(t, "serve", "--listen", "127.0.0.1:0", "--bucket", "mem://")
	body, more := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/indexes/running/default/items", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue") // the body is sent once the handler asks for it
	answered := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
			if res.StatusCode != http.StatusCreated {
				err = fmt.Errorf("status %d", res.StatusCode)
			}
		}
		answered <- err
	}()
	if _, err := more.Write([]byte(`{"subkey":`)); err != nil { // returns once it is being sent
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server to stop listening", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			return true
		}
		c.Close()
		return false
	})
	more.Write([]byte(`"slow"}`))
	more.Close()
	if err := <-answered; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	if _, status := p.wait(); status != exitDone {
		t.Errorf("status %d: %s", status, p.stderr)
	}
}

// TestListen_LoopbackOnly: what a name stands for on this host is known only when it is listened on; another address than
// a loopback one is let go of, as wrong usage.
func TestListen_LoopbackOnly(t *testing.T) {
	l, err := listen(t.Context(), "0.0.0.0:0")
	if err == nil {
		l.Close()
		t.Fatalf("it listens on %s", l.Addr())
	}
	if exitStatus(err) != exitUsage || !strings.Contains(message(err), "would let other hosts in") {
		t.Errorf("status %d, %q", exitStatus(err), message(err))
	}
	l, err = listen(t.Context(), "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// TestServe_PortInUse: one line, the right status, and no directory.
func TestServe_PortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, command := range []string{"serve", "demo"} {
		cmd := child(t, "indexd", command, "--listen", l.Addr().String())
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run() // the status is looked at below
		if got := cmd.ProcessState.ExitCode(); got != exitFailed {
			t.Errorf("%s: status %d, want %d", command, got, exitFailed)
		}
		text := stderr.String()
		if strings.Count(text, "\n") != 1 || !strings.Contains(text, "choose another --listen") || stdout.Len() > 0 {
			t.Errorf("%s: stdout %q, stderr %q", command, &stdout, text)
		}
		if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
			t.Errorf("%s left %v, %v", command, left, err)
		}
	}
}
