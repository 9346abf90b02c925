package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/cas/manifest"
)

// manifestSoakEnv is how long TestManifestSoak is to go on, such as 90s; besideEnv names the bucket of soakBucketEnv by another
// gateway.
const (
	manifestSoakEnv = "INDEXD_MANIFEST_SOAK"
	besideEnv       = "INDEXD_TEST_BESIDE"
)

// TestManifestSoak: processes that add to one manifest, replace entries and remove them, beside one that collects whatever
// nothing references, however new, are killed at random and started again. Afterwards `indexd manifest fsck` finds no fault;
// the list is what the producers' journals say (see soakWrongs), and each of its blobs has the bytes that were given; one more
// gc leaves nothing that the list does not have. The bucket is a directory, or a new path of the one that INDEXD_TEST_BUCKET
// names, which all processes reach through a faultProxy; with INDEXD_TEST_BESIDE every other one goes by that gateway. With
// INDEXD_MANIFEST_SOAK=90s there are 16 producers of 40 requests and more, until that time is over.
func TestManifestSoak(t *testing.T) {
	bound := os.Getenv(manifestSoakEnv)
	s := &manifestSoak{t: t, producers: 5, count: 8, largest: 256 << 10, events: make(chan manifestEvent), kills: map[string]int{},
		endings: map[string]int{}}
	if bound != "" {
		d, err := time.ParseDuration(bound)
		if err != nil || d <= 0 {
			t.Fatalf("%s is %q; give a duration such as 90s", manifestSoakEnv, bound)
		}
		s.producers, s.count, s.largest, s.deadline = 16, 40, 8<<20, time.After(d)
	}
	s.open()
	s.run()
	if t.Failed() {
		return
	}
	s.verify()
	if s.kills["producer"] == 0 || s.collected == 0 || bound != "" && (s.kills["collector"] == 0 || s.again == 0) {
		t.Errorf("killed %v, %d collected, %d uploaded again: the test has not tested what it is for", s.kills, s.collected, s.again)
	}
}

// A manifestSoak is one manifest and the processes that work on it. One goroutine owns it.
type manifestSoak struct {
	t         *testing.T
	producers int
	count     int   // requests of a producer, at the least
	largest   int64 // bytes of a blob, at the most
	deadline  <-chan time.Time

	address  string   // past all faults
	ways     []string // by which the processes go
	env      []string // that finds credentials
	proxies  []*faultProxy
	journals string // directory

	procs    []*manifestProc
	events   chan manifestEvent
	stopping bool // producers are to end when they have done what they have to
	working  int  // producers that have not
	running  int

	endings            map[string]int // of requests, as they were told
	kills              map[string]int
	collected, orphans int // by gc, and of them blobs that nobody had noted
	refusedGC          int
	again              int // uploads of blobs that had been collected before they were saved, or were not seen
}

type manifestProc struct {
	role   string
	args   []string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *bytes.Buffer
	live   bool
	killed bool
}

type manifestEvent struct {
	proc *manifestProc
	line string
	exit bool
	err  error
}

func (s *manifestSoak) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// open makes the bucket, and finds out what it honours, which nobody has to do then through a proxy.
func (s *manifestSoak) open() {
	s.journals = s.t.TempDir()
	if s.address = os.Getenv(soakBucketEnv); s.address == "" {
		s.address = filepath.Join(s.journals, "bucket")
		b, err := dirbucket.Create(s.address, nil)
		s.check(err)
		s.check(b.Close())
		s.ways = []string{s.address}
	} else {
		g := newRemoteGround(s.t, s.address)
		s.address, s.env = g.address(), g.env()
		s.ways = []string{s.proxied(s.address)}
		if beside := os.Getenv(besideEnv); beside != "" {
			at, err := url.Parse(beside)
			s.check(err)
			ours, err := url.Parse(s.address)
			s.check(err)
			at.Path = ours.Path
			s.ways = append(s.ways, s.proxied(at.String()))
		}
	}
	b, err := parseBucket(s.address, existing)
	s.check(err)
	s.check(errors.Join(b.usable(s.t.Context()), b.Close()))
}

// proxied is the address by a proxy of its own.
func (s *manifestSoak) proxied(address string) string {
	u, err := url.Parse(address)
	s.check(err)
	q := u.Query()
	p := newFaultProxy(s.t, q.Get("endpoint"), u.Scheme == "s3")
	s.proxies = append(s.proxies, p)
	q.Set("endpoint", p.URL)
	u.RawQuery = q.Encode()
	return u.String()
}

func (s *manifestSoak) journal(producer int) string {
	return filepath.Join(s.journals, fmt.Sprintf("producer-%d.log", producer))
}

// run lets the processes work, and kills them as the work goes on.
func (s *manifestSoak) run() {
	for i := range s.producers {
		args := []string{"producer", s.ways[i%len(s.ways)], strconv.Itoa(i), strconv.Itoa(s.count), fmt.Sprint(s.largest), s.journal(i)}
		s.start(&manifestProc{role: "producer", args: args})
	}
	s.start(&manifestProc{role: "collector", args: []string{"collector", s.ways[0]}})
	s.working = s.producers
	if s.deadline == nil {
		s.stop()
	}
	done, nextKill, nextGC := 0, 8, 4
	for s.working > 0 && !s.t.Failed() {
		select {
		case e := <-s.events:
			done += s.take(e)
		case <-s.deadline:
			s.stop()
		}
		if done >= nextGC {
			nextGC = done + max(4, s.producers/2)
			s.order("collector", "collect")
		}
		if done >= nextKill && (!s.stopping || s.deadline == nil) {
			nextKill = done + 1 + rand.N(min(s.producers*s.count/5, 40))
			s.killOne()
		}
	}
	for _, p := range s.procs {
		if p.live {
			s.kill(p)
		}
	}
	for s.running > 0 {
		s.take(<-s.events)
	}
	for _, p := range s.proxies {
		p.settle()
	}
}

func (s *manifestSoak) start(p *manifestProc) {
	if !slices.Contains(s.procs, p) {
		s.procs = append(s.procs, p)
	}
	cmd := child(s.t, "manifestsoak", p.args...)
	cmd.Env = append(cmd.Env, s.env...)
	p.stderr = new(bytes.Buffer)
	cmd.Stderr = p.stderr
	stdin, err := cmd.StdinPipe()
	s.check(err)
	stdout, err := cmd.StdoutPipe()
	s.check(err)
	s.check(cmd.Start())
	p.cmd, p.stdin, p.live, p.killed = cmd, stdin, true, false
	s.running++
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			s.events <- manifestEvent{proc: p, line: lines.Text()}
		}
		s.events <- manifestEvent{proc: p, exit: true, err: cmd.Wait()}
	}()
	if s.stopping {
		s.order(p.role, "stop")
	}
}

// order tells the processes of a role. One that has just ended does not hear it, and is told when it is started again.
func (s *manifestSoak) order(role, what string) {
	for _, p := range s.procs {
		if p.role == role && p.live {
			_, _ = io.WriteString(p.stdin, what+"\n")
		}
	}
}

func (s *manifestSoak) stop() {
	s.stopping = true
	s.order("producer", "stop")
}

// take takes what a process tells, and returns 1 if a request has ended.
func (s *manifestSoak) take(e manifestEvent) int {
	if e.exit {
		s.ended(e.proc, e.err)
		return 0
	}
	word, rest, _ := strings.Cut(e.line, " ")
	var n, orphans int
	switch word {
	case "again":
		_, err := fmt.Sscan(rest, &n)
		s.check(err)
		s.again += n
	case "collected":
		_, err := fmt.Sscan(rest, &n, &orphans)
		s.check(err)
		s.collected, s.orphans = s.collected+n, s.orphans+orphans
	case "refused":
		if e.proc.role == "collector" {
			s.refusedGC++
			s.faultless("a gc", rest)
			return 0
		}
		fallthrough
	case soakWon, soakUnknown, soakAbsent:
		s.endings[word]++
		return 1
	default:
		s.t.Errorf("a %s said %q", e.proc.role, e.line)
	}
	return 0
}

// faultless is for what may happen through a proxy only.
func (s *manifestSoak) faultless(who, why string) {
	if s.proxies == nil {
		s.t.Errorf("%s failed on a directory: %s", who, why)
	}
}

func (s *manifestSoak) ended(p *manifestProc, err error) {
	p.live = false
	p.stdin.Close()
	s.running--
	switch {
	case p.role == "producer" && err == nil:
		s.working--
	case !p.killed:
		s.t.Errorf("a %s ended by itself: %v: %s", p.role, err, p.stderr)
	case s.working > 0:
		s.start(p)
	}
}

// killOne kills a producer by chance, and each fourth time the collector.
func (s *manifestSoak) killOne() {
	role := "producer"
	if (s.kills["producer"]+s.kills["collector"])%4 == 3 {
		role = "collector"
	}
	var live []*manifestProc
	for _, p := range s.procs {
		if p.role == role && p.live && !p.killed {
			live = append(live, p)
		}
	}
	if len(live) > 0 {
		p := live[rand.N(len(live))]
		s.kills[p.role]++
		s.kill(p)
	}
}

func (s *manifestSoak) kill(p *manifestProc) {
	p.killed = true
	p.cmd.Process.Kill() // an error says that it has ended already, of which its goroutine tells
}

// verify looks at what is left, past all faults.
func (s *manifestSoak) verify() {
	t := s.t
	before := s.fsck()
	m, err := openSoakManifest(s.address, true)
	s.check(err)
	r, err := m.GC(t.Context(), nil)
	if err != nil || r.Failures > 0 {
		t.Errorf("the last gc: %+v, %v", r, err)
	}
	after := s.fsck()
	if len(after.Orphans)+len(after.Reaping) > 0 || after.Blobs != before.Blobs || after.Foreign > 0 {
		t.Errorf("after the last gc: %d orphans, %d noted, %d foreign; blobs %d, before it %d", len(after.Orphans), len(after.Reaping),
			after.Foreign, after.Blobs, before.Blobs)
	}
	state, err := m.Load(t.Context())
	s.check(err)
	wrong, h := soakWrongs(s.journaled(), state.Entries)
	for _, w := range wrong {
		t.Error(w)
	}
	size := s.read(m, state.Entries)
	for end, n := range h.endings {
		if n > 0 && (end == soakRefused || end == soakUnknown) {
			s.faultless("a request", end)
		}
	}
	passed, struck := 0, map[string]int{}
	for _, p := range s.proxies {
		n, kinds := p.told()
		passed += n
		for kind, n := range kinds {
			struck[kind] += n
		}
	}
	faults := ""
	if passed > 0 {
		faults = fmt.Sprintf("; %d requests at the wire, of which were struck: %v", passed, struck)
	}
	if len(struck) < len(troubles) && len(s.proxies) > 0 {
		t.Errorf("only %d of %d troubles struck: %v", len(struck), len(troubles), struck)
	}
	t.Logf("figures: %d producers: %d changes asked for, %d acknowledged, %d unknown, %d refused (%d of them uploads), "+
		"%d not there, %d cut off by SIGKILL; killed %v; %d blobs collected, %d of them never noted before, %d uploaded again; "+
		"%d collections refused; left are %d entries with %d blobs of %d MB%s", s.producers, h.begun, h.endings[soakWon], h.endings[soakUnknown], h.endings[soakRefused], h.uploads,
		h.endings[soakAbsent], h.endings["killed"], s.kills, s.collected, s.orphans, s.again, s.refusedGC, len(state.Entries), after.Blobs,
		size/1e6, faults)
	if h.begun < s.producers*s.count || h.endings[soakWon] < h.begun/2 {
		t.Errorf("%d changes were asked for, of %d, and %d acknowledged", h.begun, s.producers*s.count, h.endings[soakWon])
	}
}

// fsck is what a fresh process finds, which is to be no fault.
func (s *manifestSoak) fsck() (found checkJSON) {
	cmd := child(s.t, "indexd", "manifest", "fsck", soakManifest, "--json", "--bucket", s.address)
	cmd.Env = append(cmd.Env, s.env...)
	status, stdout, stderr := runChild(s.t, cmd)
	if status != 0 {
		s.t.Errorf("fsck: exit status %d, %s%s", status, stdout, stderr)
	}
	s.check(json.Unmarshal([]byte(stdout), &found))
	return found
}

// journaled are all journals.
func (s *manifestSoak) journaled() (all [][]soakStep) {
	for i := range s.producers {
		text, err := os.ReadFile(s.journal(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was killed before its first step
		}
		s.check(err)
		steps, err := readSoakSteps(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
		s.check(err)
		all = append(all, steps)
	}
	return all
}

// read holds every blob to the bytes that were given, and returns how many there are.
func (s *manifestSoak) read(m *manifest.Manifest, entries []manifest.Entry) (total int64) {
	var all sync.WaitGroup
	turns := make(chan struct{}, 4)
	for _, e := range entries {
		total += e.Size
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			for i, b := range e.Blobs {
				want := sha256.New()
				io.Copy(want, soakBody(e.ID, i, b.Size))
				sum := fmt.Sprintf("sha256:%x", want.Sum(nil))
				if got, err := sumOf(s.t.Context(), m, b); err != nil || got != sum || b.Digest != sum {
					s.t.Errorf("blob %d of %s, %s, has %s, %v; the list says %s, and given was %s", i, e.ID, b.Key, got, err, b.Digest, sum)
				}
			}
		})
	}
	all.Wait()
	return total
}

func sumOf(ctx context.Context, m *manifest.Manifest, b manifest.Blob) (string, error) {
	r, err := m.Open(ctx, b)
	if err != nil {
		return "", err
	}
	defer r.Close()
	got := sha256.New()
	_, err = io.Copy(got, r)
	return fmt.Sprintf("sha256:%x", got.Sum(nil)), err
}
