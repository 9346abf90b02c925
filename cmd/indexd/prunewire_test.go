package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/blobindex/indexd/cas/lease"
)

// A pruneGround is a directory with many stale markers and a live one, on which processes prune.
type pruneGround struct {
	t    *testing.T
	dir  string
	live string
}

const groundStale = 100_000

// newPruneGround has been pruned once, so that the rules are saved and the conditions of writes tried.
func newPruneGround(t *testing.T) *pruneGround {
	t.Helper()
	g := &pruneGround{t: t, dir: filepath.Join(t.TempDir(), "secret-place")}
	g.live = strings.TrimSpace(g.must("register", "--subkey", "live"))
	g.must("prune")
	old := time.Now().Add(-3 * time.Hour)
	for n := range 10 {
		if err := os.MkdirAll(filepath.Join(g.dir, "_active_runs", fmt.Sprintf("confidential%d", n)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range groundStale {
		path := filepath.Join(g.dir, "_active_runs", fmt.Sprintf("confidential%d", i%10), fmt.Sprintf("old%d_%d", i, old.UnixNano()))
		err := os.WriteFile(path, nil, 0o644)
		if err := errors.Join(err, os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *pruneGround) command(args ...string) *exec.Cmd {
	cmd := child(g.t, "indexd", args...)
	cmd.Env = append(cmd.Env, "INDEXD_BUCKET="+g.dir)
	return cmd
}

func (g *pruneGround) must(args ...string) string {
	g.t.Helper()
	status, stdout, stderr := runChild(g.t, g.command(args...))
	if status != exitDone {
		g.t.Fatalf("%q: exit status %d: %s", args, status, stderr)
	}
	return stdout
}

// A groundLease is the payload of the lease's document.
type groundLease struct {
	Term  uint64      `json:"term"`
	Class lease.Class `json:"class"`
	Since time.Time   `json:"since"`
}

func (g *pruneGround) lease() groundLease {
	var doc struct{ Payload groundLease }
	if err := json.Unmarshal(g.document("lease"), &doc); err != nil {
		g.t.Fatal(err)
	}
	return doc.Payload
}

// document is what is stored of the index below _indexd.
func (g *pruneGround) document(kind string) []byte {
	body, err := os.ReadFile(filepath.Join(g.dir, "_indexd", kind, "_active_runs"))
	if err != nil {
		g.t.Fatal(err)
	}
	return body
}

// checkpoint fails the test unless the checkpoint is whole, and returns its term.
func (g *pruneGround) checkpoint() uint64 {
	g.t.Helper()
	var doc struct {
		Format  string
		Payload struct{ Term uint64 }
	}
	if err := json.Unmarshal(g.document("janitor"), &doc); err != nil || doc.Format != "janitor/1" {
		g.t.Fatalf("the checkpoint: %v, %+v", err, doc)
	}
	return doc.Payload.Term
}

func (g *pruneGround) stale() int {
	left, err := filepath.Glob(filepath.Join(g.dir, "_active_runs", "confidential*", "old*"))
	if err != nil {
		g.t.Fatal(err)
	}
	return len(left)
}

// done fails the test unless all is gone that is over, and the live item is there.
func (g *pruneGround) done() {
	g.t.Helper()
	if n := g.stale(); n > 0 {
		g.t.Errorf("%d stale markers are left", n)
	}
	if out := g.must("ls"); !strings.Contains(out, g.live) {
		g.t.Errorf("the live item is not listed: %s", out)
	}
}

// A pruner is a prune that is at work.
type pruner struct {
	*exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
}

// start begins a prune and waits until it deletes.
func (g *pruneGround) start() *pruner {
	g.t.Helper()
	p := &pruner{Cmd: g.command("prune"), ended: make(chan struct{})}
	p.Stderr = &p.stderr
	before := g.lease().Term
	if err := p.Start(); err != nil {
		g.t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // by its status
		close(p.ended)
	}()
	eventually(g.t, "the lease of a pass", func() bool {
		l := g.lease()
		return l.Term > before && l.Class == lease.Operator && g.checkpoint() == l.Term
	})
	probe := filepath.Join(g.dir, "_active_runs", "confidential0")
	eventually(g.t, "a delete", func() bool {
		entries, err := os.ReadDir(probe)
		return err == nil && len(entries) < groundStale/10
	})
	return p
}

func (p *pruner) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// exit waits for its end and returns its status.
func (p *pruner) exit() int {
	<-p.ended
	return p.ProcessState.ExitCode()
}

// private fails the test if what another process said tells of this one more than it may.
func (g *pruneGround) private(p *pruner, text string) {
	g.t.Helper()
	host, err := os.Hostname()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, secret := range []string{fmt.Sprint(p.Process.Pid), host, p.Path, p.Dir, g.dir, "secret-place", "confidential"} {
		if secret != "" && regexp.MustCompile(`(^|[^0-9A-Za-z])`+regexp.QuoteMeta(secret)+`($|[^0-9A-Za-z])`).MatchString(text) {
			g.t.Errorf("it tells %q: %s", secret, text)
		}
	}
}

// TestProcesses_Prune: passes of real processes on a directory, beside each other and beside one that is killed, stopped or
// told to stop. It takes some minutes: INDEXD_TIMED runs it.
func TestProcesses_Prune(t *testing.T) {
	if os.Getenv("INDEXD_TIMED") == "" {
		t.Skip("set INDEXD_TIMED=1")
	}
	for name, scenario := range map[string]func(*pruneGround){
		"Beside": (*pruneGround).beside, "Killed": (*pruneGround).killed, "Terminated": (*pruneGround).terminated,
		"Stopped": (*pruneGround).stopped,
	} {
		t.Run(name, func(t *testing.T) { scenario(newPruneGround(t)) })
	}
}

// beside: while one is at work, others exit 75 at once, change nothing, and say no more than they may; who waits gets it.
func (g *pruneGround) beside() {
	t := g.t
	a := g.start()
	a.signal(t, syscall.SIGSTOP) // for much less than its TTL, so that it is at work for as long as the others look
	before := g.document("janitor")
	began := time.Now()
	status, stdout, stderr := runChild(t, g.command("prune", "--json"))
	if took := time.Since(began); status != exitBusy || stdout != "" || took > 5*time.Second {
		t.Errorf("beside it: exit status %d after %v; %s %s", status, took, stdout, stderr)
	}
	if !strings.Contains(stderr, "an operator is at work on index \"running\" since ") {
		t.Errorf("it does not say who: %s", stderr)
	}
	g.private(a, stderr)
	ls := g.must("lease", "ls")
	if !strings.Contains(ls, "held") || !strings.Contains(ls, "operator") {
		t.Errorf("lease ls: %s", ls)
	}
	g.private(a, ls)

	serve := &program{t: t, cmd: g.command("serve", "--listen", "127.0.0.1:0", "--prune-every", "1s"), stderr: new(bytes.Buffer)}
	log, err := serve.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	serve.launch()
	code, body := serve.do("POST", "/v1/indexes/running/prune", "")
	if code != 409 || !strings.Contains(body, `"code":"lease_held"`) || !strings.Contains(body, `"class":"operator"`) {
		t.Errorf("over HTTP: %d %s", code, body)
	}
	g.private(a, body)
	deferred := regexp.MustCompile(`msg=lease_held index=running class=operator since=\S+ expires=\S+$`)
	lines := bufio.NewScanner(log)
	for n := 0; n < 3 && lines.Scan(); {
		if deferred.MatchString(lines.Text()) {
			n++
		}
		if strings.Contains(lines.Text(), "level=ERROR") {
			t.Errorf("serve: %s", lines.Text())
		}
		g.private(a, lines.Text())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, log)
	if !bytes.Equal(before, g.document("janitor")) {
		t.Errorf("the checkpoint changed:\n%s\n%s", before, g.document("janitor"))
	}
	if _, status := serve.stop(syscall.SIGTERM); status != exitDone {
		t.Errorf("serve: exit status %d", status)
	}

	a.signal(t, syscall.SIGCONT)
	status, stdout, stderr = runChild(t, g.command("prune", "--wait", "5m"))
	if status != exitDone || stderr != "" {
		t.Errorf("who waits: exit status %d; %s %s", status, stdout, stderr)
	}
	if status := a.exit(); status != exitDone {
		t.Errorf("who was at work: exit status %d: %s", status, &a.stderr)
	}
	g.done()
}

// killed: nobody is kept out for longer than the TTL, the margin, a poll and 2 s.
func (g *pruneGround) killed() {
	t := g.t
	a := g.start()
	a.signal(t, syscall.SIGSTOP)
	a.signal(t, syscall.SIGKILL)
	a.exit()
	killed, dead := time.Now(), g.lease()
	left := g.stale()
	if left == 0 || left == groundStale {
		t.Errorf("it was killed with %d keys left", left)
	}
	b := &pruner{Cmd: g.command("prune", "--wait", "2m"), ended: make(chan struct{})}
	status, stdout, stderr := runChild(t, b.Cmd)
	if status != exitDone || !strings.HasPrefix(stdout, fmt.Sprintf("%d deleted", left)) {
		t.Errorf("after it: exit status %d; %s %s", status, stdout, stderr)
	}
	is := g.lease()
	if took := is.Since.Sub(killed); is.Term != dead.Term+1 || took > lease.DefaultTTL+lease.Margin+lease.Poll+2*time.Second {
		t.Errorf("the lease was taken over after %v, in term %d after %d", took, is.Term, dead.Term)
	}
	if term := g.checkpoint(); term != is.Term {
		t.Errorf("the checkpoint is of term %d, want %d", term, is.Term)
	}
	g.done()
}

// terminated: who is told to stop lets go at once.
func (g *pruneGround) terminated() {
	t := g.t
	a := g.start()
	a.signal(t, syscall.SIGTERM)
	if status := a.exit(); status != exitFailed || !strings.HasPrefix(a.stderr.String(), "indexd: interrupted: ") ||
		!strings.Contains(a.stderr.String(), "prune again to go on") {
		t.Errorf("exit status %d: %s", status, &a.stderr)
	}
	if l := g.lease(); l.Class != "" {
		t.Errorf("it holds the lease: %+v", l)
	}
	if g.stale() == 0 {
		t.Error("it was too late to stop it")
	}
	g.must("prune")
	g.done()
}

// stopped: who slept through its TTL finds out, deletes nothing more, and leaves the next one's checkpoint alone.
func (g *pruneGround) stopped() {
	t := g.t
	a := g.start()
	a.signal(t, syscall.SIGSTOP)
	was := g.lease()
	g.must("prune", "--wait", "2m")
	if is := g.lease(); is.Term != was.Term+1 || is.Class != "" {
		t.Errorf("the next one left %+v", is)
	}
	g.done()
	lease, checkpoint := g.document("lease"), g.document("janitor")
	a.signal(t, syscall.SIGCONT)
	status, told := a.exit(), a.stderr.String()
	if status != exitFailed || !strings.Contains(told, "the lease was lost ") || strings.Count(told, "\n") != 1 {
		t.Errorf("exit status %d: %s", status, told)
	}
	if !bytes.Equal(lease, g.document("lease")) || !bytes.Equal(checkpoint, g.document("janitor")) {
		t.Error("it changed what the next one had saved")
	}
	g.done()
}
