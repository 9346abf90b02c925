package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
		"go run -tags disable_grpc_modules ./cmd/indexd demo": true, "go test ./...": true,
		"go run -tags disable_grpc_modules ./cmd/indexd demo --versus-list": true,
		"go install -tags disable_grpc_modules ./cmd/indexd":                true,
	}
	claims(t, string(text))
	var script, skipped []string
	blocks := map[string]string{}
	for i, block := range strings.Split(string(text), "\n```") {
		lines := strings.Split(block, "\n")
		if i%2 == 1 {
			blocks[lines[0]] = strings.Join(lines[1:], "\n")
		}
		if i%2 == 0 || lines[0] != "sh" {
			continue
		}
		if strings.Contains(block, "trap ") {
			lines = append([]string{"sh", "("}, append(lines[1:], ")")...) // a script of its own
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
	configured(t, blocks["yaml"])
	server := launch(t, "serve", "--listen", "127.0.0.1:0", "--prune-every", "0") // which must not be at work when the README prunes
	commands := strings.ReplaceAll(strings.Join(script, "\n"), "http://127.0.0.1:8080", server.url)
	sh := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.ReplaceAll(commands, "curl ", "curl -sS --fail-with-body "))
	sh.Dir = server.cmd.Dir
	sh.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), raceOptions}
	log, err := os.Create(filepath.Join(t.TempDir(), "out")) // no pipe, which a sleep in the background would keep open
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	sh.Stdout, sh.Stderr = log, log
	runErr := sh.Run()
	out, err := os.ReadFile(log.Name())
	if err != nil || runErr != nil {
		t.Fatalf("%v %v\n%s\n%s", err, runErr, commands, out)
	}
	for _, want := range []string{"train-eu_", "done", "is hidden (finished)", `"complete":true`, "nightly_",
		"everything can be used here", `"unguarded":""`, "\n_active_runs  "} {
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

// claims holds the README to what it points at: every test that it names and every file that it links to must exist.
func claims(t *testing.T, text string) {
	t.Helper()
	root := filepath.Join("..", "..")
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(code), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(text, -1)
	links := regexp.MustCompile(`\]\(([^) ]+)\)`).FindAllStringSubmatch(text, -1)
	if len(named) < 15 || len(links) < 3 {
		t.Fatalf("found %d tests and %d links", len(named), len(links))
	}
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("the README names %s, and there is no such test", m[1])
		}
	}
	for _, m := range links {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("the README links to what is not there: %v", err)
		}
	}
}

// TestReadme_ByHand: what the README shows for other clients is what make test-real runs on servers.
func TestReadme_ByHand(t *testing.T) {
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob(filepath.Join(root, "tools", "testreal", "testdata", "by_hand_*.sh"))
	if err != nil || len(scripts) < 3 {
		t.Fatalf("found %q, %v", scripts, err)
	}
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(readme), "\n```bash\n"+string(text)+"```\n") {
			t.Errorf("the README does not show %s as it is", filepath.Base(name))
		}
	}
}

// configured runs a command by the README's configuration file.
func configured(t *testing.T, yaml string) {
	t.Helper()
	dir := t.TempDir()
	const there = "file:///var/lib/indexd"
	if !strings.Contains(yaml, there) {
		t.Fatalf("no configuration was read: %q", yaml)
	}
	file := filepath.Join(dir, "indexd.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(yaml, there, "file://"+dir+"/bucket")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := child(t, "indexd", "register", "--config", file, "--subkey", "x").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := child(t, "indexd", "cards", "--config", file).CombinedOutput(); err != nil || !strings.Contains(string(out), "unknown") {
		t.Fatalf("%v: %s", err, out)
	}
}
