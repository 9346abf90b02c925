package nginx

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A message is what one blank line ends on a stream: an event, or a comment.
type message struct {
	event, id string
	data      struct {
		Prev  string
		Reset bool
		Cards []struct{ ID string }
	}
	at time.Time
}

// A stream is one that is read as it comes, until close.
type stream struct {
	t    *testing.T
	site *site
	got  chan message
	err  error // why there are no more, to be read after got is closed
	head http.Header
	end  context.CancelFunc
}

// follow opens a stream, after the event lastID if it is not empty, as a browser does.
func (s *site) follow(lastID string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	req := s.request(ctx, "GET", team+"/events", "", "Accept", "text/event-stream", "Accept-Encoding", "gzip, deflate, br")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	asked := time.AfterFunc(atOnce, cancel)
	res, err := s.client.Do(req)
	if err != nil {
		cancel()
		s.t.Fatalf("%s: there is no answer: %v", s.name, err)
	}
	asked.Stop()
	if res.StatusCode != http.StatusOK {
		cancel()
		s.read("GET events", res).want(http.StatusOK)
	}
	st := &stream{t: s.t, site: s, got: make(chan message, 1000), head: res.Header, end: cancel}
	go func() {
		defer close(st.got)
		defer res.Body.Close()
		st.err = st.listen(bufio.NewScanner(res.Body))
	}()
	s.t.Cleanup(st.close)
	return st
}

func (st *stream) listen(lines *bufio.Scanner) error {
	var m message
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			m.event = value
		case "id":
			m.id = value
		case "data":
			if err := json.Unmarshal([]byte(value), &m.data); err != nil {
				return fmt.Errorf("%w in %q", err, value)
			}
		case "":
			if lines.Text() == "" || m.event == "" { // a comment may come without a blank line
				m.at = time.Now()
				st.got <- m
				m = message{}
			}
		}
	}
	return lines.Err()
}

// close hangs up, and waits for the reader.
func (st *stream) close() {
	st.end()
	for range st.got {
	}
}

// atOnce is far less than nginx waits for its buffers to fill, and much on a busy machine.
const atOnce = 5 * time.Second

// next is the next event, which comes at once.
func (st *stream) next() message {
	st.t.Helper()
	overdue := time.NewTimer(atOnce)
	defer overdue.Stop()
	for {
		select {
		case m, ok := <-st.got:
			if !ok {
				st.t.Fatalf("%s: the stream ended: %v", st.site.name, st.err)
			}
			if m.event != "" {
				return m
			}
		case <-overdue.C:
			st.t.Fatalf("%s: no event within %v", st.site.name, atOnce)
		}
	}
}

// tells reports whether an event brings an item, with others or alone.
func (m message) tells(id string) bool {
	return m.event == "upsert" && slices.ContainsFunc(m.data.Cards, func(c struct{ ID string }) bool { return c.ID == id })
}

// upsert is the next event, which has to tell of an item.
func (st *stream) upsert(id string) message {
	st.t.Helper()
	m := st.next()
	if !m.tells(id) {
		st.t.Fatalf("%s: got %+v, want an upsert of %s", st.site.name, m, id)
	}
	return m
}

// register registers an item past nginx and returns its id.
func register(direct *site, subkey string) string {
	direct.t.Helper()
	id := subkey + "_" + now()
	direct.do("PUT", team+"/items/"+id, "").want(http.StatusCreated)
	return id
}

// TestCase_C50_Buffering: through nginx with its defaults, and with deploy/nginx.conf, events come at once and uncompressed.
func TestCase_C50_Buffering(t *testing.T) {
	real(t)
	_, direct, proxied := behind(t)
	register(direct, "first")
	for i, s := range proxied {
		st := s.follow("")
		if first := st.next(); first.event != "snapshot" || first.data.Reset || len(first.data.Cards) == 0 {
			t.Errorf("%s: the first event is %+v", s.name, first)
		}
		if kind, coding := st.head.Get("Content-Type"), st.head.Get("Content-Encoding"); !strings.HasPrefix(kind, "text/event-stream") || coding != "" {
			t.Errorf("%s: content type %q, encoding %q", s.name, kind, coding)
		}
		st.upsert(register(direct, fmt.Sprint("second", i)))
		st.upsert(register(direct, fmt.Sprint("third", i)))
		st.close()
	}
}

// silence is longer than nginx waits for a server by itself, 60 s.
const silence = 75 * time.Second

// TestCase_C50_Silence: a stream on which nothing happens goes on, with a heartbeat every 15 s at the latest.
func TestCase_C50_Silence(t *testing.T) {
	real(t)
	_, direct, proxied := behind(t)
	register(direct, "first")
	for i, s := range proxied {
		t.Run(strings.ReplaceAll(s.name, "/", " "), func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			st := s.follow("")
			st.next()
			if gap := st.longestGap(silence); gap > 16*time.Second {
				t.Errorf("nothing came for %v", gap)
			}
			id := register(direct, fmt.Sprint("later", i))
			for m := st.next(); !m.tells(id); m = st.next() { // of the other one, first
			}
		})
	}
}

// longestGap reads for a while, and returns how long nothing at all came.
func (st *stream) longestGap(during time.Duration) (longest time.Duration) {
	st.t.Helper()
	over := time.NewTimer(during)
	defer over.Stop()
	last := time.Now()
	for {
		select {
		case m, ok := <-st.got:
			if !ok {
				st.t.Fatalf("%s: the stream ended: %v", st.site.name, st.err)
			}
			longest, last = max(longest, m.at.Sub(last)), m.at
		case now := <-over.C:
			return max(longest, now.Sub(last))
		}
	}
}

// TestResume: who comes back through nginx with the id of the last event gets what came after it, and nothing else.
func TestResume(t *testing.T) {
	real(t)
	_, direct, proxied := behind(t)
	register(direct, "first")
	for i, s := range proxied {
		st := s.follow("")
		st.next()
		last := st.upsert(register(direct, fmt.Sprint("before", i)))
		st.close()
		missed := register(direct, fmt.Sprint("meanwhile", i))
		st = s.follow(last.id)
		if m := st.upsert(missed); m.data.Prev != last.id {
			t.Errorf("%s: the event after %s says that it follows %s", s.name, last.id, m.data.Prev)
		}
		st.close()
		st = s.follow("unknown")
		if m := st.next(); m.event != "snapshot" || !m.data.Reset {
			t.Errorf("%s: after an id that is unknown the first event is %+v", s.name, m)
		}
		st.close()
	}
}

// TestCase_C49_Vanished: clients that vanish behind nginx are noticed: nothing of them is left in the server.
func TestCase_C49_Vanished(t *testing.T) {
	real(t)
	p, direct, proxied := behind(t)
	register(direct, "first")
	for _, s := range proxied {
		before := sockets(t, p.pid)
		var streams []*stream
		for range 20 {
			st := s.follow("")
			st.next()
			streams = append(streams, st)
		}
		if n := sockets(t, p.pid); n < before+len(streams) {
			t.Errorf("%s: %d sockets, and %d before there were %d streams: nothing is tested", s.name, n, before, len(streams))
		}
		for _, st := range streams {
			st.close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		eventually(ctx, t, "no connection of a stream is left", func() bool { return sockets(t, p.pid) <= before })
		cancel()
	}
}

// sockets counts those of a process.
func sockets(t *testing.T, pid int) (n int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
