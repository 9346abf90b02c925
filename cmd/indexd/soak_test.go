package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/web/api"
)

// TestSoak: producers, readers with sweepers and pruners, as real processes on one bucket, are killed at random and
// started again; in the end a fresh process lists every acknowledged live item, and nothing foreign was touched. The
// bucket is a directory, or a new path of the one that INDEXD_TEST_BUCKET names (see soakground_test.go). It ends when
// every producer has done its work once; with INDEXD_SOAK=60s in the environment that is forty times the work (on a
// server four times), and again and again until that time is over, so that only a round after the first one may be cut
// short.
func TestSoak(t *testing.T) {
	const producers, few = 8, 50
	many := 2000
	if os.Getenv(soakBucketEnv) != "" {
		many = 200
	}
	bound := os.Getenv("INDEXD_SOAK")
	if bound == "" {
		s := newSoak(t, producers, few)
		s.run()
		if len(s.kills) == 0 {
			t.Error("no process was killed: the test has not tested what it is for")
		}
		return
	}
	d, err := time.ParseDuration(bound)
	if err != nil || d <= 0 {
		t.Fatalf("INDEXD_SOAK is %q; give a duration such as 60s", bound)
	}
	until := time.Now().Add(d)
	whole, kills := 0, map[string]int{}
	for whole == 0 || time.Now().Before(until) {
		s := newSoak(t, producers, many)
		if whole > 0 {
			s.deadline = time.After(time.Until(until))
		}
		s.run()
		for _, p := range s.procs {
			kills[p.role] += 0
		}
		for role, n := range s.kills {
			kills[role] += n
		}
		if t.Failed() {
			return
		}
		if !s.late {
			whole++
		}
	}
	t.Logf("%d whole rounds, killed %v", whole, kills)
	for role, n := range kills {
		if n == 0 {
			t.Errorf("no %s was killed: the test has not tested what it is for", role)
		}
	}
}

// A soak is one bucket and the processes that work on it. One goroutine owns it.
type soak struct {
	t        *testing.T
	ground   soakGround
	config   string
	count    int // items of a producer
	procs    []*soakProc
	events   chan soakEvent
	deadline <-chan time.Time
	late     bool // the deadline came first
	stopping bool

	running, working int // processes, producers among them that have work left
	acks             int
	kills            map[string]int // by role, while there was work to do
	deleted          int            // by pruners
	foreign          string
}

type soakProc struct {
	role   string
	args   []string
	log    string // of a producer
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *bytes.Buffer
	killed bool
	live   bool
}

type soakEvent struct {
	proc *soakProc
	line string
	exit bool
	err  error
}

func newSoak(t *testing.T, producers, count int) *soak {
	root := t.TempDir()
	s := &soak{t: t, count: count, events: make(chan soakEvent), kills: make(map[string]int)}
	s.ground = newSoakGround(t, root)
	s.config = filepath.Join(root, "indexd.yaml")
	s.Check(os.WriteFile(s.config, []byte(s.ground.config()), 0o644))
	s.ground.plant()
	s.foreign = s.ground.foreign()
	role := func(name string, args ...string) *soakProc {
		return &soakProc{role: name, args: append([]string{name, s.ground.address(), s.ground.skew().String()}, args...)}
	}
	for i := range producers {
		log := filepath.Join(root, fmt.Sprintf("producer-%d.log", i))
		p := role("producer", strconv.Itoa(i), strconv.Itoa(count), log)
		p.log = log
		s.procs = append(s.procs, p)
	}
	for _, name := range s.ground.crew() {
		s.procs = append(s.procs, role(name))
	}
	s.working = producers
	return s
}

// Check fails the test on an error.
func (s *soak) Check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// child is a program of TestMain that finds the bucket's credentials.
func (s *soak) child(name string, args ...string) *exec.Cmd {
	cmd := child(s.t, name, args...)
	cmd.Env = append(cmd.Env, s.ground.env()...)
	return cmd
}

// indexd is a command on the bucket.
func (s *soak) indexd(args ...string) *exec.Cmd {
	return s.child("indexd", append(args, "--bucket", s.ground.address(), "--config", s.config)...)
}

func (s *soak) start(p *soakProc) {
	p.cmd = s.child("soak", p.args...)
	p.stderr = new(bytes.Buffer)
	p.cmd.Stderr = p.stderr
	stdin, err := p.cmd.StdinPipe()
	s.Check(err)
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	s.Check(err)
	s.Check(p.cmd.Start())
	p.live, p.killed = true, false
	s.running++
	cmd := p.cmd
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			s.events <- soakEvent{proc: p, line: lines.Text()}
		}
		s.events <- soakEvent{proc: p, exit: true, err: cmd.Wait()}
	}()
}

// run lets the processes work, kills them as the work goes on, and looks at what is left.
func (s *soak) run() {
	for _, p := range s.procs {
		s.start(p)
	}
	next := 10
	for s.running > 0 {
		select {
		case e := <-s.events:
			s.take(e)
		case <-s.deadline:
			s.late = true
			s.stop()
		}
		if s.acks >= next && !s.stopping {
			next = s.acks + 1 + rand.N(min(s.count/5, 60)+1)
			s.killOne()
		}
		if s.working == 0 && !s.stopping {
			s.stop()
		}
	}
	s.t.Logf("%d items for each producer; told of %d acknowledged, killed %v, %d deleted by passes; cut short: %t", s.count,
		s.acks, s.kills, s.deleted, s.late)
	s.verify()
}

func (s *soak) take(e soakEvent) {
	switch {
	case e.exit:
		s.ended(e.proc, e.err)
	case e.line == "acknowledged":
		s.acks++
	case strings.HasPrefix(e.line, "deleted "):
		n, err := strconv.Atoi(strings.TrimPrefix(e.line, "deleted "))
		s.Check(err)
		s.deleted += n
	}
}

func (s *soak) ended(p *soakProc, err error) {
	p.live = false
	s.running--
	switch {
	case p.role == "producer" && err == nil:
		s.working--
	case !p.killed:
		s.t.Errorf("a %s ended by itself: %v: %s", p.role, err, p.stderr)
		s.stop()
	case !s.stopping:
		s.start(p)
	}
}

func (s *soak) killOne() {
	var live []*soakProc
	for _, p := range s.procs {
		if p.live && !p.killed {
			live = append(live, p)
		}
	}
	if len(live) > 0 {
		p := live[rand.N(len(live))]
		s.kill(p)
		s.kills[p.role]++
	}
}

func (s *soak) kill(p *soakProc) {
	p.killed = true
	p.cmd.Process.Kill() // an error says that it has ended already, of which its goroutine tells
}

func (s *soak) stop() {
	s.stopping = true
	for _, p := range s.procs {
		if p.live && !p.killed {
			s.kill(p)
		}
	}
}

// verify looks at the bucket with fresh processes.
func (s *soak) verify() {
	t := s.t
	if now := s.ground.foreign(); now != s.foreign {
		t.Errorf("foreign objects were touched; before:\n%s\nafter:\n%s", s.foreign, now)
	}
	s.verifyListed(s.listed())
	if s.deleted == 0 && !s.late {
		t.Error("the pruners deleted nothing")
	}
	// A last pass finds nothing else to hide, and leaves nothing that is over.
	s.prune()
	s.verifyListed(s.listed())
	if left := s.ground.leftovers(); len(left) > 0 {
		t.Errorf("%d keys are left that are long over, such as %q", len(left), left[0])
	}
	if now := s.ground.foreign(); now != s.foreign {
		t.Errorf("foreign objects were touched by the last pass; before:\n%s\nafter:\n%s", s.foreign, now)
	}
}

// prune makes a last pass over each index; one with a short TTL is pruned until what was written last has aged.
func (s *soak) prune() {
	for _, index := range s.ground.indexes() {
		for tries := 0; ; tries++ {
			if out, err := s.indexd("prune", "--index", index).CombinedOutput(); err != nil {
				s.t.Fatalf("pruning %s at the end: %v: %s", index, err, out)
			}
			if len(s.ground.leftovers()) == 0 || index == blobindex.DefaultName || tries == 1000 {
				break
			}
		}
	}
}

// listed is what a fresh process lists: ids by sub-key.
func (s *soak) listed() map[string]string {
	cmd := s.indexd("ls", "--json")
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("listing: %v: %s", err, stderr)
	}
	var items api.Items
	s.Check(json.Unmarshal(out, &items))
	ids := make(map[string]string)
	for _, it := range items.Items {
		ids[it.Subkey] = it.Id
	}
	return ids
}

// verifyListed compares a listing with the producers' logs.
func (s *soak) verifyListed(listed map[string]string) {
	present := make(map[string]bool)
	for _, id := range listed {
		present[id] = true
	}
	var counts []string
	defer func() { s.t.Logf("listed %d; acknowledged/finished by each producer: %s", len(present), counts) }()
	for i, p := range s.procs {
		if p.role != "producer" {
			continue
		}
		steps, err := readSoakLog(p.log)
		if s.late && errors.Is(err, fs.ErrNotExist) {
			continue // it was killed before its first step
		}
		s.Check(err)
		ending := make(map[string]bool)
		for _, id := range steps["ending"] {
			ending[id] = true
		}
		churn := churnKey(strconv.Itoa(i))
		for _, id := range steps["acknowledged"] {
			switch {
			case strings.HasPrefix(id, churn+"_"):
				// Only the newest is shown, which may be one that was not acknowledged.
				if listed[churn] < id {
					s.t.Errorf("%s was acknowledged, and %q is listed", id, listed[churn])
				}
			case !ending[id] && !present[id]:
				s.t.Errorf("%s was acknowledged and is not listed", id)
			}
		}
		for _, id := range steps["finished"] {
			if present[id] {
				s.t.Errorf("%s is finished and is listed", id)
			}
		}
		acknowledged := len(steps["acknowledged"])
		counts = append(counts, fmt.Sprintf("%d/%d", acknowledged, len(steps["finished"])))
		if !s.late && acknowledged < s.count {
			s.t.Errorf("producer %d has not done its work: %d of %d", i, acknowledged, s.count)
		}
	}
}
