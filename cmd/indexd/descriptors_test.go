//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestCase_C59_Descriptors: 20,000 markers, 256 descriptors, and 50 people who open the page at once, with a cold cache.
// Whoever gets a page sees what runs, or that it is not known; nobody sees that nothing runs. Afterwards all is well.
func TestCase_C59_Descriptors(t *testing.T) {
	p := &program{t: t, cmd: child(t, "indexd"), stderr: new(bytes.Buffer)}
	team := filepath.Join(p.cmd.Dir, "indexd-data", "_active_runs", "default")
	if out, err := child(t, "indexd", "register", "--subkey", "first", "--bucket", "file://"+p.cmd.Dir+"/indexd-data").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	now := time.Now().Unix()
	for i := range 20_000 {
		body := []byte(nil)
		if i%100 == 0 {
			body = []byte(`{"title":"T"}`) // something to resolve
		}
		if err := os.WriteFile(filepath.Join(team, fmt.Sprintf("cfg%05d_%d", i, now-int64(i%3600))), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "indexd")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	p.cmd.Path = "/bin/sh"
	p.cmd.Args = []string{"sh", "-c", `ulimit -n 256 && exec "$0" serve --listen 127.0.0.1:0`, program}
	p.cmd.Stderr = p.stderr
	p.launch()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 50 {
		path := "/"
		if i%2 == 1 {
			path = "/v1/indexes/running/default/cards"
		}
		wg.Go(func() {
			res, err := client.Get(p.url + path)
			if err != nil {
				return // no descriptor for the connection: nobody was told anything
			}
			defer res.Body.Close()
			var body bytes.Buffer
			if _, err := body.ReadFrom(res.Body); err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[res.StatusCode]++
			text := body.String()
			switch {
			case res.StatusCode == http.StatusOK && !strings.Contains(text, "2000"):
				t.Errorf("%s answered 200 without the number of items: %.300s", path, text)
			case strings.Contains(text, "Nothing running") || strings.Contains(text, `"live":0`):
				t.Errorf("%s says that nothing runs: %.300s", path, text)
			}
		})
	}
	wg.Wait()
	if statuses[http.StatusOK] == 0 || statuses[http.StatusOK]+statuses[http.StatusServiceUnavailable] < 25 {
		t.Errorf("answers by status: %v", statuses)
	}
	if status, body := p.do(http.MethodGet, "/", ""); status != http.StatusOK || !strings.Contains(body, "of 20001 running") {
		t.Errorf("afterwards: %d %.300s", status, body)
	}
	if _, status := p.stop(os.Interrupt); status != exitDone {
		t.Errorf("exit status %d: %s", status, p.stderr)
	}
}
