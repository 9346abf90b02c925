package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/web/api"
)

// TestPublisher: at each tick what has changed is published, and the log says what came of it.
func TestPublisher(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	check(t, os.Mkdir(dir, 0o755))
	writeFile(t, dir, "a")
	synctest.Test(t, func(t *testing.T) {
		b := membucket.New(nil)
		open := func(class snapshot.Class) *snapshot.Snapshot {
			s, err := snapshot.New(b, "team", "files", &snapshot.Options{Class: class})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		var log lockedBuffer
		var hook atomic.Pointer[func()] // what happens when what was walked is staged, and not published yet
		p := &publisher{
			snapshot: open(snapshot.Scheduler), namespace: "team", name: "files", every: time.Minute, source: source{dir: dir},
			log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}
		p.opts.Progress = func(int, int) {
			if do := hook.Load(); do != nil {
				(*do)()
			}
		}
		stop := startPublishers(t.Context(), []*publisher{p})
		other := open(snapshot.Operator)
		overtake := func(path string) {
			do := func() {
				hook.Store(nil)
				publishOne(t, other, path)
			}
			hook.Store(&do)
		}
		for i, step := range []struct {
			do   func()
			want string
		}{
			{func() {}, "INFO snapshot_published 1"},
			{func() {}, "DEBUG snapshot_unchanged 1"},
			{func() { publishOne(t, other, "x") }, "INFO snapshot_published 3"},
			{func() { overtake("y") }, "DEBUG snapshot_unchanged 3"},
			{func() { writeFile(t, dir, "b") }, "INFO snapshot_superseded 4 5"},
			{func() {}, "INFO snapshot_published 6"},
			{func() { check(t, os.Rename(dir, dir+"-away")) }, "ERROR snapshot_failed"},
			{func() { check(t, os.Mkdir(dir, 0o755)) }, "ERROR snapshot_failed"}, // not mounted
			{func() { check(t, os.Remove(dir)); check(t, os.Rename(dir+"-away", dir)) }, "DEBUG snapshot_unchanged 6"},
		} {
			step.do()
			if i > 0 {
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			if got := logged(t, &log); got != step.want {
				t.Errorf("step %d: %q, want %q", i, got, step.want)
			}
		}
		// What is under way comes to its end first.
		held, stopped := make(chan bool), make(chan bool)
		wait := func() { <-held }
		hook.Store(&wait)
		writeFile(t, dir, "c")
		time.Sleep(time.Minute)
		synctest.Wait()
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("it was told to be stopped while it published")
		default:
		}
		close(held)
		<-stopped
		time.Sleep(time.Hour)
		if text := log.take(); text != "" {
			t.Errorf("after it was stopped: %s", text)
		}
		info, rows, err := open("").Read(t.Context())
		if err != nil || info.Class != snapshot.Scheduler || len(rows) != 2 {
			t.Errorf("%+v, %v, %v", info, rows, err)
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, dir, name string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
}

// publishOne publishes one file, in the place of whoever else.
func publishOne(t *testing.T, s *snapshot.Snapshot, path string) {
	t.Helper()
	r, err := s.Publish(t.Context(), func(add func(snapshot.Row) error) error { return add(snapshot.Row{Path: path}) }, nil)
	if err != nil || r.Outcome != snapshot.Published {
		t.Errorf("%+v, %v", r, err)
	}
}

// logged takes what the log says: of each line level, message, generation and, of who was overtaken, the pointer.
func logged(t *testing.T, log *lockedBuffer) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(log.take()) {
		var l struct {
			Level, Msg, Namespace, Name, Class string
			Generation, Pointer                uint64
		}
		check(t, json.Unmarshal([]byte(line), &l))
		if l.Namespace != "team" || l.Name != "files" || l.Class != "scheduler" {
			t.Errorf("%s", line)
		}
		text := l.Level + " " + l.Msg
		switch {
		case l.Msg == "snapshot_superseded":
			text += fmt.Sprintf(" %d %d", l.Generation, l.Pointer)
		case l.Msg != "snapshot_failed":
			text += fmt.Sprint(" ", l.Generation)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// TestServe_Snapshots: serve publishes what the configuration lists, over and over, and stops when it is told to.
func TestServe_Snapshots(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a")
	writeFile(t, dir, "b.tmp")
	p := launch(t, "serve", "--listen", "127.0.0.1:0", "--config", snapshotConfig(t,
		fmt.Sprintf("bucket: ./data\nsnapshots: [{namespace: team, name: files, dir: %q, every: 1s, grace: 5m, "+
			"ignore: ['*.tmp'], digest: true}]\n", dir)))
	status := func() (s api.SnapshotStatus) {
		if code, body := p.do(http.MethodGet, "/v1/snapshots/team/files", ""); code == http.StatusOK {
			check(t, json.Unmarshal([]byte(body), &s))
		}
		return s
	}
	var s api.SnapshotStatus
	eventually(t, "the first generation", func() bool { s = status(); return s.Generation == 1 })
	if s.Rows != 1 || s.Class != api.SnapshotStatusClassScheduler || s.GraceMs != 300_000 {
		t.Errorf("%+v", s)
	}
	var rows api.SnapshotRows
	p.get("/v1/snapshots/team/files/rows", &rows)
	if len(rows.Rows) != 1 || rows.Rows[0].Path != "a" || rows.Rows[0].Digest == "" {
		t.Errorf("%+v", rows)
	}
	writeFile(t, dir, "c")
	eventually(t, "the next generation", func() bool { s = status(); return s.Generation == 2 })
	if code, body := p.do(http.MethodGet, "/snapshots?namespace=team&name=files", ""); code != http.StatusOK ||
		!strings.Contains(body, "published by a scheduler") {
		t.Errorf("the page: %d: %s", code, body)
	}
	if _, code := p.stop(syscall.SIGTERM); code != exitDone || !strings.Contains(p.stderr.String(), "snapshot_published") {
		t.Errorf("after SIGTERM: status %d, stderr %s", code, p.stderr)
	}
}

func snapshotConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "indexd.yaml")
	check(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// TestServe_SnapshotSettings: settings that cannot be right are told before anything is done.
func TestServe_SnapshotSettings(t *testing.T) {
	for settings, want := range map[string]string{
		"{namespace: team, name: files}":                                   `snapshots[0] ("team/files") in the configuration: it has no dir`,
		"{name: files, dir: .}":                                            "snapshots[0]",
		"{namespace: team, name: '..', dir: .}":                            "snapshots[0]",
		"{namespace: team, name: files, dir: ., every: 1ms}":               `every is "1ms"; give a duration of 1s or more`,
		"{namespace: team, name: files, dir: ., every: 60}":                "snapshots[0].every is 60; give a duration with its unit",
		"{namespace: team, name: files, dir: ., grace: 25h}":               "the grace is 25h0m0s; give 0, or 1ms to 24h",
		"{namespace: team, name: files, dir: ., ignore: ['[']}":            `the pattern "[" is none that can be used`,
		"{namespace: team, name: files, dir: ., ignore: x}":                `snapshots[0].ignore is "x"; give a list of patterns`,
		"{namespace: team, name: files, dir: ., interval: 60s}":            "keys that nothing reads: snapshots[0].interval",
		"{namespace: a, name: b, dir: .}, {namespace: a, name: b, dir: /}": "it is there twice",
	} {
		cmd := child(t, "indexd", "serve", "--listen", "127.0.0.1:0", "--config", snapshotConfig(t, "snapshots: ["+settings+"]\n"))
		status, stdout, stderr := runChild(t, cmd)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d, %q, %q; want %q", settings, status, stdout, stderr, want)
		}
		if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
			t.Errorf("left in the directory: %v, %v", left, err)
		}
	}
}
