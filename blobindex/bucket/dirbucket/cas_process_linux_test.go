package dirbucket_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/cas"
)

// childArg is what else a process is told.
const childArg = "DIRBUCKET_TEST_ARG"

// A counter is the payload of the documents here.
type counter struct {
	Count int    `json:"count"`
	Fill  string `json:"fill"` // so that a body is several pages long
}

const counterKey, counterFormat = bucket.Key("docs/counter"), "counter/1"

func counterOn(s cas.Store) *cas.Doc[counter] {
	return cas.NewDoc[counter](s, counterKey, counterFormat, nil)
}

func increment(c *counter, _ cas.State[counter]) error {
	c.Count++
	c.Fill = fill(c.Count)
	return nil
}

func fill(n int) string { return fmt.Sprintf("%020000d", n) }

// together starts one process for each argument, lets them go at once when all of them are ready, and returns what they
// wrote.
func together(t *testing.T, name, dir string, args []string) []string {
	t.Helper()
	type running struct {
		cmd *exec.Cmd
		in  io.Closer
		out *bufio.Reader
	}
	var all []running
	for _, arg := range args {
		cmd := command(t, name, dir)
		cmd.Env = append(cmd.Env, childArg+"="+arg)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		all = append(all, running{cmd, in, bufio.NewReader(out)})
	}
	for _, r := range all {
		if line, err := r.out.ReadString('\n'); line != "ready\n" {
			t.Errorf("process %s said %q, %v, before it began", name, line, err)
		}
	}
	for _, r := range all {
		r.in.Close()
	}
	var said []string
	for _, r := range all {
		text, err := io.ReadAll(r.out)
		if err := errors.Join(err, r.cmd.Wait()); err != nil {
			t.Errorf("process %s: %v", name, err)
		}
		said = append(said, string(text))
	}
	if t.Failed() {
		t.FailNow()
	}
	return said
}

// ready is what a process of together does before it begins.
func ready() error {
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// A tally is what one process of TestProcesses_Increments saw.
type tally struct {
	Unknown  int
	Attempts []int // of each update
}

// TestProcesses_Increments: the sum is exact, and no outcome is unknown: what a directory did, it says. With
// INDEXD_PROCESSES=32 in the environment there are so many, of 50 increments each.
func TestProcesses_Increments(t *testing.T) {
	processes, each := 8, 15
	if text := os.Getenv("INDEXD_PROCESSES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 {
			t.Fatalf("INDEXD_PROCESSES is %q; give how many processes there are to be", text)
		}
		processes, each = n, 50
	}
	root := t.TempDir()
	b := create(t, root)
	if _, err := counterOn(b).Update(t.Context(), func(*counter, cas.State[counter]) error { return nil },
		&cas.UpdateOptions{Create: true}); err != nil {
		t.Fatal(err)
	}
	var attempts []int
	for _, text := range together(t, "increments", root, slices.Repeat([]string{strconv.Itoa(each)}, processes)) {
		var one tally
		if err := json.Unmarshal([]byte(text), &one); err != nil || one.Unknown > 0 || len(one.Attempts) != each {
			t.Errorf("a process said %.200q, %v, want %d successes and nothing unknown", text, err, each)
		}
		attempts = append(attempts, one.Attempts...)
	}
	s, err := counterOn(b).Load(t.Context())
	if err != nil || s.Value.Count != processes*each || s.Seq != uint64(processes*each)+1 {
		t.Errorf("after %d × %d increments it is %d at seq %d, %v", processes, each, s.Value.Count, s.Seq, err)
	}
	if t.Failed() {
		return
	}
	slices.Sort(attempts)
	n := len(attempts)
	t.Logf("%d updates by %d processes: attempts per success: median %d, p99 %d, at most %d",
		n, processes, attempts[n/2], attempts[n*99/100], attempts[n-1])
	if attempts[n-1] == 1 {
		t.Error("no update met with another one: the test has not tested what it is for")
	}
}

func incrementsChild(dir string) error {
	each, err := strconv.Atoi(os.Getenv(childArg))
	if err != nil {
		return err
	}
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	var saw tally
	for range each {
		attempts := 0
		_, err := counterOn(b).Update(context.Background(), func(c *counter, s cas.State[counter]) error {
			attempts++
			return increment(c, s)
		}, nil)
		switch {
		case errors.Is(err, cas.ErrUnknown):
			saw.Unknown++
		case err != nil:
			return err
		default:
			saw.Attempts = append(saw.Attempts, attempts)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(saw); err != nil {
		return err
	}
	return b.Close()
}

const racedKeys = 4000

// TestCase_C14_CreatesBetweenProcesses: two race for 4,000 keys, and each key has exactly one winner, whose body is there.
func TestCase_C14_CreatesBetweenProcesses(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	winner := map[int]string{}
	for i, text := range together(t, "creates", root, []string{"a", "b"}) {
		var won []int
		if err := json.Unmarshal([]byte(text), &won); err != nil {
			t.Fatalf("%.200q: %v", text, err)
		}
		name := []string{"a", "b"}[i]
		for _, n := range won {
			if other, taken := winner[n]; taken {
				t.Errorf("both %s and %s were told that they created key %d", other, name, n)
			}
			winner[n] = name
		}
		t.Logf("%s won %d", name, len(won))
		if len(won) == 0 {
			t.Error("one process won nothing: there was no race")
		}
	}
	for n := range racedKeys {
		if body, err := read(t.Context(), b, string(racedKey(n))); err != nil || body != racedBody(winner[n], n) {
			t.Fatalf("key %d has %q, %v, and the winner is %q", n, body, err, winner[n])
		}
	}
}

func racedKey(n int) bucket.Key           { return bucket.Key(fmt.Sprintf("raced/%d/%d", n%16, n)) }
func racedBody(name string, n int) string { return fmt.Sprintf("%s %06d", name, n) }

func createsChild(dir string) error {
	name := os.Getenv(childArg)
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	won := []int{}
	for n := range racedKeys {
		switch _, err := b.Save(context.Background(), racedKey(n), []byte(racedBody(name, n)), cas.IfAbsent()); {
		case err == nil:
			won = append(won, n)
		case !errors.Is(err, cas.ErrConflict):
			return err
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(won); err != nil {
		return err
	}
	return b.Close()
}

const (
	states     = 41   // of the object whose tokens are stale
	staleSaves = 1000 // of each of two processes
	staleKey   = bucket.Key("stale/object")
)

func stateBody(n int) string { return fmt.Sprintf("state %06d", n) }

// TestCase_C14_StaleTokens: two processes try 2,000 saves with tokens of earlier states, whose size and mtime are those of
// what is there. Each is refused.
func TestCase_C14_StaleTokens(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	file := filepath.Join(root, string(staleKey))
	when := time.Unix(1_800_000_000, 0)
	var tokens []cas.Version
	p := cas.IfAbsent()
	for n := range states {
		v, err := b.Save(t.Context(), staleKey, []byte(stateBody(n)), p)
		must(t, err)
		must(t, os.Chtimes(file, when, when))
		tokens, p = append(tokens, v), cas.IfMatch(v)
	}
	text, err := json.Marshal(tokens[:states-1])
	must(t, err)
	for _, said := range together(t, "stale", root, []string{string(text), string(text)}) {
		if said != fmt.Sprintf("%d refused\n", staleSaves) {
			t.Errorf("a process said %q", said)
		}
	}
	o, err := b.Load(t.Context(), staleKey)
	if err != nil || string(o.Body) != stateBody(states-1) || o.Version != tokens[states-1] || !o.ModTime.Equal(when) {
		t.Errorf("the object is %q of %v, version %s, %v", o.Body, o.ModTime, o.Version, err)
	}
}

func staleChild(dir string) error {
	var tokens []cas.Version
	if err := json.Unmarshal([]byte(os.Getenv(childArg)), &tokens); err != nil {
		return err
	}
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	for n := range staleSaves {
		_, err := b.Save(context.Background(), staleKey, []byte(stateBody(n+states)), cas.IfMatch(tokens[n%len(tokens)]))
		if !errors.Is(err, cas.ErrConflict) {
			return fmt.Errorf("save %d, with token %d of %d states: %w", n, n%len(tokens), states, err)
		}
	}
	fmt.Printf("%d refused\n", staleSaves)
	return b.Close()
}
