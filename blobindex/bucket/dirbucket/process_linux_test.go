package dirbucket_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
)

// childVar names what this test binary does as a process of its own, and childDir the directory that it does it in.
const (
	childVar = "DIRBUCKET_TEST_CHILD"
	childDir = "DIRBUCKET_TEST_DIR"
)

func TestMain(m *testing.M) {
	name := os.Getenv(childVar)
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	child := map[string]func(dir string) error{
		"create": createChild, "race": raceChild, "save": saveChild,
		"small-files": smallFilesChild, "descriptors": descriptorsChild,
		"read-only": readOnlyChild, "unreadable": unreadableChild, "deep": deepChild,
		"increments": incrementsChild, "creates": createsChild, "stale": staleChild,
		"killed": killedChild, "updates": updatesChild, "sync-fails": syncFailsChild,
	}[name]
	if err := child(os.Getenv(childDir)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func command(t *testing.T, name, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childVar+"="+name, childDir+"="+dir)
	return cmd
}

func runChild(t *testing.T, name, dir string) {
	t.Helper()
	if out, err := command(t, name, dir).CombinedOutput(); err != nil {
		t.Errorf("process %s: %v\n%s", name, err, out)
	}
}

// runChildren runs n of them at once.
func runChildren(t *testing.T, n int, name, dir string) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if out, err := command(t, name, dir).CombinedOutput(); err != nil {
				t.Errorf("process %s: %v\n%s", name, err, out)
			}
		})
	}
	wg.Wait()
}

// TestProcesses_Create races Create between processes: all get the same bucket, none sees a half-made one.
func TestProcesses_Create(t *testing.T) {
	for range 5 {
		path := filepath.Join(t.TempDir(), "new", "dir")
		runChildren(t, 4, "create", path)
		got, err := list(t.Context(), create(t, path), bucket.ListRequest{})
		if err != nil || len(got) != 4 {
			t.Errorf("after 4 processes created the bucket and put one object each: %q, %v", got, err)
		}
	}
}

func createChild(dir string) error {
	b, err := dirbucket.Create(dir, nil)
	if err != nil {
		return err
	}
	if _, err := b.Put(context.Background(), bucket.Key(fmt.Sprintf("p/%d", os.Getpid())), nil); err != nil {
		return err
	}
	return b.Close()
}

// TestProcesses_Race: four processes put, delete, list and read one set of keys. Each listing has every untouched key
// exactly once, and whatever is read is whole.
func TestProcesses_Race(t *testing.T) {
	root := t.TempDir()
	create(t, root)
	place(t, root, numbered("r/still", stillKeys)...)
	runChildren(t, 4, "race", root)
	if err := checkStill(create(t, root)); err != nil {
		t.Error(err)
	}
	if got := tempFiles(root); len(got) != 0 {
		t.Errorf("temporary files: %q, want none", got)
	}
}

const stillKeys = bucket.PageSize + 200

func raceChild(dir string) error {
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := range 120 {
		key := bucket.Key(fmt.Sprintf("r/shared%d", (i*7+os.Getpid())%6))
		switch i % 5 {
		case 0, 1:
			_, err = b.Put(ctx, key, strings.NewReader(strings.Repeat(string(rune('a'+i%26)), 4096*(1+i%26))))
		case 2:
			_, err = b.Put(ctx, key, nil)
		case 3:
			err = errors.Join(b.Delete(ctx, []bucket.Key{key})...)
		case 4:
			err = errors.Join(checkStill(b), checkWhole(b, key))
		}
		if err != nil {
			return err
		}
	}
	return b.Close()
}

// checkStill lists: every untouched key exactly once, and besides only shared ones, of sizes that somebody put.
func checkStill(b *dirbucket.Bucket) error {
	still := 0
	var last bucket.Key
	err := b.List(context.Background(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			if o.Key <= last {
				return fmt.Errorf("%q came after %q", o.Key, last)
			}
			last = o.Key
			switch {
			case strings.HasPrefix(string(o.Key), "r/still") && o.Size == 0:
				still++
			case !strings.HasPrefix(string(o.Key), "r/shared") || o.Size%4096 != 0:
				return fmt.Errorf("listed %q of %d bytes, which nobody put", o.Key, o.Size)
			}
		}
		return nil
	})
	if err == nil && still != stillKeys {
		err = fmt.Errorf("%d untouched keys listed, want %d", still, stillKeys)
	}
	return err
}

func checkWhole(b *dirbucket.Bucket, key bucket.Key) error {
	body, err := read(context.Background(), b, string(key))
	if errors.Is(err, bucket.ErrNotExist) || err == nil && body == "" {
		return nil
	}
	if err != nil {
		return err
	}
	if body != strings.Repeat(body[:1], 4096*(1+int(body[0]-'a'))) {
		return fmt.Errorf("body of %q is torn: %d bytes of %.8q", key, len(body), body)
	}
	return nil
}

// TestCase_C56_KilledInSave kills a process again and again in the middle of saves. Every object is whole, and no older
// than what was acknowledged; nothing else is ever visible.
func TestCase_C56_KilledInSave(t *testing.T) {
	root := t.TempDir()
	create(t, root)
	for round := range 12 {
		acked := killedSave(t, root, 5+7*round)
		b := create(t, root)
		got, err := list(t.Context(), b, bucket.ListRequest{})
		if err != nil || !slices.Equal(got, []string{"k/0", "k/1", "k/2"}) {
			t.Fatalf("round %d: List = %q, %v, want the three keys", round, got, err)
		}
		for key, least := range acked {
			body, err := read(t.Context(), b, key)
			var version int
			fmt.Sscanf(body, "%d", &version)
			if err != nil || body != savedBody(version) || version < least {
				t.Errorf("round %d: body of %s is version %d, %d bytes, %v, want it whole and at least version %d",
					round, key, version, len(body), err, least)
			}
		}
	}
}

// killedSave returns the last acknowledged version of each key. It kills after some acknowledgements: the process goes
// on meanwhile, so that it dies at any point of a save.
func killedSave(t *testing.T, root string, after int) (acked map[string]int) {
	t.Helper()
	cmd := command(t, "save", root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked = map[string]int{}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		var key string
		var version int
		if _, err := fmt.Sscanf(lines.Text(), "%s %d", &key, &version); err == nil {
			acked[key] = version
		}
		if n == after {
			cmd.Process.Kill()
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("saving process ended with %v, want it killed", err)
	}
	return acked
}

// saveChild saves until it is killed.
func saveChild(dir string) error {
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		return err
	}
	for i := range 100_000 {
		key := bucket.Key(fmt.Sprintf("k/%d", i%3))
		if _, err := b.Put(context.Background(), key, strings.NewReader(savedBody(i))); err != nil {
			return err
		}
		io.WriteString(os.Stdout, fmt.Sprintf("%s %d\n", key, i))
	}
	return errors.New("nobody killed it")
}

func savedBody(version int) string {
	return strings.Repeat(fmt.Sprintf("%06d\n", version), 5000)
}
