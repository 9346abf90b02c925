package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme runs every command of the README, line by line in one directory. The two that build and test this very
// module, and the one that installs it, are only held to what they name; the demonstrations run in TestDemo.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := map[string]bool{
		"go run ./cmd/indexd demo": true, "go run ./cmd/indexd demo --versus-list": true, "go test ./...": true,
		"go install ./cmd/indexd": true,
	}
	var script, skipped []string
	for i, block := range strings.Split(string(text), "\n```") {
		lines := strings.Split(block, "\n")
		if i%2 == 0 || lines[0] != "sh" {
			continue
		}
		for _, line := range lines[1:] {
			command, _, _ := strings.Cut(line, "  #")
			if command = strings.TrimSpace(command); elsewhere[command] {
				skipped = append(skipped, command)
			} else {
				script = append(script, command)
			}
		}
	}
	if len(skipped) != len(elsewhere) || len(script) < 12 {
		t.Fatalf("of the README were read %q, and left to other tests %q", script, skipped)
	}

	bin, self := t.TempDir(), must(os.Executable())(t)
	if err := os.Symlink(self, filepath.Join(bin, "indexd")); err != nil {
		t.Fatal(err)
	}
	server := launch(t, "serve", "--listen", "127.0.0.1:0")
	commands := strings.ReplaceAll(strings.Join(script, "\n"), "http://127.0.0.1:8080", server.url)
	sh := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.ReplaceAll(commands, "curl ", "curl -sS --fail-with-body "))
	sh.Dir = server.cmd.Dir
	sh.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), raceOptions}
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, commands, out)
	}
	for _, want := range []string{"train-eu_", "done", "is hidden (finished)", `"complete":true`, "nightly_"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands print no %q:\n%s", want, out)
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
