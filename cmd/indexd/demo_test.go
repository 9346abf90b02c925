package main

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/blobindex/indexd/web/api"
)

// TestDemo: the page shows simulated items as soon as it is there, and nothing is left in the end.
func TestDemo(t *testing.T) {
	p := launch(t, "demo", "--listen", "127.0.0.1:0")
	eventually(t, "cards with titles and progress", func() bool {
		var cards api.Cards
		p.get("/v1/indexes/running/default/cards", &cards)
		var titled, progress bool
		for _, c := range cards.Cards {
			titled = titled || c.Title != "" && c.Owner != "" && c.Url != ""
			progress = progress || c.Progress != nil
		}
		return len(cards.Cards) >= 5 && titled && progress
	})
	if status, body := p.do(http.MethodGet, "/", ""); status != http.StatusOK || !strings.Contains(body, "Train encoder v7") {
		t.Errorf("the page: %d: %s", status, body)
	}
	rest, status := p.stop(os.Interrupt)
	if status != exitDone || len(rest) > 0 || p.stderr.Len() > 0 {
		t.Errorf("after SIGINT: status %d, stdout %q, stderr %s", status, rest, p.stderr)
	}
	leavesNothing(t, p)
}

func leavesNothing(t *testing.T, p *program) {
	t.Helper()
	for _, v := range p.cmd.Env {
		if dir, ok := strings.CutPrefix(v, "TMPDIR="); ok {
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left in the temporary directory: %v, %v", left, err)
			}
		}
	}
}

// TestDemo_VersusList: the count is told on the terminal, on the page and in the end.
func TestDemo_VersusList(t *testing.T) {
	p := &program{t: t, cmd: child(t, "indexd", "demo", "--versus-list", "--listen", "127.0.0.1:0")}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.launch()
	lines := bufio.NewScanner(stderr)
	if lines.Scan(); !strings.Contains(lines.Text(), "at 30ms to 80ms a request: the shared list has lost ") {
		t.Errorf("on stderr: %q", lines.Text())
	}
	if _, body := p.do(http.MethodGet, "/", ""); !strings.Contains(body, "the shared list has lost") {
		t.Errorf("the count is not on the page: %s", body)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		if strings.Contains(lines.Text(), "level=") {
			t.Errorf("on stderr: %s", lines.Text())
		}
	}
	rest, status := p.wait()
	if status != exitDone || len(rest) != 1 || !strings.Contains(rest[0], " right now); indexd has lost 0 of ") {
		t.Errorf("status %d, stdout %q", status, rest)
	}
	leavesNothing(t, p)
}

// TestDemo_DefaultPortTaken: it takes another port, and says so. SIGTERM ends it as SIGINT does.
func TestDemo_DefaultPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", defaultListen)
	if err == nil {
		defer l.Close()
	} else if !errors.Is(err, syscall.EADDRINUSE) { // in use is in use, whoever uses it
		t.Fatal(err)
	}
	p := launch(t, "demo")
	if strings.HasSuffix(p.url, ":8080") {
		t.Errorf("serves %s, which is taken", p.url)
	}
	if _, status := p.stop(syscall.SIGTERM); status != exitDone {
		t.Errorf("after SIGTERM: status %d", status)
	}
	leavesNothing(t, p)
	if !strings.Contains(p.stderr.String(), "note: 127.0.0.1:8080 is in use") {
		t.Errorf("stderr: %s", p.stderr)
	}
}
