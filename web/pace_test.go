package web

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"testing"
	"time"
)

// A slowBody takes a while for each read of a step.
type slowBody struct {
	clock *time.Time
	takes time.Duration
	step  int
	left  int
}

func (b *slowBody) Read(p []byte) (int, error) {
	*b.clock = b.clock.Add(b.takes)
	n := min(b.step, b.left, len(p))
	if b.left -= n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (b *slowBody) Close() error { return nil }

// TestPacedBody: a body that goes on is read however long it takes, one that trickles is not, and the time that is spent
// between reads is not counted.
func TestPacedBody(t *testing.T) {
	const pace = 15 * time.Second
	for _, c := range []struct {
		name    string
		step    int           // bytes that a read gets
		takes   time.Duration // each
		between time.Duration // reads
		ends    bool
	}{
		{"fast", 32 << 10, time.Millisecond, 0, true},
		{"just in time", 1 << 10, 900 * time.Millisecond, 0, true},
		{"a slow store", 4 << 10, time.Second, time.Hour, true},
		{"a trickle", 1, time.Second, 0, false},
		{"a little too slow", 1 << 10, time.Second, 0, false},
		{"one long wait", 16 << 10, 16 * time.Second, 0, false},
	} {
		clock := time.Unix(1e9, 0)
		var until time.Time
		ended := 0
		b := &pacedBody{
			ReadCloser: &slowBody{&clock, c.takes, c.step, 100 << 10}, pace: pace, now: func() time.Time { return clock },
			deadline: func(at time.Time) error { until = at; return nil }, ended: func() { ended++ },
		}
		var err error
		late := false
		for err == nil && !late {
			_, err = b.Read(make([]byte, 64<<10))
			late = err == nil && clock.After(until)
			clock = clock.Add(c.between)
		}
		if late == c.ends || c.ends && (!errors.Is(err, io.EOF) || !until.IsZero() || ended != 1) || !c.ends && ended != 0 {
			t.Errorf("%s: late %v, %v, deadline %v, ended %d", c.name, late, err, until, ended)
		}
	}
}

// TestPacedWriter: each write has a time of its own.
func TestPacedWriter(t *testing.T) {
	rec := httptest.NewRecorder()
	deadlines := 0
	w := &pacedWriter{ResponseWriter: rec, pace: time.Minute, deadline: func(at time.Time) error {
		if d := time.Until(at); d > time.Minute || d < time.Minute/2 {
			t.Errorf("%v from now", d)
		}
		deadlines++
		return nil
	}}
	for range 3 {
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if deadlines != 3 || !bytes.Equal(rec.Body.Bytes(), []byte("xxx")) {
		t.Errorf("%d deadlines, %q", deadlines, rec.Body)
	}
}

// TestDisposition: no name becomes a path, a second header or another parameter.
func TestDisposition(t *testing.T) {
	for name, want := range map[string]string{
		"model.bin": `attachment; filename=model.bin`, "a b.txt": `attachment; filename="a b.txt"`,
		`a"; filename=b`: `attachment; filename="a\"; filename=b"`, "../../etc/passwd": `attachment; filename=.._.._etc_passwd`,
		`C:\x`: `attachment; filename="C:_x"`, "": `attachment; filename=""`,
		"a\r\nSet-Cookie: x": `attachment; filename*=utf-8''a%0D%0ASet-Cookie%3A%20x`,
		"ключ":               `attachment; filename*=utf-8''%D0%BA%D0%BB%D1%8E%D1%87`,
		"\xff":               `attachment; filename*=utf-8''%EF%BF%BD`,
	} {
		if got := disposition(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
