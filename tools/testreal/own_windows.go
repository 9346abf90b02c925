package main

import (
	"os/exec"
	"time"
)

// own makes the command end with its context.
func own(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return end(cmd) }
	cmd.WaitDelay = 5 * time.Second
}

func end(cmd *exec.Cmd) error { return cmd.Process.Kill() }
