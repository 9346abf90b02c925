package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// patience is how long a server may take until it answers.
const patience = time.Minute

// A process is a server that runs.
type process struct {
	url    string
	cmd    *exec.Cmd
	temp   string        // data and log
	done   chan struct{} // closed when it has ended
	err    error         // how it ended; to be read after done
	beside *process      // another one on the same data, which is stopped with it
}

// launch starts the server and waits until it answers. Data and log are in a directory that stop removes.
func launch(ctx context.Context, argv func(data string) []string, port int) (*process, error) {
	temp, err := os.MkdirTemp("", "indexd-testreal-")
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(temp, "data"), 0o755); err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	p := &process{url: "http://" + address(port), temp: temp, done: make(chan struct{})}
	if err := p.start(ctx, argv); err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	if err := p.await(ctx); err != nil {
		err = fmt.Errorf("%w; its log:\n%s", err, p.log())
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// join starts another process on the data of p, once, and waits until it answers. Where that fails, p goes on.
func (p *process) join(ctx context.Context, argv func(data string) []string, port int) error {
	q := &process{url: "http://" + address(port), temp: p.temp, done: make(chan struct{})}
	if err := q.start(ctx, argv); err != nil {
		return err
	}
	p.beside = q
	if err := q.await(ctx); err != nil {
		return fmt.Errorf("%w; the log of both:\n%s", err, p.log())
	}
	return nil
}

func (p *process) start(ctx context.Context, argv func(data string) []string) error {
	data := filepath.Join(p.temp, "data")
	log, err := os.OpenFile(filepath.Join(p.temp, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has it
	args := argv(data)
	p.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = p.temp, log, log, clean(os.Environ())
	own(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return nil
}

// await asks until there is an answer, whatever it is, or the process has ended.
func (p *process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the server does not answer"))
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if answers(ctx, p.url) && !p.ended() { // else it was somebody else who answered
			return nil
		}
		select {
		case <-p.done:
			return p.fate()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

// alive returns a context that ends with the server, too.
func (p *process) alive(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	beside := make(chan struct{}) // of none that is never closed
	if p.beside != nil {
		beside = p.beside.done
	}
	go func() {
		select {
		case <-p.done:
		case <-beside:
		}
		cancel(errors.New("the server has ended"))
	}()
	return ctx
}

// ended reports whether the process, or the one beside it, has ended by itself.
func (p *process) ended() bool { return p.fate() != nil }

// fate is how the process, or the one beside it, has ended; nil if neither has.
func (p *process) fate() error {
	select {
	case <-p.done:
		return fmt.Errorf("the server has ended: %v", p.err)
	default:
	}
	if p.beside == nil {
		return nil
	}
	return p.beside.fate()
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return true
}

// log is the end of what the server printed.
func (p *process) log() string {
	text, err := os.ReadFile(filepath.Join(p.temp, "log"))
	if err != nil {
		return err.Error()
	}
	return tail(string(text))
}

// stop kills the server and its children, and removes its data.
func (p *process) stop() error {
	for q := p; q != nil; q = q.beside {
		select {
		case <-q.done: // its number may be somebody else's by now
		default:
			end(q.cmd) // an error says that it has ended by itself
			<-q.done
		}
	}
	return os.RemoveAll(p.temp)
}

// clean takes out of the environment what would lead tests and servers elsewhere, above all to somebody's real bucket.
func clean(env []string) []string {
	var kept []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "INDEXD_") || strings.HasPrefix(name, "CLOUDSDK_") ||
			name == "STORAGE_EMULATOR_HOST" || name == "GOOGLE_APPLICATION_CREDENTIALS" {
			continue
		}
		kept = append(kept, v)
	}
	return append(kept, "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
		"AWS_EC2_METADATA_DISABLED=true", "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost")
}

// anyPorts are below those that systems give to clients: a server's own client might take one before the server does.
const anyPorts = "20000-29999"

// freePort returns a port on which nobody listens, of the range ("17100-17199"; empty: of anyPorts).
func freePort(within string) (int, error) {
	var from, to int
	if _, err := fmt.Sscanf(cmp.Or(within, anyPorts), "%d-%d", &from, &to); err != nil || from < 1 || to < from {
		return 0, fmt.Errorf("%q is no range of ports; give one such as 17100-17199", within)
	}
	for _, n := range rand.Perm(to - from + 1) {
		if l, err := net.Listen("tcp", address(from+n)); err == nil {
			return from + n, l.Close()
		}
	}
	return 0, errors.New("there is no free port")
}
