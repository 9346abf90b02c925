package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/blobindex/indexd/fakes/s3d"
)

func TestCase_C38_SnapshotPartExpired(t *testing.T) { runCase(t, "C38_snapshot") }

// TestCase_C03_SnapshotRefusesToStart: on a store that does not keep conditions nothing is published.
func TestCase_C03_SnapshotRefusesToStart(t *testing.T) {
	for name, lies := range map[string]s3d.Lies{
		"create-only": {CreateOnlyOverwrites: true}, "if-match": {IgnoresIfMatch: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := s3d.New(t, &s3d.Options{Lies: lies})
			runScripts(t, testscript.Params{Files: []string{"testdata/case/C03_snapshot.txtar"}}, s3Vars(s)...)
		})
	}
}

// part NAME DIR puts the id of the only generation in a directory into a variable.
func partCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: part NAME DIR")
	}
	found, err := os.ReadDir(ts.MkAbs(args[1]))
	ts.Check(err)
	ids := map[string]bool{}
	for _, f := range found {
		id, _, _ := strings.Cut(f.Name(), "_")
		ids[id] = true
	}
	if len(ids) != 1 {
		ts.Fatalf("%d generations, want 1", len(ids))
	}
	for id := range ids {
		ts.Setenv(args[0], id)
	}
}

// TestSnapshot_Terminal: what is drawn while a directory is walked and staged.
func TestSnapshot_Terminal(t *testing.T) {
	runScripts(t, testscript.Params{Files: []string{"testdata/snapshot/terminal.txtar"}})
}
