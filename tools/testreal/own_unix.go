//go:build unix && !linux

package main

import (
	"os/exec"
	"syscall"
	"time"
)

// own makes the command ours: a group of its own, which ends as a whole when its context does.
func own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return end(cmd) }
	cmd.WaitDelay = 5 * time.Second
}

// end kills the command's group.
func end(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
