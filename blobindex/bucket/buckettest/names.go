package buckettest

import (
	"errors"
	"slices"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// odd are names that break what cleans, escapes, quotes, splits or folds.
var odd = []string{
	"a+b", "a b", "a%2Bb", "a%252F", "a%2Fb", "a&b", "a?x", "a#y", "a;b", "a=b", "a\\b", "a:b", "a*b", "a'b", `a"b`, "a<b>",
	"__0x41__", "a__0x2f__b", "\x01", "a\x01b", "line\nfeed", "tab\t", "cr\r", "\x7f", "\xff\xfe", "caf\xc3", "\u00e9", "e\u0301",
	"AB", "Ab", " ", " lead", "trail ", "trail.", "...", ".hidden", "~", "-", "CON", "nul.txt", "x\u2028y", "日本",
	strings.Repeat("n", 255),
	"a//b", "/lead", "trail/", ".", "..", "./x", "x/.", "x/../y", "x/./y", "a\x00b", strings.Repeat("n", 256),
}

// oddKeys keeps each odd key byte for byte, alone and beside all others, or refuses it and stores nothing.
func oddKeys(e *env) {
	var held []string
	for _, name := range odd {
		_, err := e.o.Put(e.Context(), e.key(name), strings.NewReader("body of "+name))
		switch {
		case !e.refuses(name) && err == nil:
			held = append(held, name)
		case !e.refuses(name):
			e.Errorf("Put(%q): %v", name, err)
		case !errors.Is(err, bucket.ErrInvalidKey):
			e.Errorf("Put(%q): error %v, want ErrInvalidKey", name, err)
		}
		e.wantNames("", held)
	}
	for _, name := range held {
		e.wantBody(name, "body of "+name)
		e.wantNames(name, below(held, name))
	}
	for len(held) > 0 {
		e.delete(held[0])
		e.wantAbsent(held[0])
		held = held[1:]
		e.wantNames("", held)
	}
}

func (e *env) refuses(name string) bool {
	if e.Refuses != nil && e.Refuses(e.key(name)) {
		return true
	}
	if !e.FileTree {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if slices.Contains([]string{"", ".", ".."}, segment) || len(segment) > 255 || strings.Contains(segment, "\x00") {
			return true
		}
	}
	return false
}

// nested puts a key below another one, and above another one.
func nested(e *env) {
	e.put("a", "file a")
	e.put("d/e/f", "file f")
	for _, name := range []string{"a/b", "a/b/c", "d", "d/e"} {
		_, err := e.o.Put(e.Context(), e.key(name), nil)
		_, bodyErr := e.o.Put(e.Context(), e.key(name), strings.NewReader("body"))
		if !e.FileTree {
			if err != nil || bodyErr != nil {
				e.Errorf("Put(%q): errors %v, %v", name, err, bodyErr)
			}
			e.wantBody(name, "body")
			continue
		}
		if !errors.Is(err, bucket.ErrInvalidKey) || !errors.Is(bodyErr, bucket.ErrInvalidKey) {
			e.Errorf("Put(%q): errors %v, %v, want ErrInvalidKey", name, err, bodyErr)
		}
		e.wantAbsent(name)
		e.delete(name) // it is not there, so it is gone; its neighbours stay
	}
	e.wantBody("a", "file a")
	e.wantBody("d/e/f", "file f")
	if e.FileTree {
		e.wantNames("", []string{"a", "d/e/f"})
		return
	}
	e.wantNames("", []string{"a", "a/b", "a/b/c", "d", "d/e", "d/e/f"})
	e.delete("a", "d/e")
	e.wantNames("", []string{"a/b", "a/b/c", "d", "d/e/f"})
}

// emptyKey is the one key that no store can hold.
func emptyKey(e *env) {
	_, putErr := e.o.Put(e.Context(), "", strings.NewReader("body"))
	_, headErr := e.o.Head(e.Context(), "")
	_, openErr := e.o.Open(e.Context(), "")
	for call, err := range map[string]error{"Put": putErr, "Head": headErr, "Open": openErr} {
		if !errors.Is(err, bucket.ErrInvalidKey) {
			e.Errorf("%s of the empty key: error %v, want ErrInvalidKey", call, err)
		}
	}
}
