package main

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// lists are the mutants, as text that reads like patches:
//
//	file cas/envelope.go
//
//	mutant seq does not grow
//	tests TestUpdate_Fates
//	-	e.Created, e.Seq = base.Created, base.Seq+1
//	+	e.Created, e.Seq = base.Created, base.Seq
//
// A file line is for the mutants below it. The tests are a regular expression for go test -run, in the file's package unless
// they are "… in ./another/package". Of the lines, those with a minus go, those with a plus come, those with a space stay;
// what goes or stays must be in the file exactly once, so who changes such a line in the file changes it here, too. A last
// line "compiler" says that the mutant is one that does not compile.
//
//go:embed mutants/*.txt
var lists embed.FS

// mutants are all of them.
func mutants() ([]mutant, error) {
	var all []mutant
	names, err := fs.Glob(lists, "mutants/*.txt")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := lists.ReadFile(name)
		if err != nil {
			return nil, err
		}
		some, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// parse reads one list.
func parse(text string) ([]mutant, error) {
	var all []mutant
	file := ""
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		lines := strings.Split(block, "\n")
		if name, ok := strings.CutPrefix(lines[0], "file "); ok && len(lines) == 1 {
			file = name
			continue
		}
		m, err := parseMutant(lines)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines[0], err)
		}
		if m.file = file; file == "" {
			return nil, fmt.Errorf("%q comes before any file", lines[0])
		}
		all = append(all, m)
	}
	return all, nil
}

func parseMutant(lines []string) (mutant, error) {
	var m mutant
	var was, is strings.Builder
	for i, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case i == 0 && word == "mutant":
			m.what = rest
		case i == 1 && word == "tests":
			m.tests, m.in, _ = strings.Cut(rest, " in ")
		case i > 1 && line == "compiler":
			m.compiler = true
		case i > 1 && line != "" && strings.Contains("- ", line[:1]):
			was.WriteString(line[1:] + "\n")
			if line[0] == ' ' {
				is.WriteString(line[1:] + "\n")
			}
		case i > 1 && line != "" && line[0] == '+':
			is.WriteString(line[1:] + "\n")
		default:
			return m, fmt.Errorf("line %d is not understood: %q", i+1, line)
		}
	}
	if m.was, m.is = was.String(), is.String(); m.tests == "" || m.was == "" || m.was == m.is {
		return m, fmt.Errorf("it changes nothing, or names no tests")
	}
	return m, nil
}
