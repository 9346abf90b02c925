package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	eventsPath = "/v1/indexes/running/team/events"
	// viewers is how many follow one namespace at once.
	viewers = 5000
	// others is how many descriptors a process has besides.
	others = 100
	// tooLong is how long anything may take before the benchmark gives up.
	tooLong = time.Minute
)

// benchHTTPEvents holds many streams open on one process, against a handler of the same framework that sends the same first
// event and then waits: what each occupies, and how long an event takes to all of them.
func benchHTTPEvents(ctx context.Context, dir string) ([]row, error) {
	what := fmt.Sprintf("%d SSE clients on one process", viewers)
	if limit, ok := enoughDescriptors(); !ok {
		return []row{{what, fmt.Sprintf("a process may have %d descriptors at most, which does not suffice", limit), "≤ 12 kB", skipped}}, nil
	}
	var first sample
	var reached []float64 // milliseconds
	round := 0
	ours := func() (memory, error) {
		round++
		s, err := serve(ctx, "indexd", settled{filepath.Join(dir, fmt.Sprint("bucket", round)), 100})
		if err != nil {
			return memory{}, err
		}
		m, err := each(ctx, s, func(c *crowd) error {
			first = c.first
			took, err := c.reach(ctx)
			reached = append(reached, took.Seconds()*1e3)
			return err
		})
		return m, errors.Join(err, s.close())
	}
	bare := func() (memory, error) {
		s, err := serve(ctx, "echo events", first)
		if err != nil {
			return memory{}, err
		}
		m, err := each(ctx, s, nil)
		return m, errors.Join(err, s.close())
	}
	if _, err := ours(); err != nil { // for what the bare one repeats
		return nil, err
	}
	reached = nil
	t, inUse, err := takenMemory(ours, bare)
	if err != nil {
		return nil, err
	}
	above, used, all := spreadOf(differences(t.ours, t.bare)), spreadOf(differences(inUse.ours, inUse.bare)), spreadOf(reached)
	return []row{
		t.row(row{
			what + fmt.Sprintf(": resident memory of each after a collection, above a bare echo handler's (%d pairs)", turns),
			fmt.Sprintf("%s above: %s, %s", above.in("kB"), spreadOf(t.ours).in("kB"), spreadOf(t.bare).in("kB")),
			"≤ 12 kB above", above.median / 12,
		}),
		inUse.row(row{
			"the same, of stacks and of live objects on the heap",
			fmt.Sprintf("%s above: %s, %s", used.in("kB"), spreadOf(inUse.ours).in("kB"), spreadOf(inUse.bare).in("kB")),
			"≤ 12 kB above", used.median / 12,
		}),
		{
			fmt.Sprintf("the same: from a registration over HTTP until all %d have its event (%d times)", viewers, turns),
			all.in("ms"), "≤ 1 s", all.median / 1e3,
		},
	}, nil
}

// enoughDescriptors tells how many descriptors a process may have; each connection takes one at either end. Go raises the
// soft limit to the hard one when it starts.
func enoughDescriptors() (limit uint64, ok bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return l.Max, l.Max >= viewers+others
}

// takenMemory measures as taken does, both what is resident and what is in use, in kB.
func takenMemory(ours, bare func() (memory, error)) (resident, inUse take, err error) {
	var used []float64 // in the order of measuring
	kept := func(f func() (memory, error)) func() (float64, error) {
		return func() (float64, error) {
			m, err := f()
			used = append(used, m.InUse/1e3)
			return m.Resident / 1e3, err
		}
	}
	resident, err = taken(kept(ours), kept(bare))
	if err != nil {
		return resident, inUse, err
	}
	inUse, err = takenAgain(used)
	return resident, inUse, err
}

// each opens the streams and returns what each of them occupies in the server; then lets do something with them.
func each(ctx context.Context, s *served, do func(*crowd) error) (memory, error) {
	before, err := s.memory()
	if err != nil {
		return memory{}, err
	}
	c, err := gather(ctx, s.addr)
	if err != nil {
		return memory{}, err
	}
	defer c.leave()
	after, err := s.memory()
	if err == nil && do != nil {
		err = do(c)
	}
	return memory{(after.Resident - before.Resident) / viewers, (after.InUse - before.InUse) / viewers}, err
}

// A crowd is many clients of one server, each with a connection and as little else as can be.
type crowd struct {
	addr  string
	first sample // what one of them got first
	conns []*net.TCPConn
}

// gather connects them all, and has each read its first event.
func gather(ctx context.Context, addr string) (*crowd, error) {
	c := &crowd{addr: addr, conns: make([]*net.TCPConn, viewers)}
	var mu sync.Mutex
	i := 0
	err := parallel(50, viewers, func() error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		mu.Lock()
		mine := i
		i++
		c.conns[mine] = conn.(*net.TCPConn)
		mu.Unlock()
		first, err := follow(conn, addr)
		if mine == 0 {
			c.first = first
		}
		return err
	})()
	if err != nil {
		c.leave()
		return nil, err
	}
	return c, nil
}

func (c *crowd) leave() {
	for _, conn := range c.conns {
		if conn != nil {
			conn.Close()
		}
	}
}

// follow asks for the stream and reads up to the end of its first event.
func follow(conn net.Conn, addr string) (sample, error) {
	if err := conn.SetDeadline(time.Now().Add(tooLong)); err != nil {
		return sample{}, err
	}
	if _, err := io.WriteString(conn, "GET "+eventsPath+" HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"); err != nil {
		return sample{}, err
	}
	in := bufio.NewReaderSize(conn, 4<<10)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return sample{}, err
	}
	if res.StatusCode != http.StatusOK {
		return sample{}, fmt.Errorf("answered %s", res.Status)
	}
	lines := bufio.NewReaderSize(res.Body, 4<<10)
	var body strings.Builder
	event := false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return sample{}, err
		}
		body.WriteString(line)
		if event && line == "\n" {
			return sample{res.Header, body.String()}, nil
		}
		event = event || strings.HasPrefix(line, "data:")
	}
}

// reach registers an item and returns how long it takes from then on until every client has the event that tells of it.
func (c *crowd) reach(ctx context.Context) (time.Duration, error) {
	id := fmt.Sprintf("reached_%d", time.Now().UnixNano())
	var wg sync.WaitGroup
	errs := make(chan error, viewers)
	var ready sync.WaitGroup
	ready.Add(viewers)
	for _, conn := range c.conns {
		wg.Go(func() {
			ready.Done()
			errs <- await(conn, []byte(id))
		})
	}
	ready.Wait()
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+c.addr+"/v1/indexes/running/team/items/"+id, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return 0, fmt.Errorf("registering: status %s", res.Status)
	}
	wg.Wait()
	took := time.Since(began)
	close(errs)
	for err := range errs {
		if err != nil {
			return took, err
		}
	}
	return took, nil
}

// await reads until the text comes. An event is shorter than what is read at once, or its parts are joined.
func await(conn net.Conn, text []byte) error {
	buf := make([]byte, 0, 4<<10)
	for {
		n, err := conn.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
		if bytes.Contains(buf, text) {
			return nil
		}
		if keep := len(text); len(buf) > keep {
			buf = append(buf[:0], buf[len(buf)-keep:]...)
		}
	}
}

func differences(as, bs []float64) []float64 {
	d := make([]float64, len(as))
	for i := range as {
		d[i] = as[i] - bs[i]
	}
	return d
}
