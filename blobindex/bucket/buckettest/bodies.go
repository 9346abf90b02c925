package buckettest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing/iotest"

	"github.com/blobindex/indexd/blobindex/bucket"
)

func roundTrip(e *env) {
	e.wantAbsent("item")
	e.wantNames("", nil)
	e.put("item", "body")
	e.wantBody("item", "body")
	e.wantNames("", []string{"item"})
	e.wantAbsent("ite")
	e.wantAbsent("item2")
	e.delete("item")
	e.wantAbsent("item")
	e.wantNames("", nil)
}

// overwrite goes up and down in length: what is left of an older, longer body would show.
func overwrite(e *env) {
	for _, body := range []string{"a", strings.Repeat("long", 5000), "short", "", "again", "", ""} {
		e.put("item", body)
		e.wantBody("item", body)
		e.wantNames("", []string{"item"})
	}
}

func emptyBody(e *env) {
	bodies := map[string]io.Reader{
		"nil":       nil,
		"seeker":    strings.NewReader(""),
		"no seeker": onlyReader{strings.NewReader("")},
		"at end":    atEnd("all read"),
	}
	for name, body := range bodies {
		if _, err := e.o.Put(e.Context(), e.key(name), body); err != nil {
			e.Errorf("Put(%q): %v", name, err)
		}
		e.wantBody(name, "")
	}
}

func atEnd(text string) io.Reader {
	r := strings.NewReader(text)
	r.Seek(0, io.SeekEnd)
	return r
}

// onlyReader hides every other method of a body.
type onlyReader struct{ io.Reader }

// streamingBody sends more than any buffer holds, of no announced length, and a seeker from the middle.
func streamingBody(e *env) {
	body := strings.Repeat("0123456789abcdef", 1<<16) + "end"
	if _, err := e.o.Put(e.Context(), e.key("stream"), onlyReader{strings.NewReader(body)}); err != nil {
		e.Fatalf("Put of a stream: %v", err)
	}
	e.wantBody("stream", body)

	slow := "sent byte by byte"
	if _, err := e.o.Put(e.Context(), e.key("slow"), iotest.OneByteReader(strings.NewReader(slow))); err != nil {
		e.Fatalf("Put of a slow stream: %v", err)
	}
	e.wantBody("slow", slow)

	r := bytes.NewReader([]byte("head,tail"))
	r.Seek(5, io.SeekStart)
	if _, err := e.o.Put(e.Context(), e.key("seeker"), r); err != nil {
		e.Fatalf("Put of a seeker that stands in the middle: %v", err)
	}
	e.wantBody("seeker", "tail")
}

// failingBody breaks off at once, early and late, over an old object and over none.
func failingBody(e *env) {
	broken := errors.New("the body broke off")
	e.put("old", "old body")
	for _, n := range []int{0, 3, 1 << 20} {
		for _, name := range []string{"old", "none"} {
			body := io.MultiReader(strings.NewReader(strings.Repeat("x", n)), iotest.ErrReader(broken))
			_, err := e.o.Put(e.Context(), e.key(name), body)
			if !errors.Is(err, broken) {
				e.Errorf("Put of a body that fails after %d bytes: error %v, want one that wraps the body's", n, err)
			}
		}
		e.wantBody("old", "old body")
		e.wantAbsent("none")
		e.wantNames("", []string{"old"})
	}
}

// cancelledBody cancels while the body is sent, which would go on for ever.
func cancelledBody(e *env) {
	ctx, cancel := context.WithCancel(e.Context())
	defer cancel()
	_, err := e.o.Put(ctx, e.key("endless"), &endless{left: 1 << 20, done: cancel})
	if !errors.Is(err, context.Canceled) {
		e.Errorf("Put with an endless body: error %v, want context.Canceled", err)
	}
	e.wantNames("", nil)
	if _, err := e.o.Head(e.Context(), e.key("endless")); !errors.Is(err, bucket.ErrNotExist) {
		e.Errorf("Head after it: error %v, want ErrNotExist", err)
	}
}

// endless calls done when left bytes have been read. It does end some time, for drivers that fail the step.
type endless struct {
	left int
	done func()
}

func (r *endless) Read(p []byte) (int, error) {
	if r.left -= len(p); r.left <= 0 {
		r.done()
	}
	if r.left < -1<<26 {
		return 0, io.EOF
	}
	clear(p)
	return len(p), nil
}
