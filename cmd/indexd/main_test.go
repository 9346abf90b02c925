package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary stand in for the programs that tests start: it is called under their names.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"indexd":       main,
		"unprivileged": unprivileged,
		"soak":         soakWorker,
		"manifestsoak": manifestSoakWorker,
		"snapshotsoak": snapshotSoakWorker,
	})
}

// raceOptions keep a program that the race detector watches from waiting a second before it ends.
const raceOptions = "GORACE=atexit_sleep_ms=0"

// unprivileged is indexd as a user who owns nothing. A superuser, whom no permission stops, becomes one.
func unprivileged() {
	if os.Geteuid() == 0 {
		const nobody = 65534
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)} {
			if err != nil {
				fmt.Fprintln(os.Stderr, "becoming an unprivileged user:", err)
				os.Exit(99)
			}
		}
	}
	os.Exit(processApp().run(context.Background(), os.Args[1:]))
}

// child returns a program of TestMain as a process of its own, in an empty directory and without settings in its
// environment. It is killed when the test ends.
func child(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Args[0] = name
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), raceOptions}
	return cmd
}
