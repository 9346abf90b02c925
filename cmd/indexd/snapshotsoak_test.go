package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/cas/snapshot"
)

// snapshotSoakEnv is how long TestSnapshotSoak is to go on, such as 60s.
const snapshotSoakEnv = "INDEXD_SNAPSHOT_SOAK"

// TestSnapshotSoak: processes that publish two states of a directory over and over, some of which are killed at random, and
// others that read and hold each read to the digest of one of the two. No reader sees a third state, nor an older generation
// than before. After one more publication, and one sweep past the grace, nothing is left but one generation. The bucket is a
// directory, or a new path of the one that INDEXD_TEST_BUCKET names. With INDEXD_SNAPSHOT_SOAK=60s the states have 20,000
// files, and half of the readers take 12 s for each read and lose no part.
func TestSnapshotSoak(t *testing.T) {
	s := &snapshotSoak{
		t: t, files: 300, acts: 40, events: make(chan snapshotEvent), counts: map[string]int{}, newest: map[*snapshotProc]uint64{},
	}
	bound := os.Getenv(snapshotSoakEnv)
	if bound != "" {
		d, err := time.ParseDuration(bound)
		if err != nil || d <= 0 {
			t.Fatalf("%s is %q; give a duration such as 60s", snapshotSoakEnv, bound)
		}
		s.files, s.acts, s.grace, s.slow, s.deadline = 20_000, 0, 30*time.Second, 12*time.Second, time.After(d)
	}
	s.open()
	s.run()
	if !t.Failed() {
		s.verify()
	}
	t.Logf("figures: %d published, %d unchanged, %d superseded; %d reads, of which %d were slow; %d ended with a sweep; %d kills",
		s.counts[saidPublished], s.counts[saidUnchanged], s.counts[saidSuperseded], s.counts[saidRead], s.slowReads,
		s.counts[saidSwept], s.kills)
	if s.counts[saidPublished] == 0 || s.counts[saidSuperseded] == 0 || s.counts[saidRead] == 0 || s.kills == 0 ||
		bound != "" && s.slowReads == 0 {
		t.Error("the test has not tested what it is for")
	}
}

// A snapshotSoak is one snapshot and the processes that work on it. One goroutine owns it.
type snapshotSoak struct {
	t        *testing.T
	files    int           // of each state
	acts     int           // of all publishers, before they are stopped; 0: until the deadline
	grace    time.Duration // of retired generations
	slow     time.Duration // of the reads of half of the readers
	deadline <-chan time.Time

	address string
	env     []string // that finds credentials
	states  []string // directories
	digests map[string]bool

	procs    []*snapshotProc
	events   chan snapshotEvent
	stopping bool
	running  int

	counts    map[string]int
	newest    map[*snapshotProc]uint64 // generation that a reader has read
	slowReads int
	kills     int
}

type snapshotProc struct {
	args   []string
	slow   bool
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *bytes.Buffer
	killed bool
}

func (p *snapshotProc) publishes() bool { return p.args[0] == "publisher" }

type snapshotEvent struct {
	proc *snapshotProc
	line string
	exit bool
	err  error
}

// open makes the bucket and the two states, and publishes one of them.
func (s *snapshotSoak) open() {
	root := s.t.TempDir()
	if s.address = os.Getenv(soakBucketEnv); s.address == "" {
		s.address = filepath.Join(root, "bucket")
		b, err := dirbucket.Create(s.address, nil)
		check(s.t, err)
		check(s.t, b.Close())
	} else {
		g := newRemoteGround(s.t, s.address)
		s.address, s.env = g.address(), g.env()
	}
	s.digests = map[string]bool{}
	for _, state := range []string{"one", "two"} {
		dir := filepath.Join(root, state)
		s.states = append(s.states, dir)
		s.grow(dir, state)
		var sum lineSum
		_, err := (&source{dir: dir}).walk(s.t.Context(), sum.add, nil)
		check(s.t, err)
		s.digests[sum.String()] = true
	}
	cmd := child(s.t, "indexd", "snapshot", "publish", s.states[0], soakSnapshot, "--bucket", s.address)
	cmd.Env = append(cmd.Env, s.env...)
	if status, _, stderr := runChild(s.t, cmd); status != 0 {
		s.t.Fatalf("the first publication: %s", stderr)
	}
}

// grow makes a state: paths so long that its rows fill some parts, most of them in both states.
func (s *snapshotSoak) grow(dir, state string) {
	for i := range s.files {
		below := filepath.Join(dir, fmt.Sprintf("%03d-%s", i/200, strings.Repeat("d", 200)))
		if i%200 == 0 {
			check(s.t, os.MkdirAll(below, 0o755))
		}
		name := fmt.Sprintf("%06d-%s", i, strings.Repeat("f", 200))
		if i%10 == 0 {
			name += state
		}
		check(s.t, os.WriteFile(filepath.Join(below, name), nil, 0o644))
	}
}

func (s *snapshotSoak) run() {
	for range 4 {
		s.start(&snapshotProc{args: append([]string{"publisher", s.address, s.grace.String()}, s.states...)})
	}
	for i := range 4 {
		p := &snapshotProc{args: []string{"reader", s.address, "0s"}}
		if p.slow = s.slow > 0 && i%2 == 0; p.slow {
			p.args[2] = s.slow.String()
		}
		s.start(p)
	}
	acts, nextKill := 0, 5
	for s.running > 0 {
		select {
		case e := <-s.events:
			acts += s.take(e)
		case <-s.deadline:
			s.stop()
		}
		if s.t.Failed() || s.acts > 0 && acts >= s.acts {
			s.stop()
		}
		if acts >= nextKill && !s.stopping {
			nextKill = acts + 1 + rand.N(8)
			s.killOne()
		}
	}
}

func (s *snapshotSoak) start(p *snapshotProc) {
	cmd := child(s.t, "snapshotsoak", p.args...)
	cmd.Env = append(cmd.Env, s.env...)
	p.stderr = new(bytes.Buffer)
	cmd.Stderr = p.stderr
	stdin, err := cmd.StdinPipe()
	check(s.t, err)
	stdout, err := cmd.StdoutPipe()
	check(s.t, err)
	check(s.t, cmd.Start())
	p.cmd, p.stdin, p.killed = cmd, stdin, false
	s.procs = append(s.procs, p)
	s.running++
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			s.events <- snapshotEvent{proc: p, line: lines.Text()}
		}
		s.events <- snapshotEvent{proc: p, exit: true, err: cmd.Wait()}
	}()
}

// stop tells all processes to end.
func (s *snapshotSoak) stop() {
	if s.stopping {
		return
	}
	s.stopping = true
	for _, p := range s.procs {
		p.stdin.Close()
	}
}

// take takes what a process tells, and returns 1 if a publication has ended.
func (s *snapshotSoak) take(e snapshotEvent) int {
	p := e.proc
	if e.exit {
		s.ended(p, e.err)
		return 0
	}
	var said, digest string
	var n uint64
	_, _ = fmt.Sscan(e.line, &said, &n, &digest) // few lines have all of them
	s.counts[said]++
	switch said {
	case saidPublished, saidUnchanged, saidSuperseded:
		return 1
	case saidSwept:
		if s.grace > 0 {
			s.t.Error("a generation was swept while it was read, in its grace")
		}
	case saidRead:
		if p.slow {
			s.slowReads++
		}
		if !s.digests[digest] {
			s.t.Errorf("generation %d was read as %s, which is neither state", n, digest)
		}
		if n < s.newest[p] {
			s.t.Errorf("generation %d was read after %d", n, s.newest[p])
		}
		s.newest[p] = n
	default:
		s.t.Errorf("a %s said %q", p.args[0], e.line)
	}
	return 0
}

func (s *snapshotSoak) ended(p *snapshotProc, err error) {
	p.stdin.Close()
	s.running--
	for i, other := range s.procs {
		if other == p {
			s.procs = append(s.procs[:i:i], s.procs[i+1:]...)
			break
		}
	}
	switch {
	case p.killed && !s.stopping:
		s.start(p)
	case !p.killed && (err != nil || !s.stopping):
		s.t.Errorf("a %s ended by itself: %v: %s", p.args[0], err, p.stderr)
	}
}

// killOne kills a publisher by chance, wherever it is in its work.
func (s *snapshotSoak) killOne() {
	var live []*snapshotProc
	for _, p := range s.procs {
		if p.publishes() && !p.killed {
			live = append(live, p)
		}
	}
	if len(live) > 0 {
		p := live[rand.N(len(live))]
		p.killed = true
		s.kills++
		p.cmd.Process.Kill() // an error says that it has ended already, of which its goroutine tells
	}
}

// verify publishes once more, and sweeps past the grace: nothing may be left of losers and of the dead.
func (s *snapshotSoak) verify() {
	ctx := s.t.Context()
	snap, b, err := openSoakSnapshot(s.address)
	check(s.t, err)
	defer b.Close()
	r, err := snap.Publish(ctx, func(add func(snapshot.Row) error) error { return add(snapshot.Row{Path: "last"}) }, nil)
	check(s.t, err)
	if r.Outcome != snapshot.Published {
		s.t.Fatalf("nobody else is there, and: %+v", r)
	}
	if s.grace > 0 {
		<-time.After(s.grace + 5*time.Second) // stores tell whole seconds
	}
	_, err = snap.Sweep(ctx)
	check(s.t, err)
	keys, err := keysOf(ctx, b)
	check(s.t, err)
	for _, k := range keys {
		if !strings.HasSuffix(k, "/pointer") && !strings.Contains(k, r.ID.String()) {
			s.t.Errorf("left: %s", k)
		}
	}
	if len(keys) != 4 { // pointer, claim, index, one part
		s.t.Errorf("%d keys are there: %q", len(keys), keys)
	}
}
