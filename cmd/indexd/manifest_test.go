package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/fakes/s3d"
)

func TestCase_C56_ManifestCannotBeRead(t *testing.T) { runCase(t, "C56_manifest") }

func TestCase_C38_ManifestBlobExpired(t *testing.T) { runCase(t, "C38_manifest") }

// TestCase_C03_ManifestRefusesToStart: on a store that takes every create-only save nothing is added, removed or collected;
// registering, reading and pruning items work, and so does reading what is there.
func TestCase_C03_ManifestRefusesToStart(t *testing.T) {
	for name, lies := range map[string]s3d.Lies{
		"create-only": {CreateOnlyOverwrites: true}, "if-match": {IgnoresIfMatch: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := s3d.New(t, &s3d.Options{Lies: lies})
			runScripts(t, testscript.Params{Files: []string{"testdata/case/C03_manifest.txtar"}}, s3Vars(s)...)
			for _, key := range s.Keys("bucket") {
				if strings.HasPrefix(key, manifest.Root) {
					t.Errorf("it left %q", key)
				}
			}
		})
	}
}

// s3Vars are the environment for a bucket on a server.
func s3Vars(s *s3d.Server) []string {
	return []string{"INDEXD_BUCKET=s3://bucket?endpoint=" + url.QueryEscape(s.URL), "AWS_ACCESS_KEY_ID=AK",
		"AWS_SECRET_ACCESS_KEY=the-secret", "AWS_EC2_METADATA_DISABLED=true"}
}

// damaged FILE PATTERN puts a file, or NUL bytes, in the place of the list at $LIST: every command on that manifest has to
// fail with such a message, and to leave everything as it is.
func damagedCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damaged FILE PATTERN")
	}
	list, body := ts.MkAbs(ts.Getenv("LIST")), strings.Repeat("\x00", 512)
	if args[0] != "nul" {
		body = ts.ReadFile(args[0])
	}
	ts.Check(os.WriteFile(list, []byte(body), 0o644))
	dir := filepath.Join(filepath.Dir(list))
	before := contents(ts, dir)
	for _, command := range [][]string{
		{"ls"}, {"ls", "--json"}, {"add", "f"}, {"rm", "kept"}, {"cat", "kept"}, {"gc"}, {"gc", "--force"}, {"gc", "--dry-run"},
		{"fsck"},
	} {
		exitsCommand(ts, false, append([]string{"1", "indexd", "manifest", command[0], "team/models"}, command[1:]...))
		stderr := ts.ReadFile("stderr")
		if !regexp.MustCompile(args[1]).MatchString(stderr) || !strings.Contains(stderr, "_indexd/manifest/team/models/list") {
			ts.Fatalf("manifest %q does not say so: %s", command, stderr)
		}
		if out := ts.ReadFile("stdout"); out != "" {
			ts.Fatalf("manifest %q answers %q", command, out)
		}
		if after := contents(ts, dir); after != before {
			ts.Fatalf("manifest %q changed something; before:\n%s\nafter:\n%s", command, before, after)
		}
	}
}

// blob NAME DIR ID FILE puts the key of a file of an entry into a variable.
func blobCommand(ts *testscript.TestScript, _ bool, args []string) {
	var list struct {
		Payload struct{ Entries []manifest.Entry } `json:"payload"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(filepath.Join(args[1], "list"))), &list))
	for _, e := range list.Payload.Entries {
		for _, b := range e.Blobs {
			if e.ID == args[2] && b.Name == args[3] {
				ts.Setenv(args[0], b.Key)
				return
			}
		}
	}
	ts.Fatalf("no such file")
}

// TestSteady: a file that is not read as it was looked at is an error, however it changed, and never a body.
func TestSteady(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"nothing": func(string) error { return nil },
		"shrunk":  func(path string) error { return os.Truncate(path, 3) },
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"grown":   func(path string) error { return os.Truncate(path, 1<<20) },
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, make([]byte, 64<<10), 0o600))
		},
		"removed": os.Remove,
	} {
		for _, when := range []string{"before it is opened", "while it is read"} {
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, make([]byte, 64<<10), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := lookAt(path)
			if err != nil {
				t.Fatal(err)
			}
			before := when == "before it is opened"
			if before {
				if err := change(path); err != nil {
					t.Fatal(err)
				}
			}
			body, opening := f.open()
			var n int64
			if opening == nil {
				n, err = io.CopyN(io.Discard, body, 1024)
				if !before {
					err = errors.Join(err, change(path))
				}
				if err != nil {
					t.Fatal(err)
				}
				var rest int64
				rest, opening = io.Copy(io.Discard, body)
				n += rest
				body.Close()
			}
			// On some systems a file that is open stays as it was when another one takes its name: that is no change of it.
			want := name != "nothing" && (before || name != "removed" && name != "replaced")
			if (opening != nil) != want || !want && n != 64<<10 {
				t.Errorf("%s %s: %v after %d bytes", name, when, opening, n)
			}
		}
	}
}

// TestManifest_CatInterrupted: a signal ends cat though nobody takes what it writes.
func TestManifest_CatInterrupted(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, make([]byte, 1<<20), 0o600); err != nil { // more than a pipe holds
		t.Fatal(err)
	}
	bucket := "--bucket=" + filepath.Join(dir, "data")
	for _, args := range [][]string{
		{"register", "--subkey", "x", bucket}, {"manifest", "add", "team/models", big, "--id", "big", bucket},
	} {
		if status, _, stderr := runChild(t, child(t, "indexd", args...)); status != 0 {
			t.Fatalf("%q: exit status %d, %s", args, status, stderr)
		}
	}
	cmd := child(t, "indexd", "manifest", "cat", "team/models", "big", bucket)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	bound := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer bound.Stop()
	_ = cmd.Wait() // by its status
	if got := cmd.ProcessState.ExitCode(); got != 1 || !strings.HasPrefix(stderr.String(), "indexd: interrupted: ") ||
		!strings.Contains(stderr.String(), "do not use what was written") {
		t.Errorf("exit status %d: %s", got, &stderr)
	}
}
