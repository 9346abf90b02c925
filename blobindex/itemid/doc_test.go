package itemid_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
)

// docBlock returns the indented lines of doc.go that follow the line which starts with intro.
func docBlock(t *testing.T, intro string) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "// "+intro)
	if !found {
		t.Fatalf("doc.go has no line %q", intro)
	}
	var block []string
	for _, line := range strings.Split(after, "\n")[1:] {
		switch body, indented := strings.CutPrefix(line, "//\t"); {
		case indented:
			block = append(block, body)
		case len(block) > 0:
			return block
		}
	}
	return block
}

// wantEach fails unless every grammar is named in the first column of some line.
func wantEach(t *testing.T, block []string) {
	t.Helper()
	for _, g := range grammars {
		found := false
		for _, line := range block {
			found = found || strings.HasPrefix(line, g.String()+" ")
		}
		if !found {
			t.Errorf("doc.go shows no example of grammar %s", g)
		}
	}
}

func TestDoc_examplesParse(t *testing.T) {
	block := docBlock(t, "Grammar, id, sub-key and time of ids that parse:")
	wantEach(t, block)
	for _, line := range block {
		f := strings.Fields(line)
		if len(f) != 4 {
			t.Errorf("%q: want four columns", line)
			continue
		}
		g, err := itemid.ParseGrammar(f[0])
		if err != nil {
			t.Error(err)
			continue
		}
		id, err := g.Parse(f[1])
		if err != nil {
			t.Error(err)
			continue
		}
		if id.String() != f[1] || id.Subkey() != f[2] || format(id.Time()) != f[3] {
			t.Errorf("%s %s: got %s, %s, %s; want %s, %s", g, f[1], id, id.Subkey(), format(id.Time()), f[2], f[3])
		}
	}
}

func TestDoc_examplesDoNotParse(t *testing.T) {
	block := docBlock(t, "Grammar and text, and below them the reason why it does not parse:")
	wantEach(t, block)
	for pair := range slices.Chunk(block, 2) {
		if len(pair) != 2 {
			t.Fatalf("%q has no reason below it", pair[0])
		}
		name, quoted, _ := strings.Cut(pair[0], " ")
		text, err := strconv.Unquote(strings.TrimSpace(quoted))
		if err != nil {
			t.Errorf("%q: %v", pair[0], err)
			continue
		}
		g, err := itemid.ParseGrammar(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, want := wantRefused(t, g, text).Reason, strings.TrimSpace(pair[1]); got != want {
			t.Errorf("%s %q: got reason %q, want %q", g, text, got, want)
		}
	}
}

func TestDoc_grammarsAreListed(t *testing.T) {
	block := docBlock(t, "An index has one grammar. The time is in the last part of the id, or is the whole of it:")
	wantEach(t, block)
	if len(block) != len(grammars) {
		t.Errorf("doc.go lists %d grammars, want %d", len(block), len(grammars))
	}
}

func format(at time.Time) string { return at.Format(time.RFC3339Nano) }
