package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/blobindex/indexd/web/api"
)

// TestScript runs the scripts in testdata/script: each command of the program, as a user calls it.
func TestScript(t *testing.T) { runScripts(t, testscript.Params{Dir: "testdata/script"}) }

func TestCase_C34_SomeDeletesRefused(t *testing.T) { runCase(t, "C34") }

func TestCase_C39_NothingGiven(t *testing.T) { runCase(t, "C39") }

func runCase(t *testing.T, name string) {
	runScripts(t, testscript.Params{Files: []string{"testdata/case/" + name + ".txtar"}})
}

// runScripts runs scripts that may use scriptCommands beyond the commands of testscript, with more variables in their
// environment.
func runScripts(t *testing.T, p testscript.Params, vars ...string) {
	p.Setup = func(e *testscript.Env) error {
		e.Vars = append(append(e.Vars, raceOptions), vars...)
		// The unprivileged program has to find its way in.
		if err := os.Chmod(filepath.Dir(e.WorkDir), 0o755); err != nil {
			return err
		}
		return os.Chmod(e.WorkDir, 0o755)
	}
	p.Cmds = scriptCommands
	p.RequireExplicitExec = true
	testscript.Run(t, p)
}

type scriptCommand = func(ts *testscript.TestScript, neg bool, args []string)

var scriptCommands = map[string]scriptCommand{
	"exits":   exitsCommand,
	"refused": refusedCommand,
	"capture": captureCommand,
	"json":    jsonCommand,
	"marker":  markerCommand,
	"beat":    beatCommand,
	"ended":   endedCommand,
	"id":      idCommand,
	"damaged": damagedCommand,
	"blob":    blobCommand,
	"lease":   placeLease,
	"part":    partCommand,
}

// exits STATUS PROGRAM ARGS… runs a program, which must end with that very status, and with one of our messages unless it
// is 0.
func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("running %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
	if lines := stderrLines(ts); want != 0 && (len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], "indexd: ")) {
		ts.Fatalf("no message in the last line on stderr")
	}
}

func stderrLines(ts *testscript.TestScript) []string {
	text := strings.TrimSuffix(ts.ReadFile("stderr"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// refused STATUS PROGRAM ARGS… is exits, with no answer, exactly one line on stderr, and everything in the script's
// directory as it was.
func refusedCommand(ts *testscript.TestScript, neg bool, args []string) {
	before := contents(ts, ts.Getenv("WORK"))
	exitsCommand(ts, neg, args)
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("an answer on stdout: %q", out)
	}
	if lines := stderrLines(ts); len(lines) != 1 {
		ts.Fatalf("%d lines on stderr, want 1", len(lines))
	}
	if after := contents(ts, ts.Getenv("WORK")); after != before {
		ts.Fatalf("something was written; before:\n%s\nafter:\n%s", before, after)
	}
}

// contents describes every file below dir: mode, modification time and content.
func contents(t interface{ Check(error) }, dir string) string {
	var b strings.Builder
	t.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && d.IsDir() {
			return fs.SkipDir
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %v", path, info.Mode(), info.ModTime())
		if info.Mode().IsRegular() {
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", body)
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

// capture NAME puts the last answer into a variable.
func captureCommand(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// json TYPE [COUNT] holds the last answer to a body of the HTTP API: nothing else in it, and nothing missing. A list has
// that many items.
func jsonCommand(ts *testscript.TestScript, _ bool, args []string) {
	body := map[string]any{
		"items": new(api.Items), "cards": new(api.Cards), "recent": new(api.Recent),
		"explanation": new(api.Explanation), "registered": new(api.Registered), "report": new(api.PruneReport),
		"snapshot": new(api.SnapshotStatus), "rows": new(api.SnapshotRows), "publication": new(api.SnapshotPublication),
	}[args[0]]
	if body == nil {
		ts.Fatalf("unknown type %q", args[0])
	}
	out := ts.ReadFile("stdout")
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	ts.Check(dec.Decode(body))
	if dec.More() {
		ts.Fatalf("more than one object")
	}
	again, err := json.Marshal(body)
	ts.Check(err)
	var got, want any
	ts.Check(json.Unmarshal([]byte(out), &got))
	ts.Check(json.Unmarshal(again, &want))
	if !reflect.DeepEqual(got, want) {
		ts.Fatalf("%s\nis not the body of the API, which would be\n%s", out, again)
	}
	if len(args) > 1 {
		items, _ := got.(map[string]any)["items"].([]any)
		if n := strconv.Itoa(len(items)); n != args[1] {
			ts.Fatalf("%s items, want %s", n, args[1])
		}
	}
}

// marker NAME DIR SUBKEY AGE [BODY] puts a marker that is so old into a namespace's directory, as a foreign program
// would, and its id into a variable.
func markerCommand(ts *testscript.TestScript, _ bool, args []string) {
	age, err := time.ParseDuration(args[3])
	ts.Check(err)
	at := time.Now().Add(-age)
	id := fmt.Sprintf("%s_%d", args[2], at.UnixNano())
	ts.Setenv(args[0], id)
	var body string
	if len(args) > 4 {
		body = args[4]
	}
	place(ts, filepath.Join(args[1], id), body, at)
}

// beat DIR ID AGE puts a heartbeat that is so old beside a marker.
func beatCommand(ts *testscript.TestScript, _ bool, args []string) {
	age, err := time.ParseDuration(args[2])
	ts.Check(err)
	at := time.Now().Add(-age)
	place(ts, filepath.Join(args[0], fmt.Sprintf("%s~%013d", args[1], at.UnixMilli())), "", at)
}

// ended DIR COUNT puts so many tombstones, of different items, into a namespace's directory.
func endedCommand(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	now := time.Now()
	for i := range n {
		place(ts, filepath.Join(args[0], fmt.Sprintf("job%d_%d~done", i, now.Unix())), "", now)
	}
}

func place(ts *testscript.TestScript, path, body string, at time.Time) {
	path = ts.MkAbs(path)
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	ts.Check(os.WriteFile(path, []byte(body), 0o644))
	ts.Check(os.Chtimes(path, at, at))
}

// id NAME SUBKEY AGE puts an id that is so old into a variable, and nothing anywhere else.
func idCommand(ts *testscript.TestScript, _ bool, args []string) {
	age, err := time.ParseDuration(args[2])
	ts.Check(err)
	ts.Setenv(args[0], fmt.Sprintf("%s_%d", args[1], time.Now().Add(-age).Unix()))
}

// lease FILE TERM CLASS AGE TTL [REASON] puts a lease, as it was saved so long ago, into a file of the bucket; the class "-"
// stands for nobody, who may not know that for the TTL.
func placeLease(ts *testscript.TestScript, _ bool, args []string) {
	age, err := time.ParseDuration(args[3])
	ts.Check(err)
	ttl, err := time.ParseDuration(args[4])
	ts.Check(err)
	reason := "pass"
	if len(args) > 5 {
		reason = args[5]
	}
	at, class, opens := time.Now().Add(-age), args[2], time.Duration(0)
	if class == "-" {
		class, ttl, opens = "", 0, ttl
	}
	const nonce = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
	since := at.UTC().Format(time.RFC3339)
	payload := fmt.Sprintf(`{"term":%s,"class":%q,"ttl_ms":%d,"opens_ms":%d,"since":%q,"reason":%q}`, args[1], class,
		ttl.Milliseconds(), opens.Milliseconds(), since, reason)
	place(ts, args[0], fmt.Sprintf(`{"format":"lease/1","created":{"nonce":%q,"at":%q},"seq":1,"nonce":%q,"recent":[],"payload":%s}`,
		nonce, since, nonce, payload), at)
}
