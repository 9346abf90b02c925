package lease_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// The environment of a process of these tests: the bucket's address, and how far its wall clock is ahead.
const (
	childBucket = "LEASE_TEST_BUCKET"
	childAhead  = "LEASE_TEST_AHEAD"
)

// TestChild is a process of TestProcesses_Lease, and no test: it waits for the lease, says which term it has got, and then
// answers each line of its input by whether its check passes. At the end of its input it lets go of the lease.
func TestChild(t *testing.T) {
	address := os.Getenv(childBucket)
	if address == "" {
		t.Skip("it is run by TestProcesses_Lease")
	}
	if err := child(context.Background(), address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(ctx context.Context, address string) error {
	ahead, err := time.ParseDuration(os.Getenv(childAhead))
	if err != nil {
		return err
	}
	l, err := at(ctx, address, lease.Operator, ahead)
	if err != nil {
		return err
	}
	h, err := l.Acquire(ctx, &lease.AcquireOptions{Wait: time.Hour})
	if err != nil {
		return err
	}
	fmt.Println("got", h.Term())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := h.Check(); err != nil {
			fmt.Println("lost")
		} else {
			fmt.Println("holds")
		}
	}
	return h.Release(ctx)
}

// at is the lease of a bucket, for a process whose wall clock is that far ahead.
func at(ctx context.Context, address string, class lease.Class, ahead time.Duration) (*lease.Lease, error) {
	l, err := openbucket.Parse(address)
	if err != nil {
		return nil, err
	}
	b, err := l.Open(ctx)
	if err != nil {
		return nil, err
	}
	return lease.New(b.(cas.Store), "running", class, &lease.Options{
		TTL: lease.MinTTL, Clock: lease.Clock{Wall: func() time.Time { return time.Now().Add(ahead) }},
	})
}

// A running process is one of TestChild.
type running struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func run(t *testing.T, address string, ahead time.Duration, env ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, cmd: exec.CommandContext(t.Context(), self, "-test.run=^TestChild$")}
	r.cmd.Env, r.cmd.Stderr = append(os.Environ(), childBucket+"="+address, childAhead+"="+ahead.String()), os.Stderr
	r.cmd.Env = append(r.cmd.Env, env...)
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.out = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// says waits for a line.
func (r *running) says(want string) {
	r.t.Helper()
	if line, err := r.out.ReadString('\n'); err != nil || strings.TrimSpace(line) != want {
		r.t.Fatalf("a process said %q, %v, want %q", line, err, want)
	}
}

// ask has it check. A process that is stopped answers when it goes on.
func (r *running) ask() {
	r.t.Helper()
	if _, err := fmt.Fprintln(r.in, "check"); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// end ends its input, and waits for it.
func (r *running) end() {
	r.t.Helper()
	r.in.Close()
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("a process: %v", err)
	}
}

// renewed waits for a renewal of the lease, and returns what is to be seen then.
func renewed(t *testing.T, l *lease.Lease) lease.Status {
	t.Helper()
	var first time.Time
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		st, err := l.Status(t.Context())
		if err != nil || st.Class == "" {
			t.Fatalf("%+v, %v, want it to be held", st, err)
		}
		if first.IsZero() {
			first = st.Expires
		}
		if !st.Expires.Equal(first) {
			tick.Stop()
			return st
		}
	}
}

// TestProcesses_Lease: of two processes on one directory the first one is killed, or stopped for longer than its TTL. The other
// one gets the lease when it may, and no later than a poll and two seconds after that. Who was stopped knows at once that it
// has lost it, and touches nothing. With INDEXD_TIMED=1 in the environment: it takes a minute.
func TestProcesses_Lease(t *testing.T) {
	if os.Getenv("INDEXD_TIMED") != "1" {
		t.Skip("it takes a minute; set INDEXD_TIMED=1")
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if _, err := dirbucket.Create(dir, nil); err != nil {
				t.Fatal(err)
			}
			l, err := at(t.Context(), dir, lease.Scheduler, 0)
			if err != nil {
				t.Fatal(err)
			}
			one := run(t, dir, 0)
			one.says("got 1")
			two := run(t, dir, 0)
			renewed(t, l)
			st := renewed(t, l)
			one.ask()
			one.says("holds")
			one.signal(sig)
			struck := time.Now()

			two.says("got 2")
			took := time.Since(struck)
			t.Logf("it was taken over %v after the signal, %v after the store said that it opens", took, time.Since(st.Expires))
			if late := lease.MinTTL + lease.Margin + lease.Poll + 2*time.Second; took < lease.MinTTL || took > late {
				t.Errorf("it was taken over after %v, want more than %v, and %v at most", took, lease.MinTTL, late)
			}
			if early := time.Until(st.Expires); early > 0 {
				t.Errorf("it was taken over %v before it was to open", early)
			}
			if sig == syscall.SIGKILL {
				if err := one.cmd.Wait(); err == nil {
					t.Error("it was killed, and ended well")
				}
			} else {
				one.ask()
				one.signal(syscall.SIGCONT)
				one.says("lost")
				one.end()
			}
			two.ask()
			two.says("holds")
			if st := renewed(t, l); st.Term != 2 || st.Class != lease.Operator {
				t.Errorf("then it is %+v", st)
			}
			two.end()
			if st, err := l.Status(t.Context()); err != nil || st.Class != "" || st.Term != 2 || st.Within != 0 {
				t.Errorf("at the end it is %+v, %v", st, err)
			}
		})
	}
}

// TestProcesses_LeaseClocks: the wall clock of one of two processes is wrong, on a directory and on servers of S3 and Cloud
// Storage. Who holds the lease keeps it for as long as it renews it, and the other one gets it when it is killed, no sooner than
// its TTL after its last renewal. With INDEXD_TIMED=1 in the environment: it takes a minute and a half.
func TestProcesses_LeaseClocks(t *testing.T) {
	if os.Getenv("INDEXD_TIMED") != "1" {
		t.Skip("it takes a minute and a half; set INDEXD_TIMED=1")
	}
	for name, begin := range map[string]func(*testing.T) (address string, env []string){
		"directory": func(t *testing.T) (string, []string) {
			dir := t.TempDir()
			if _, err := dirbucket.Create(dir, nil); err != nil {
				t.Fatal(err)
			}
			return dir, nil
		},
		"s3": func(t *testing.T) (string, []string) {
			front := httptest.NewServer(s3d.New(t, nil))
			t.Cleanup(front.Close)
			return "s3://bucket?endpoint=" + front.URL + "&region=us-east-1", []string{"AWS_ACCESS_KEY_ID=AK", "AWS_SECRET_ACCESS_KEY=secret"}
		},
		"gcs": func(t *testing.T) (string, []string) {
			s := gcsd.New(nil)
			t.Cleanup(s.Close)
			return "gs://bucket?endpoint=" + s.URL(), nil
		},
	} {
		for _, ahead := range []time.Duration{-time.Hour, 90 * time.Second, time.Hour} {
			for holder, clocks := range map[string][2]time.Duration{"holder": {ahead, 0}, "waiter": {0, ahead}} {
				t.Run(fmt.Sprint(name, " ", holder, " ", ahead), func(t *testing.T) {
					t.Parallel()
					address, env := begin(t)
					one := run(t, address, clocks[0], env...)
					one.says("got 1")
					two := run(t, address, clocks[1], env...)
					over := time.After(lease.MinTTL + lease.Margin + lease.Poll + time.Second)
					for tick := time.Tick(time.Second); over != nil; {
						select {
						case <-tick:
							one.ask()
							one.says("holds")
						case <-over:
							over = nil
						}
					}
					one.signal(syscall.SIGKILL)
					struck := time.Now()
					two.says("got 2")
					took := time.Since(struck)
					// It may have been renewed just before, or a third of the TTL before; stores tell whole seconds, and machines are busy.
					least, most := lease.MinTTL-lease.MinTTL/3, lease.MinTTL+lease.Margin+lease.Poll+10*time.Second
					if took < least || took > most {
						t.Errorf("it was taken over after %v, want %v to %v", took, least, most)
					}
					if err := one.cmd.Wait(); err == nil {
						t.Error("it was killed, and ended well")
					}
					two.ask()
					two.says("holds")
					two.end()
				})
			}
		}
	}
}
