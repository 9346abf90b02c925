// Command indexd keeps a "running now" list on an object store, one empty object an item. This package is the command
// line: it reads flags, environment and configuration, opens the bucket, and wires the packages together. It holds no
// rule of the index itself.
//
// There is one file for each subcommand. The answer of a command goes to standard output; logs, notes and progress go
// to standard error. Exit statuses are documented in exit.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // before anybody can see that it stops: a second signal ends the process at once
		cancel()
	}()
	os.Exit(processApp().run(ctx, os.Args[1:]))
}

// processApp is the command with what the process was given.
func processApp() *app {
	return &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Environ()}
}
