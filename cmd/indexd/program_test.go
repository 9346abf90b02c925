package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A program is indexd as a child process that goes on until it is told to stop.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  *bufio.Scanner // of stdout
	stderr *bytes.Buffer  // to be read after wait
	url    string         // what it serves, without a slash at the end
}

var served = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// launch starts indexd and waits until it has told its address.
func launch(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: child(t, "indexd", args...), stderr: new(bytes.Buffer)}
	p.cmd.Stderr = p.stderr
	p.launch()
	return p
}

func (p *program) launch() {
	p.t.Helper()
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.lines = bufio.NewScanner(stdout)
	if told := served.FindAllString(p.line(), -1); len(told) > 0 {
		p.url = told[len(told)-1] // the first may be that of the bucket
	} else {
		p.t.Fatalf("no address told; exit: %v; stderr: %s", p.cmd.Wait(), p.stderr)
	}
}

// line is the next line on stdout, or empty at its end.
func (p *program) line() string {
	p.lines.Scan()
	return p.lines.Text()
}

// stop sends a signal and waits; it returns what else came on stdout, and the exit status.
func (p *program) stop(sig os.Signal) (rest []string, status int) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	return p.wait()
}

func (p *program) wait() (rest []string, status int) {
	p.t.Helper()
	for p.lines.Scan() {
		rest = append(rest, p.lines.Text())
	}
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return rest, p.cmd.ProcessState.ExitCode()
}

// do makes a request and returns the status and the body.
func (p *program) do(method, path, body string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// get asks for JSON and decodes it.
func (p *program) get(path string, into any) {
	p.t.Helper()
	status, body := p.do(http.MethodGet, path, "")
	if status != http.StatusOK {
		p.t.Fatalf("GET %s: %d: %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		p.t.Fatal(err)
	}
}

// eventually repeats a look until it succeeds; the test's own deadline bounds it.
func eventually(t *testing.T, what string, look func() bool) {
	t.Helper()
	for range 1_000_000 {
		if look() {
			return
		}
		if t.Context().Err() != nil {
			break
		}
	}
	t.Fatalf("never came: %s", what)
}
