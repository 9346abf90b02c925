package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/blobindex/indexd/"

// layers orders the packages: each may import only packages of a lower layer. A folder stands for what is below it too,
// unless that has a line of its own.
var layers = map[string]int{
	"blobindex/itemid": 0, "blobindex/bucket": 1, "blobindex/bucket/buckettest": 2, "blobindex/bucket/internal": 2,
	"cas": 2, "cas/castest": 3,
	"blobindex/bucket/membucket": 4, "blobindex/bucket/dirbucket": 4, "blobindex/bucket/s3bucket": 4,
	"blobindex/bucket/gcsbucket": 4, "blobindex/bucket/gocloudbucket": 4, "blobindex/bucket/openbucket": 5,
	"dedupe": 6, "prune": 7, "cas/probe": 7, "cas/manifest": 7, "cas/lease": 7, "cas/snapshot": 7, "blobindex": 8, "blobindex/resolve": 9, "blobindex/live": 10, "prune/janitor": 10,
	"web/ui": 11, "web/api": 11, "web/auth": 11, "web": 12, "cmd": 13,
}

// pure packages import the standard library and packages of a lower layer only; itemid also the id libraries.
var pure = []string{"blobindex/itemid", "blobindex/bucket", "cas", "dedupe", "prune"}

var idLibraries = []string{"github.com/google/uuid", "github.com/oklog/ulid/v2", "github.com/segmentio/ksuid"}

// TestImportDirection holds the code to the layers: arrows go down only, pure packages stay pure, echo stays in web, and
// fakes are imported by tests, other fakes and tools alone.
func TestImportDirection(t *testing.T) {
	seen := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (rel == "tools" || rel != "." && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, test := filepath.ToSlash(filepath.Dir(rel)), strings.HasSuffix(rel, "_test.go")
		if _, ok := layer(dir); !ok && !within(dir, "fakes") {
			t.Errorf("%s is in no layer: give its folder one", rel)
		}
		for _, spec := range file.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if why := forbidden(dir, to, test); why != "" {
				t.Errorf("%s imports %s: %s", rel, to, why)
			}
			seen[strings.TrimPrefix(to, module)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, must := range []string{"blobindex", "fakes", "prune", "github.com/labstack/echo/v4"} {
		if !seen[must] {
			t.Errorf("no import of %s was seen: the test looks at the wrong place", must)
		}
	}
}

// TestImportDirection_CanFail tries imports that must be refused.
func TestImportDirection_CanFail(t *testing.T) {
	for _, tc := range [][2]string{
		{"dedupe", module + "prune"}, {"blobindex/bucket", module + "blobindex"}, {"prune", "golang.org/x/sync/errgroup"},
		{"blobindex", module + "fakes"}, {"blobindex", "github.com/aws/aws-sdk-go-v2/service/s3"}, {"web", "gocloud.dev/blob"},
		{"blobindex", "github.com/labstack/echo/v4"}, {"web", module + "cmd/indexd"},
		{"blobindex/bucket/membucket", module + "blobindex/bucket/dirbucket"}, {"dedupe", "github.com/google/uuid"},
	} {
		if forbidden(tc[0], tc[1], false) == "" {
			t.Errorf("%s may import %s", tc[0], tc[1])
		}
	}
}

func forbidden(dir, to string, test bool) string {
	ours, isOurs := strings.CutPrefix(to, module)
	switch {
	case isOurs && within(ours, "fakes"):
		if !test && !within(dir, "fakes") {
			return "fakes are for tests, other fakes and tools"
		}
	case strings.HasPrefix(to, "github.com/aws/"), strings.HasPrefix(to, "cloud.google.com/go"),
		strings.HasPrefix(to, "google.golang.org/"), strings.HasPrefix(to, "gocloud.dev"):
		l, _ := layer(dir)
		if !test && l != layers["blobindex/bucket/s3bucket"] && l != layers["blobindex/bucket/openbucket"] {
			return "the SDKs of stores stay in the drivers and where they are wired"
		}
	case strings.HasPrefix(to, "github.com/labstack/echo"):
		if !within(dir, "web") {
			return "echo stays in web"
		}
	case isOurs && !test && !within(dir, "fakes"):
		from, _ := layer(dir)
		if below, ok := layer(ours); !ok || below >= from && ours != dir {
			return "arrows go down only"
		}
	case !isOurs && !test && strings.Contains(strings.Split(to, "/")[0], "."):
		for _, p := range pure {
			if dir == p && !(p == "blobindex/itemid" && contains(idLibraries, to)) {
				return p + " imports the standard library only"
			}
		}
	}
	return ""
}

func layer(dir string) (int, bool) {
	for {
		if l, ok := layers[dir]; ok {
			return l, true
		}
		cut := strings.LastIndex(dir, "/")
		if cut < 0 {
			return 0, false
		}
		dir = dir[:cut]
	}
}

func within(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
