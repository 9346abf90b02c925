package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/web"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// takesFlags holds a command line that is given in a file to what the command takes.
func takesFlags(t *testing.T, args []string) {
	t.Helper()
	a := &app{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	cmd, rest, err := a.root().Find(args)
	if err != nil || cmd.Name() != "serve" {
		t.Fatalf("%q: %v", args, err)
	}
	if err := cmd.ParseFlags(rest); err != nil || cmd.Flags().NArg() > 0 {
		t.Errorf("%q: %v", args, err)
	}
}

// TestDeploy_Systemd: each line of the unit is a section or a setting, and what it starts is a command line that is taken.
func TestDeploy_Systemd(t *testing.T) {
	setting := regexp.MustCompile(`^[A-Z][A-Za-z]+=`)
	sections, started := 0, ""
	for line := range strings.Lines(deployed(t, "indexd.service")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == "[Unit]" || line == "[Service]" || line == "[Install]":
			sections++
		case !setting.MatchString(line):
			t.Errorf("what is %q?", line)
		case strings.HasPrefix(line, "ExecStart="):
			started = strings.TrimPrefix(line, "ExecStart=/usr/local/bin/indexd ")
		}
	}
	if sections != 3 {
		t.Errorf("%d sections", sections)
	}
	takesFlags(t, strings.Fields(started))
	if strings.Contains(started, "--") {
		t.Errorf("%q: a flag comes before what people configure", started)
	}
	if analyze, err := exec.LookPath("systemd-analyze"); err == nil {
		// With a program that is there, in the place of ours.
		unit := strings.ReplaceAll(deployed(t, "indexd.service"), "/usr/local/bin/indexd", must(os.Executable())(t))
		path := filepath.Join(t.TempDir(), "indexd.service")
		if err := os.WriteFile(path, []byte(unit), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, path) { // else it is about other units of this host
				t.Errorf("%v: %s", err, line)
			}
		}
	}
}

// TestDeploy_Kubernetes: each document can be read, the arguments are taken, the probes ask what is answered, under a name that
// is, and with the configuration as it stands serve starts.
func TestDeploy_Kubernetes(t *testing.T) {
	kinds := map[string]map[string]any{}
	for _, doc := range strings.Split(deployed(t, "kubernetes.yaml"), "\n---\n") {
		m, err := yaml.Parser().Unmarshal([]byte(doc))
		if err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		kinds[m["kind"].(string)] = m
	}
	at := func(v any, path ...string) any {
		t.Helper()
		for _, p := range path {
			if list, ok := v.([]any); ok {
				v = list[0]
			}
			next, ok := v.(map[string]any)
			if !ok || next[p] == nil {
				t.Fatalf("no %v in %v", path, v)
			}
			v = next[p]
		}
		return v
	}
	container := at(kinds["Deployment"], "spec", "template", "spec", "containers").([]any)[0]
	var args []string
	for _, a := range at(container, "args").([]any) {
		args = append(args, a.(string))
	}
	takesFlags(t, args)

	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := at(kinds["Secret"], "stringData", "config.yaml").(string)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, env: []string{"INDEXD_CONFIG=" + config}}
	s, err := a.settings(a.serveCommand())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.checkListen(); err != nil {
		t.Error(err)
	}
	indexes, err := s.indexes(wiring{})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := s.gate(indexes, a.log(slog.LevelInfo))
	if err != nil || gate == nil {
		t.Fatalf("who may come in: %v", err)
	}
	defer gate.Close()
	ports := at(container, "ports").([]any)
	listens := []string{s.Listen, args[slices.Index(args, "--metrics-listen")+1]}
	for i, name := range []string{"http", "metrics"} {
		p := ports[i].(map[string]any)
		if p["name"] != name || !strings.HasSuffix(listens[i], fmt.Sprintf(":%v", p["containerPort"])) {
			t.Errorf("the port %v does not agree with %s", p, listens[i])
		}
	}
	x, err := blobindex.New(membucket.New(nil), blobindex.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := web.New([]*blobindex.Index{x}, readiness(membucket.New(nil)), &web.Options{Auth: gate, PublicURL: s.PublicURL})
	if err != nil {
		t.Fatal(err)
	}
	for _, probe := range []string{"readinessProbe", "livenessProbe"} {
		get := at(container, probe, "httpGet")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at(get, "path").(string), nil)
		r.Host = at(get, "httpHeaders", "value").(string)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK || at(get, "port") != "http" {
			t.Errorf("%s: %d", probe, w.Code)
		}
	}
}
