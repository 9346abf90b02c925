package openbucket_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// The contest of documentProcesses.
const (
	processes  = 8
	increments = 50 // of each
	raceTime   = 5 * time.Minute
)

// TestMain makes the test binary stand in for the processes that tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "increment" {
		os.Exit(incrementer(os.Args[2], bucket.Key(os.Args[3])))
	}
	os.Exit(m.Run())
}

// A counter is the document's payload.
type counter struct {
	Sum int `json:"sum"`
}

func counterAt(s cas.Store, key bucket.Key) *cas.Doc[counter] {
	return cas.NewDoc[counter](s, key, "openbucket-test/1", nil)
}

// A tally is what one process, or all of them, saw.
type tally struct {
	Acknowledged, Unknown int
	Attempts              []int    // saves of each update that was acknowledged
	Failed                []string // updates that ended otherwise
}

// documentProcesses: processes that share nothing but the bucket add to one document, by all ways to it in turn. Every
// increment that was acknowledged is there, once, and no other but those whose outcome is unknown may be.
func documentProcesses(t *testing.T, s cas.Store, ways []string) {
	key := bucket.Key("castest/processes-" + rand.Text())
	doc := counterAt(s, key)
	nothing := func(*counter, cas.State[counter]) error { return nil }
	if _, err := doc.Update(t.Context(), nothing, &cas.UpdateOptions{Create: true}); err != nil {
		t.Fatal(err)
	}
	var all tally
	for _, one := range raceProcesses(t, ways, key) {
		all.Acknowledged, all.Unknown = all.Acknowledged+one.Acknowledged, all.Unknown+one.Unknown
		all.Attempts, all.Failed = append(all.Attempts, one.Attempts...), append(all.Failed, one.Failed...)
	}
	for _, why := range all.Failed[:min(3, len(all.Failed))] {
		t.Errorf("%d updates failed, one of them so: %s", len(all.Failed), why)
	}
	if all.Acknowledged+all.Unknown+len(all.Failed) != processes*increments || all.Acknowledged == 0 {
		t.Fatalf("%d increments were acknowledged, %d unknown, %d failed, of %d", all.Acknowledged, all.Unknown,
			len(all.Failed), processes*increments)
	}
	state, err := doc.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := state.Value.Sum
	if sum < all.Acknowledged {
		t.Errorf("%d of %d acknowledged increments are lost", all.Acknowledged-sum, all.Acknowledged)
	}
	if most := all.Acknowledged + all.Unknown; sum > most {
		t.Errorf("the sum is %d, and at most %d increments were made", sum, most)
	}
	if state.Seq != uint64(sum)+1 {
		t.Errorf("the sum is %d after %d saves, the first of which made the document", sum, state.Seq)
	}
	slices.Sort(all.Attempts)
	t.Logf("figures: %d processes, %d ways: %d increments acknowledged, %d unknown, sum %d; saves for each: median %d, most %d",
		processes, len(ways), all.Acknowledged, all.Unknown, sum, all.Attempts[len(all.Attempts)/2], all.Attempts[len(all.Attempts)-1])
}

// raceProcesses starts the processes, has them begin together, and returns what each saw.
func raceProcesses(t *testing.T, ways []string, key bucket.Key) []tally {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), raceTime)
	defer cancel()
	tallies := make([]tally, processes)
	begin := make(chan struct{})
	var ready, done sync.WaitGroup
	for i := range processes {
		cmd := exec.CommandContext(ctx, self, "increment", ways[i%len(ways)], string(key))
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready.Add(1)
		done.Go(func() {
			defer stdin.Close() // which would end the process
			out := bufio.NewReader(stdout)
			_, err := out.ReadString('\n')
			ready.Done()
			<-begin
			if err == nil {
				_, err = io.WriteString(stdin, "begin\n")
			}
			if err == nil {
				err = json.NewDecoder(out).Decode(&tallies[i])
			}
			if err := errors.Join(err, cmd.Wait()); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return tallies
}

// incrementer is one process: it says that it is ready, waits for a line, adds to the document, and tells what it saw. It
// ends when its standard input does, so that none outlives the test.
func incrementer(address string, key bucket.Key) int {
	quiet()
	ctx := context.Background()
	s, err := openWay(ctx, address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return 1
	}
	go func() {
		io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	counted := &countingStore{Store: s}
	doc := counterAt(counted, key)
	add := func(c *counter, _ cas.State[counter]) error { c.Sum++; return nil }
	var seen tally
	for range increments {
		before := counted.saves
		switch _, err := doc.Update(ctx, add, nil); {
		case err == nil:
			seen.Acknowledged++
			seen.Attempts = append(seen.Attempts, counted.saves-before)
		case errors.Is(err, cas.ErrUnknown):
			seen.Unknown++
		default:
			seen.Failed = append(seen.Failed, err.Error())
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// countingStore counts saves, of one goroutine.
type countingStore struct {
	cas.Store
	saves int
}

func (c *countingStore) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	c.saves++
	return c.Store.Save(ctx, key, body, p)
}
