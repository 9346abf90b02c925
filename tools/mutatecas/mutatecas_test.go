package main

import (
	"regexp"
	"testing"
)

// TestMutants_Apply: the text of each mutant is where it should be, and its tests are named. Whether they notice is for the
// command.
func TestMutants_Apply(t *testing.T) {
	all, err := mutants()
	if err != nil {
		t.Fatal(err)
	}
	if err := applicable("../..", all); err != nil {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.file+m.what] {
			t.Errorf("%s: %s: there are two of that name", m.file, m.what)
		}
		seen[m.file+m.what] = true
		if _, err := regexp.Compile(m.tests); err != nil {
			t.Errorf("%s: %s: %v", m.file, m.what, err)
		}
	}
	if len(all) < 40 {
		t.Errorf("%d mutants", len(all))
	}
}

// TestParse: what a list may not be.
func TestParse(t *testing.T) {
	const good = "file a/b.go\n\nmutant x\ntests T in ./c\n \tstays\n-\tgoes\n+\tcomes\n"
	all, err := parse(good)
	want := mutant{file: "a/b.go", what: "x", was: "\tstays\n\tgoes\n", is: "\tstays\n\tcomes\n", tests: "T", in: "./c"}
	if err != nil || len(all) != 1 || all[0] != want {
		t.Errorf("%+v, %v", all, err)
	}
	for _, text := range []string{
		"mutant x\ntests T\n-a\n", "file a/b.go\n\nmutant x\n-a\n", "file a/b.go\n\nmutant x\ntests T\n a\n",
		"file a/b.go\n\nmutant x\ntests T\na\n", "file a/b.go\n\nmutant x\ntests T\n-a\n\n+b\n", "",
	} {
		if all, err := parse(text); err == nil {
			t.Errorf("%q is read as %+v", text, all)
		}
	}
}

// TestRead: what go test tells of tests that fail, of those that do not, and of what does not compile.
func TestRead(t *testing.T) {
	for text, want := range map[string]result{
		`{"Action":"pass","Test":"TestA"}` + "\n" + `{"Action":"pass"}`:                  {fate: survived},
		`{"Action":"fail","Test":"TestA/b"}` + "\n" + `{"Action":"fail","Test":"TestA"}`: {fate: killed, test: "TestA/b"},
		`{"Action":"build-fail"}` + "\n" + `{"Action":"fail","FailedBuild":"x"}`:         {fate: uncompiled},
		`{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"pass","Test":"TestA"}` + "\n" +
			`{"Action":"run","Test":"TestB"}` + "\n" + `{"Action":"fail"}`: {fate: killed, test: "TestB, which did not end"},
		`{"Action":"fail"}`: {fate: survived}, // and the exit status says that it did not
		"no JSON":           {fate: survived},
	} {
		if got := read([]byte(text)); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}
