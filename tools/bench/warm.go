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
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	cardsPath = "/v1/indexes/running/team/cards"
	// callers is how many connections ask at once, which keeps both cores busy.
	callers = 32
	turn    = time.Second
)

// benchHTTPCards asks for cards that are known, over connections that are kept, against a handler of the same framework that
// answers the same bytes. Each server has a process of its own; client and server share the cores.
func benchHTTPCards(ctx context.Context, dir string) ([]row, error) {
	ours, err := serve(ctx, "indexd", settled{filepath.Join(dir, "bucket"), 1000})
	if err != nil {
		return nil, err
	}
	defer ours.close()
	first, err := fetch(ctx, "http://"+ours.addr+cardsPath)
	if err != nil {
		return nil, err
	}
	bare, err := serve(ctx, "echo", first)
	if err != nil {
		return nil, err
	}
	defer bare.close()
	if again, err := fetch(ctx, "http://"+bare.addr+cardsPath); err != nil || again.Body != first.Body {
		return nil, fmt.Errorf("the echo is not the same: %w", err)
	}
	var spent []float64 // microseconds of processor time for a request, in the order of measuring
	rate := func(s *served) func() (float64, error) {
		return func() (float64, error) {
			perSecond, each, err := requestRate(ctx, s)
			spent = append(spent, each)
			return perSecond, err
		}
	}
	t, err := taken(rate(ours), rate(bare))
	if err != nil {
		return nil, err
	}
	// The same for what each request took on both cores together, which others on the machine disturb less.
	p, err := takenAgain(spent)
	if err != nil {
		return nil, err
	}
	r, c := spreadOf(ratios(t.ours, t.bare)), spreadOf(ratios(p.bare, p.ours))
	return []row{
		t.row(row{
			fmt.Sprintf("warm cards over HTTP, 8 of 1,000 in %.1f kB, against an echo handler that answers the same bytes (%d connections, %d pairs)",
				float64(len(first.Body))/1000, callers, turns),
			fmt.Sprintf("%s: %s, %s requests/s", r.in("×"), spreadOf(t.ours).whole(), spreadOf(t.bare).whole()),
			"≥ 0.6 ×", 0.6 / r.median,
		}),
		p.row(row{
			"the same by processor time, of server and client together: requests in as much of it",
			fmt.Sprintf("%s: %s, %s a request", c.in("×"), spreadOf(p.ours).in("µs"), spreadOf(p.bare).in("µs")),
			"≥ 0.6 ×", 0.6 / c.median,
		}),
	}, nil
}

func fetch(ctx context.Context, url string) (sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return sample{}, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return sample{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s: %.200s", res.Status, body)
	}
	return sample{res.Header, string(body)}, err
}

// requestRate is how many requests a second callers get answered in one turn, and how many microseconds each of them takes on
// all cores. The client does as little as it can: it shares the cores.
func requestRate(ctx context.Context, s *served) (perSecond, each float64, err error) {
	before, err := s.processor()
	if err != nil {
		return 0, 0, err
	}
	own := processor()
	requests, took, err := flood(ctx, s.addr)
	if err != nil {
		return 0, 0, err
	}
	after, err := s.processor()
	return requests / took.Seconds(), (after - before + processor() - own) * 1e3 / requests, err
}

// flood asks as fast as it can for one turn.
func flood(ctx context.Context, addr string) (requests float64, took time.Duration, err error) {
	var done atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	began := time.Now()
	until := began.Add(turn)
	for range callers {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return 0, 0, err
		}
		defer conn.Close()
		wg.Go(func() {
			n := int64(0)
			defer func() { done.Add(n) }()
			in := bufio.NewReaderSize(conn, 16<<10)
			for time.Now().Before(until) {
				if err := ask(conn, in, addr); err != nil {
					errs <- err
					return
				}
				n++
			}
		})
	}
	wg.Wait()
	took = time.Since(began)
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return float64(done.Load()), took, errors.Join(all...)
}

var lengthField = []byte("Content-Length: ")

func ask(conn net.Conn, in *bufio.Reader, addr string) error {
	if _, err := io.WriteString(conn, "GET "+cardsPath+" HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"); err != nil {
		return err
	}
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("answered %q", status)
	}
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, lengthField); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("an answer without Content-Length")
	}
	_, err = in.Discard(length)
	return err
}
