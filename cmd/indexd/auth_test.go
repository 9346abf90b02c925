package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestServe_WithAuth: a token that was made by the command opens what its grant says, and nothing of it is logged.
func TestServe_WithAuth(t *testing.T) {
	made := func(args ...string) (token tokenJSON, yaml string) {
		t.Helper()
		out, err := child(t, "indexd", append([]string{"token", "new", "--json"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &token); err != nil {
			t.Fatal(err)
		}
		grants, err := json.Marshal(token.Grants) // which is YAML too
		if err != nil {
			t.Fatal(err)
		}
		return token, fmt.Sprintf("    - {name: %q, sha256: %q, grants: %s}\n", token.Name, token.SHA256, grants)
	}
	ci, one := made("--name", "ci", "--role", "producer", "--namespace", "team")
	ops, two := made("--name", "ops", "--role", "admin", "--index", "*", "--namespace", "*")
	p := &program{t: t, cmd: child(t, "indexd", "serve", "--listen", "127.0.0.1:0", "--bucket", "mem://", "--config", "indexd.yaml"),
		stderr: new(bytes.Buffer)}
	p.cmd.Stderr = p.stderr
	config := "cors_origins: [https://portal.example]\nauth:\n  rate: {per_second: 100, failures_per_minute: 5}\n  tokens:\n" + one + two
	if err := os.WriteFile(filepath.Join(p.cmd.Dir, "indexd.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p.launch()
	ask := func(token, method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		req.Host = "indexd.example" // any, where tokens are wanted
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	for _, c := range []struct {
		token, method, path, body string
		want                      int
	}{
		{"", "GET", "/healthz", "", 200}, {"", "GET", "/v1/indexes", "", 401},
		{ci.Token, "POST", "/v1/indexes/running/team/items", `{"subkey":"x"}`, 201},
		{ci.Token, "POST", "/v1/indexes/running/team2/items", `{"subkey":"x"}`, 403},
		{ci.Token, "POST", "/v1/indexes/running/prune", "", 403}, {ops.Token, "POST", "/v1/indexes/running/prune", "", 200},
		{ops.Token, "GET", "/v1/indexes/running/team/cards", "", 200}, {ci.SHA256, "GET", "/v1/indexes", "", 401},
	} {
		if status, text := ask(c.token, c.method, c.path, c.body); status != c.want {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
	if _, status := p.stop(syscall.SIGTERM); status != exitDone {
		t.Errorf("status %d", status)
	}
	log := p.stderr.String()
	if strings.Count(log, "msg=audit") != 4 || !strings.Contains(log, "principal=ci") {
		t.Errorf("%s", log)
	}
	for _, secret := range []string{ci.Token[7:], ops.Token[7:], ci.SHA256, ops.SHA256} {
		if strings.Contains(log, secret) {
			t.Errorf("the log repeats %s", secret)
		}
	}
}

// TestServe_AnyAddress: with tokens other hosts may be let in.
func TestServe_AnyAddress(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0"} {
		s := &settings{fileSettings: fileSettings{Listen: addr, Auth: &authSettings{}}}
		if err := s.checkListen(); err != nil {
			t.Error(err)
		}
		l, err := s.listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	for _, addr := range []string{"", "0.0.0.0", ":http", ":65536", "1.2.3.4:-1"} {
		if err := checkAddress(addr); exitStatus(err) != exitUsage {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// TestAuthDocs: serve takes what docs/auth.md shows.
func TestAuthDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "auth.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for i, block := range strings.Split(string(text), "\n```") {
		yaml, ok := strings.CutPrefix(block, "yaml\n")
		if i%2 == 0 || !ok {
			continue
		}
		shown++
		path := filepath.Join(t.TempDir(), "indexd.yaml")
		yaml = strings.ReplaceAll(yaml, "5f1d…", strings.Repeat("5f1d", 16))
		if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		a := &app{stdout: io.Discard, stderr: &stderr, env: []string{"INDEXD_CONFIG=" + path}}
		cmd := a.serveCommand()
		s, err := a.settings(cmd)
		if err != nil {
			t.Fatal(err)
		}
		indexes, err := s.indexes(wiring{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.gate(indexes, a.log(slog.LevelInfo))
		if err != nil || g == nil {
			t.Fatalf("%v: %s", err, yaml)
		}
		if got, want := s.issuerErr(g) != nil, strings.Contains(yaml, "issuer:"); got != want {
			t.Errorf("/readyz tells of an issuer: %t, want %t", got, want)
		}
		g.Close()
	}
	if shown != 2 {
		t.Errorf("%d blocks of YAML", shown)
	}
}
