package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/s3d"
	"github.com/blobindex/indexd/web/api"
)

// TestServe_OtherRules: a server that was given other rules than are saved says so in its log and on its page, reads by the
// saved ones, and sweeps nothing; with --reconfigure it announces a change.
func TestServe_OtherRules(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "bucket")
	config := func(ttl string) string {
		file := filepath.Join(dir, ttl+".yaml")
		if err := os.WriteFile(file, []byte("indexes: [{name: running, ttl: "+ttl+"}]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tried(t, data)
	first := launch(t, "serve", "--listen", "127.0.0.1:0", "--bucket", data, "--config", config("3h"))
	first.do(http.MethodPost, "/v1/indexes/running/default/items", `{"subkey":"live"}`)
	if _, body := first.do(http.MethodGet, "/", ""); strings.Contains(body, "saved rules") {
		t.Errorf("a notice on the page of the first: %s", body)
	}
	if _, status := first.stop(syscall.SIGTERM); status != exitDone ||
		!strings.Contains(first.stderr.String(), "level=INFO msg=\"an index is read by its saved rules\" index=running grammar=epoch ttl=3h") {
		t.Errorf("status %d: %s", status, first.stderr)
	}
	old := filepath.Join(data, "_active_runs", "default", "old_1700000000")
	if err := os.WriteFile(old, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Unix(1_700_000_000, 0), time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}

	other := launch(t, "serve", "--listen", "127.0.0.1:0", "--bucket", data, "--config", config("90s"))
	var cards api.Cards
	other.get("/v1/indexes/running/default/cards", &cards)
	if len(cards.Cards) != 1 || cards.Counts.Stale != 1 {
		t.Errorf("%+v", cards)
	}
	if _, body := other.do(http.MethodGet, "/", ""); !strings.Contains(body, "ttl is 1m30s here and 3h there") {
		t.Errorf("no notice on the page: %s", body)
	}
	var indexes api.Indexes
	if other.get("/v1/indexes", &indexes); indexes.Indexes[0].TtlSeconds != 3*3600 {
		t.Errorf("%+v", indexes)
	}
	if status, body := other.do(http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, body)
	}
	if _, status := other.stop(syscall.SIGTERM); status != exitDone ||
		strings.Count(other.stderr.String(), "given other rules than the index's saved ones") != 1 {
		t.Errorf("status %d: %s", status, other.stderr)
	}
	if _, err := os.Stat(old); err != nil {
		t.Error(err)
	}

	change := launch(t, "serve", "--listen", "127.0.0.1:0", "--bucket", data, "--config", config("90s"), "--reconfigure")
	if _, body := change.do(http.MethodGet, "/", ""); strings.Contains(body, "saved rules") {
		t.Errorf("a notice: %s", body)
	}
	if _, status := change.stop(syscall.SIGTERM); status != exitDone || !strings.Contains(change.stderr.String(), `changes="ttl from 3h to 1m30s"`) {
		t.Errorf("status %d: %s", status, change.stderr)
	}
	again := child(t, "indexd", "serve", "--listen", "127.0.0.1:0", "--bucket", data, "--config", config("4h"), "--reconfigure")
	wait := startChild(t, again)
	defer time.AfterFunc(time.Minute, func() { again.Process.Kill() }).Stop() // it would serve if it were not busy
	if status, _, stderr := wait(); status != exitBusy || !strings.Contains(stderr, "changing already") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if _, err := os.Stat(old); err != nil {
		t.Error(err)
	}
}

// tried makes a directory a bucket that was found to keep the conditions of writes: a busy machine takes longer for that than a
// server holds up its first view.
func tried(t *testing.T, dir string) {
	t.Helper()
	l, err := openbucket.Parse(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := probe.Usable(t.Context(), b.(cas.Store), b, nil); err != nil {
		t.Fatal(err)
	}
}

// TestRules_Requests counts at the server's socket what the shared rules take: 1 GET for a process and L, and nothing for
// who writes; of the first prune 1 GET and 1 PUT more, and the trial of the bucket; and what the lease and the checkpoint of a
// prune take, and the look whether the bucket was tried.
func TestRules_Requests(t *testing.T) {
	var mu sync.Mutex
	counts := map[string]int{}
	store := s3d.New(t, &s3d.Options{Refuse: func(op s3d.Op, key string) string {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.Contains(key, "_indexd/probe/"):
			op += " of the trial"
		case strings.Contains(key, "_indexd/lease/"):
			op += " of the lease"
		case strings.Contains(key, "_indexd/janitor/"):
			op += " of the checkpoint"
		case strings.Contains(key, "_indexd/"):
			op += " of the rules"
		}
		if op != s3d.DeleteObjects || key == "" {
			counts[string(op)]++
		}
		return ""
	}})
	env := []string{
		"INDEXD_BUCKET=s3://bucket?endpoint=" + url.QueryEscape(store.URL),
		"AWS_ACCESS_KEY_ID=AK", "AWS_SECRET_ACCESS_KEY=the-secret", "AWS_EC2_METADATA_DISABLED=true",
	}
	took := func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		last := counts
		counts = map[string]int{}
		return last
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := child(t, "indexd", args...)
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	id := run("register", "--subkey", "a")
	run("heartbeat", id)
	run("finish", id)
	if got := took(); got["GetObject of the rules"]+got["PutObject of the rules"] != 0 {
		t.Errorf("producing: %v", got)
	}
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("indexes: [{name: other, prefix: other}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	guarded := map[string]int{
		"GetObject of the trial": 1, "GetObject of the lease": 1, "PutObject of the lease": 2, // acquired and released
		"GetObject of the checkpoint": 1, "PutObject of the checkpoint": 2, // stamped, and at the end
	}
	beside := func(more map[string]int) map[string]int {
		for op, n := range guarded {
			more[op] += n
		}
		return more
	}
	run("prune", "--config", other)
	if got := took(); got["PutObject of the trial"] < 100 || got["PutObject of the rules"] != 1 {
		t.Errorf("the first prune of all: %v", got)
	}
	for _, tc := range []struct {
		args []string
		want map[string]int
	}{
		{[]string{"cards"}, map[string]int{"ListObjectsV2": 1, "GetObject of the rules": 1}}, // none are saved
		{[]string{"prune", "--dry-run"}, map[string]int{"ListObjectsV2": 1, "GetObject of the rules": 1}},
		{[]string{"prune"}, beside(map[string]int{
			"ListObjectsV2": 1, "GetObject of the rules": 2, "PutObject of the rules": 1, "GetObject of the trial": 1,
		})},
		{[]string{"prune"}, beside(map[string]int{"ListObjectsV2": 1, "GetObject of the rules": 1})},
		{[]string{"cards"}, map[string]int{"ListObjectsV2": 1, "GetObject of the rules": 1}},
		{[]string{"ls"}, map[string]int{"ListObjectsV2": 1, "GetObject of the rules": 1}},
		{[]string{"recent"}, map[string]int{"ListObjectsV2": 1, "GetObject of the rules": 1}},
		{[]string{"explain", id}, map[string]int{"ListObjectsV2": 1, "GetObject of the rules": 1}},
	} {
		run(tc.args...)
		if diff := cmp.Diff(tc.want, took()); diff != "" {
			t.Errorf("%v: %s", tc.args, diff)
		}
	}

	p := &program{
		t: t, cmd: child(t, "indexd", "serve", "--listen", "127.0.0.1:0", "--prune-every", "0"), stderr: new(bytes.Buffer),
	}
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stderr = p.stderr
	p.launch()
	for range 5 { // views of one time share a listing, explanations do not
		p.get("/v1/indexes/running/default/items/"+id+"/explain", new(api.Explanation))
	}
	if diff := cmp.Diff(map[string]int{"ListObjectsV2": 5, "GetObject of the rules": 1}, took()); diff != "" {
		t.Errorf("five explanations of a server: %s", diff)
	}
	if _, status := p.stop(syscall.SIGTERM); status != exitDone {
		t.Errorf("status %d: %s", status, p.stderr)
	}
}

// TestP6_RulesOnABucketThatLies: no rules are saved where the conditions of writes are not kept; that is said, and markers
// and their pruning work.
func TestP6_RulesOnABucketThatLies(t *testing.T) {
	store := s3d.New(t, &s3d.Options{Lies: s3d.Lies{CreateOnlyOverwrites: true}})
	run := func(args ...string) string {
		t.Helper()
		cmd := child(t, "indexd", args...)
		cmd.Env = append(cmd.Env, "INDEXD_BUCKET=s3://bucket?endpoint="+url.QueryEscape(store.URL),
			"AWS_ACCESS_KEY_ID=AK", "AWS_SECRET_ACCESS_KEY=the-secret", "AWS_EC2_METADATA_DISABLED=true")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	id := run("register", "--subkey", "a")
	if out := run("ls"); !strings.Contains(out, "running") {
		t.Errorf("ls: %s", out)
	}
	run("finish", id)
	for range 2 { // the second goes by what is remembered
		out := run("prune")
		if !strings.Contains(out, "without compare-and-swap") || !strings.Contains(out, "create-only") {
			t.Errorf("prune: %s", out)
		}
	}
	for _, key := range store.Keys("bucket") {
		if strings.HasPrefix(key, "_indexd/index/") {
			t.Errorf("%q is there", key)
		}
	}
}

// TestLazyBucket_NoStore: a driver without conditional writes says so, rather than pretend.
func TestLazyBucket_NoStore(t *testing.T) {
	b, err := parseBucket("mem://", serving)
	if err != nil {
		t.Fatal(err)
	}
	b.objects = plainBucket{membucket.New(nil), io.NopCloser(nil)}
	if _, err := b.Load(t.Context(), "k"); !errors.Is(err, cas.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := b.Save(t.Context(), "k", nil, cas.IfAbsent()); !errors.Is(err, cas.ErrUnsupported) {
		t.Error(err)
	}
}

// plainBucket is no cas.Store, whatever is in it.
type plainBucket struct {
	bucket.Objects
	io.Closer
}
