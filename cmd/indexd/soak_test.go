package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/web/api"
)

// TestSoak: producers, readers with sweepers and pruners, as real processes on one directory, are killed at random and
// started again; in the end a fresh process lists every acknowledged live item, and nothing foreign was touched. It ends
// when every producer has done its work once; with INDEXD_SOAK=60s in the environment that is forty times the work, and
// again and again until that time is over, so that only a round after the first one may be cut short.
func TestSoak(t *testing.T) {
	const producers = 8
	bound := os.Getenv("INDEXD_SOAK")
	if bound == "" {
		s := newSoak(t, producers, 50)
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
	whole, kills := 0, map[string]int{"producer": 0, "reader": 0, "pruner": 0}
	for whole == 0 || time.Now().Before(until) {
		s := newSoak(t, producers, 2000)
		if whole > 0 {
			s.deadline = time.After(time.Until(until))
		}
		s.run()
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

// A soak is one directory and the processes that work on it. One goroutine owns it.
type soak struct {
	t        *testing.T
	dir      string
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
	s := &soak{t: t, dir: filepath.Join(root, "bucket"), count: count, events: make(chan soakEvent), kills: make(map[string]int)}
	b, err := dirbucket.Create(s.dir, nil)
	s.Check(err)
	s.Check(b.Close())
	s.config = filepath.Join(root, "indexd.yaml")
	s.Check(os.WriteFile(s.config, fmt.Appendf(nil, "indexes: [{name: running, skew: %v}]\n", soakSkew), 0o644))
	s.placeStale()
	s.foreign = s.placeForeign()
	for i := range producers {
		log := filepath.Join(root, fmt.Sprintf("producer-%d.log", i))
		s.procs = append(s.procs, &soakProc{
			role: "producer", log: log, args: []string{"producer", s.dir, strconv.Itoa(i), strconv.Itoa(count), log},
		})
	}
	for _, role := range []string{"reader", "reader", "pruner", "pruner"} {
		s.procs = append(s.procs, &soakProc{role: role, args: []string{role, s.dir}})
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

// placeStale gives the pruners work from the start.
func (s *soak) placeStale() {
	old := time.Now().Add(-3 * time.Hour)
	for i := range 500 {
		name := fmt.Sprintf("_active_runs/%s/stale%d_%d", []string{"default", "other"}[i%2], i, old.Unix())
		s.place(name, "", old)
	}
}

func (s *soak) place(name, body string, at time.Time) {
	path := filepath.Join(s.dir, name)
	s.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	s.Check(os.WriteFile(path, []byte(body), 0o644))
	s.Check(os.Chtimes(path, at, at))
}

// foreignNames are keys that are nobody's items, or another index's.
var foreignNames = []string{
	"photos/cat.jpg",
	"_indexd/other/document.json",
	"_active_runs2/default/job_1700000000",
	"_active_runs-old/default/job_1700000000",
	"_active_runs/stray_1700000000",
	"_active_runs/-bad/job_1700000000",
	"_active_runs/default/notes.txt",
	"_active_runs/default/job_17",
	"_active_runs/default/job_1700000000~weird",
	"_active_runs/default/job_1700000000~170000000000",
	"_active_runs/default/.hidden_1700000000",
	"_active_runs/default/line\nbreak_1700000000",
	"_active_runs/default/bad\xff_1700000000",
	"_active_runs/default/nested/job_1700000000",
}

func (s *soak) placeForeign() string {
	old := time.Now().Add(-1000 * time.Hour)
	for i, name := range foreignNames {
		s.place(name, fmt.Sprintf("body %d\x00\xff", i), old)
	}
	s.place(s.future(), "from the future", time.Now())
	return s.foreignNow()
}

func (s *soak) future() string { return "_active_runs/default/job_4102444800" }

// foreignNow describes what is there of the foreign keys.
func (s *soak) foreignNow() string {
	var b strings.Builder
	for _, name := range append([]string{s.future()}, foreignNames...) {
		path := filepath.Join(s.dir, name)
		info, err := os.Lstat(path)
		s.Check(err)
		body, err := os.ReadFile(path)
		s.Check(err)
		fmt.Fprintf(&b, "%q %v %v %q\n", name, info.Mode(), info.ModTime(), body)
	}
	return b.String()
}

func (s *soak) start(p *soakProc) {
	p.cmd = child(s.t, "soak", p.args...)
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

// verify looks at the directory with fresh processes.
func (s *soak) verify() {
	t := s.t
	if now := s.foreignNow(); now != s.foreign {
		t.Errorf("foreign objects were touched; before:\n%s\nafter:\n%s", s.foreign, now)
	}
	before := s.listed()
	s.verifyListed(before)
	if s.deleted == 0 && !s.late {
		t.Error("the pruners deleted nothing")
	}
	// A last pass finds nothing else to hide, and leaves no stale marker.
	if out, err := child(t, "indexd", "prune", "--bucket", s.dir, "--config", s.config).CombinedOutput(); err != nil {
		t.Errorf("pruning at the end: %v: %s", err, out)
	}
	s.verifyListed(s.listed())
	if stale, _ := filepath.Glob(filepath.Join(s.dir, "_active_runs/*/stale*")); len(stale) > 0 {
		t.Errorf("%d stale markers are left, such as %s", len(stale), stale[0])
	}
	if now := s.foreignNow(); now != s.foreign {
		t.Errorf("foreign objects were touched by the last pass; before:\n%s\nafter:\n%s", s.foreign, now)
	}
}

// listed is what a fresh process lists: ids by sub-key.
func (s *soak) listed() map[string]string {
	out, err := child(s.t, "indexd", "ls", "--json", "--bucket", s.dir, "--config", s.config).Output()
	s.Check(err)
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
