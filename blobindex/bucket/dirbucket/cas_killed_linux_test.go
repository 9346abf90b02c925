package dirbucket_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/cas"
)

// A killing says where a process is to die.
type killing struct {
	Step   string // of the bucket, or of the store around it
	Update int    // the how many-th update, from 1; the first one creates the document
}

// Steps beside those of the bucket.
const (
	beforeLoad = "before load"
	afterLoad  = "after load"
	beforeSave = "before save"
	afterSave  = "after save"
	half       = "half written"
)

// TestCase_C56_KilledInUpdate kills a process at every step of its first update of a document and of a later one. Who comes
// next finds the old document or the new one, whole, and a free lock, can go on, and sees nothing of what was left lying
// about; that is removed when it has grown old.
func TestCase_C56_KilledInUpdate(t *testing.T) {
	leaves := map[string]bool{"created": true, half: true, "written": true, "synced": true}
	saved := map[string]bool{"renamed": true, "durable": true, afterSave: true}
	for _, step := range append([]string{beforeLoad, afterLoad, beforeSave, half, afterSave}, dirbucket.Steps...) {
		for _, update := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(step, " ", "-"), update), func(t *testing.T) {
				root := t.TempDir()
				create(t, root)
				dieAt(t, root, killing{step, update})
				want := update - 1
				if saved[step] {
					want = update
				}
				b := create(t, root)
				checkCounter(t, b, want, want)
				left := tempFiles(root)
				if len(left) > 1 || (len(left) == 1) != leaves[step] {
					t.Errorf("in .indexd/tmp: %q, want something: %t", left, leaves[step])
				}
				checkLocks(t, root)
				if _, err := counterOn(b).Update(t.Context(), increment, &cas.UpdateOptions{Create: true}); err != nil {
					t.Errorf("the next update: %v", err)
				}
				checkCounter(t, b, want+1, want+1)
				checkLeftovers(t, root, left)
			})
		}
	}
}

// dieAt lets a process update until it dies there.
func dieAt(t *testing.T, root string, k killing) {
	t.Helper()
	arg, err := json.Marshal(k)
	must(t, err)
	cmd := command(t, "killed", root)
	cmd.Env = append(cmd.Env, childArg+"="+string(arg))
	out, err := cmd.CombinedOutput()
	var status syscall.WaitStatus
	if cmd.ProcessState != nil {
		status = cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
	if !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v, want it killed\n%s", err, out)
	}
}

// checkCounter: the document is whole, and listed alone; none is as good as one that counts 0.
func checkCounter(t *testing.T, b *dirbucket.Bucket, least, most int) {
	t.Helper()
	s, err := counterOn(b).Load(t.Context())
	var listed []string
	if errors.Is(err, cas.ErrNotExist) {
		err = nil
	} else {
		listed = []string{string(counterKey)}
	}
	n := s.Value.Count
	if err != nil || n < least || n > most || s.Seq != uint64(n) || n > 0 && s.Value.Fill != fill(n) {
		t.Errorf("the document counts %d at seq %d, %v, want %d to %d", n, s.Seq, err, least, most)
	}
	if got, err := list(t.Context(), b, bucket.ListRequest{}); err != nil || !slices.Equal(got, listed) {
		t.Errorf("List = %q, %v, want %q", got, err, listed)
	}
}

// checkLocks: a killed holder's lock is let go of by the system.
func checkLocks(t *testing.T, root string) {
	t.Helper()
	dir := filepath.Join(root, ".indexd", "locks")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for _, e := range entries {
		f := flock.New(filepath.Join(dir, e.Name()))
		if ok, err := f.TryLock(); err != nil || !ok {
			t.Errorf("the lock %s is free: %t, %v", e.Name(), ok, err)
		}
		must(t, f.Close())
	}
}

// checkLeftovers: what is young may be somebody's who writes; what is old is removed by who opens the bucket.
func checkLeftovers(t *testing.T, root string, left []string) {
	t.Helper()
	if got := tempFiles(root); !slices.Equal(got, left) {
		t.Errorf("in .indexd/tmp: %q, want %q", got, left)
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range left {
		must(t, os.Chtimes(filepath.Join(root, ".indexd", "tmp", name), old, old))
	}
	create(t, root)
	if got := tempFiles(root); len(got) != 0 {
		t.Errorf("two hours later, in .indexd/tmp: %q, want nothing", got)
	}
}

// killedChild updates, and kills itself at the step that it was told.
func killedChild(dir string) error {
	var at killing
	if err := json.Unmarshal([]byte(os.Getenv(childArg)), &at); err != nil {
		return err
	}
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	update := 0
	reached := func(step string) {
		if update != at.Update || step != at.Step && !(step == "created" && at.Step == half) {
			return
		}
		if at.Step == half {
			halfWritten(dir)
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	dirbucket.OnStep(b, reached)
	for update = 1; update <= at.Update; update++ {
		_, err := counterOn(stepping{b, reached}).Update(context.Background(), increment, &cas.UpdateOptions{Create: true})
		if err != nil {
			return err
		}
	}
	return errors.New("it did not come to that step")
}

// halfWritten does half of a write, as a kill in the middle of one leaves it.
func halfWritten(dir string) {
	for _, name := range tempFiles(dir) {
		os.WriteFile(filepath.Join(dir, ".indexd", "tmp", name), []byte(`{"format":"counter/1","created":{"no`), 0o666)
	}
}

// stepping tells of the steps of who uses a store.
type stepping struct {
	cas.Store
	step func(string)
}

func (s stepping) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	s.step(beforeLoad)
	defer s.step(afterLoad)
	return s.Store.Load(ctx, key)
}

func (s stepping) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	s.step(beforeSave)
	defer s.step(afterSave)
	return s.Store.Save(ctx, key, body, p)
}

// TestCase_C56_KilledAmongUpdates kills one of two processes that update one document, from outside and so anywhere. Nothing
// that was acknowledged is lost, one update at most is there that was not, and the other process goes on.
func TestCase_C56_KilledAmongUpdates(t *testing.T) {
	root := t.TempDir()
	b := create(t, root)
	count := 0
	for round := range 8 {
		acked := killAfter(t, root, 1+3*round)
		s, err := counterOn(b).Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkCounter(t, create(t, root), count+acked, count+acked+2)
		count = s.Value.Count
		checkLocks(t, root)
	}
}

// killAfter lets two processes update, kills each of them after so many acknowledgements at least, and returns how many
// there were.
func killAfter(t *testing.T, root string, after int) int {
	t.Helper()
	acks := make(chan int, 2)
	for range 2 {
		cmd := command(t, "updates", root)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		go func() {
			n := 0
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if n++; n == after {
					cmd.Process.Kill()
				}
			}
			var status syscall.WaitStatus
			if cmd.Wait(); cmd.ProcessState != nil {
				status = cmd.ProcessState.Sys().(syscall.WaitStatus)
			}
			if status.Signal() != syscall.SIGKILL {
				t.Errorf("a process ended with %v, want it killed", cmd.ProcessState)
			}
			acks <- n
		}()
	}
	return <-acks + <-acks
}

// updatesChild updates until it is killed.
func updatesChild(dir string) error {
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	for n := range 100_000 {
		if _, err := counterOn(b).Update(context.Background(), increment, &cas.UpdateOptions{Create: true}); err != nil {
			return err
		}
		os.Stdout.WriteString(strconv.Itoa(n) + "\n")
	}
	return errors.New("nobody killed it")
}
