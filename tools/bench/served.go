package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"

	"github.com/labstack/echo/v4"
)

// servedRole tells this program that it is a server in a process of its own, and which one.
const servedRole = "INDEXD_BENCH_ROLE"

// servedProfiles is a directory for CPU profiles of such servers; empty for none.
const servedProfiles = "INDEXD_BENCH_PROFILES"

// A served is a server in a process of its own, on the same cores, so that what it takes can be told from what its clients
// do.
type served struct {
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
}

// serve starts one; given is what it is told before it begins.
func serve(ctx context.Context, role string, given any) (*served, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &served{cmd: exec.CommandContext(ctx, self)}
	s.cmd.Env, s.cmd.Stderr = append(os.Environ(), servedRole+"="+role), os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.out = bufio.NewScanner(out)
	if err := json.NewEncoder(s.in).Encode(given); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.addr, err = s.line(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *served) line() (string, error) {
	if !s.out.Scan() {
		return "", fmt.Errorf("a server ended early: %w", errors.Join(s.out.Err(), io.ErrUnexpectedEOF))
	}
	return s.out.Text(), nil
}

// memory asks the server what it occupies after a collection.
func (s *served) memory() (memory, error) {
	var m memory
	return m, s.question("memory", &m)
}

// processor asks the server for the milliseconds that it has computed.
func (s *served) processor() (float64, error) {
	var ms float64
	return ms, s.question("processor", &ms)
}

func (s *served) question(about string, answer any) error {
	if _, err := io.WriteString(s.in, about+"\n"); err != nil {
		return err
	}
	line, err := s.line()
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(line), answer)
}

func (s *served) close() error { return errors.Join(s.in.Close(), s.cmd.Wait()) }

// A memory is what a process occupies, in bytes.
type memory struct {
	Resident float64 // pages that the system has given to it
	InUse    float64 // objects on the heap that live, and stacks
}

// memoryNow collects garbage, gives back what is free, and looks.
func memoryNow() (memory, error) {
	runtime.GC() // finalizers run after the first
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return memory{}, err
	}
	var size, resident int
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return memory{}, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{float64(resident * os.Getpagesize()), float64(m.HeapAlloc + m.StackInuse)}, nil
}

// servedProcess is such a server: it tells its address, answers what is asked on its standard input, and ends with that.
func servedProcess(ctx context.Context, role string) error {
	in := json.NewDecoder(os.Stdin)
	begin := map[string]func(context.Context, *json.Decoder) (http.Handler, func() error, error){
		"indexd": servedIndexd, "echo": servedEcho, "echo events": servedEchoEvents,
	}[role]
	if begin == nil {
		return fmt.Errorf("there is no server %q", role)
	}
	h, end, err := begin(ctx, in)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if dir := os.Getenv(servedProfiles); dir != "" {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s.%d.pprof", strings.ReplaceAll(role, " ", "-"), os.Getpid())))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	server := newServer(ctx, role, h)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	fmt.Println(l.Addr())
	err = answer(io.MultiReader(in.Buffered(), os.Stdin))
	server.Close()
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, end())
}

func answer(in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var told any
		var err error
		switch lines.Text() {
		case "memory":
			told, err = memoryNow()
		case "processor":
			told = processor()
		default: // the end of what was given
			continue
		}
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(told)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// A sample is what our server answered, for those that only repeat it.
type sample struct {
	Header http.Header
	Body   string
}

func (s sample) route(h echo.HandlerFunc) http.Handler {
	e := echo.New()
	e.GET("/v1/indexes/:index/:namespace/:what", func(c echo.Context) error {
		header := c.Response().Header()
		for name, values := range s.Header {
			header[name] = values
		}
		return h(c)
	})
	return e
}

func givenSample(in *json.Decoder) (sample, error) {
	var s sample
	err := in.Decode(&s)
	s.Header.Del("Date") // net/http sees to it
	return s, err
}

func nothing() error { return nil }

// servedEcho answers each request with the same header and body.
func servedEcho(_ context.Context, in *json.Decoder) (http.Handler, func() error, error) {
	s, err := givenSample(in)
	kind, body := s.Header.Get("Content-Type"), []byte(s.Body)
	return s.route(func(c echo.Context) error { return c.Blob(http.StatusOK, kind, body) }), nothing, err
}

// servedEchoEvents answers with the same header and first event, and leaves it at that.
func servedEchoEvents(_ context.Context, in *json.Decoder) (http.Handler, func() error, error) {
	s, err := givenSample(in)
	return s.route(func(c echo.Context) error {
		res := c.Response()
		res.WriteHeader(http.StatusOK)
		if _, err := io.WriteString(res, s.Body); err != nil {
			return err
		}
		res.Flush()
		<-c.Request().Context().Done()
		return nil
	}), nothing, err
}
