package snapshot_test

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas/snapshot"
)

var long = strings.Repeat("x", snapshot.MaxPath)

var paths = []struct {
	path string
	ok   bool
}{
	{"a", true}, {"reports/may.csv", true}, {"a b", true}, {"line\nend", true}, {"\r\n", true}, {"\x01", true},
	{`back\slash`, true}, {"\u2028", true}, {"\ufffd", true}, {"😀", true}, {"...", true}, {"a/..b/.c", true}, {"-", true},
	{`"<&>"`, true}, {long, true}, {strings.Repeat("d/", 2047) + "ab", true},
	{"", false}, {long + "x", false}, {"\xff", false}, {"a\xc3", false}, {"\xed\xa0\x80", false}, {"a\x00b", false},
	{"/a", false}, {"a/", false}, {"a//b", false}, {"/", false}, {".", false}, {"..", false}, {"a/../b", false}, {"./a", false},
	{"a/.", false}, {"a/..", false},
}

// TestCheckPath: what may be published, and that it comes back as it went; what may not, and that nothing is published then.
func TestCheckPath(t *testing.T) {
	for _, x := range paths {
		if err := snapshot.CheckPath(x.path); (err == nil) != x.ok || err != nil && !errors.Is(err, snapshot.ErrRow) {
			t.Errorf("%.40q: %v", x.path, err)
		}
		b := membucket.New(nil)
		s := on(t, b, nil)
		if _, err := s.Publish(t.Context(), tree(1, x.path), nil); (err == nil) != x.ok || err != nil && !errors.Is(err, snapshot.ErrRow) {
			t.Errorf("publishing %.40q: %v", x.path, err)
		}
		if x.ok {
			holds(t, s, 1, x.path)
		} else {
			as(t, b, nil)
		}
	}
}

// TestRow_Check: sizes, times and digests that cannot be.
func TestRow_Check(t *testing.T) {
	good := snapshot.Row{Path: "a", Size: 1, MTime: start, Digest: "sha256:" + strings.Repeat("0f", 32)}
	for what, change := range map[string]func(*snapshot.Row){
		"a size":              func(r *snapshot.Row) { r.Size = -1 },
		"a year":              func(r *snapshot.Row) { r.MTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"a year elsewhere":    func(r *snapshot.Row) { r.MTime = time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200)) },
		"a year long ago":     func(r *snapshot.Row) { r.MTime = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
		"digest without name": func(r *snapshot.Row) { r.Digest = strings.Repeat("0f", 32) },
		"digest in capitals":  func(r *snapshot.Row) { r.Digest = "sha256:0F0F0F0F" },
		"digest too short":    func(r *snapshot.Row) { r.Digest = "sha256:0f" },
		"digest and more":     func(r *snapshot.Row) { r.Digest += "\n" },
		"path":                func(r *snapshot.Row) { r.Path = "" },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); !errors.Is(err, snapshot.ErrRow) {
			t.Errorf("%s: %v", what, err)
		}
	}
	none := good
	none.Digest, none.MTime, none.Size = "", time.Time{}, 0
	if err := errors.Join(good.Check(), none.Check()); err != nil {
		t.Error(err)
	}
}

const line = `{"path":"a","size":1,"mtime":"2026-01-01T00:00:00Z","digest":""}`

// TestNDJSON: lines that somebody has sent. What another program would read as another path is refused.
func TestNDJSON(t *testing.T) {
	path := func(text string) string { return strings.Replace(line, `"a"`, `"`+text+`"`, 1) }
	for _, x := range []struct {
		text string
		want []string
		says string // of the error
	}{
		{"", nil, ""},
		{line, []string{"a"}, ""},
		{line + "\r\n\n  \n" + path("b") + "\n", []string{"a", "b"}, ""},
		{path(`\ud83d\ude00 \\ud83d \ufffd \u00e9\n`), []string{"😀 \\ud83d \ufffd é\n"}, ""},
		{path("\ufffd"), []string{"\ufffd"}, ""},
		{path(strings.Repeat(`\u0061`, snapshot.MaxPath)), []string{strings.Repeat("a", snapshot.MaxPath)}, ""},
		{line + "\n" + path("\xff"), []string{"a"}, "line 2"},
		{path(`\ud83d`), nil, "UTF-8"},
		{path(`\ude00`), nil, "UTF-8"},
		{path(`\uD83Dx`), nil, "UTF-8"},
		{path(`\ud83d\u0061`), nil, "UTF-8"},
		{path(`\ud83d\n\ude00`), nil, "UTF-8"},
		{line + line, nil, "more than one value"},
		{line + "]", nil, "more than one value"},
		{line + "\n" + line[:20], []string{"a"}, "line 2"},
		{line + "\n\n" + "null", []string{"a"}, "line 3"},
		{"[" + line + "]", nil, "line 1"},
		{strings.Replace(line, `"size"`, `"length"`, 1), nil, "length"},
		{strings.Replace(line, `:1,`, `:1.5,`, 1), nil, "line 1"},
		{`{"path":"a"}`, nil, "no size"},
		{strings.Replace(line, `"size":1,`, "", 1), nil, "no size, or no mtime"},
		{strings.Replace(line, `"size":1`, `"size":null`, 1), nil, "no size, or no mtime"},
		{`{"path":"a","size":1,"digest":""}`, nil, "no size, or no mtime"},
		{`{"path":"a","size":1,"mtime":"2026-11-30T12:00:00Z"}`, []string{"a"}, ""},
		{path(".."), nil, `".."`},
		{strings.Repeat(" ", 65<<10) + line, nil, "more than 65536 bytes"},
	} {
		var got []string
		err := snapshot.NDJSON(strings.NewReader(x.text))(func(r snapshot.Row) error {
			got = append(got, r.Path)
			return nil
		})
		if !slices.Equal(got, x.want) || (err == nil) != (x.says == "") || err != nil && (!errors.Is(err, snapshot.ErrRow) ||
			!strings.Contains(err.Error(), x.says)) {
			t.Errorf("%.80q: %.80q, %v; want %.80q, %q", x.text, got, err, x.want, x.says)
		}
	}
	gone := errors.New("the client is gone")
	from := io.MultiReader(strings.NewReader(line+"\n"+line[:9]), &failing{gone})
	err := snapshot.NDJSON(from)(func(snapshot.Row) error { return nil })
	if !errors.Is(err, gone) || errors.Is(err, snapshot.ErrRow) {
		t.Errorf("a body that breaks off: %v", err)
	}
	full := errors.New("full")
	if err := snapshot.NDJSON(strings.NewReader(line))(func(snapshot.Row) error { return full }); err != full {
		t.Errorf("a refusal: %v", err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzNDJSON: rows that are taken are published, and read as they were sent.
func FuzzNDJSON(f *testing.F) {
	f.Add(line + "\n" + strings.Replace(line, `"a"`, `"b\n"`, 1))
	for _, x := range paths {
		f.Add(strings.Replace(line, `"a"`, strconv.Quote(x.path), 1))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := on(t, membucket.New(nil), nil)
		s.SetLimits(50, 100, 1)
		_, err := s.Publish(t.Context(), snapshot.NDJSON(strings.NewReader(text)), nil)
		if err != nil {
			if !errors.Is(err, snapshot.ErrRow) {
				t.Fatal(err)
			}
			return
		}
		var sent []snapshot.Row
		if err := snapshot.NDJSON(strings.NewReader(text))(func(r snapshot.Row) error {
			sent = append(sent, r)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_, got, err := s.Read(t.Context())
		if err != nil || !slices.EqualFunc(got, sent, same) {
			t.Fatalf("read %+v, sent %+v, %v", got, sent, err)
		}
	})
}

func same(a, b snapshot.Row) bool {
	return a.Path == b.Path && a.Size == b.Size && a.Digest == b.Digest && a.MTime.Equal(b.MTime)
}

const someID = "00000000000000000007-RT5A-4Q7B.6"

// FuzzParseID: an id is written in one way only.
func FuzzParseID(f *testing.F) {
	for _, text := range []string{
		someID, "00000000000000000001-RT5-0.0", "", "7-RT5-4Q7.6", "00000000000000000007-RT5-4Q7.06",
		"00000000000000000007-RT5-4Q7.0", "00000000000000000007-RT5-0.6", "00000000000000000007--4Q7.6",
		"00000000000000000000-RT5-4Q7.6", "09223372036854775807-RT5-4Q7.6", "09223372036854775808-RT5-4Q7.6",
		"00000000000000000007-R_5-4Q7.6", "00000000000000000007-RT5-4Q7.6/", "00000000000000000007-RT5-.0", "+0000000000000000007-a-b.1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := snapshot.ParseID(text)
		if err != nil {
			if id != (snapshot.ID{}) {
				t.Errorf("%q: %v, and %v", text, err, id)
			}
			return
		}
		var again snapshot.ID
		marshalled, err := id.MarshalText()
		if err2 := again.UnmarshalText(marshalled); err != nil || err2 != nil || again != id || id.String() != text || id.Number == 0 ||
			strings.ContainsAny(text, "/\n ") || len(text) > 200 {
			t.Errorf("%q is read as %v: %v, %v", text, id, err, err2)
		}
	})
}

// TestParseID: what is none.
func TestParseID(t *testing.T) {
	for text, ok := range map[string]bool{
		someID: true, "00000000000000000001-RT5-0.0": true, "09223372036854775807-RT5-4Q7.6": true, "00000000000000000007-RT5-0.6": true,
		"7-RT5-4Q7.6": false, "00000000000000000007-RT5-4Q7.06": false, "00000000000000000007-RT5-4Q7.0": false,
		"00000000000000000007--4Q7.6": false, "00000000000000000000-RT5-4Q7.6": false, "09223372036854775808-RT5-4Q7.6": false,
		"00000000000000000007-R_5-4Q7.6": false, "00000000000000000007-RT5-.0": false, "00000000000000000007-RT5-.1": false,
		"00000000000000000007-RT5": false, "00000000000000000007": false, "": false, someID + "-": false, someID + ".": false,
		"00000000000000000007-" + strings.Repeat("a", 65) + "-4Q7.6": false,
	} {
		if id, err := snapshot.ParseID(text); (err == nil) != ok || ok && id.String() != text {
			t.Errorf("%q: %v, %v", text, id, err)
		}
	}
}

// TestIDs_OutOfReach: an attempt whose id could not be read again is none, and the store is as it was.
func TestIDs_OutOfReach(t *testing.T) {
	for name, opts := range map[string]*snapshot.Options{
		"numbers used up": {}, "a nonce that is none": {Nonce: func() string { return "a-b" }}, "no nonce": {Nonce: func() string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			b := membucket.New(nil)
			if name == "numbers used up" {
				put(t, b, root+"generations/09223372036854775807-RT5-0.0_claim", `{"class":"operator"}`)
			}
			was := content(t, b)
			if _, err := on(t, b, opts).Publish(t.Context(), tree(1, "a"), nil); !errors.Is(err, snapshot.ErrStage) {
				t.Errorf("Publish: %v", err)
			}
			as(t, b, was)
		})
	}
}

// TestDoc: what the package comment says of keys, of the pointer and of rows is so.
func TestDoc(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(source), "\n//\t", "\n")
	example := func(pattern string) string {
		t.Helper()
		found := regexp.MustCompile(`(?ms)` + pattern).FindString(text)
		if found == "" {
			t.Fatalf("the comment has nothing like %s", pattern)
		}
		found = regexp.MustCompile(`sha256:[0-9a-f]{4}…`).ReplaceAllStringFunc(found, func(d string) string {
			return strings.TrimSuffix(d, "…") + strings.Repeat("0", 60)
		})
		return strings.ReplaceAll(found, "…", "ABC")
	}
	b := membucket.New(nil)
	payload := example(`^\{"grace_ms".*?\}\]\}$`)
	put(t, b, pointerKey, `{"format":"snapshot/1","created":{"nonce":"4Q7ABC","at":"2026-01-01T00:00:00Z"},"seq":7,"nonce":"x","recent":[],`+
		`"payload":`+payload+`}`)
	s := on(t, b, nil)
	status, err := s.Status(t.Context())
	if err != nil || status.Current.ID.Number != 7 || status.Current.Bytes != 731422 || status.Grace != time.Minute ||
		len(status.Retired) != 1 || status.Retired[0].Number != 6 || !strings.HasSuffix(status.Current.ID.String(), "-4Q7ABC.6") {
		t.Errorf("the pointer is read as %+v, %v", status, err)
	}
	remove(t, b, pointerKey)

	row := example(`^\{"path".*?\}$`)
	id := publish(t, s, snapshot.NDJSON(strings.NewReader(row)), snapshot.Published).ID
	z, err := gzip.NewReader(strings.NewReader(body(t, b, file(id, "000000"))))
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := io.ReadAll(z); err != nil || string(stored) != row+"\n" {
		t.Errorf("the row %s is stored as %s, %v", row, stored, err)
	}
	patterns := regexp.MustCompile(`(?m)^_indexd/\S+`).FindAllString(text, -1)
	for _, key := range patterns {
		key = strings.NewReplacer("<namespace>", "team", "<name>", "files", "<id>", id.String(), "<part>", "000000").Replace(key)
		if body(t, b, bucket.Key(key)) == "" {
			t.Errorf("%s is empty", key)
		}
	}
	if n := len(keys(t, b, "")); n != len(patterns) {
		t.Errorf("%d kinds of keys are told of, and there are %d", len(patterns), n)
	}
}
