package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/blobindex/indexd/fakes/realservers"
)

// scripts are for people too: the documentation shows them. Each puts markers with clients that are not ours, looks at the
// cards, deletes the markers, and looks again. A marker's sub-key is "by-" and its client, which is a case.
//
//go:embed testdata/by_hand_*.sh
var scripts embed.FS

// cardsMark stands in the output before what `indexd cards` prints.
const cardsMark = "==== cards"

// gcloudScript is left out where gcloud is not installed, for Debian has no package of it. All other clients are demanded.
// Its commands' status does not count, but only what they do: fake-gcs-server answers a delete with "null", which gcloud
// takes for an error.
const gcloudScript = "by_hand_gcloud.sh"

// byHand runs the server's scripts, and says which it did not run.
func (t target) byHand(ctx context.Context, _ realservers.Suite) (results []result, notes []string, err error) {
	bin, err := t.commands(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(bin)
	for _, name := range t.server.byHand {
		if _, err := exec.LookPath("gcloud"); err != nil && name == gcloudScript {
			notes = append(notes, "gcloud is not installed here, so that its commands were not run")
			continue
		}
		text, err := scripts.ReadFile("testdata/" + name)
		if err != nil {
			return nil, notes, err
		}
		strict := "-e"
		if name == gcloudScript {
			strict = "+e"
		}
		out, err := t.script(ctx, bin, strict, string(text))
		results = append(results, byHandResults(string(text), out, err)...)
	}
	return results, notes, nil
}

// commands returns a directory with the program, and before it a script of its name that marks its output.
func (t target) commands(ctx context.Context) (string, error) {
	bin, err := os.MkdirTemp("", "indexd-testreal-")
	if err != nil {
		return "", err
	}
	program, err := t.build(ctx, filepath.Join(bin, "program"))
	if err != nil {
		return "", err
	}
	marking := fmt.Sprintf("#!/bin/sh\necho '%s'\nexec '%s' \"$@\"\n", cardsMark, program)
	return bin, os.WriteFile(filepath.Join(bin, "indexd"), []byte(marking), 0o755)
}

// build puts the program into the directory.
func (t target) build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "indexd")
	return program, quietly(exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/indexd"), t.root)
}

// script runs a script in the directory bin and returns what it printed. Strict is the option of the shell: to stop at the
// first command that fails (-e), or not (+e).
func (t target) script(ctx context.Context, bin, strict, text string) (string, error) {
	name, err := t.newBucket(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "bash", strict, "-u", "-o", "pipefail", "-c", text)
	cmd.Dir = bin
	cmd.Env = append(clean(os.Environ()), t.credentials()...)
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "ENDPOINT="+t.url, "BUCKET="+name, "TOKEN=none",
		"CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE="+t.url+"/storage/v1/", "CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true",
		"CLOUDSDK_CORE_DISABLE_PROMPTS=1", "CLOUDSDK_CONFIG="+filepath.Join(bin, "gcloud"))
	own(cmd)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var byWhom = regexp.MustCompile(`/by-([a-z]+)_`)

// byHandResults holds the output to what the script has put: each marker is on the first cards, none on the second.
func byHandResults(text, out string, err error) []result {
	parts := strings.Split(out, cardsMark)
	if err != nil || len(parts) != 3 {
		return []result{{"script", "fail", fmt.Sprintf("%v, %d times cards\n%s", err, len(parts)-1, out)}}
	}
	var results []result
	for _, m := range byWhom.FindAllStringSubmatch(strings.ReplaceAll(text, "%2F", "/"), -1) {
		client, marker := m[1], "by-"+m[1]
		if slices.ContainsFunc(results, func(r result) bool { return r.name == client }) {
			continue
		}
		r := result{client, "pass", ""}
		if !strings.Contains(parts[1], marker) || strings.Contains(parts[2], marker) {
			r.status, r.output = "fail", "put, looked, deleted, looked:\n"+out
		}
		results = append(results, r)
	}
	return results
}
